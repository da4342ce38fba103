"""A route on a real broker and metastore; tasks run in threads, without Spark."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from sluiceway.ledger.records import RecordType
from tools.job_files import event, write_job
from tools.lab_fixture import TopicFactory
from tools.route_faults import NewRun
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter


@pytest.fixture
def make_run(
    bootstrap_servers: str, metastore_uri: str, new_topic: TopicFactory, tmp_path: Path
) -> Callable[..., tuple[RouteRun, str]]:
    def make(*, partitions: int = 2, **changes: str) -> tuple[RouteRun, str]:
        topic = new_topic(partitions)
        job = write_job(
            tmp_path,
            bootstrap_servers=bootstrap_servers,
            metastore_uri=metastore_uri,
            topic=topic,
            **changes,
        )
        return RouteRun(job), topic

    return make


MakeRun = Callable[..., tuple[RouteRun, str]]


@pytest.fixture
def writer(bootstrap_servers: str) -> TopicWriter:
    return TopicWriter(bootstrap_servers)


def test_route_fills_partitions_and_goes_on_after_a_restart(
    make_run: MakeRun, writer: TopicWriter
) -> None:
    run, topic = make_run()
    writer.write(topic, [event(n) for n in range(100)], partition=0)
    writer.write(topic, [event(n, ts_ms=1_795_165_200_000) for n in range(50)], partition=1)
    run.catch_up()
    assert run.rows() == [(0, n) for n in range(100)] + [(1, n) for n in range(50)]
    writer.write(topic, [event(n) for n in range(100, 130)], partition=0)
    run.catch_up()
    assert run.rows() == [(0, n) for n in range(130)] + [(1, n) for n in range(50)]
    assert run.rows("id, city, amount::VARCHAR")[:1] == [(0, "Berlin", "0.25")]
    assert set(run.partitions()) == {"20261120/08", "20261120/09"}
    kinds = [record.type for record in run.records()]
    assert kinds[:2] == [RecordType.FENCE, RecordType.SOURCES]
    assert kinds.count(RecordType.FENCE) == 2
    run.assert_verified()


def test_ends_are_reported_as_offsets_of_the_routes_group_before_the_run_is_over(
    new_run: NewRun, writer: TopicWriter, bootstrap_servers: str
) -> None:
    run, topic = new_run()
    writer.write(topic, [event(n) for n in range(7)])
    run.catch_up()
    group = run.job.route.group
    asking = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "log_level": 0})
    try:
        (found,) = asking.committed([TopicPartition(topic, 0)], timeout=30.0)
    finally:
        asking.close()
    assert found.offset == 7
