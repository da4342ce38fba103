"""Records that their schema means as one value: the column decides which of the two they are."""

import io
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from sluiceway.formats.contract import Decoded
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, Schema
from tools import protobuf_bytes as pb
from tools.registry_server import Registry, registry_server

VARIABLE: dict[str, Any] = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
    "connect.name": "io.debezium.data.VariableScaleDecimal",
}
AVRO = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "v", "type": ["null", VARIABLE]},
        {
            "name": "list",
            "type": {"type": "array", "items": "io.debezium.data.VariableScaleDecimal"},
        },
        {"name": "at", "type": {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}},
        {"name": "day", "type": {"type": "int", "connect.name": "io.debezium.time.Date"}},
    ],
}
PROTO = """syntax = "proto3";
import "confluent/type/decimal.proto"; import "google/type/date.proto";
message Row { confluent.type.Decimal v = 1; google.type.Date day = 2; }
"""
TWELVE = {"scale": 4, "value": b"\x01\xe2\x40"}


def decode(options: dict[str, str], name: str, payload: bytes, *columns: Field) -> Decoded:
    return open_decoder(FormatChoice(name, tuple(options.items())), Schema(columns)).decode(
        [payload]
    )


def column(name: str, kind: str, path: str = "", **policy: Any) -> Field:
    steps = tuple(path.split(".")) if path else ()
    return Field(name, parse_hive_type(kind), path=steps, policy=Policy(**policy))


def in_avro(*columns: Field, **row: Any) -> Decoded:
    out = io.BytesIO()
    whole = {"v": TWELVE, "list": [], "at": 0, "day": 20412, **row}
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), whole)
    return decode({"schema": json.dumps(AVRO)}, "avro", out.getvalue(), *columns)


def value(decoded: Decoded) -> Any:
    """Of the one column of the one row, or why it is dirty."""
    if decoded.dirty:
        return decoded.dirty[0].reason.value
    return next(iter(decoded.rows.to_pylist()[0].values()))


@pytest.mark.parametrize(
    ("kind", "policy", "wanted"),
    [
        ("decimal(20,4)", {}, Decimal("12.3456")),
        ("double", {}, 12.3456),
        ("decimal(9,2)", {}, "scale"),
        ("string", {}, "wrong_type"),
        ("string", {"on_lossy": "text"}, "12.3456"),
        ("bigint", {}, "not_integral"),
        ("struct<scale:int,value:binary>", {}, {"scale": 4, "value": b"\x01\xe2\x40"}),
        ("struct<scale:int>", {}, {"scale": 4}),
        ("array<int>", {}, "wrong_type"),
    ],
)
def test_variable_decimal_of_avro(kind: str, policy: dict[str, str], wanted: Any) -> None:
    assert value(in_avro(column("v", kind, **policy))) == wanted
    if not policy:
        inner = value(in_avro(column("list", f"array<{kind}>"), list=[TWELVE]))
        assert inner == (wanted if isinstance(wanted, str) else [wanted])


def test_parts_of_it_are_reached_by_their_path() -> None:
    assert value(in_avro(column("scale", "int", "v.scale"))) == 4


def test_record_that_is_no_decimal_is_one_to_a_struct_alone() -> None:
    odd = {"scale": 9_000, "value": b""}
    assert value(in_avro(column("v", "decimal(9,2)"), v=odd)) == "broken"
    assert value(in_avro(column("v", "struct<scale:int,value:binary>"), v=odd)) == odd
    assert value(in_avro(column("v", "decimal(9,2)"), v=None)) is None


def test_plain_avro_follows_the_names_of_connect_as_envelopes_do() -> None:
    assert str(value(in_avro(column("day", "date")))) == "2025-11-20"
    assert value(in_avro(column("day", "int"))) == 20412
    assert value(in_avro(column("at", "timestamp"), at=1)) == "wrong_type"
    told = value(in_avro(column("at", "timestamp", timezone="Asia/Shanghai")))
    assert str(told) == "1969-12-31 16:00:00"
    assert value(in_avro(column("at", "bigint"), at=7)) == 7


def numbers(fields: dict[int, int]) -> bytes:
    return b"".join(pb.tagged(field, pb.VARINT, pb.varint(held)) for field, held in fields.items())


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with registry_server() as found:
        yield found


def in_protobuf(registry: Registry, field: Field) -> Any:
    amount = pb.tagged(1, pb.LENGTH, b"\x01\xe2\x40") + numbers({2: 7, 3: 4})
    day = numbers({1: 2025, 2: 11, 3: 20})
    payload = pb.tagged(1, pb.LENGTH, amount) + pb.tagged(2, pb.LENGTH, day)
    head = b"\0" + registry.add("rows-value", PROTO, kind="PROTOBUF").to_bytes(4, "big") + b"\0"
    options = {"registry.url": registry.url, "registry.unknown_wait_ms": "0"}
    return value(decode(options, "protobuf", head + payload, field))


def test_messages_of_connects_converter_in_protobuf(registry: Registry) -> None:
    assert in_protobuf(registry, column("v", "decimal(20,4)")) == Decimal("12.3456")
    parts = {"value": b"\x01\xe2\x40", "precision": 7, "scale": 4}
    assert (
        in_protobuf(registry, column("v", "struct<value:binary,precision:int,scale:int>")) == parts
    )
    assert str(in_protobuf(registry, column("day", "date"))) == "2025-11-20"
    assert in_protobuf(registry, column("day", "struct<year:int,month:int>")) == {
        "year": 2025,
        "month": 11,
    }


def test_variable_decimal_of_json_is_its_parts_to_a_struct() -> None:
    schema = {
        "type": "struct",
        "name": "io.debezium.data.VariableScaleDecimal",
        "fields": [{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}],
        "field": "v",
    }
    row = {"v": {"scale": 4, "value": "AeJA"}}
    whole = {"schema": {"type": "struct", "fields": [schema]}, "payload": row}
    payload = json.dumps(whole).encode()
    parts = column("v", "struct<scale:int,value:binary>", "payload.v", format="base64")
    assert value(decode({}, "json", payload, parts)) == {"scale": 4, "value": b"\x01\xe2\x40"}
    number = column("v", "decimal(20,4)", "payload.v")
    assert value(decode({}, "json", payload, number)) == Decimal("12.3456")
