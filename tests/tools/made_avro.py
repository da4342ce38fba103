"""Avro schemas of any shape, columns for them, and payloads, sound and odd, from a seed."""

import json
import random
from collections.abc import Collection, Mapping
from typing import Any

from sluiceway.formats.avro.decoder import AvroDecoder, bare_frame
from sluiceway.formats.avro.schema import parse_schema
from sluiceway.formats.avro.writer_schemas import GivenSchemas, WriterSchema, unknown_schema
from sluiceway.formats.changes.framed import FramedChangeDecoder
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, Schema
from tools import avro_bytes as avro

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


class MadeAvro:
    """A record of any shape, and columns for its fields.

    Args:
        pick: The seed.
    """

    def __init__(self, pick: random.Random) -> None:
        self._pick = pick
        made = _Made(pick)
        fields = [(f"c{n}", *made.type_of(pick.randrange(4))) for n in range(4)]
        declared = [{"name": name, "type": of} for name, of, _ in fields]
        self._row = {"type": "record", "name": "R", "fields": declared}
        self.columns = _columns(pick, fields)

    def decoder(self, fast_rows: int | None, *, native: bool = True) -> AvroDecoder:
        """The decoder of its payloads; without `fast_rows` the slow path alone."""
        schemas = GivenSchemas([json.dumps(self._row)], by_fingerprint=False, connect=True)
        return AvroDecoder(
            self.columns,
            bare_frame,
            schemas,
            skips_tombstones=False,
            fast_rows=fast_rows,
            native=native,
        )

    def payload(self) -> bytes:
        """A payload."""
        return _value(self._pick, self._row)


class MadeAvroChanges(MadeAvro):
    """Debezium's changes of such records, by a registry's schema.

    Args:
        pick: The seed.
    """

    def __init__(self, pick: random.Random) -> None:
        super().__init__(pick)
        source = [{"name": "snapshot", "type": ["string", "null"]}]
        fields = [
            {"name": "before", "type": ["null", self._row]},
            {"name": "after", "type": ["null", "R"]},
            {"name": "source", "type": {"type": "record", "name": "Source", "fields": source}},
            {"name": "op", "type": "string"},
        ]
        envelope = {"type": "record", "name": "Envelope", "fields": fields}
        self._written = WriterSchema(parse_schema(json.dumps(envelope), connect=True), connect=True)
        self._options = {"other_messages": pick.choice(("dirty", "skip"))}
        if pick.random() < 0.5:
            self._options |= {"key": json.dumps(["gone"]), "truncate": "apply"}

    def changes(self, fast_rows: int | None) -> FramedChangeDecoder:
        """The decoder of its payloads; without `fast_rows` the slow path alone."""
        options = {**self._options, "registry.url": "http://127.0.0.1:1"}
        found = FramedChangeDecoder(self.columns, options, fast_rows=fast_rows)
        found._schemas = _Known(self._written)  # type: ignore[assignment]
        return found

    def payload(self) -> bytes:
        """A payload."""
        pick = self._pick
        op = pick.choice("cccuurdtmx")
        row = avro.long(1) + _value(pick, self._row)
        before = row if op in "ud" or pick.random() < 0.05 else avro.long(0)
        after = row if op in "cur" and pick.random() < 0.95 else avro.long(0)
        snapshot = avro.long(0) + avro.text(pick.choice(("false", "first", "true")))
        return avro.confluent(7, before + after + snapshot + avro.text(op))


class _Known:
    """A registry of one schema."""

    def __init__(self, written: WriterSchema) -> None:
        self._written = written

    def of(self, keys: Collection[int]) -> Mapping[int, Any]:
        return {key: self._written if key == 7 else unknown_schema(f"no {key}") for key in keys}
