"""Avro through the native module: nested to any depth, and as the slow path reads it."""

import json
import random
from io import BytesIO
from typing import Any

import fastavro
import pytest

from sluiceway.formats.avro.decoder import AvroDecoder, bare_frame
from sluiceway.formats.avro.native_columns import NativeAvro
from sluiceway.formats.avro.schema import parse_schema
from sluiceway.formats.avro.writer_schemas import GivenSchemas
from sluiceway.formats.contract import Decoded
from sluiceway.host.native_module import native_module
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, Schema
from tools import avro_bytes as avro
from tools.payload_damage import damaged

needs_native = pytest.mark.skipif(
    native_module() is None, reason="the native module is not installed: make native"
)
_CONNECT = "org.apache.kafka.connect.data."
_DEBEZIUM = "io.debezium.time."
_NUMBERS = ("tinyint", "int", "bigint", "double", "float", "decimal(9,2)", "decimal(38,10)")
_TEXTS = ("string", "varchar(3)", "char(3)", "int", "decimal(9,2)", "date", "timestamp", "boolean")
_TIMES = ("timestamp", "date", "bigint", "string")
# A type of Avro, and the columns that read it.
_LEAVES: list[tuple[Any, tuple[str, ...]]] = [
    ("boolean", ("boolean", "int")),
    ("int", (*_NUMBERS, "timestamp", "string")),
    ("long", (*_NUMBERS, "timestamp")),
    ("float", _NUMBERS),
    ("double", _NUMBERS),
    ("string", _TEXTS),
    ("bytes", ("binary", "string")),
    ("null", ("int",)),
    ({"type": "string", "logicalType": "uuid"}, ("string",)),
    ({"type": "string", "connect.name": f"{_DEBEZIUM}IsoTimestamp"}, ("timestamp", "string")),
    ({"type": "int", "logicalType": "date"}, ("date", "timestamp", "int")),
    ({"type": "int", "connect.name": f"{_CONNECT}Date"}, _TIMES),
    ({"type": "int", "logicalType": "time-millis"}, ("string", "bigint")),
    ({"type": "long", "connect.name": f"{_DEBEZIUM}MicroTimestamp"}, _TIMES),
    ({"type": "long", "connect.name": f"{_DEBEZIUM}NanoTimestamp"}, _TIMES),
    *(
        ({"type": "long", "logicalType": f"{local}timestamp-{unit}"}, ("timestamp", "date"))
        for local in ("", "local-")
        for unit in ("millis", "micros", "nanos")
    ),
    *(
        ({"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": s}, _NUMBERS)
        for s in (0, 2, 9)
    ),
    ({"type": "bytes", "logicalType": "big-decimal"}, ("decimal(9,2)",)),
]
_POLICIES = [
    Policy(),
    Policy(),
    Policy(timezone="UTC"),
    Policy(timezone="Asia/Shanghai"),
    Policy(on_lossy="text"),
    Policy(on_lossy="truncate", on_overflow="clamp"),
    Policy(on_impossible_time="null", non_finite="keep"),
    Policy(trim=True, on_bad_text="replace"),
]
_WHOLES = (
    *(0, 1, -1, 7, 200, 20000, 2**24, 2**31 - 1, 2**31, -(2**31), 2**53, -(2**53)),
    *(1795161600000, 1795161600123456789, 2**63 - 1, -(2**63)),
)
_WORDS = ("", "ab", "abc ", "北京", "12", "12.50", "true", "a\0b", "x" * 20, "\udcff")
_MOMENTS = ("2026-11-20", "2026-11-20T08:00:00Z", "2026-11-20 08:00:00.5", "2026-02-30")


class _Made:
    """Types with names that no other has."""

    def __init__(self, pick: random.Random) -> None:
        self._pick = pick
        self._count = 0

    def _name(self) -> str:
        self._count += 1
        return f"N{self._count}"

    def type_of(self, depth: int) -> tuple[Any, str]:
        """A type of Avro, and of a column."""
        pick = self._pick
        kind = pick.randrange(9 if depth else 4)
        if kind in (4, 5):
            items, hive = self.type_of(depth - 1)
            return {"type": "array", "items": items}, f"array<{hive}>"
        if kind == 6:
            values, hive = self.type_of(depth - 1)
            return {"type": "map", "values": values}, f"map<string,{hive}>"
        if kind in (7, 8):
            return self.record(depth)
        if kind == 3:
            inner, hive = self.type_of(depth)
            branches = [inner] if isinstance(inner, list) else [["null", inner], [inner, "null"]]
            found = pick.choice(branches)
            return (found if inner != "null" else inner), hive
        return self.leaf()

    def leaf(self) -> tuple[Any, str]:
        """A type of one value."""
        pick = self._pick
        name = self._name()
        named: list[tuple[Any, tuple[str, ...]]] = [
            ({"type": "enum", "name": name, "symbols": ["RED", "G12"]}, ("string", "varchar(2)")),
            ({"type": "fixed", "name": name, "size": 3}, ("binary",)),
            ({"type": "fixed", "name": name, "size": 16, "logicalType": "uuid"}, ("string",)),
            (
                {"type": "fixed", "name": name, "size": 5, "logicalType": "decimal",
                 "precision": 9, "scale": 2},
                _NUMBERS,
            ),
            (["null", "int", "string"], ("int", "string")),
        ]  # fmt: skip
        found, hives = pick.choice([*_LEAVES, *named])
        return found, pick.choice(hives)

    def record(self, depth: int) -> tuple[Any, str]:
        """A record, of which a struct reads some fields."""
        pick = self._pick
        fields, hives = [], []
        for place in range(pick.randrange(1, 4)):
            of, hive = self.type_of(depth - 1)
            fields.append({"name": f"f{place}", "type": of})
            if pick.random() < 0.8:
                hives.append(f"f{place}:{hive}")
        pick.shuffle(hives)
        hives += ["gone:int"] if pick.random() < 0.2 or not hives else []
        return {"type": "record", "name": self._name(), "fields": fields}, (
            f"struct<{','.join(hives)}>"
        )


def _value(pick: random.Random, of: Any) -> bytes:  # noqa: PLR0911 - a case a type
    if isinstance(of, list):
        place = pick.randrange(len(of))
        return avro.long(place) + _value(pick, of[place])
    if isinstance(of, str):
        return _plain(pick, of)
    match of["type"]:
        case "array":
            count = pick.randrange(3)
            return avro.blocks([_value(pick, of["items"]) for _ in range(count)], sized=count == 2)
        case "map":
            keys = [pick.choice(("a", "b", "12")) for _ in range(pick.randrange(3))]
            return avro.blocks([avro.text(key) + _value(pick, of["values"]) for key in keys])
        case "record":
            return b"".join(_value(pick, field["type"]) for field in of["fields"])
        case "enum":
            return avro.long(pick.choice((0, 1, 1, 2)) if pick.random() < 0.1 else 1)
        case "fixed":
            return pick.randbytes(of["size"])
        case "bytes" if "logicalType" in of:
            digits = avro.unscaled(pick.choice((*_WHOLES, 10**20, 2**127, 2**128, 125, 1250)))
            if of["logicalType"] == "big-decimal":
                return avro.data(avro.data(digits) + avro.long(2))
            return avro.data(digits if pick.random() < 0.99 else b"")
        case plain:
            return _plain(pick, plain)


def _plain(pick: random.Random, of: str) -> bytes:
    match of:
        case "null":
            return b""
        case "boolean":
            return pick.choice((b"\0", b"\1"))
        case "int":
            return avro.long(pick.choice(_WHOLES[:9] if pick.random() < 0.05 else _WHOLES[:7]))
        case "long":
            return avro.long(pick.choice(_WHOLES))
        case "float" | "double":
            value = pick.choice((0.5, -3.0, 0.1, float("nan"), float("-inf"), 16777216.0, 1e15))
            return avro.floating(value, 64 if of == "double" else 32)
        case "string":
            return avro.text(pick.choice((*_WORDS, *_MOMENTS)))
        case _:
            return avro.data(pick.randbytes(pick.randrange(4)))


def _columns(pick: random.Random, fields: list[tuple[str, Any, str]]) -> Schema:
    found = []
    for name, of, hive in fields:
        if pick.random() < 0.3:
            continue
        unit = pick.choice((None, None, "ms"))
        policy, required = pick.choice(_POLICIES), pick.random() < 0.2
        found.append(Field(name, parse_hive_type(hive), required, (), unit, policy))
        held = next(each for each in of if each != "null") if isinstance(of, list) else of
        if isinstance(held, dict) and held["type"] == "record":
            path = (name, pick.choice([field["name"] for field in held["fields"]]))
            found.append(Field(f"{name}_in", parse_hive_type("string"), path=path))
    found.append(Field("gone", parse_hive_type("int")))
    return Schema(tuple(found))


def _decoder(text: str, columns: Schema, fast_rows: int | None) -> AvroDecoder:
    schemas = GivenSchemas([text], by_fingerprint=False, connect=True)
    return AvroDecoder(columns, bare_frame, schemas, skips_tombstones=False, fast_rows=fast_rows)


def _told(decoded: Decoded) -> list[str]:
    rows = zip(decoded.indices.to_pylist(), decoded.rows.to_pylist(), strict=True)
    return [*map(repr, rows), *map(repr, decoded.dirty)]


@pytest.mark.parametrize("seed", range(40))
def test_any_schema_is_read_as_the_slow_path_reads_it(seed: int) -> None:
    pick = random.Random(seed)  # noqa: S311
    made = _Made(pick)
    fields = [(f"c{n}", *made.type_of(pick.randrange(4))) for n in range(4)]
    row = {"type": "record", "name": "R",
           "fields": [{"name": name, "type": of} for name, of, _ in fields]}  # fmt: skip
    text = json.dumps(row)
    columns = _columns(pick, fields)
    sound = [_value(pick, row) for _ in range(40)]
    payloads: list[bytes | None] = [*sound]
    payloads += [damaged(lambda p: _value(p, row) or b"\0", pick) for _ in range(20)]
    payloads += [one[: pick.randrange(len(one) + 1)] for one in sound[:10]]
    exact = _told(_decoder(text, columns, None).decode(payloads))
    assert _told(_decoder(text, columns, 1).decode(payloads)) == exact


_DEEP = {
    "type": "record", "name": "R", "fields": [
        {"name": "id", "type": "long"},
        {"name": "items", "type": {"type": "array", "items": {
            "type": "record", "name": "Item", "fields": [
                {"name": "sku", "type": "string"},
                {"name": "price", "type": ["null", {
                    "type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            ]}}},
        {"name": "geo", "type": ["null", {"type": "record", "name": "Geo", "fields": [
            {"name": "lat", "type": "double"}, {"name": "lon", "type": "double"}]}]},
        {"name": "by", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {"name": "tags", "type": ["null", {"type": "array", "items": "string"}]},
    ],
}  # fmt: skip
_DEEP_COLUMNS = {
    "id": "bigint",
    "items": "array<struct<sku:string,price:decimal(9,2),at:timestamp>>",
    "geo": "struct<lat:double,lon:double>",
    "by": "map<string,array<int>>",
    "tags": "array<string>",
}


@needs_native
def test_nested_rows_are_vouched_for_and_equal_what_fastavro_reads() -> None:
    schema = Schema(tuple(Field(n, parse_hive_type(of)) for n, of in _DEEP_COLUMNS.items()))
    reader = NativeAvro.for_schemas(parse_schema(json.dumps(_DEEP)), schema, connect=True)
    assert reader is not None
    parsed = fastavro.parse_schema(_DEEP)
    pick, payloads, expected = random.Random(3), [], []  # noqa: S311
    for number in range(200):
        row = {
            "id": number,
            "items": [{"sku": "a", "price": None, "at": 1_795_161_600_000_000 + number}] * 2,
            "geo": None if number % 3 else {"lat": 0.5, "lon": -1.25},
            "by": {"a": [1, 2], "b": []},
            "tags": None if number % 2 else ["é", pick.choice(("x", ""))],
        }
        out = BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        payloads.append(out.getvalue())
        expected.append(fastavro.schemaless_reader(BytesIO(payloads[-1]), parsed, None))
    batch, kept, left = reader.read(payloads, [0] * len(payloads))
    assert (len(kept), len(left)) == (200, 0)
    found = batch.to_pylist()
    for got, row in zip(found, expected, strict=True):
        got["by"] = dict(got["by"])
        for item in row["items"]:
            item["at"] = item["at"].replace(tzinfo=None)
    assert found == expected


@needs_native
@pytest.mark.parametrize("path", [("a",), ("in", "a")])
def test_a_field_that_a_schema_lacks_is_null(path: tuple[str, ...]) -> None:
    inner = {"type": "record", "name": "In", "fields": [{"name": "b", "type": "int"}]}
    text = json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": "in", "type": ["null", inner]}]}
    )
    columns = Schema((Field("a", parse_hive_type("int"), path=path),))
    reader = NativeAvro.for_schemas(parse_schema(text), columns, connect=True)
    assert reader is not None
    batch, _, left = reader.read([b"\2\6", b"\0"], [0, 0])
    assert (batch.to_pylist(), len(left)) == ([{"a": None}, {"a": None}], 0)
