"""JSON of Kafka Connect, read as `json`: a value is what the schema beside it says."""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from logical_types.cases import Case, as_json, cases
from sluiceway.formats.contract import Decoded
from sluiceway.formats.json.decoder import Engine, JsonDecoder
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, Schema
from tools.registry_server import Registry, registry_server

DECIMAL = "org.apache.kafka.connect.data.Decimal"
AMOUNT = {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "2"}, "field": "amt"}
ENGINES: tuple[Engine, ...] = ("auto", "library", "exact")


def column(name: str, kind: str, path: str = "", **policy: Any) -> Field:
    steps = tuple(path.split(".")) if path else ()
    return Field(name, parse_hive_type(kind), path=steps, policy=Policy(**policy))


def wrapped(row: Any, *fields: dict[str, Any]) -> bytes:
    schema = {"type": "struct", "fields": list(fields)}
    return json.dumps({"schema": schema, "payload": row}, separators=(",", ":")).encode()


def outcomes(payloads: list[bytes], *columns: Field) -> list[Any]:
    """Rows, or reasons with paths; the same whatever goes before the slow path."""
    found = []
    for engine in ENGINES:
        decoder = JsonDecoder(Schema(columns), engine=engine)
        decoded = decoder.decode(list[bytes | None](payloads))
        rows: list[Any] = [None] * len(payloads)
        for place, row in zip(decoded.indices.to_pylist(), decoded.rows.to_pylist(), strict=True):
            rows[place] = tuple(row.values())
        for dirty in decoded.dirty:
            rows[dirty.index] = (dirty.reason.value, dirty.path)
        found.append(rows)
    assert found[0] == found[1] == found[2]
    return found[0]


@pytest.mark.parametrize("text", ["1000", "9999", "+100", "12345678", "1e11", "0000"])
def test_decimal_in_base64_is_the_number_that_its_schema_means(text: str) -> None:
    means = Decimal(int.from_bytes(base64.b64decode(text), "big", signed=True)) / 100
    amount = column("amt", "decimal(18,2)", "payload.amt")
    assert outcomes([wrapped({"amt": text}, AMOUNT)] * 3, amount) == [(means,)] * 3
    whole = column("row", "struct<amt:decimal(18,2)>", "payload")
    assert outcomes([wrapped({"amt": text}, AMOUNT)], whole) == [({"amt": means},)]
    # Without a schema it is the number that it looks like.
    plain = json.dumps({"payload": {"amt": "1000"}}).encode()
    assert outcomes([plain], amount) == [(Decimal(1000),)]


def test_rows_with_and_without_a_schema_stand_at_their_places() -> None:
    payloads = [
        wrapped({"amt": "1000"}, AMOUNT),
        b'{"payload": {"amt": 5}}',
        wrapped({"amt": "*"}, AMOUNT),
        b"{",
        wrapped({"amt": "AfQ="}, AMOUNT).replace(b"Decimal", b"\\u0044ecimal"),
        b'{"schema": null, "payload": {"amt": "6"}}',
    ]
    assert outcomes(payloads, column("amt", "decimal(18,2)", "payload.amt")) == [
        (Decimal("-26672.12"),),
        (Decimal(5),),
        ("bad_text", "payload.amt"),
        ("broken", ""),
        (Decimal(5),),
        (Decimal(6),),
    ]


def test_decimal_whose_schema_has_no_scale_is_dirty() -> None:
    bare = {"type": "bytes", "name": DECIMAL, "field": "amt"}
    found = outcomes([wrapped({"amt": "1000"}, bare)], column("a", "decimal(9,2)", "payload.amt"))
    assert found == [("broken", "payload.amt")]


def test_own_keys_of_these_names_are_what_they_are() -> None:
    payloads = [b'{"schema": {"name": "x"}, "payload": {"amt": "1000"}}']
    found = outcomes(
        payloads, column("amt", "int", "payload.amt"), column("n", "string", "schema.name")
    )
    assert found == [(1000, "x")]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_each_type_is_read_as_in_a_change_log(case: Case) -> None:
    payload = wrapped({"v": as_json(case.schema, case.raw)}, {**case.schema, "field": "v"})
    change = json.loads(payload)
    change["payload"] = {"op": "c", "after": change["payload"]}
    row = {"field": "after", "type": "struct", "fields": change["schema"]["fields"]}
    change["schema"] = {"type": "struct", "fields": [row]}
    policy = Policy(timezone=case.settings.get("timezone"), format=_format(case))
    field = Field("v", parse_hive_type(case.column), policy=policy)
    flat = JsonDecoder(Schema((Field("v", field.type, path=("payload", "v"), policy=policy),)))
    debezium = open_decoder(FormatChoice("debezium"), Schema((field,)))
    one, other = flat.decode([payload]), debezium.decode([json.dumps(change).encode()])
    assert one.rows.to_pylist() == other.rows.to_pylist()
    assert [each.reason for each in one.dirty] == [each.reason for each in other.dirty]


def _format(case: Case) -> str | None:
    return "base64" if "binary" in case.column else None


# Confluent's converter


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with registry_server() as found:
        yield found


def property_of(title: str, kind: str, connect: str, **parameters: str) -> dict[str, Any]:
    told = {"connect.parameters": parameters} if parameters else {}
    plain = {"type": kind, "title": title, "connect.type": connect, **told}
    return {"oneOf": [{"type": "null"}, plain]}


PROPERTIES = {
    "amt": property_of(DECIMAL, "number", "bytes", scale="2"),
    "day": property_of("org.apache.kafka.connect.data.Date", "integer", "int32"),
    "at": property_of("io.debezium.time.MicroTimestamp", "integer", "int64"),
    "items": {"type": "array", "items": property_of(DECIMAL, "number", "bytes", scale="1")},
    "by": {
        "type": "object",
        "connect.type": "map",
        "additionalProperties": {"$ref": "#/definitions/Amount"},
    },
}
SCHEMA = json.dumps(
    {
        "type": "object",
        "title": "shop.Order",
        "properties": PROPERTIES,
        "definitions": {"Amount": property_of(DECIMAL, "number", "bytes", scale="3")},
    }
)
COLUMNS = (
    column("amt", "decimal(18,2)"),
    column("day", "date"),
    column("at", "timestamp", timezone="UTC"),
    column("items", "array<decimal(9,1)>"),
    column("by", "map<string,decimal(9,3)>"),
)


def framed(registry: Registry, *payloads: bytes | None, columns: Any = COLUMNS) -> Decoded:
    told = (
        ("frame", "confluent"),
        ("registry.url", registry.url),
        ("registry.unknown_wait_ms", "0"),
    )
    return open_decoder(FormatChoice("json", told), Schema(columns)).decode(payloads)


def behind(number: int, row: Any) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + json.dumps(row).encode()


def test_json_schema_of_connect_says_what_values_are(registry: Registry) -> None:
    number = registry.add("orders-value", SCHEMA, kind="JSON")
    plain = registry.add("plain-value", '{"type": "object"}', kind="JSON")
    row = {"amt": "1000", "day": 20412, "at": 0, "items": ["BQ==", None], "by": {"k": "B9A="}}
    found = framed(
        registry,
        behind(number, row),
        behind(plain, {"amt": "1000"}),
        behind(number, {"amt": 12.5, "day": None}),
        behind(number, {"amt": "no"}),
        behind(4_000, {"amt": "1000"}),
        None,
        b"{}",
    )
    first, second, third = found.rows.to_pylist()
    assert found.indices.to_pylist() == [0, 1, 2]
    assert first == {
        "amt": Decimal("-26672.12"),
        "day": date(2025, 11, 20),
        "at": datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None),
        "items": [Decimal("0.5"), None],
        "by": [("k", Decimal("2.000"))],
    }
    assert (second["amt"], third["amt"], third["day"]) == (Decimal(1000), Decimal("12.5"), None)
    told = [(each.index, each.reason.value, each.path) for each in found.dirty]
    assert told == [
        (3, "bad_text", "amt"),
        (4, "unknown_schema", ""),
        (5, "empty", ""),
        (6, "broken", ""),
    ]


def test_schema_that_is_none_of_json_is_unknown(registry: Registry) -> None:
    number = registry.add("avro-value", '"int"', kind="AVRO")
    found = framed(registry, behind(number, {"amt": "1000"}))
    assert [each.reason.value for each in found.dirty] == ["unknown_schema"]


def test_schema_that_holds_itself_is_followed(registry: Registry) -> None:
    node = {"amt": PROPERTIES["amt"], "next": {"oneOf": [{"type": "null"}, {"$ref": "#"}]}}
    text = json.dumps({"type": "object", "properties": node})
    number = registry.add("tree-value", text, kind="JSON")
    inner = column("next", "struct<next:struct<amt:decimal(9,2)>>")
    found = framed(registry, behind(number, {"next": {"next": {"amt": "AfQ="}}}), columns=(inner,))
    assert found.rows.to_pylist() == [{"next": {"next": {"amt": Decimal("5.00")}}}]
