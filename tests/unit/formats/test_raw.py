"""Payloads in one column: bytes as they are, texts that are texts."""

import pytest

from sluiceway.formats.contract import Decoded
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.policy import NO_POLICY, Policy
from sluiceway.types.schema import Field, Schema

EVERYTHING = (b"", b" ", b"abc", "北京".encode(), b"\xff\x00", b"a\0b", b'{"a":1}', b"x" * 100_000)


def decode(
    payloads: tuple[bytes | None, ...],
    kind: str,
    options: tuple[tuple[str, str], ...] = (),
    policy: Policy = NO_POLICY,
) -> Decoded:
    schema = Schema((Field("line", parse_hive_type(kind), policy=policy),))
    return open_decoder(FormatChoice("raw", options), schema).decode(payloads)


def test_bytes_are_kept_as_they_are() -> None:
    decoded = decode(EVERYTHING, "binary")
    assert decoded.rows.column(0).to_pylist() == list(EVERYTHING)
    assert (decoded.dirty, decoded.skipped) == ((), 0)


def test_text_is_utf8_without_nul_or_the_row_is_dirty() -> None:
    decoded = decode(EVERYTHING, "string")
    assert decoded.indices.to_pylist() == [0, 1, 2, 3, 6, 7]
    assert decoded.rows.column(0).to_pylist()[:4] == ["", " ", "abc", "北京"]
    assert [(row.index, row.reason, row.path) for row in decoded.dirty] == [
        (4, "encoding", "line"),
        (5, "encoding", "line"),
    ]


def test_text_by_policy() -> None:
    replaced = decode((b"a\xffb\0",), "string", policy=Policy(on_bad_text="replace"))
    assert replaced.rows.column(0).to_pylist() == ["a\ufffdb\ufffd"]
    cut = decode((b"abcd", b"ab"), "varchar(3)", policy=Policy(on_lossy="truncate"))
    assert cut.rows.column(0).to_pylist() == ["abc", "ab"]
    (dirty,) = decode((b"abcd",), "varchar(3)").dirty
    assert dirty.reason == "too_long"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [("dirty", ([1], 2, 0)), ("skip", ([1], 0, 2)), ("null", ([0, 1, 2], 0, 0))],
)
def test_tombstones_by_option(rule: str, expected: tuple[list[int], int, int]) -> None:
    decoded = decode((None, b"", None), "string", (("tombstones", rule),))
    found = (decoded.indices.to_pylist(), len(decoded.dirty), decoded.skipped)
    assert found == expected


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ((("a", "string"), ("b", "string")), "one column of the payload, not a, b"),
        ((("a", "bigint"),), "binary or string, not bigint"),
    ],
)
def test_columns_that_raw_cannot_fill_are_refused(
    fields: tuple[tuple[str, str], ...], told: str
) -> None:
    schema = Schema(tuple(Field(name, parse_hive_type(kind)) for name, kind in fields))
    with pytest.raises(ValueError, match=told):
        open_decoder(FormatChoice("raw"), schema)


def test_null_for_a_required_column_is_refused() -> None:
    schema = Schema((Field("line", parse_hive_type("string"), required=True),))
    with pytest.raises(ValueError, match="not required"):
        open_decoder(FormatChoice("raw", (("tombstones", "null"),)), schema)
