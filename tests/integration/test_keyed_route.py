"""Changes of a database's table on a real broker, into a lake table that equals it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from tools.change_source import KEYED_COLUMNS, ChangeSource, tell
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import LakeJob, write_lake_job

MakeJob = Callable[..., tuple[LakeJob, str]]


@pytest.fixture
def make_job(bootstrap_servers: str, new_topic: TopicFactory, tmp_path: Path) -> MakeJob:
    def make(*, partitions: int = 2, **changes: str) -> tuple[LakeJob, str]:
        topic = new_topic(partitions)
        given = {
            "columns": KEYED_COLUMNS,
            "partition_by": "[]",
            "payload": "debezium: {}",
            "key": "key: [id]",
            **changes,
        }
        job = write_lake_job(tmp_path, bootstrap_servers=bootstrap_servers, topic=topic, **given)
        return job, topic

    return make


def found(job: LakeJob) -> list[tuple[object, ...]]:
    rows = job.rows("id", "name", "amount", "city")
    return [(row[0], row[1], str(row[2]), row[3]) for row in rows]


@pytest.mark.parametrize("with_schema", [False, True])
@pytest.mark.parametrize("partition_by", ["[]", "[{column: city}]"])
def test_table_equals_the_database_after_each_run(
    make_job: MakeJob, bootstrap_servers: str, partition_by: str, *, with_schema: bool
) -> None:
    job, topic = make_job(partition_by=partition_by)
    source = ChangeSource(7, partitions=2, with_schema=with_schema)
    for _ in range(4):
        source.change(120)
        tell(bootstrap_servers, topic, source.take())
        job.catch_up()
        assert found(job) == source.wanted()
    assert job.verified().problems == []


def test_deletes_without_the_row_before_find_it_by_the_records_key(
    make_job: MakeJob, bootstrap_servers: str
) -> None:
    job, topic = make_job(partitions=1)
    source = ChangeSource(1, tell_before=False)
    source.change(100, ids=10)
    tell(bootstrap_servers, topic, source.take())
    job.catch_up()
    assert found(job) == source.wanted()


def test_a_row_that_where_does_not_let_through_leaves_the_table(
    make_job: MakeJob, bootstrap_servers: str
) -> None:
    job, topic = make_job(more="where: city = 'Berlin'")
    source = ChangeSource(11, partitions=2)
    for _ in range(2):
        source.change(150)
        tell(bootstrap_servers, topic, source.take())
        job.catch_up()
        assert found(job) == [row for row in source.wanted() if row[3] == "Berlin"]


def test_partitions_that_are_new_are_read_behind_the_old_ones(
    make_job: MakeJob, bootstrap_servers: str
) -> None:
    job, topic = make_job(partitions=1, key="key: [id]\n  key_order_wait: 1s")
    source = ChangeSource(12)
    source.change(100)
    tell(bootstrap_servers, topic, source.take())
    job.catch_up()
    source.change(100)
    (old,) = source.take().values()
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30.0)
    source.partitions = 3
    source.change(300)
    new = source.take()
    # What is in the old partition comes last, and is older for keys that have moved.
    tell(bootstrap_servers, topic, {1: new[1], 2: new[2]})
    tell(bootstrap_servers, topic, {0: old + new[0]})
    job.catch_up()
    assert found(job) == source.wanted()
