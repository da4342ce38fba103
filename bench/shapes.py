"""What decoding costs: microseconds of CPU a record, by format and shape of the rows.

Decoding alone, in one thread, batches of thousands, once through the native module and once
through the library path; both in turn, the median of the rounds. `ratios` has the cost by the byte,
against the format's flat shape: 4 means that a byte costs four times as much as one of flat rows.

    python -m bench.shapes --records 4000 --rounds 5

The last line is JSON.
"""

import argparse
import base64
import json
import os
import random
import statistics
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro

from sluiceway.formats.contract import RowDecoder
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.host.native_module import SWITCH, native_module
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.payloads import JoinedPayloads
from sluiceway.types.policy import Policy
from sluiceway.types.schema import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    Schema,
    StructType,
    TimestampType,
)

PATHS = ("native", "library")
_HALF, _QUARTER = 0.5, 0.25
_WORDS = ("web", "shop", "express", "Hangzhou", "Berlin", "refund", "mobile checkout", "gift")
_FLAT = {
    "id": "bigint", "user_id": "bigint", "city": "string", "channel": "string",
    "note": "string", "amount": "double", "paid": "boolean", "pieces": "int",
}  # fmt: skip
_ITEM = "struct<sku:string,pieces:int,price:double>"
SHAPES: Mapping[str, Mapping[str, str]] = {
    "flat": _FLAT,
    "nested": {
        "id": "bigint", "city": "string", "items": f"array<{_ITEM}>",
        "geo": "struct<lat:double,lon:double>", "tags": "array<string>",
        "attributes": "map<string,string>",
    },
    "wide": {f"{name}_{n}": of for n in range(8) for name, of in _FLAT.items()},
    "times": {
        "id": "bigint", "price": "decimal(18,2)", "tax": "decimal(9,4)", "day": "date",
        "at": "timestamp", "updated": "timestamp", "total": "decimal(38,6)", "city": "string",
    },
}  # fmt: skip
# An enum, a fixed or bytes, decimals, a duration, a wrapper: what formats have beyond JSON.
_KINDS = {
    "id": "bigint", "state": "string", "digest": "binary", "charge": "decimal(12,2)",
    "took": "decimal(18,6)", "few": "int", "day": "date", "at": "timestamp",
    "by": "map<string,bigint>", "rates": "array<double>", "states": "array<string>",
}  # fmt: skip
_STATES = ("NEW", "PAID", "PACKED", "SENT", "RETURNED")
SHAPES = {
    **SHAPES,
    "kinds": _KINDS,
    "schema": {**SHAPES["times"], "channel": "string", "user_id": "bigint"},
}
FORMATS: Mapping[str, Sequence[str]] = {
    "json": ("flat", "nested", "wide", "times", "schema"),
    "debezium": ("flat", "nested", "wide", "times", "schema"),
    "maxwell": ("flat", "nested", "wide", "times"),
    "canal": ("flat", "wide", "times"),
    "avro": ("flat", "nested", "wide", "times", "kinds"),
    "protobuf": ("flat", "nested", "wide", "times", "kinds"),
    "csv": ("flat", "wide", "times"),
}


# Rows


def values(  # noqa: C901, PLR0911 - a case a type
    of: DataType, pick: random.Random, *, nullable: bool = False
) -> Any:
    """A value of a type; of a struct that may be null one in four is."""
    match of:
        case IntegerType():
            return pick.randrange(10**6)
        case FloatType():
            return pick.randrange(10**6) / 64
        case BooleanType():
            return pick.random() < _HALF
        case DecimalType(_, scale):
            return Decimal(pick.randrange(-(10**8), 10**8)).scaleb(-scale)
        case DateType():
            return date.fromordinal(739_000 + pick.randrange(2000))
        case TimestampType():
            seconds = 1_795_000_000 + pick.randrange(10**6)
            return datetime.fromtimestamp(seconds, UTC).replace(microsecond=pick.randrange(10**6))
        case ListType(element):
            return [values(element, pick) for _ in range(pick.randrange(1, 4))]
        case MapType(_, value):
            return {f"key{n}": values(value, pick) for n in range(2)}
        case BinaryType():
            return pick.randbytes(16)
        case StructType(fields):
            if nullable and pick.random() < _QUARTER:
                return None
            return {field.name: values(field.type, pick) for field in fields}
        case _:
            return pick.choice(_WORDS)


def rows(columns: Mapping[str, DataType], count: int) -> list[dict[str, Any]]:
    """So many rows, the same each time."""
    pick = random.Random(7)  # noqa: S311 - no secret
    found = [
        {name: values(of, pick, nullable=True) for name, of in columns.items()}
        for _ in range(count)
    ]
    for row in found if "state" in columns else ():
        row["state"], row["states"] = pick.choice(_STATES), pick.choices(_STATES, k=2)
    return found


# JSON


def _json(value: Any) -> Any:
    match value:
        case Decimal():
            return str(value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case _:
            raise TypeError(value)


def _text(value: object) -> bytes:
    return json.dumps(value, default=_json, separators=(",", ":")).encode()


def _debezium(row: Mapping[str, Any]) -> dict[str, Any]:
    source = {"version": "3.2.0", "connector": "mysql", "name": "shop", "ts_ms": 1795161600000,
              "snapshot": "false", "db": "shop", "table": "orders", "server_id": 1,
              "file": "binlog.000003", "pos": 1234, "row": 0}  # fmt: skip
    return {"before": None, "after": row, "source": source, "op": "c", "ts_ms": 1795161600123}


def _connect_node(of: DataType, name: str) -> dict[str, Any]:
    plain = {"optional": True, "field": name}
    match of:
        case DecimalType(precision, scale):
            parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
            named = {"name": "org.apache.kafka.connect.data.Decimal", "version": 1}
            return {"type": "bytes", **plain, **named, "parameters": parameters}
        case DateType():
            return {"type": "int32", **plain, "name": "io.debezium.time.Date", "version": 1}
        case TimestampType() if name == "at":
            micro = {"name": "io.debezium.time.MicroTimestamp", "version": 1}
            return {"type": "int64", **plain, **micro}
        case TimestampType():
            zoned = {"name": "io.debezium.time.ZonedTimestamp", "version": 1}
            return {"type": "string", **plain, **zoned}
        case _:
            kinds = {IntegerType: "int64", FloatType: "double", BooleanType: "boolean"}
            return {"type": kinds.get(type(of), "string"), **plain}


def _connect_value(value: Any, name: str) -> Any:
    if isinstance(value, Decimal):
        number = int(value.scaleb(-int(value.as_tuple().exponent)))
        size = (number + (number < 0)).bit_length() // 8 + 1
        return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()
    if isinstance(value, datetime) and name == "at":
        return int(value.timestamp()) * 1_000_000 + value.microsecond
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.toordinal() - 719_163
    return value


def _with_schema(row: Mapping[str, Any], columns: Mapping[str, DataType], *, change: bool) -> bytes:
    fields = [_connect_node(of, name) for name, of in columns.items()]
    payload: Mapping[str, Any] = {name: _connect_value(of, name) for name, of in row.items()}
    schema: dict[str, Any] = {"type": "struct", "fields": fields, "optional": False, "name": "r"}
    if change:
        payload = _debezium(payload)
        source = [
            {"type": "string", "optional": False, "field": name} for name in payload["source"]
        ]
        parts = [{**schema, "field": "before"}, {**schema, "field": "after"},
                 {"type": "struct", "fields": source, "optional": False, "field": "source"},
                 {"type": "string", "optional": False, "field": "op"},
                 {"type": "int64", "optional": True, "field": "ts_ms"}]  # fmt: skip
        schema = {"type": "struct", "fields": parts, "optional": False, "name": "Envelope"}
    return _text({"schema": schema, "payload": payload})


# Avro


# As `_avro_record` names the columns of `_KINDS`.
_AVRO_KINDS: dict[str, Any] = {
    "state": {"type": "enum", "name": "State", "symbols": _STATES},
    "states": {"type": "array", "items": "State"},
    "digest": {"type": "fixed", "name": "Digest", "size": 16},
    "charge": {"type": "fixed", "name": "Charge", "size": 8, "logicalType": "decimal",
              "precision": 12, "scale": 2},
}  # fmt: skip


def avro_type(of: DataType, name: str) -> Any:  # noqa: C901, PLR0911 - a case a type
    """Avro's type for a column; `name` is for a record."""
    if (known := _AVRO_KINDS.get(name.removeprefix("Row_"))) is not None:
        return known
    match of:
        case IntegerType(bits):
            return "int" if bits == 32 else "long"  # noqa: PLR2004
        case FloatType():
            return "double"
        case BooleanType():
            return "boolean"
        case DecimalType(precision, scale):
            return {
                "type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale,
            }  # fmt: skip
        case DateType():
            return {"type": "int", "logicalType": "date"}
        case TimestampType():
            return {"type": "long", "logicalType": "timestamp-micros"}
        case ListType(element):
            return {"type": "array", "items": avro_type(element, f"{name}_item")}
        case MapType(_, value):
            return {"type": "map", "values": avro_type(value, f"{name}_value")}
        case StructType(fields):
            return _avro_record({field.name: field.type for field in fields}, name)
        case _:
            return "string"


def _avro_record(columns: Mapping[str, DataType], name: str) -> dict[str, Any]:
    fields = []
    for column, of in columns.items():
        found = avro_type(of, f"{name}_{column}")
        nullable = isinstance(of, StructType) or column.startswith(("city", "note"))
        fields.append({"name": column, "type": ["null", found] if nullable else found})
    return {"type": "record", "name": name, "fields": fields}


def avro_bytes(schema: Any, row: Mapping[str, Any]) -> bytes:
    """A record without a frame; the schema is parsed."""
    out = BytesIO()
    fastavro.schemaless_writer(out, schema, row)
    return out.getvalue()


# Protobuf


# As `_KINDS` names them.
_PROTO_KINDS = {
    "state": "State", "states": "repeated State", "digest": "bytes",
    "took": "google.protobuf.Duration", "few": "google.protobuf.Int32Value",
}  # fmt: skip


def _proto_type(of: DataType, name: str) -> str:  # noqa: PLR0911 - a case a type
    if name in _PROTO_KINDS:
        return _PROTO_KINDS[name]
    match of:
        case IntegerType(bits):
            return f"int{bits}"
        case FloatType():
            return "double"
        case BooleanType():
            return "bool"
        case TimestampType():
            return "google.protobuf.Timestamp"
        case ListType(element):
            return f"repeated {_proto_type(element, name)}"
        case MapType(_, value):
            return f"map<string, {_proto_type(value, name)}>"
        case StructType():
            return f"M{name}"
        case _:
            return "string"


def proto_text(columns: Mapping[str, DataType], name: str) -> str:
    """The declaration of a message, its fields numbered from 1."""
    inner, fields = [], []
    for number, (column, of) in enumerate(columns.items(), 1):
        held = of.element if isinstance(of, ListType) else of
        if isinstance(held, StructType):
            parts = {field.name: field.type for field in held.fields}
            inner.append(proto_text(parts, f"M{column}"))
        fields.append(f"{_proto_type(of, column)} {column} = {number};")
    return f"message {name} {{ {' '.join(inner)} {' '.join(fields)} }}"


def varint(number: int) -> bytes:
    """A number without a sign, seven bits a byte."""
    found = bytearray()
    while number > 127:  # noqa: PLR2004
        found.append(number & 127 | 128)
        number >>= 7
    return bytes((*found, number))


def _proto_field(number: int, of: DataType, value: Any) -> bytes:
    match of:
        case IntegerType() | BooleanType():
            return varint(number << 3) + varint(int(value))
        case FloatType():
            return varint(number << 3 | 1) + struct.pack("<d", value)
        case TimestampType():
            seconds = varint(8) + varint(int(value.timestamp()))
            body = seconds + varint(16) + varint(value.microsecond * 1000)
        case ListType(element):
            return b"".join(_proto_field(number, element, one) for one in value)
        case MapType(key, inner):
            pairs = [_proto_field(1, key, k) + _proto_field(2, inner, v) for k, v in value.items()]
            return b"".join(varint(number << 3 | 2) + varint(len(p)) + p for p in pairs)
        case StructType(fields):
            body = proto_bytes({field.name: field.type for field in fields}, value)
        case _:
            body = str(value).encode()
    return varint(number << 3 | 2) + varint(len(body)) + body


def _kind_field(number: int, name: str, value: Any) -> bytes:
    """A field of `_PROTO_KINDS`."""
    match name:
        case "state":
            return varint(number << 3) + varint(_STATES.index(value))
        case "states":
            body = bytes(map(_STATES.index, value))
        case "digest":
            body = value
        case "took":
            nanos = int(abs(value).scaleb(9))
            sign = -1 if value < 0 else 1
            parts = [sign * part % 2**64 for part in divmod(nanos, 10**9)]
            body = varint(8) + varint(parts[0]) + varint(16) + varint(parts[1])
        case _:
            body = varint(8) + varint(value)
    return varint(number << 3 | 2) + varint(len(body)) + body


def proto_bytes(columns: Mapping[str, DataType], row: Mapping[str, Any]) -> bytes:
    """A message as `proto_text` declares it; what is None is left out."""
    parts = [
        _kind_field(number, name, row[name])
        if name in _PROTO_KINDS
        else _proto_field(number, of, row[name])
        for number, (name, of) in enumerate(columns.items(), 1)
        if row[name] is not None
    ]
    return b"".join(parts)


# Cases


@dataclass(frozen=True, slots=True)
class Case:
    """A format and a shape: how a decoder of it is opened, and what it decodes."""

    name: str
    payloads: list[bytes]
    choice: FormatChoice
    schema: Schema

    @property
    def size(self) -> float:
        """Bytes of a record, on average."""
        return sum(map(len, self.payloads)) / len(self.payloads)

    def open(self, path: str) -> RowDecoder:
        """The decoder of a path, as a job file would choose it."""
        os.environ[SWITCH] = "1" if path == "native" else "0"
        return open_decoder(self.choice, self.schema)


def _encoder(
    name: str, shape: str, columns: Mapping[str, DataType]
) -> tuple[Callable[[Mapping[str, Any]], bytes], dict[str, str]]:
    match name:
        case "json" | "debezium" if shape == "schema":
            change = name == "debezium"
            return lambda row: _with_schema(row, columns, change=change), {}
        case "json":
            return _text, {}
        case "debezium":
            return lambda row: _text(_debezium(row)), {}
        case "maxwell":
            about = {"database": "shop", "table": "orders", "type": "insert", "ts": 1795161600}
            return lambda row: _text({**about, "data": row}), {}
        case "canal":
            about = {"database": "shop", "table": "orders", "type": "INSERT", "es": 1795161600000,
                     "ts": 1795161600123, "isDdl": False, "sql": "", "pkNames": ["id"],
                     "old": None}  # fmt: skip
            return lambda row: _text(
                {**about, "data": [{name: _csv(value) for name, value in row.items()}]}
            ), {}
        case "avro":
            text = _avro_record(columns, "Row")
            parsed = fastavro.parse_schema(text)
            return lambda row: avro_bytes(parsed, row), {"schema": json.dumps(text)}
        case "protobuf":
            names = ("timestamp", "duration", "wrappers")
            head = 'syntax = "proto3"; ' + "".join(
                f'import "google/protobuf/{name}.proto"; ' for name in names
            )
            states = " ".join(f"{state} = {number};" for number, state in enumerate(_STATES))
            head += f"enum State {{ {states} }} "
            options = {"schema": head + proto_text(columns, "Row"), "message": "Row"}
            return lambda row: proto_bytes(columns, row), options
        case _:
            return lambda row: ",".join(_csv(value) for value in row.values()).encode(), {}


def _csv(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(_json(value)) if isinstance(value, date) else str(value)


def cases(count: int) -> Iterator[Case]:
    """Every format with its shapes."""
    for name, shapes in FORMATS.items():
        for shape in shapes:
            columns = {column: parse_hive_type(of) for column, of in SHAPES[shape].items()}
            encode, options = _encoder(name, shape, columns)
            fields = [_field(name, shape, column, of) for column, of in columns.items()]
            payloads = [encode(row) for row in rows(columns, count)]
            yield Case(
                f"{name}/{shape}",
                payloads,
                FormatChoice(name, tuple(options.items())),
                Schema(tuple(fields)),
            )


def _field(name: str, shape: str, column: str, of: DataType) -> Field:
    wrapped = shape == "schema"
    path = ("payload", column) if wrapped and name == "json" else ()
    walls = wrapped and column == "at"
    return Field(column, of, path=path, policy=Policy(timezone="UTC") if walls else Policy())


def measure(case: Case, decoder: RowDecoder, *, native: bool) -> float:
    """Microseconds of CPU a record, of one decoding of the batch."""
    given: Sequence[bytes | None] = case.payloads
    if native:
        module = native_module()
        assert module is not None  # noqa: S101 - `main` has looked
        given = JoinedPayloads([module.Records(case.payloads)])
    began = time.process_time_ns()
    if native and not getattr(decoder, "takes_any_sequence", False):
        given = list(given)
    decoded = decoder.decode(given)
    took = time.process_time_ns() - began
    if len(decoded.rows) != len(case.payloads):
        sys.exit(f"error: {case.name}: {decoded.dirty[:1]}")
    return took / 1000 / len(case.payloads)


def figures(count: int, rounds: int, paths: Sequence[str]) -> dict[str, dict[str, float]]:
    """For each case its bytes a record, and for each path microseconds a record."""
    found = {}
    for case in cases(count):
        decoders = {path: case.open(path) for path in paths}
        times: dict[str, list[float]] = {path: [] for path in paths}
        for number in range(rounds + 1):
            for path, decoder in decoders.items():
                os.environ[SWITCH] = "1" if path == "native" else "0"
                took = measure(case, decoder, native=path == "native")
                if number:
                    times[path].append(took)
        medians = {path: round(statistics.median(of), 2) for path, of in times.items()}
        found[case.name] = {"bytes": round(case.size), **medians}
        told = "  ".join(f"{path} {us:7.2f}" for path, us in medians.items())
        print(f"{case.name:18} {case.size:6.0f} bytes  {told}", flush=True)
    return found


def main() -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    os.environ[SWITCH] = "1"
    paths = PATHS if native_module() is not None else PATHS[1:]
    found = figures(asked.records, asked.rounds, paths)
    best = paths[0]
    worst = max(found, key=lambda name: found[name][best])
    by_byte = {name: of[best] / of["bytes"] for name, of in found.items()}
    ratios = {
        name: round(cost / by_byte[f"{name.partition('/')[0]}/flat"], 2)
        for name, cost in by_byte.items()
    }
    told = {"worst_us": found[worst][best], "worst": worst, "path": best,
            "worst_ratio": max(ratios.values()), "ratios": ratios, "shapes": found}  # fmt: skip
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
