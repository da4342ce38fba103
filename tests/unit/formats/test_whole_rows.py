"""Payloads that are whole rows of a keyed table, of every format that has such."""

import json

import pyarrow as pa
import pytest

from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.types.payloads import JoinedPayloads
from sluiceway.types.row_kinds import RowKind
from sluiceway.types.schema import Field, IntegerType, Schema, StringType

SCHEMA = Schema((Field("id", IntegerType(64)), Field("city", StringType(), required=True)))
AVRO = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": "string"}],
    }
)
PROTO = 'syntax = "proto3"; message R { int64 id = 1; string city = 2; }'
# A row (7, "a") in each format.
ROWS: dict[str, tuple[tuple[tuple[str, str], ...], bytes]] = {
    "json": ((), b'{"id":7,"city":"a"}'),
    "csv": ((), b"7,a"),
    "avro": ((("schema", AVRO),), b"\x0e\x02a"),
    "protobuf": ((("schema", PROTO), ("message", "R")), b"\x08\x07\x12\x01a"),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_payload_is_an_image_and_a_null_one_a_delete_in_its_place(name: str) -> None:
    options, row = ROWS[name]
    decoder = open_decoder(FormatChoice(name, options, "delete"), SCHEMA)
    found = decoder.decode([None, row, None, b"", row, None])
    assert found.kinds is not None
    assert [RowKind(kind).name for kind in found.kinds.to_pylist()] == [
        *("DELETE", "IMAGE", "DELETE"),
        *("IMAGE", "DELETE"),
    ]
    assert found.indices.to_pylist() == [0, 1, 2, 4, 5]
    assert found.rows.column("id").to_pylist() == [None, 7, None, 7, None]
    # No bytes are no null: nobody has deleted anything by them.
    assert [(row.index, row.reason.value) for row in found.dirty] == [(3, "empty")]
    assert (found.skipped, found.notes) == (0, {"deleted": 3})


@pytest.mark.parametrize("name", ROWS)
def test_nulls_delete_nothing_where_the_job_file_says_what_becomes_of_them(name: str) -> None:
    options, row = ROWS[name]
    for rule, skipped, dirty in (("skip", 1, 0), ("dirty", 0, 1)):
        choice = FormatChoice(name, (*options, ("tombstones", rule)), "keep")
        found = open_decoder(choice, SCHEMA).decode([row, None])
        assert found.kinds is not None
        assert found.kinds.to_pylist() == [RowKind.IMAGE]
        assert (found.skipped, len(found.dirty)) == (skipped, dirty)


def test_without_a_row_there_are_kinds_too() -> None:
    decoder = open_decoder(FormatChoice("json", (), "delete"), SCHEMA)
    tried: list[list[bytes | None]] = [[], [b"no"], [None]]
    for payloads in tried:
        found = decoder.decode(payloads)
        assert found.kinds is not None
        assert found.kinds.type == pa.int8()
        assert len(found.kinds) == found.rows.num_rows == payloads.count(None)


def test_what_the_source_holds_is_not_taken_out_for_it() -> None:
    decoder = open_decoder(FormatChoice("json", (), "delete"), SCHEMA)
    assert decoder.takes_any_sequence
    found = decoder.decode(JoinedPayloads([[b'{"id":1,"city":"a"}'], [None, b"x"]]))
    assert found.indices.to_pylist() == [0, 1]
    assert [row.index for row in found.dirty] == [2]
    assert decoder.fields_of(b'{"nr":1}') == {"nr": "1"}
