"""JSON behind the header of Confluent's wire format."""

from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema
from sluiceway.worker.field_samples import UnknownFields

ID = Schema((Field("id", parse_hive_type("bigint"), required=True),))
HEADER = b"\0\0\0\0\x09"


def test_outcomes_stand_at_the_places_of_their_payloads() -> None:
    payloads = [
        HEADER + b'{"id":1}',
        b'{"id":2}',
        HEADER + b'{"id":"x"}',
        None,
        HEADER,
        b"\0\0",
        b"",
        HEADER + b"{",
        HEADER + b'{"id":3}',
        HEADER + HEADER + b'{"id":4}',
    ]
    choice = FormatChoice("json", (("frame", "confluent"), ("tombstones", "dirty")))
    decoded = open_decoder(choice, ID).decode(payloads)
    assert decoded.rows.to_pylist() == [{"id": 1}, {"id": 3}]
    assert decoded.indices.to_pylist() == [0, 8]
    assert [(row.index, row.reason.value, row.stage) for row in decoded.dirty] == [
        (1, "broken", "decode"),
        (2, "bad_text", "convert"),
        (3, "empty", "decode"),
        (4, "empty", "decode"),
        (5, "broken", "decode"),
        (6, "empty", "decode"),
        (7, "broken", "decode"),
        (9, "broken", "decode"),
    ]


def test_skipped_tombstones_are_counted() -> None:
    choice = FormatChoice("json", (("frame", "confluent"), ("tombstones", "skip")))
    decoded = open_decoder(choice, ID).decode([None, b"", HEADER + b'{"id":1}', b"x"])
    assert (decoded.skipped, decoded.indices.to_pylist()) == (2, [2])
    assert [row.index for row in decoded.dirty] == [3]


def test_fields_that_no_column_reads_are_found_behind_the_header() -> None:
    choice = FormatChoice("json", (("frame", "confluent"), ("tombstones", "skip")))
    decoder = open_decoder(choice, ID)
    (found,) = UnknownFields(ID).of(decoder.fields_of(HEADER + b'{"id":1,"city":"x"}'))
    assert found.path == ("city",)
    assert decoder.fields_of(HEADER + b"{") == decoder.fields_of(HEADER) == {}
