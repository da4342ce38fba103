"""Debezium's changes in Protobuf, on a real broker: a table by its key."""

from pathlib import Path

import pytest

from tools.change_source import KEYED_COLUMNS, Change, tell
from tools.driver_kills import drive, drive_until_killed
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import LakeJob, write_lake_job
from tools.protobuf_change_source import (
    DAY,
    KEY_PROTO,
    VALUE_PROTO,
    ProtobufChangeSource,
)
from tools.registry_server import Registry, registry_server

COLUMNS = f"{KEYED_COLUMNS}\n    - {{name: day, type: date}}"


def _job(folder: Path, registry: Registry, servers: str, topic: str, key: str) -> LakeJob:
    return write_lake_job(
        folder,
        bootstrap_servers=servers,
        topic=topic,
        columns=COLUMNS,
        partition_by="[{column: id, transform: 'bucket[2]'}]",
        payload="debezium: {registry: reg, encoding: protobuf}",
        key=f"key: {key}",
        connections=f'  reg: {{schema_registry: {{url: "{registry.url}"}}}}',
    )


def _source(registry: Registry, topic: str, seed: int, partitions: int) -> ProtobufChangeSource:
    ids = (
        registry.add(f"{topic}-key", KEY_PROTO, kind="PROTOBUF"),
        registry.add(f"{topic}-value", VALUE_PROTO, kind="PROTOBUF"),
    )
    return ProtobufChangeSource(seed, ids=ids, partitions=partitions)


def _assert_equal(job: LakeJob, source: ProtobufChangeSource) -> None:
    found = job.rows("id", "name", "amount", "city", "day")
    assert [(r[0], r[1], str(r[2]), r[3]) for r in found] == source.wanted()
    assert {row[4] for row in found} == {DAY}


@pytest.mark.parametrize("key", ["[id]", "from_topic_key", "from_registry"])
def test_a_table_equals_the_database_when_the_driver_is_killed(
    key: str, bootstrap_servers: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic(2)
    with registry_server() as registry:
        job = _job(tmp_path, registry, bootstrap_servers, topic, key)
        source = _source(registry, topic, 21, partitions=2)
        source.change(200)
        tell(bootstrap_servers, topic, source.take())
        drive_until_killed(job, tmp_path / "marks", "lake.send.reply")
        source.change(200)
        tell(bootstrap_servers, topic, source.take())
        assert drive(job) == 0
        _assert_equal(job, source)
        assert job.verified().problems == []


def test_a_key_that_is_not_the_rows_is_dirty(
    bootstrap_servers: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic(1)
    with registry_server() as registry:
        job = _job(tmp_path, registry, bootstrap_servers, topic, "[id]")
        source = _source(registry, topic, 4, 1)
        for number in range(1, 4):
            source.insert(number)
        ((first, second, third),) = source.take().values()
        records: list[Change] = [first, (third[0], second[1]), (b'{"id":3}', third[1])]
        tell(bootstrap_servers, topic, {0: records})
        job.catch_up()
        assert [row[0] for row in job.rows("id")] == [1]
        report = job.verified()
    assert report.problems == []
    assert report.dirty_rows == 2
