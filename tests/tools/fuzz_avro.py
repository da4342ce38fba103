"""Avro for the fuzzer: decoders, and payloads with lengths and counts beyond all reason."""

import json
import random
from collections.abc import Callable, Collection, Mapping
from typing import Any

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.formats.avro.decoder import AvroDecoder
from sluiceway.formats.avro.schema import parse_schema
from sluiceway.formats.avro.writer_schemas import WriterSchema, unknown_schema
from sluiceway.formats.contract import RowDecoder
from sluiceway.formats.schema_registry.frame import confluent_frame
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import Field, Schema
from tools import avro_bytes as avro

_MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}
_TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {"name": "v", "type": "int"},
        {"name": "more", "type": ["null", "Tree", {"type": "array", "items": "Tree"}]},
    ],
}
_FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "name", "type": ["null", "string"]},
    {"name": "price", "type": _MONEY},
    {"name": "rate", "type": "double"},
    {"name": "paid", "type": "boolean"},
    {"name": "colour", "type": {"type": "enum", "name": "E", "symbols": ["R", "G"]}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "nothing", "type": {"type": "array", "items": "null"}},
    {"name": "by", "type": {"type": "map", "values": "int"}},
    {"name": "tree", "type": _TREE},
]
SCHEMA = json.dumps({"type": "record", "name": "R", "fields": _FIELDS})
COLUMNS = {
    "id": "bigint",
    "name": "varchar(6)",
    "price": "decimal(9,2)",
    "rate": "float",
    "paid": "boolean",
    "colour": "string",
    "at": "timestamp",
    "tags": "array<string>",
    "by": "map<string,tinyint>",
    "tree": "struct<v:int,more:struct<v:int>>",
}
_LENIENT = Policy(on_lossy="truncate", on_bad_text="replace")
ODD_NUMBERS = (0, 1, -1, 63, 64, -65, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63), 2**70)


def columns() -> Schema:
    """Columns that read most of the fields."""
    found = [
        Field(name, parse_hive_type(of), required=name == "id") for name, of in COLUMNS.items()
    ]
    return Schema(tuple(found))


def _lenient() -> Schema:
    name = Field("name", parse_hive_type("varchar(6)"), policy=_LENIENT)
    deep = Field("v", parse_hive_type("int"), path=("tree", "more", "more", "v"))
    return Schema((name, deep))


class _Known:
    """Two ids of a registry."""

    def __init__(self) -> None:
        self._one = WriterSchema(parse_schema(SCHEMA))

    def of(self, keys: Collection[int]) -> Mapping[int, WriterSchema | DirtyValueError]:
        return {key: self._one if key in (0, 7) else unknown_schema(f"no {key}") for key in keys}


def _decoder(schema: Schema, *, skips: bool, native: bool = True) -> Callable[[], RowDecoder]:
    return lambda: AvroDecoder(
        schema, confluent_frame, _Known(), skips_tombstones=skips, native=native
    )


DECODERS: tuple[Callable[[], RowDecoder], ...] = (
    _decoder(columns(), skips=False),
    _decoder(columns(), skips=False, native=False),
    _decoder(_lenient(), skips=True),
)


def payload(pick: random.Random) -> bytes:
    """A payload that is sound but for a number in it, now and then."""
    calm = pick.random() < 0.7
    schema_id = 7 if calm else pick.choice((7, 7, 8, 2**32 - 1))
    price = avro.data(avro.unscaled(5 if calm else pick.choice((-(10**12), 10**30))))
    depth = pick.randrange(4) if calm else pick.choice((0, 1, 49, 50, 98, 99, 100, 101, 1000))
    rate = 0.5 if calm else pick.choice((0.1, float("nan"), 1e300))
    pick = _Calm(pick.random()) if calm else pick
    return avro.confluent(schema_id, b"") + b"".join(
        (
            _long(pick, pick.randrange(-(2**63), 2**63)),
            b"\0" if pick.random() < 0.3 else b"\2" + _sized(pick, "né北😀"[: pick.randrange(5)]),
            price,
            avro.floating(rate, 64),
            b"\1" if pick.random() < 0.9 else b"\2",
            _long(pick, pick.randrange(2)),
            _long(pick, pick.randrange(0, 4 * 10**18) // 1000 * 1000),
            _items(pick, [_sized(pick, "tag") for _ in range(pick.randrange(4))]),
            _items(pick, [b""] * pick.randrange(4)),
            _items(pick, [avro.text(key) + _long(pick, 5) for key in "ab"[: pick.randrange(3)]]),
            _tree(pick, depth),
        )
    )


class _Calm(random.Random):
    """Never picks what is rare."""

    def random(self) -> float:
        return 0.5

    def getrandbits(self, k: int, /) -> int:
        return super().getrandbits(k)


def _long(pick: random.Random, number: int) -> bytes:
    return avro.long(pick.choice(ODD_NUMBERS) if pick.random() < 0.03 else number)


def _sized(pick: random.Random, text: str) -> bytes:
    data = text.encode()
    return _long(pick, len(data)) + data


def _items(pick: random.Random, items: list[bytes]) -> bytes:
    if pick.random() < 0.05:
        return _long(pick, len(items)) + _long(pick, 7) + b"".join(items) + b"\0"
    return avro.blocks(items, sized=pick.random() < 0.5)


def _tree(pick: random.Random, depth: int) -> bytes:
    found = avro.long(1)
    for _ in range(depth):
        found += b"\2" if pick.random() < 0.9 else b"\4\2"
        found += avro.long(1)
    return found + b"\0"
