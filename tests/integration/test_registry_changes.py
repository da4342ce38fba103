"""Tables whose columns a schema registry says, with what the job file has different."""

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from sluiceway.errors import (
    JobFileError,
    TableMismatchError,
)
from sluiceway.observe.steps import Step
from tools import avro_bytes as avro
from tools import protobuf_bytes as pb
from tools.raw_metastore import proxy_that_keeps_types, raw_client
from tools.registry_server import registry_server
from tools.route_faults import Crash, CrashAt, NewRun, live
from tools.subject_orders import (
    FIELDS,
    PROTO,
    TS_MS,
    add_column,
    order,
    reads,
    schema,
    table_columns,
)
from tools.topic_writer import TopicWriter

_TAIL = {"name": "tail", "type": "long"}
CHANGES = """
    from_registry:
      except: [day, state]
      override:
        orderId: {name: number, type: string, on_lossy: text}
        ts: {redact: true}
        amount: {name: total, type: "decimal(5,1)", on_lossy: round(half_up), on_overflow: null}
      add:
        - {name: lat, type: int, path: geo.lat, on_lossy: truncate}
        - {name: many, type: boolean, expression: total > 10}
        - {name: origin, type: string, constant: web}"""


@pytest.mark.parametrize("evolution", ["fail", "follow_table"])
def test_table_has_what_the_job_file_says_otherwise(
    new_run: NewRun, writer: TopicWriter, metastore_uri: str, evolution: str
) -> None:
    parts = '[{name: dt, event_time: "yyyyMMdd"}, {name: origin, column: origin}]'
    run, topic = new_run(event_time="{field: ts}", partition_by=parts, evolution=evolution)
    with registry_server() as registry:
        first = registry.add("o", schema())
        reads(run, registry, columns=CHANGES)
        writer.write(topic, [order(first, n) for n in (1, 10, 1_000_000)])
        run.catch_up()
        if evolution == "follow_table":
            # Columns that are called as fields which the job file leaves out or renames.
            for name, kind in (("day", "date"), ("amount", "decimal(18,2)"), ("city", "string")):
                add_column(run, metastore_uri, name, kind)
        second = registry.add("o", schema({"name": "city", "type": "string"}))
        text = run.job.path.read_text()
        run.job.path.write_text(text.replace("{name: o}", "{name: o, version: 1}"))
        writer.write(topic, [order(second, 2, avro.text("x"))])
        run.catch_up()
        further = ", city" if evolution == "follow_table" else ""
        found = run.rows(f"number, total, lat, many{further}")
        hive = run.job.route.table
        # No file has what the job file leaves out, though the table has it now.
        for name in ("day", "amount"):
            with pytest.raises(duckdb.BinderException, match=name):
                run.rows(name)
        with raw_client(metastore_uri) as client:
            names = [column.name for column in client.get_table(hive.database, hive.table).sd.cols]
            folders = client.get_partition_names(hive.database, hive.table, -1)
    assert folders == ["dt=20261120/origin=web"]
    assert names[:6] == ["number", "ts", "total", "geo", "tags", "lat"]
    none = (None,) if further else ()
    followed = ("x",) if further else ()
    assert sorted(found) == [
        ("1", Decimal("1.1"), 0, False, *none),
        ("10", Decimal("10.1"), 0, True, *none),
        ("1000000", None, 0, None, *none),
        ("2", Decimal("2.1"), 0, False, *followed),
    ]
    assert run.dirty() == []
    run.assert_verified()


def test_changes_of_json_and_protobuf_are_read_so_too(new_run: NewRun, writer: TopicWriter) -> None:
    json_run, json_topic = new_run(event_time="{field: at}")
    proto_run, proto_topic = new_run(event_time="{field: seen}")
    geo = {"type": "object", "properties": {"lat": {"type": "number"}}}
    nodes: dict[str, object] = {"id": {"type": "integer"}}
    nodes["at"] = {"type": "string", "format": "date-time"}
    nodes |= {"price": {"type": "number"}, "a-b": {"type": "string"}, "geo": geo}
    with registry_server() as registry:
        number = registry.add("j", json.dumps({"type": "object", "properties": nodes}), "JSON")
        changes = (
            "{from_registry: {except: [geo], override: {price: {type: 'decimal(9,2)'}, "
            "a-b: {name: a_b, trim: false}}, add: [{name: lat, type: double, path: geo.lat}]}}"
        )
        reads(json_run, registry, "json", subject="{name: j}", columns=changes)
        text = (
            '{"id": 1, "at": "2026-11-20T08:00:00Z", "price": 0.10, "a-b": "x", "geo": {"lat": 2}}'
        )
        writer.write(json_topic, [avro.confluent(number, text.encode())])
        json_run.catch_up()
        number = registry.add("p", PROTO, "PROTOBUF")
        changes = (
            "{from_registry: {except: [items], override: {at: {name: seen}, "
            "id: {type: bigint, on_overflow: clamp}}}}"
        )
        reads(
            proto_run,
            registry,
            "protobuf",
            subject="{name: p, message: shop.Order}",
            columns=changes,
        )
        at = pb.tagged(1, pb.VARINT, pb.varint(TS_MS // 1000))
        body = pb.tagged(1, pb.VARINT, pb.varint(2**64 - 1)) + pb.tagged(2, pb.LENGTH, at)
        writer.write(proto_topic, [avro.confluent(number, b"\0" + body)])
        proto_run.catch_up()
    assert json_run.rows("id, price, a_b, lat") == [(1, Decimal("0.10"), "x", 2.0)]
    at_us = datetime(2026, 11, 20, 8)  # noqa: DTZ001 - as the table has it
    assert proto_run.rows("id, seen") == [(2**63 - 1, at_us)]
    for run in (json_run, proto_run):
        assert run.dirty() == []
        run.assert_verified()


def test_newer_version_without_a_field_of_the_job_file_halts_at_the_next_start(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run(event_time="{field: ts}")
    with registry_server() as registry:
        first = registry.add("o", schema())
        reads(run, registry, columns="{from_registry: {except: [state]}}")
        writer.write(topic, [order(first, 1)])
        run.catch_up()
        fields = [field for field in FIELDS if field["name"] != "state"]
        registry.add("o", json.dumps({"type": "record", "name": "Order", "fields": fields}))
        with pytest.raises(JobFileError, match="the subject o version 2") as told:
            run.catch_up()
        assert "expected a field of the schema, got `state`" in told.value.message
        line = (
            run.job.path.read_text()
            .splitlines()
            .index("  columns: {from_registry: {except: [state]}}")
        )
        assert told.value.where == f"{run.job.path}:{line + 1}:38"
        assert run.rows("orderId") == [(1,)]
        run.job.path.write_text(run.job.path.read_text().replace("except: [state]", ""))
        run.catch_up()
    run.assert_verified()


def wider(field: dict[str, Any], *more: dict[str, Any]) -> dict[str, Any]:
    """A field whose record has further fields."""
    return {**field, "type": {**field["type"], "fields": [*field["type"]["fields"], *more]}}


def test_columns_of_a_newer_version_are_added_at_the_next_start(
    new_run: NewRun, writer: TopicWriter, metastore_uri: str
) -> None:
    run, topic = new_run(event_time="{field: ts}", evolution="add_columns")
    with registry_server() as registry:
        first = registry.add("o", schema())
        reads(run, registry, columns="{from_registry: {except: [state]}}")
        writer.write(topic, [order(first, 1)])
        run.catch_up()
        second = registry.add("o", schema({"name": "cityName", "type": "string"}))
        add = "add: [{name: half, type: double, path: geo.lat}]"
        text = run.job.path.read_text()
        run.job.path.write_text(text.replace("except: [state]", f"except: [state], {add}"))
        # A driver that dies before it commits leaves columns that the next one finds.
        writer.write(topic, [order(second, 2, avro.text("x"))])
        with pytest.raises(Crash):
            run.catch_up(observe=CrashAt(Step.RECOVERED))
        writer.write(topic, [order(first, 3)])
        run.catch_up()
        columns = table_columns(run, metastore_uri)
        city = {"name": "cityName", "type": "string"}
        third = registry.add("o", schema(city, _TAIL))
        writer.write(topic, [order(third, 4, avro.text("y") + avro.long(5))])
        with live(run) as running:
            running.wait_for(lambda: len(run.rows("orderId")) == 4)
            # While it runs, a field that no column reads brings none.
            fourth = registry.add("o", schema(city, _TAIL, {"name": "more", "type": "long"}))
            more = avro.text("z") + avro.long(6) + avro.long(7)
            writer.write(topic, [order(fourth, 5, more)])
            running.wait_for(lambda: len(run.rows("orderId")) == 5)
            running.stop()
    assert columns[-2:] == [("cityname", "string"), ("half", "double")]
    assert ("state", "string") not in columns
    assert run.rows("orderId, cityName, half, tail") == [
        (1, None, None, None),
        (2, "x", 0.5, None),
        (3, None, 0.5, None),
        (4, "y", 0.5, 5),
        (5, "z", 0.5, 6),
    ]
    assert table_columns(run, metastore_uri) == [*columns, ("tail", "bigint")]
    assert run.dirty() == []
    run.assert_verified()


def test_table_that_takes_no_column_of_a_newer_version_halts_the_route(
    new_run: NewRun, writer: TopicWriter, metastore_uri: str
) -> None:
    run, topic = new_run(event_time="{field: ts}", evolution="add_columns")
    with registry_server() as registry:
        first = registry.add("o", schema())
        reads(run, registry)
        writer.write(topic, [order(first, 1)])
        run.catch_up()
        before = table_columns(run, metastore_uri)
        retyped = [{**field, "type": "string"} if field is FIELDS[3] else field for field in FIELDS]
        registry.add("o", json.dumps({"type": "record", "name": "Order", "fields": retyped}))
        with pytest.raises(TableMismatchError, match="column day is date, expected string"):
            run.catch_up()
        longer = [*FIELDS[:4], wider(FIELDS[4], {"name": "lon", "type": "double"}), *FIELDS[5:]]
        registry.add("o", json.dumps({"type": "record", "name": "Order", "fields": longer}))
        text = "does not take the columns that the schema has: geo struct<lat:double,lon:double>"
        job = run.job.path.read_text()
        with proxy_that_keeps_types(metastore_uri) as strict:
            run.job.path.write_text(job.replace(metastore_uri, strict))
            with pytest.raises(TableMismatchError, match=text) as told:
                run.catch_up()
        assert "name the version before in the job file" in told.value.hint
        assert table_columns(run, metastore_uri) == before
        run.job.path.write_text(job)
        run.catch_up()
    geo = ("geo", "struct<lat:double,lon:double>")
    assert table_columns(run, metastore_uri) == [*before[:4], geo, *before[5:]]
