"""Row choices on a real broker and metastore: what is written, filtered and dirty."""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from sluiceway.ledger.records import DataRecord, RowCounts
from sluiceway.types.strict_json import BigInt
from tools.job_files import JobFile, write_job
from tools.lab_fixture import TopicFactory
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

COLUMNS = """\
    - {name: order_id, type: bigint, path: id, required: true}
    - {name: ts, type: timestamp, unit: ms, transient: true}
    - {name: amount, type: "decimal(18,2)", required: true, default: "1.00"}
    - {name: city, type: string, path: geo.city, default: "unknown"}
    - {name: origin, type: string, constant: web}
    - {name: gross, type: "decimal(22,4)", expression: "amount * 1.19"}
    - {name: next_id, type: bigint, expression: "order_id + 1"}
    - {name: region, type: string, expression: "if(city IN ('Berlin', 'Bonn'), 'de', 'other')"}
"""
WHERE = "where: status != 'test' AND order_id >= 0\n"
NOON_MS = 1_795_176_000_000
MakeJob = Callable[..., tuple[JobFile, str]]


@pytest.fixture
def make_job(
    bootstrap_servers: str, metastore_uri: str, new_topic: TopicFactory, tmp_path: Path
) -> MakeJob:
    def make(where: str, **changes: str) -> tuple[JobFile, str]:
        topic = new_topic(2)
        job = write_job(
            tmp_path,
            bootstrap_servers=bootstrap_servers,
            metastore_uri=metastore_uri,
            topic=topic,
            **changes,
        )
        job.path.write_text(job.path.read_text() + where)
        return job, topic

    return make


@pytest.fixture
def writer(bootstrap_servers: str) -> TopicWriter:
    return TopicWriter(bootstrap_servers)


def order(number: int, *, status: str | None = "paid", **more: object) -> bytes:
    return json.dumps({"id": number, "ts": NOON_MS, "status": status, **more}).encode()


def counted(run: RouteRun) -> RowCounts:
    total = RowCounts(*(BigInt(0),) * 6)
    for record in run.records():
        if isinstance(record.body, DataRecord):
            assert record.body.counts.balanced()
            total = total.plus(record.body.counts)
    return total


def test_route_fills_filters_and_partitions_by_what_is_computed(
    make_job: MakeJob, writer: TopicWriter
) -> None:
    columns = COLUMNS + "    - {name: status, type: string, transient: true}\n"
    partition_by = "[{name: dt, event_time: yyyyMMdd}, {name: area, column: region}]"
    job, topic = make_job(WHERE, columns=columns, partition_by=partition_by)
    run = RouteRun(job)
    first = [
        order(1, geo={"city": "Berlin"}, amount="2.50"),
        order(2, status="test", geo={"city": "Berlin"}),
        order(3, status=None),
        order(4, geo={"city": None}),
        # Filtered, though its computed column would overflow without `where`.
        order(2**63 - 1, status="test"),
        order(2**63 - 1),
    ]
    second = [order(5, geo={"city": "Paris"}, amount=3), order(-6), b"no json", order(7)]
    writer.write(topic, first, partition=0)
    writer.write(topic, second, partition=1)
    run.catch_up()

    rows = run.rows("order_id, amount, city, origin, gross, next_id, region")
    assert rows == [
        (1, Decimal("2.50"), "Berlin", "web", Decimal("2.9750"), 2, "de"),
        (4, Decimal("1.00"), "unknown", "web", Decimal("1.1900"), 5, "other"),
        (5, Decimal("3.00"), "Paris", "web", Decimal("3.5700"), 6, "other"),
        (7, Decimal("1.00"), "unknown", "web", Decimal("1.1900"), 8, "other"),
    ]
    assert set(run.partitions()) == {"20261120/de", "20261120/other"}
    assert run.dirty('partition, "offset", stage, reason, path') == [
        (0, 5, "convert", "overflow", "next_id"),
        (1, 2, "decode", "broken", ""),
    ]
    assert counted(run) == RowCounts(*map(BigInt, (10, 4, 2, 0, 4, 0)))
    run.assert_verified()


def test_partition_by_a_computed_column_of_its_own_name_leaves_the_files(
    make_job: MakeJob, writer: TopicWriter
) -> None:
    columns = """\
    - {name: id, type: bigint}
    - {name: ts, type: timestamp, unit: ms, transient: true}
    - {name: hr, type: int, expression: "hour(ts, 'Asia/Kolkata')"}
"""
    job, topic = make_job(
        "where: id != 1\n",
        columns=columns,
        partition_by="[{name: hr, column: hr}]",
        event_time="",
    )
    run = RouteRun(job)
    writer.write(topic, [order(number) for number in range(3)], partition=0)
    run.catch_up()
    assert run.rows("id") == [(0,), (2,)]
    assert set(run.partitions()) == {"17"}
    with pytest.raises(Exception, match="hr"):
        run.rows("hr")
    assert counted(run).filtered == 1
    run.assert_verified()


def test_where_over_the_columns_of_an_existing_table(
    make_job: MakeJob, writer: TopicWriter
) -> None:
    job, topic = make_job("")
    run = RouteRun(job)
    writer.write(topic, [order(0, city="a", amount="1.00")], partition=0)
    run.catch_up()
    text = job.path.read_text()
    start = text.index("  columns:\n")
    end = text.index("  partition_by:")
    job.path.write_text(f"{text[:start]}  columns: from_table\n{text[end:]}where: city = 'a'\n")
    writer.write(topic, [order(1, city="a"), order(2, city="b"), order(3)], partition=0)
    run.catch_up()
    assert run.rows("id") == [(0,), (1,)]
    assert counted(run) == RowCounts(*map(BigInt, (4, 2, 0, 0, 2, 0)))
    run.assert_verified()
