"""A route on a real broker into an Iceberg table; tasks run in threads, without Spark."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tools.lab_fixture import TopicFactory
from tools.lake_jobs import BY_DAY, LakeJob, write_lake_job
from tools.lake_orders import START_MS, order
from tools.thrift_proxy import ThriftProxy
from tools.topic_writer import TopicWriter

MakeJob = Callable[..., tuple[LakeJob, str]]
HOUR_MS = 3_600_000


@pytest.fixture
def make_job(bootstrap_servers: str, new_topic: TopicFactory, tmp_path: Path) -> MakeJob:
    def make(*, partitions: int = 2, **changes: str) -> tuple[LakeJob, str]:
        topic = new_topic(partitions)
        job = write_lake_job(tmp_path, bootstrap_servers=bootstrap_servers, topic=topic, **changes)
        return job, topic

    return make


def test_route_fills_a_lake_table_and_goes_on_after_a_restart(
    make_job: MakeJob, writer: TopicWriter
) -> None:
    job, topic = make_job()
    writer.write(topic, [order(n) for n in range(100)], partition=0)
    later = START_MS + HOUR_MS
    writer.write(topic, [order(n, city=None, ts_ms=later) for n in range(50)], partition=1)
    job.catch_up()
    wanted = [(0, n) for n in range(100)] + [(1, n) for n in range(50)]
    assert job.rows("_source_partition", "_offset") == wanted
    writer.write(topic, [order(n) for n in range(100, 130)], partition=0)
    job.catch_up()
    wanted = [(0, n) for n in range(130)] + [(1, n) for n in range(50)]
    assert job.rows("_source_partition", "_offset") == wanted
    report = job.verified()
    assert [str(each) for each in report.problems] == []
    assert (report.rows, report.foreign, len(report.unchecked)) == (180, [], 1)
    table = job.load()
    snapshots = table.metadata.snapshots
    assert [str(s.summary["sluiceway.ledger"]) for s in snapshots if s.summary] != []
    partitions = {tuple(task.file.partition) for task in table.scan().plan_files()}
    hour = START_MS // HOUR_MS
    assert partitions == {(hour, "Berlin"), (hour + 1, None)}


def test_verify_finds_a_file_that_is_gone_and_rows_that_came_twice(
    make_job: MakeJob, writer: TopicWriter
) -> None:
    job, topic = make_job(partition_by="[{column: city}]")
    writer.write(topic, [order(n) for n in range(5)], partition=0)
    job.catch_up()
    table = job.load()
    (task,) = table.scan().plan_files()
    path = Path(task.file.file_path.removeprefix("file://"))
    held = path.read_bytes()
    path.write_bytes(held[:-1])
    assert {each.kind for each in job.verified().problems} >= {"file_missing"}
    path.write_bytes(held)
    assert job.verified().verified
    table.append(table.scan().to_arrow())
    report = job.verified()
    assert len(report.foreign) == 1
    assert "foreign snapshots" in report.unchecked[-1]


def test_a_hive_catalog_is_written_by_compare_and_set(
    make_job: MakeJob, writer: TopicWriter, metastore_uri: str
) -> None:
    job, topic = make_job(metastore=metastore_uri)
    for start in (0, 10):
        writer.write(topic, [order(n) for n in range(start, start + 10)], partition=0)
        job.catch_up()
    assert job.rows("_source_partition", "_offset") == [(0, n) for n in range(20)]
    assert len(job.load().metadata.snapshots) == 2


def test_a_metastore_behind_a_faulty_network_gets_each_row_once(
    make_job: MakeJob, writer: TopicWriter, metastore_uri: str
) -> None:
    with ThriftProxy(metastore_uri) as proxy:
        job, topic = make_job(metastore=proxy.uri)
        faults = ["pass", "hold", "drop", "lost", "twice"]
        for number, fault in enumerate(faults):
            writer.write(topic, [order(number)], partition=0)
            before = proxy.changes
            # A start sets a scratch table twice before its first publish.
            proxy.faults = ["pass", "pass", *(["pass"] if number == 0 else []), fault]
            job.catch_up()
            assert proxy.faults == []
            assert proxy.changes > before
            assert job.rows("_offset") == [(n,) for n in range(number + 1)], fault
        assert [proxy.land() for _ in list(proxy.held)] == [True]
        assert job.rows("_offset") == [(n,) for n in range(len(faults))]
        assert job.verified().problems == []


def test_times_that_the_route_makes_are_columns_of_the_files(
    make_job: MakeJob, writer: TopicWriter
) -> None:
    job, topic = make_job(partition_by=BY_DAY, event_time="{field: ts}")
    writer.write(topic, [order(n) for n in range(3)], partition=0)
    job.catch_up()
    assert job.rows("dt", "id") == [("20261120", 0), ("20261120", 1), ("20261120", 2)]
