"""Schemas that a record's header names: ids and GUIDs, for values and keys."""

import json
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.errors import SchemaRegistryRefusedError
from sluiceway.formats.contract import Decoded
from sluiceway.formats.recognise import TopicContents
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.formats.schema_registry.client import RegistryClient
from sluiceway.formats.schema_registry.frame import confluent_frame, guid_of, schema_name
from sluiceway.formats.schema_registry.settings import RegistrySettings
from sluiceway.sources.contract import RawRecords
from sluiceway.types.dirty import DirtyReason as Why
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema
from sluiceway.types.schema_header import KEY_HEADER, VALUE_HEADER, with_schema_headers
from sluiceway.worker.keyed_rows import KeyedRows
from sluiceway.worker.plan import KeyForm, KeyRule
from tools.avro_bytes import confluent
from tools.registry_server import Registry, registry_server
from tools.small_task import MadeBatch, run_task

ID = Schema((Field("id", parse_hive_type("bigint")),))
AVRO = json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]})
PROTO = 'syntax = "proto3"; message A { string s = 1; } message B { int64 id = 1; }'
GUID = UUID("89791762-2336-4186-9674-299b90a802e2")

Headers = Sequence[tuple[str, bytes | None]]


def read(
    registry: Registry, kind: str, *records: tuple[Headers, bytes | None], frame: bool = False
) -> Decoded:
    options = {"registry.url": registry.url, "registry.unknown_wait_ms": "0"}
    if frame:
        options = {"frame": "confluent"}
    decoder = open_decoder(FormatChoice(kind, tuple(options.items())), ID)
    assert decoder.reads_schema_header
    headers, payloads = zip(*records, strict=True)
    return decoder.decode(with_schema_headers(payloads, headers, VALUE_HEADER))


def by_id(number: int, more: bytes = b"", name: str = VALUE_HEADER) -> Headers:
    return (("a", b"b"), (name, confluent(number, more)))


def by_guid(more: bytes = b"", name: str = VALUE_HEADER) -> Headers:
    return ((name, b"\x01" + GUID.bytes + more), ("b", None))


def ids(decoded: Decoded) -> list[int]:
    return [row["id"] for row in decoded.rows.to_pylist()]


def test_avro_by_id_by_guid_and_in_the_payload_side_by_side() -> None:
    with registry_server() as registry:
        number = registry.add("a-value", AVRO)
        registry.guids[str(GUID)] = number
        decoded = read(
            registry, "avro",
            (by_id(number), b"\x02"),
            (by_guid(), b"\x04"),
            ((), confluent(number, b"\x06")),
            ((), b"\x01" + GUID.bytes + b"\x08"),
            (((VALUE_HEADER, None), (KEY_HEADER, b"x")), confluent(number, b"\x0a")),
            (by_id(number), None),
        )  # fmt: skip
        assert ids(decoded) == [1, 2, 3, 4, 5]
        assert [row.reason for row in decoded.dirty] == [Why.EMPTY]
        assert sum("guids" in path for path in registry.asked) == 1


def test_protobuf_has_the_indexes_of_its_message_in_the_header() -> None:
    with registry_server() as registry:
        number = registry.add("a-value", PROTO, "PROTOBUF")
        registry.guids[str(GUID)] = number
        decoded = read(
            registry, "protobuf",
            (by_id(number, b"\x02\x02"), b"\x08\x05"),
            (by_guid(b"\x02\x02"), b"\x08\x06"),
            # A message in which nothing is set is no tombstone: its header is there.
            (by_guid(b"\x02\x02"), b""),
            (by_guid(), b"\x02\x02\x08\x07"),
        )  # fmt: skip
    assert ids(decoded) == [5, 6, 0]
    (dirty,) = decoded.dirty
    told = "the record's header has 17 bytes, and what names the schema 19"
    assert (dirty.reason, dirty.message) == (Why.BROKEN, f"not Confluent's wire format: {told}")


def test_json_with_a_schema_in_the_header() -> None:
    with registry_server() as registry:
        decoded = read(
            registry, "json", (by_id(1), b'{"id": 1}'), (by_guid(), b'{"id": 2}'), (by_id(1), b""),
            frame=True,
        )  # fmt: skip
    assert ids(decoded) == [1, 2]
    assert [row.reason for row in decoded.dirty] == [Why.EMPTY]


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ((), "its first byte is 0x7b, not 0 (an id) or 1 (a GUID), and no header of the record"),
        (((VALUE_HEADER, b"\x00\x01"),), "the record's header has 2 bytes, and what names"),
        (((VALUE_HEADER, b"\x02\x01"),), "its first byte is 0x02"),
        (by_id(1, b"\x00"), "the record's header has 6 bytes, and what names the schema 5"),
        (((VALUE_HEADER, b"\x01" + GUID.bytes[:-1]),), "the record's header has 16 bytes"),
    ],
    ids=range(5),
)
def test_what_names_no_schema_is_broken(headers: Headers, told: str) -> None:
    (payload,) = with_schema_headers([b'{"id": 1, "name": "x"}'], [headers], VALUE_HEADER)
    assert payload is not None
    with pytest.raises(DirtyValueError) as caught:
        confluent_frame(payload)
    assert told in str(caught.value)


def test_guids_that_a_registry_does_not_know_are_dirty_and_so_they_are_where_it_knows_none() -> (
    None
):
    with registry_server() as registry:
        registry.add("a-value", AVRO)
        (dirty,) = read(registry, "avro", (by_guid(), b"\x02")).dirty
        assert dirty.reason is Why.UNKNOWN_SCHEMA
        assert dirty.message == f"the registry does not know the schema GUID {GUID}"
        # An id that is not there is told by the registry; a path that is not is no registry's.
        registry.knows_guids = False
        assert RegistryClient(RegistrySettings(registry.url)).schema_of_id((1 << 128) + 5) is None
        elsewhere = RegistrySettings(f"{registry.url}/elsewhere")
        with pytest.raises(SchemaRegistryRefusedError):
            RegistryClient(elsewhere).schema_of_id(1)
    assert guid_of(7) is None
    assert schema_name(7) == "schema id 7"


def test_topic_with_schemas_in_headers_is_recognised() -> None:
    contents = TopicContents()
    payloads = [b"\x02", b"\x04"]
    for each in with_schema_headers(payloads, [by_id(7), by_guid()], VALUE_HEADER):
        contents.add(each)
    assert (contents.framed, contents.schema_ids, contents.is_binary) == (2, {7}, True)
    contents = TopicContents()
    for each in with_schema_headers([b'{"id": 1}'] * 2, [by_id(7), by_guid()], VALUE_HEADER):
        contents.add(each)
    assert (contents.framed, contents.is_binary) == (2, False)
    assert [column.name for column in contents.plain.columns()] == ["id"]


class _Batch(MadeBatch):
    """Rows with keys and headers."""

    def __init__(
        self, values: list[bytes | None], keys: list[bytes], headers: list[Headers]
    ) -> None:
        super().__init__(0, values, list(range(len(values))))
        self._keys, self._headers = keys, headers

    def keys(self) -> list[bytes | None]:
        return list(self._keys)

    def records(self, rows: Sequence[int]) -> RawRecords:
        headers = [tuple(self._headers[row]) for row in rows]
        return replace(super().records(rows), headers=headers)


def test_values_and_keys_of_a_task_are_read_by_the_headers_of_their_records() -> None:
    with registry_server() as registry:
        number = registry.add("a-value", AVRO)
        registry.guids[str(GUID)] = number
        choice = FormatChoice(
            "avro", (("registry.unknown_wait_ms", "0"), ("registry.url", registry.url))
        )
        headers: list[Headers] = [
            (*by_guid(), *by_id(number, name=KEY_HEADER)),
            (*by_id(number), *by_guid(name=KEY_HEADER)),
            (*by_id(number), *by_id(number, name=KEY_HEADER)),
        ]
        batch = _Batch([b"\x02", b"\x04", None], [b"\x02", b"\x06", b"\x08"], headers)
        found = run_task([[batch]], format=choice, schema=ID, event_time=None, partitions=())
        assert (found.written.counts.written, found.written.counts.dirty) == (2, 1)
        payloads = with_schema_headers(batch.values, headers, VALUE_HEADER)
        decoder = open_decoder(replace(choice, whole_rows="delete"), ID)
        assert decoder.reads_schema_header
        decoded = decoder.decode(payloads)
        assert decoded.kinds is not None
        rule = KeyRule(("id",), KeyForm.RECORD, fills=True, format=choice)
        rows, dirty = KeyedRows(rule, ID).complete_keys(
            decoded.rows, decoded.kinds, [batch], decoded.indices
        )
    assert [row["id"] for row in rows.to_pylist()] == [1, 2, 4]
    assert [(row.index, row.reason) for row in dirty] == [(1, Why.KEY_MISMATCH)]
