"""Lineage of columns: each is told with the fields of the payload that it is made of."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluiceway.followers.lineage_columns import ColumnOrigins, Origin, column_origins
from sluiceway.followers.lineage_events import LineageRoute, RunState, Totals, run_event
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.loader import parse_job
from sluiceway.sinks.contract import TableIdentity, TableState
from sluiceway.types.schema import Field, IntegerType, Schema, StringType
from tools.ledger_records import LEDGER
from tools.lineage_client import through_the_client

IDENTITY = TableIdentity("thrift://m:9083", "ods", "orders", 7, "/w/ods.db/orders")
JOB = """\
version: 1
name: orders
connections:
  main: {kafka: {bootstrap_servers: "k:9092"}}
  hms: {metastore: {uri: "thrift://m:9083"}}
source: {connection: main, topics: [orders], start: earliest}
format: {json: {}}
table:
  hive: {connection: hms, name: ods.orders}
  columns:
    - {name: id, type: bigint}
    - {name: city, type: string, path: geo.city}
    - {name: price, type: "decimal(10,2)"}
    - {name: qty, type: int}
    - {name: geo, type: "struct<lat:double,lon:double>"}
    - {name: total, type: "decimal(22,2)", expression: "price * qty"}
    - {name: north, type: boolean, expression: "geo.lat > 0"}
    - {name: origin, type: string, constant: shop}
    - {name: ts, type: bigint}
  partition_by:
    - {name: dt, event_time: yyyyMMdd}
    - {name: town, column: city}
    - {name: shard, constant: "1"}
  meta: [offset]
where: "total > 0 and city is not null"
event_time: {field: ts, unit: ms, timezone: UTC}
run: {interval: 2s}
"""


def origins(text: str = JOB, state: TableState | None = None) -> ColumnOrigins:
    (config,) = compile_routes(parse_job(text.encode(), Path("job.yaml"), {}).spec).routes
    if state is None:
        written = (c.field for c in config.choices.columns if c.written)
        fields = (*written, Field("_offset", IntegerType(64)))
        names = tuple(rule.name for rule in config.partitions)
        kept = tuple(field for field in fields if field.name not in names)
        state = TableState(IDENTITY, Schema(kept), names, None)
    return column_origins(config, state)


def test_column_is_told_with_the_fields_it_is_made_of() -> None:
    found = origins()
    assert dict(found.columns) == {
        "id": Origin(("id",)),
        "city": Origin(("geo.city",)),
        "price": Origin(("price",)),
        "qty": Origin(("qty",)),
        "geo": Origin(("geo",)),
        "total": Origin(("price", "qty"), "price * qty"),
        "north": Origin(("geo.lat",), "geo.lat > 0"),
        "origin": Origin(()),
        "ts": Origin(("ts",)),
        "_offset": Origin(()),
        "dt": Origin(("ts",), "event time as yyyyMMdd, UTC"),
        "town": Origin(("geo.city",)),
        "shard": Origin(()),
    }


def test_where_is_told_with_the_fields_behind_its_columns() -> None:
    assert origins().filtered == Origin(
        ("geo.city", "price", "qty"), "total > 0 and city is not null"
    )


def test_columns_that_the_table_says_are_fields_of_their_names() -> None:
    start, _, rest = JOB.partition("  columns:\n")
    text = start + "  columns: from_table\n" + rest[rest.index("  partition_by:") :]
    text = text.replace('where: "total > 0 and city is not null"\n', "")
    text = text.replace("    - {name: town, column: city}\n", "")
    schema = Schema(
        (
            Field("id", IntegerType(64)),
            Field("city", StringType()),
            Field("_offset", IntegerType(64)),
        )
    )
    found = origins(text, TableState(IDENTITY, schema, ("dt", "shard"), None))
    assert dict(found.columns) == {
        "id": Origin(("id",)),
        "city": Origin(("city",)),
        "_offset": Origin(()),
        "dt": Origin(("ts",), "event time as yyyyMMdd, UTC"),
        "shard": Origin(()),
    }
    assert found.filtered == Origin(())


def test_lake_field_that_is_made_of_a_column_of_its_name_leaves_the_column_as_it_is() -> None:
    text = JOB.replace(
        "  hms: {metastore",
        "  lake: {iceberg: {sql: {uri: 'sqlite:////w/c.db', warehouse: /w}}}\n  hms: {metastore",
    )
    text = text.replace("hive: {connection: hms,", "iceberg: {connection: lake,")
    text = text.replace("event_time: {field: ts, unit: ms, timezone: UTC}\n", "")
    before, _, rest = text.partition("  partition_by:\n")
    text = (
        before
        + "  partition_by: [{column: id, transform: 'bucket[8]'}]\n"
        + rest[rest.index("  meta:") :]
    )
    lake = replace(IDENTITY, uuid="u")
    table = TableState(lake, Schema((Field("id", IntegerType(64)),)), ("id",), None)
    assert dict(origins(text, table).columns) == {"id": Origin(("id",))}


def event(found: ColumnOrigins, topics: tuple[str, ...] = ("orders",)) -> dict[str, Any]:
    table = TableState(IDENTITY, Schema((Field("id", IntegerType(64)),)), (), LEDGER)
    route = LineageRoute("prod", "o.o", LEDGER, "kafka://k:9092", topics, table, found)
    made: dict[str, Any] = json.loads(run_event(route, RunState.RUNNING, 1, 0, Totals()))
    return made


def facet(told: dict[str, Any]) -> Any:
    return told["outputs"][0]["facets"].get("columnLineage")


def test_events_with_columns_are_what_the_client_of_openlineage_writes() -> None:
    told = event(origins(), ("orders", "orders_old"))
    assert through_the_client(told) == told
    fields = facet(told)["fields"]
    assert [(each["name"], each["field"]) for each in fields["total"]["inputFields"]] == [
        ("orders", "price"),
        ("orders", "qty"),
        ("orders_old", "price"),
        ("orders_old", "qty"),
    ]
    assert fields["total"]["inputFields"][0]["transformations"] == [
        {"type": "DIRECT", "subtype": "TRANSFORMATION", "description": "price * qty"}
    ]
    assert fields["id"]["inputFields"][0]["transformations"] == [
        {"type": "DIRECT", "subtype": "IDENTITY"}
    ]
    assert "origin" not in fields
    (first, *_) = facet(told)["dataset"]
    assert (first["field"], first["transformations"][0]["subtype"]) == ("geo.city", "FILTER")


@pytest.mark.parametrize(("topics", "there"), [(357, True), (358, False)])
def test_facet_of_many_topics_is_told_up_to_its_bound(topics: int, *, there: bool) -> None:
    # 14 fields are named: 11 by columns, 3 by `where`.
    told = event(origins(), tuple(f"t{n:03d}" for n in range(topics)))
    assert (facet(told) is not None) == there
    assert len(told["inputs"]) == topics
