"""Columns that are made for fields hold every value that they were made for."""

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from sluiceway.convert.infer_types import common_type
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.types.evolution import is_extension, with_field
from sluiceway.types.hive_types import format_hive_type, parse_hive_type
from sluiceway.types.schema import Field, Schema
from sluiceway.worker.field_samples import DirtySamples, FewSamples, FieldSamples

_NAMES = st.sampled_from(["a", "b", "c1", "Dd"])
_LEAVES = st.one_of(
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text(alphabet="aé\n1", max_size=4),
    st.none(),
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)
_SCHEMA = Schema((Field("id", parse_hive_type("bigint")),))


def _sampled(payloads: list[bytes]) -> FieldSamples:
    samples = DirtySamples(_SCHEMA, JsonDecoder(_SCHEMA).fields_of)
    dirty = JsonDecoder(_SCHEMA, extra="evolve").decode(payloads).dirty
    samples.sample(payloads, dirty)
    return samples


def _tells_no_type(value: Any) -> bool:
    """Whether it, or what it holds, is an array or object of which no type can be told."""
    if not isinstance(value, list | dict):
        return False
    inner = value.values() if isinstance(value, dict) else value
    alone = _sampled([json.dumps({"id": 1, "x": value}).encode()]).fields()
    return any(not field.type for field in alone) or any(map(_tells_no_type, inner))


# 2^53 + 1 is no double, so this array has no type that holds both of its numbers.
@example([False, [2**53 + 1, 0.0]])
@given(st.lists(_VALUES, min_size=1, max_size=5))
def test_rows_are_clean_by_the_column_that_was_made_of_them(values: list[Any]) -> None:
    payloads = [json.dumps({"id": 1, "x": value}).encode() for value in values]
    fields = _sampled(payloads).fields()
    held = [value for value in values if value is not None]
    assert len(fields) == bool(held)
    if not fields or fields[0].untyped or not fields[0].type:
        return
    column = Field("x", parse_hive_type(fields[0].type))
    decoded = JsonDecoder(Schema((*_SCHEMA.fields, column)), extra="evolve").decode(payloads)
    # What is left has an array or object that told no type, or a number that no double holds.
    for row in decoded.dirty:
        assert row.reason is DirtyReason.SCALE or _tells_no_type(values[row.index]), row


@given(_VALUES, _VALUES)
def test_order_in_which_values_come_does_not_change_what_fits(one: Any, other: Any) -> None:
    def of(*values: Any) -> set[str]:
        payloads = [json.dumps({"x": value}).encode() for value in values]
        return {"untyped" if each.untyped else each.type for each in _sampled(payloads).fields()}

    def sorted_letters(found: set[str]) -> set[str]:
        # Fields of structs stand in the order in which they came.
        return {"".join(sorted(each)) for each in found}

    assert sorted_letters(of(one, other)) == sorted_letters(of(other, one))


@given(st.sampled_from(["struct<a:int>", "array<struct<a:int>>", "map<string,struct<a:int>>"]))
def test_field_that_is_added_extends_the_type(of: str) -> None:
    path = {"s": ("z",), "a": ("[]", "z"), "m": ("{}", "z")}[of[0]]
    made = with_field(parse_hive_type(of), path, parse_hive_type("array<bigint>"))
    assert made is not None
    assert is_extension(of, format_hive_type(made))
    assert not is_extension(format_hive_type(made), of)
    assert common_type([made, made]) == made


def test_samples_look_at_rows_that_are_dirty_for_a_field_only() -> None:
    samples = DirtySamples(_SCHEMA, JsonDecoder(_SCHEMA).fields_of)
    dirty = [DirtyRow(0, "convert", DirtyReason.WRONG_TYPE, "id", "")]
    samples.sample([b'{"id":"a","x":1}'], dirty)
    assert samples.fields() == ()


def test_samples_tell_no_endless_names_and_types() -> None:
    wide = {f"k{n}": 1 for n in range(1000)}
    (told,) = _sampled([json.dumps({"a": wide, "b" * 1000: 1}).encode()]).fields()
    assert (told.name, told.type) == ("a", "")
    assert "4000 characters" in told.untyped


def test_samples_are_bounded() -> None:
    payloads = [json.dumps({f"k{n}": 1}).encode() for n in range(500)]
    assert len(_sampled(payloads).fields()) == 100


def test_few_rows_of_all_are_looked_at_where_fields_are_ignored() -> None:
    samples = FewSamples(_SCHEMA, JsonDecoder(_SCHEMA).fields_of)
    payloads = [json.dumps({"id": n, "x": n}).encode() for n in range(10_000)]
    for _ in range(10):
        samples.sample(payloads, ())
        samples.sample([], ())
        samples.sample([None], ())
    samples.sample([b'{"id":1,"rare":true}'], ())
    found = {each.name: each for each in samples.fields()}
    assert (found["x"].type, found["rare"].type) == ("bigint", "boolean")
    assert 20 <= found["x"].rows <= 30
    assert found["rare"].rows == 1
