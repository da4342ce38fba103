"""What only this format has."""

import pytest

from sluiceway.formats.contract import DirtyReason
from sluiceway.types.schema import DateType, Field, IntegerType, Schema, StringType
from sluiceway_delimited.decoder import open_decoder

SCHEMA = Schema((Field("id", IntegerType(32)), Field("city", StringType())))


def test_fields_name_what_is_there_in_its_order() -> None:
    decoder = open_decoder(SCHEMA, {"delimiter": "|", "fields": "city, unused, id"})
    decoded = decoder.decode([rb"Bad\|Homburg|x|7", rb"\N||\N", b"Berlin|1"])
    assert decoded.rows.to_pylist() == [
        {"id": 7, "city": "Bad|Homburg"},
        {"id": None, "city": None},
    ]
    assert [(row.index, row.reason) for row in decoded.dirty] == [(2, DirtyReason.BROKEN)]


@pytest.mark.parametrize("payload", [b"1\tx\\", b"1\tx\\q", b"1\t\\N\\"])
def test_escape_that_is_none_makes_the_row_dirty(payload: bytes) -> None:
    (dirty,) = open_decoder(SCHEMA, {}).decode([payload]).dirty
    assert (dirty.reason, dirty.stage) == (DirtyReason.BROKEN, "decode")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delimiter": "||"}, "one character"),
        ({"delimiter": "\\"}, "one character"),
        ({"seperator": "|"}, "not seperator"),
        ({"tombstones": "keep"}, "skip or dirty"),
        ({"fields": "id"}, "does not name city"),
    ],
)
def test_option_that_cannot_be_is_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        open_decoder(SCHEMA, options)


def test_column_that_text_does_not_carry_is_refused() -> None:
    with pytest.raises(ValueError, match="no column of type DateType"):
        open_decoder(Schema((Field("day", DateType()),)), {})
