"""The mark for a value that the database did not tell, in each form that Debezium writes it in."""

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from sluiceway.convert.json_values import NumberText
from sluiceway.formats.contract import Decoded
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.formats.unavailable import is_unavailable
from sluiceway.host.native_module import SWITCH, native_module
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.payloads import JoinedPayloads
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, IntegerType, Schema
from tools import avro_bytes as avro
from tools import protobuf_bytes as proto
from tools.registry_server import Registry, registry_server

MARK = "__debezium_unavailable_value"
BYTES = MARK.encode()
IN_BASE64 = base64.b64encode(BYTES).decode()
ONES = [base64.b64encode(bytes([byte])).decode() for byte in BYTES]
UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
NOWHERE = base64.b64encode(bytes.fromhex("0101000020e6100000" + "000000fc83d797c1" * 2)).decode()
TEXT = Policy(on_lossy="text")
BASE64 = Policy(format="base64")

# What stands in JSON, and the column that reads it.
FORMS: dict[str, tuple[Any, str, Policy]] = {
    "text, json, xml": (MARK, "string", Policy()),
    "varchar": (MARK, "varchar(200)", Policy()),
    "text of a bounded column": (MARK, "varchar(3)", Policy(on_lossy="truncate")),
    "a number in quotes": (MARK, "decimal(10,2)", Policy()),
    "a time": (MARK, "timestamp", Policy()),
    "text[]": ([MARK], "array<string>", Policy()),
    "text[] as text": ([MARK], "string", TEXT),
    "bytea": (IN_BASE64, "binary", BASE64),
    "bytea as text": (IN_BASE64, "string", Policy()),
    "bytea in hex": (BYTES.hex(), "string", Policy()),
    "bytea[]": ([IN_BASE64], "array<binary>", BASE64),
    "hstore": ({MARK: MARK}, "map<string,string>", Policy()),
    "hstore as a struct": ({MARK: MARK}, "struct<a:string>", Policy()),
    "hstore as text": (json.dumps({MARK: MARK}), "string", Policy()),
    "uuid[]": ([UUID], "array<string>", Policy()),
    "int[]": (list(BYTES), "array<int>", Policy()),
    "smallint[]": (list(BYTES), "array<tinyint>", Policy()),
    "bigint[] as text": (list(BYTES), "string", TEXT),
    "float[]": ([float(byte) for byte in BYTES], "array<double>", Policy()),
    "boolean[]": ([True] * len(BYTES), "array<boolean>", Policy()),
    "numeric[]": (ONES, "array<string>", Policy()),
    "numeric[] of its own scale": (
        [{"scale": 0, "value": one} for one in ONES],
        "array<struct<scale:int,value:string>>",
        Policy(),
    ),
    "geometry": ({"wkb": NOWHERE, "srid": 4326}, "struct<wkb:string,srid:int>", Policy()),
    "point": (
        {"x": -99999999.0, "y": -99999999.0, "wkb": "AA==", "srid": None},
        "struct<x:double,y:double>",
        Policy(),
    ),
}


@pytest.fixture(params=["native", "0"])
def _engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, request.param)


def columns(type_text: str, policy: Policy, *path: str) -> Schema:
    value = Field("v", parse_hive_type(type_text), policy=policy, path=path)
    return Schema((Field("id", IntegerType(64)), value))


def given(payloads: list[bytes]) -> Iterator[Sequence[bytes | None]]:
    """As objects, and as the native module fetches them."""
    yield payloads
    module = native_module()
    if module is not None:
        yield JoinedPayloads([module.Records(payloads)])


def update(row: object, *, wrapped: bool = False, op: str = "u") -> bytes:
    image = "before" if op == "d" else "after"
    message = {"before": None, "after": None, image: row, "op": op}
    found = {"schema": {"type": "struct"}, "payload": message} if wrapped else message
    return json.dumps(found).encode()


def outcome(found: Decoded) -> list[tuple[int, str, str]]:
    assert found.kinds is not None
    assert len(found.kinds) == found.rows.num_rows == len(found.indices)
    return [(row.index, row.reason.value, row.path) for row in found.dirty]


@pytest.mark.usefixtures("_engine")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_change_with_the_mark_is_dirty_in_a_keyed_table(form: str, *, wrapped: bool) -> None:
    value, type_text, policy = FORMS[form]
    choice = FormatChoice("debezium", (("key", '["id"]'),))
    decoder = open_decoder(choice, columns(type_text, policy))
    # Among many that are read by columns, and of a delete nothing but the key counts.
    told = [update({"id": n, "v": None}, wrapped=wrapped) for n in range(40)]
    told[7] = update({"id": 7, "v": value}, wrapped=wrapped)
    told[9] = update({"id": 9, "v": value}, wrapped=wrapped, op="d")
    told[11] = update({"id": 11, "v": None, "other": value}, wrapped=wrapped)
    for payloads in given(told):
        found = decoder.decode(payloads)
        assert outcome(found) == [(7, "not_a_change", "v")]
        assert found.indices.to_pylist() == [n for n in range(40) if n != 7]


@pytest.mark.usefixtures("_engine")
@pytest.mark.parametrize("form", FORMS)
def test_a_whole_row_with_the_mark_is_dirty(form: str) -> None:
    value, type_text, policy = FORMS[form]
    decoder = open_decoder(FormatChoice("json", (), "delete"), columns(type_text, policy))
    told = [json.dumps({"id": n, "v": None}).encode() for n in range(40)]
    told[7] = json.dumps({"id": 7, "v": value}).encode()
    for payloads in given(told):
        assert outcome(decoder.decode(payloads)) == [(7, "not_a_change", "v")]


def test_what_is_looked_for_inside_of_the_mark_is_not_told_either() -> None:
    choice = FormatChoice("debezium", (("key", '["id"]'),))
    decoder = open_decoder(choice, columns("string", Policy(), "attributes", "colour"))
    told = update({"id": 1, "attributes": {MARK: MARK}})
    assert outcome(decoder.decode([told])) == [(0, "not_a_change", "v")]
    whole = open_decoder(choice, columns("string", TEXT, "$", "after"))
    assert outcome(whole.decode([told])) == [(0, "not_a_change", "v")]


@pytest.mark.parametrize("key", ["", '["id"]'])
def test_no_column_is_made_of_the_mark(key: str) -> None:
    options = (("key", key), ("unknown_fields", "evolve"))
    decoder = open_decoder(FormatChoice("debezium", options), columns("string", Policy()))
    told = update({"id": 1, "v": "a", "new": {MARK: MARK}})
    assert decoder.decode([told]).dirty == ()
    assert decoder.fields_of(told).keys() == {"id", "v"}
    (dirty,) = decoder.decode([update({"id": 1, "v": "a", "new": {"a": "b"}})]).dirty
    assert dirty.reason.value == "unexpected_field"


def test_numbers_out_of_reach_are_none_of_its_bytes() -> None:
    numbers = [NumberText("1e9999999999999999999"), NumberText("1e999"), float("inf"), 1e300]
    assert not is_unavailable([*numbers, *BYTES[4:]])


def test_a_log_of_changes_keeps_it_as_it_came() -> None:
    decoder = open_decoder(FormatChoice("debezium"), columns("array<string>", Policy()))
    found = decoder.decode([update({"id": 1, "v": [MARK]})])
    assert found.rows.to_pylist() == [{"id": 1, "v": [MARK]}]


@pytest.mark.parametrize(
    "value",
    [
        *("", "a", "b68a35a7", [], ["a"], [MARK, "a"], [1] * 28, [True] * 27, {}, {"a": "b"}),
        *(None, True, 95, {"x": 1, "y": 1}, {"x": -99999999, "y": -99999999}, [None] * 28),
        [*BYTES[:-1], 0],
        json.dumps({"a": MARK}),
    ],
)
def test_what_looks_like_it_is_a_value(value: object) -> None:
    assert not is_unavailable(value)


INT_ARRAY = {"type": "array", "items": "int"}
AVRO_FORMS: dict[str, tuple[object, bytes, str]] = {
    "text": ("string", avro.text(MARK), "string"),
    "bytea": ("bytes", avro.data(BYTES), "binary"),
    "text[]": (
        {"type": "array", "items": "string"},
        avro.blocks([avro.text(MARK)]),
        "array<string>",
    ),
    "bytea[]": ({"type": "array", "items": "bytes"}, avro.blocks([avro.data(BYTES)]), "string"),
    "uuid[]": (
        {"type": "array", "items": "string"},
        avro.blocks([avro.text(UUID)]),
        "array<string>",
    ),
    "int[]": (INT_ARRAY, avro.blocks([avro.long(byte) for byte in BYTES]), "array<int>"),
    "float[]": (
        {"type": "array", "items": "double"},
        avro.blocks([avro.floating(byte, 64) for byte in BYTES]),
        "array<double>",
    ),
    "numeric[]": (
        {
            "type": "array",
            "items": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        avro.blocks([avro.data(bytes([byte])) for byte in BYTES]),
        "array<decimal(9,2)>",
    ),
    "hstore": (
        {"type": "map", "values": "string"},
        avro.blocks([avro.text(MARK) + avro.text(MARK)]),
        "map<string,string>",
    ),
}


@pytest.mark.usefixtures("_engine")
@pytest.mark.parametrize("form", AVRO_FORMS)
def test_in_avro(form: str) -> None:
    written, data, type_text = AVRO_FORMS[form]
    fields = [{"name": "id", "type": "long"}, {"name": "v", "type": ["null", written]}]
    row = {"type": "record", "name": "V", "fields": fields}
    schema = {
        "type": "record",
        "name": "E",
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", "V"]},
            {"name": "op", "type": "string"},
        ],
    }
    told = [b"\0\2" + avro.long(n) + b"\0" + avro.text("u") for n in range(40)]
    told[7] = b"\0\2" + avro.long(7) + b"\2" + data + avro.text("u")
    with registry_server(Registry()) as registry:
        ident = registry.add("v", json.dumps(schema))
        choice = FormatChoice(
            "debezium",
            (
                *(("key", '["id"]'), ("registry.url", registry.url)),
                ("registry.unknown_wait_ms", "0"),
            ),
        )
        decoder = open_decoder(choice, columns(type_text, Policy()))
        found = decoder.decode([avro.confluent(ident, body) for body in told])
    assert outcome(found) == [(7, "not_a_change", "v")]


@pytest.mark.parametrize(
    ("written", "wire", "data", "type_text"),
    [
        ("repeated string", proto.LENGTH, BYTES, "array<string>"),
        ("repeated bytes", proto.LENGTH, BYTES, "array<binary>"),
        ("repeated int32", proto.LENGTH, BYTES, "array<int>"),
        (
            "map<string, string>",
            proto.LENGTH,
            proto.tagged(1, proto.LENGTH, BYTES) + proto.tagged(2, proto.LENGTH, BYTES),
            "map<string,string>",
        ),
    ],
)
def test_in_protobuf(written: str, wire: int, data: bytes, type_text: str) -> None:
    text = f'syntax = "proto3"; message R {{ int64 id = 1; {written} v = 2; }}'
    choice = FormatChoice("protobuf", (("schema", text), ("message", "R")), "delete")
    decoder = open_decoder(choice, columns(type_text, Policy()))
    found = decoder.decode([b"\x08\x01", b"\x08\x07" + proto.tagged(2, wire, data)])
    assert outcome(found) == [(1, "not_a_change", "v")]
