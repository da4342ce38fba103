"""A topic of orders, the subject of their schema, and the job that takes its columns from it."""

import json
from typing import Any

from pymetastore.hive_metastore import ttypes

from tools import avro_bytes as avro
from tools.raw_metastore import raw_client
from tools.registry_server import Registry
from tools.route_runs import RouteRun

TS_MS = 1_795_161_600_000
_MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}
_GEO = {"type": "record", "name": "Geo", "fields": [{"name": "lat", "type": "double"}]}
FIELDS: list[dict[str, Any]] = [
    {"name": "orderId", "type": "long"},
    {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "amount", "type": ["null", _MONEY]},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "geo", "type": _GEO},
    {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
]
PROTO = """
syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto";
message Order { uint64 id = 1; google.protobuf.Timestamp at = 2; repeated Item items = 3; }
message Item { string sku = 1; int32 count = 2; }
"""


def schema(*more: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": [*FIELDS, *more]})


def order(schema_id: int, number: int, more: bytes = b"") -> bytes:
    amount = avro.long(1) + avro.data(avro.unscaled(number * 100 + 5))
    tags = avro.blocks([avro.text("北") + avro.blocks([avro.long(number)])])
    body = avro.long(number) + avro.long(TS_MS) + amount + avro.long(20_000)
    body += avro.floating(0.5, 64) + tags + avro.long(1) + more
    return avro.confluent(schema_id, body)


def reads(
    run: RouteRun,
    registry: Registry,
    kind: str = "avro",
    *,
    subject: str = "{name: o}",
    columns: str = "from_registry",
) -> None:
    """Make the job take its columns from the registry."""
    text = run.job.path.read_text()
    connection = f'  reg: {{schema_registry: {{url: "{registry.url}"}}}}\nsource:'
    text = text.replace("source:", connection, 1)
    text = text.replace("{json: {tombstones: skip}}", f"{{{kind}: {{registry: reg}}}}")
    head, _, tail = text.partition("  columns:\n")
    rest = tail.partition("  partition_by:")[2]
    named = f"  columns: {columns}\n  subject: {subject}\n"
    run.job.path.write_text(f"{head}{named}  partition_by:{rest}")


def add_column(run: RouteRun, metastore_uri: str, name: str, kind: str) -> None:
    """`ALTER TABLE` as another client does it."""
    hive = run.job.route.table
    with raw_client(metastore_uri) as client:
        raw = client.get_table(hive.database, hive.table)
        raw.sd.cols = [*raw.sd.cols, ttypes.FieldSchema(name, kind)]
        client.alter_table(hive.database, hive.table, raw)


def table_columns(run: RouteRun, metastore_uri: str) -> list[tuple[str, str]]:
    """Names and types of the table's columns, as the metastore has them."""
    hive = run.job.route.table
    with raw_client(metastore_uri) as client:
        columns = client.get_table(hive.database, hive.table).sd.cols
    return [(column.name, column.type) for column in columns]
