"""Avro through the native module: nested to any depth, and as the slow path reads it."""

import json
import random
from collections.abc import Collection, Mapping
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from sluiceway.formats.avro.decoder import AvroDecoder
from sluiceway.formats.avro.native_columns import NativeAvro
from sluiceway.formats.avro.schema import parse_schema
from sluiceway.formats.avro.writer_schemas import WriterSchema
from sluiceway.host.native_module import native_module
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema
from tools.fetched_payloads import joined
from tools.format_fuzz import outcomes
from tools.made_avro import MadeAvro
from tools.payload_damage import damaged

needs_native = pytest.mark.skipif(
    native_module() is None, reason="the native module is not installed: make native"
)


@pytest.mark.parametrize("seed", range(40))
def test_any_schema_is_read_as_the_slow_path_reads_it(seed: int) -> None:
    pick = random.Random(seed)  # noqa: S311
    made = MadeAvro(pick)
    sound = [made.payload() for _ in range(40)]
    payloads: list[bytes | None] = [*sound]
    payloads += [damaged(lambda _: made.payload() or b"\0", pick) for _ in range(20)]
    payloads += [one[: pick.randrange(len(one) + 1)] for one in sound[:10]]
    expected = outcomes(made.decoder(None).decode(payloads), len(payloads))
    decoder = made.decoder(1)
    assert outcomes(decoder.decode(payloads), len(payloads)) == expected
    assert outcomes(decoder.decode(joined(payloads)), len(payloads)) == expected


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
    for row in expected:
        for item in row["items"]:
            item["at"] = item["at"].replace(tzinfo=None)
    assert _plain(batch) == expected
    for fast_rows, native in ((None, False), (1, False), (1, True)):
        decoder = AvroDecoder(
            schema,
            lambda _: (1, 0),
            _OneSchema(),
            skips_tombstones=False,
            fast_rows=fast_rows,
            native=native,
        )
        for given in (payloads, joined(payloads)):
            assert _plain(decoder.decode(given).rows) == expected, (fast_rows, native)


class _OneSchema:
    def of(self, keys: Collection[int]) -> Mapping[int, WriterSchema]:
        return dict.fromkeys(keys, WriterSchema(parse_schema(json.dumps(_DEEP))))


def _plain(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    return [{**row, "by": dict(row["by"])} for row in rows.to_pylist()]


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
