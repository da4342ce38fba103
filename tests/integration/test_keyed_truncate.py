"""A truncate of the source's table, on a real broker: all that came before it leaves the table."""

import json
from pathlib import Path

import pytest

from sluiceway.errors import SourceEmptiedError
from tools.canal_source import CANAL_COLUMNS, CanalSource
from tools.change_source import KEYED_COLUMNS, ChangeSource, tell
from tools.driver_kills import drive, drive_until_killed
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import LakeJob, write_lake_job
from tools.test_plan import slow_after

KEY = "key: [id]\n  key_order: one_partition\n  on_truncate: apply"
_TRUNCATE = json.dumps({"op": "t", "before": None, "after": None, "source": {}}).encode()


def _found(job: LakeJob) -> list[tuple[object, ...]]:
    rows = job.rows("id", "name", "amount", "city")
    return [(row[0], row[1], str(row[2]), row[3]) for row in rows]


@pytest.mark.parametrize(
    "column", slow_after(1, ["{column: city}", "{column: id, transform: 'bucket[2]'}"])
)
def test_it_is_applied_once_whenever_the_driver_is_killed(
    bootstrap_servers: str, new_topic: TopicFactory, tmp_path: Path, column: str
) -> None:
    topic = new_topic(1)
    job = write_lake_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        topic=topic,
        columns=KEYED_COLUMNS,
        partition_by=f"[{column}]",
        payload="debezium: {}",
        key=KEY,
    )
    source = ChangeSource(3)
    source.change(100)
    tell(bootstrap_servers, topic, source.take())
    assert drive(job) == 0
    assert _found(job) == source.wanted()
    for point in ("lake.placed", "lake.send.reply", "publish.file"):
        source.change(50)
        source.rows.clear()
        source.log.setdefault(0, []).append((b"", _TRUNCATE))
        source.change(30)
        tell(bootstrap_servers, topic, source.take())
        drive_until_killed(job, tmp_path / f"marks-{point}", point)
        assert drive(job) == 0
        assert _found(job) == source.wanted()
    assert job.verified().problems == []


def test_canal_tells_it_as_ddl(
    bootstrap_servers: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic(1)
    job = write_lake_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        topic=topic,
        columns=CANAL_COLUMNS,
        partition_by="[]",
        payload="canal: {table: orders}",
        key=KEY,
    )
    source = CanalSource(5)
    for _ in range(2):
        source.statements(20)
        source.tell("TRUNCATE", None)
        source.rows.clear()
        source.statements(10)
        tell(bootstrap_servers, topic, source.take())
        job.catch_up()
        assert _found(job) == source.wanted()
    assert job.verified().problems == []


def test_without_a_word_the_route_halts_in_front_of_it(
    bootstrap_servers: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic(1)
    job = write_lake_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        topic=topic,
        columns=KEYED_COLUMNS,
        partition_by="[]",
        payload="debezium: {}",
        key="key: [id]",
    )
    source = ChangeSource(3)
    source.insert(1)
    tell(bootstrap_servers, topic, source.take())
    job.catch_up()
    tell(bootstrap_servers, topic, {0: [(b"", _TRUNCATE)]})
    with pytest.raises(SourceEmptiedError, match="on_truncate"):
        job.catch_up()
    assert _found(job) == source.wanted()
