"""The decoder's fast path equals its slow path, and no row's outcome depends on its neighbours."""

import json
import random
from decimal import Decimal
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sluiceway.formats.contract import Decoded
from sluiceway.formats.json.decoder import Engine, JsonDecoder
from sluiceway.host.native_module import native_module
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.payloads import JoinedPayloads, rows_with
from sluiceway.types.schema import Field, Schema
from tools.json_engine_fuzz import difference, fuzz
from tools.json_engines import ENGINES
from tools.json_payloads import NUMBERS, SCHEMAS, PayloadMaker

SLOW = [JsonDecoder(schema, engine="exact") for schema in SCHEMAS]
KINDS = ("tinyint", "bigint", "decimal(38,37)", "decimal(38,18)", "decimal(9,4)", "double", "float")
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=6,
)


every_engine = pytest.mark.parametrize("engine", ENGINES)


@cache
def pairs(engine: Engine) -> list[tuple[JsonDecoder, JsonDecoder]]:
    fast = [JsonDecoder(schema, engine=engine) for schema in SCHEMAS]
    return list(zip(fast, SLOW, strict=True))


def assert_equal_outcomes(found: Decoded, expected: Decoded) -> None:
    assert found.dirty == expected.dirty
    assert found.indices.equals(expected.indices)
    assert found.rows.equals(expected.rows)
    assert found.skipped == expected.skipped


@every_engine
@pytest.mark.parametrize("seed", range(12))
def test_json_fast_path_of_mutated_payloads_equals_slow_path(seed: int, engine: Engine) -> None:
    maker = PayloadMaker(seed)
    for oddness in (0.02, 0.1, 0.5):
        payloads = maker.batch(150, oddness)
        for fast, slow in pairs(engine):
            found = fast.decode(payloads)
            assert_equal_outcomes(found, slow.decode(payloads))
            assert len(found.rows) + len(found.dirty) + found.skipped == len(payloads)


@every_engine
@pytest.mark.parametrize("seed", range(4))
def test_json_fast_path_equals_slow_path_bit_by_bit(seed: int, engine: Engine) -> None:
    done, clean, different = fuzz(engine, 3_000, seed)
    assert different is None
    assert done >= 3_000
    assert clean > done / 10


@pytest.mark.skipif(native_module() is None, reason="the native module is not installed")
@pytest.mark.parametrize("seed", range(6))
def test_json_payloads_that_the_native_module_fetched_equal_a_list(seed: int) -> None:
    module = native_module()
    assert module is not None
    payloads: list[bytes | None] = [*PayloadMaker(seed).batch(90, 0.1), None, b"", b"{}", b"\0"]
    payloads = payloads[seed:] + payloads[:seed]
    parts = [module.Records(payloads[at : at + 40]) for at in range(0, len(payloads), 40)]
    parts[0].truncate(30)
    joined = JoinedPayloads(parts)
    assert list(joined) == payloads[:30] + payloads[40:]
    for native, slow in pairs("native"):
        assert_equal_outcomes(native.decode(joined), slow.decode(list(joined)))


def test_a_difference_of_one_bit_is_found() -> None:
    payloads = [b'{"v":0.0}', b'{"v":-0.0}']
    reader = JsonDecoder(Schema((Field("v", parse_hive_type("double")),)))
    found = reader.decode(payloads)
    assert difference(payloads, found, found) is None
    other = difference(payloads, reader.decode([b'{"v":0.0}'] * 2), found)
    assert other is not None
    assert other.startswith("b'{\"v\":-0.0}'")


@every_engine
@pytest.mark.parametrize("seed", range(3))
def test_json_batch_equals_its_payloads_one_by_one(seed: int, engine: Engine) -> None:
    payloads = PayloadMaker(1000 + seed).batch(60, 0.1)
    for reader, _ in pairs(engine):
        found = reader.decode(payloads)
        single = [reader.decode([payload]) for payload in payloads]
        assert found.indices.to_pylist() == [row for row, one in enumerate(single) if one.rows]
        assert found.rows.to_pylist() == [row for one in single for row in one.rows.to_pylist()]
        assert [(row.index, row.reason, row.path, row.message) for row in found.dirty] == [
            (index, row.reason, row.path, row.message)
            for index, one in enumerate(single)
            for row in one.dirty
        ]


@every_engine
@settings(max_examples=60, deadline=None)
@given(payloads=st.lists(st.binary(max_size=40) | st.none(), max_size=60))
def test_json_decoder_of_any_bytes_decides_every_payload(
    payloads: list[bytes | None], engine: Engine
) -> None:
    for fast, slow in pairs(engine)[:2]:
        found = fast.decode(payloads)
        assert_equal_outcomes(found, slow.decode(payloads))
        assert len(found.rows) + len(found.dirty) + found.skipped == len(payloads)


@every_engine
@settings(max_examples=25, deadline=None)
@given(
    objects=st.lists(
        st.dictionaries(st.sampled_from("ilsdfb"), JSON_VALUES), min_size=16, max_size=20
    )
)
def test_json_decoder_of_any_objects_equals_slow_path(
    objects: list[dict[str, object]], engine: Engine
) -> None:
    payloads: list[bytes | None] = [json.dumps(value).encode() for value in objects]
    fast, slow = pairs(engine)[0]
    assert_equal_outcomes(fast.decode(payloads), slow.decode(payloads))


@every_engine
@example(hive="float", text="0e-99999999999999999999")
@settings(max_examples=150, deadline=None)
@given(
    hive=st.sampled_from(KINDS),
    text=st.from_regex(r"-?(0|[1-9][0-9]{0,45})(\.[0-9]{1,45})?(e[+-]?[0-9]{1,3})?", fullmatch=True)
    | st.sampled_from(NUMBERS),
)
def test_json_number_is_itself_or_dirty(hive: str, text: str, engine: Engine) -> None:
    reader = JsonDecoder(Schema((Field("v", parse_hive_type(hive)),)), engine=engine)
    found = reader.decode([b'{"v":%s}' % text.encode()] * 20)
    if found.dirty:
        assert len(found.dirty) == 20
        return
    values = found.rows.column(0).to_pylist()
    assert len(set(values)) == 1
    if hive == "float":
        exact = _exact(text)
        assert (
            abs(Decimal(values[0]) - exact) <= abs(exact) * Decimal(2) ** -24 + Decimal(2) ** -150
        )
    elif hive == "double":
        assert values[0] == float(text)
    else:
        assert Decimal(values[0]) == _exact(text)


def _exact(text: str) -> Decimal:
    """The number; nought times any power of ten is nought, also one beyond `Decimal`."""
    mantissa = Decimal(text.partition("e")[0])
    return Decimal(text) if mantissa else mantissa


@pytest.mark.skipif(native_module() is None, reason="the native module is not installed")
@pytest.mark.parametrize("seed", range(6))
def test_texts_are_found_in_fetched_payloads_as_in_a_list(seed: int) -> None:
    module = native_module()
    assert module is not None
    pick = random.Random(seed)  # noqa: S311
    letters = (b"a", b"b", b"ab", b"", b"\0", b"abc")
    payloads = [
        pick.choice((None, b"".join(pick.choices(letters, k=pick.randrange(9)))))
        for _ in range(300)
    ]
    parts = [module.Records(payloads[:200]), module.Records([]), module.Records(payloads[200:])]
    parts[0].truncate(150)
    joined = JoinedPayloads(parts)
    for texts in ([b"ab"], [b"abab", b"ba"], [b"bb", b"bb"], [b"zzz"]):
        found = rows_with(joined, texts)
        assert found.tolist() == rows_with(list(joined), texts).tolist()
    assert len(rows_with(joined, [b"ab"])) > 50
    for wrong in (b"", b"a\0"):
        with pytest.raises(ValueError, match="a text to look for"):
            parts[0].rows_with([wrong])
