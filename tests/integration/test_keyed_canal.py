"""Canal's messages on a real broker, into a lake table that equals the database."""

from pathlib import Path

import pytest

from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.loader import load_job
from tools.canal_source import CANAL_COLUMNS, CanalSource
from tools.change_source import tell
from tools.driver_kills import drive, drive_until_killed
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import LakeJob, write_lake_job
from tools.test_plan import slow_after


def _job(folder: Path, bootstrap_servers: str, topic: str, **changes: str) -> LakeJob:
    given = {
        "columns": CANAL_COLUMNS,
        "payload": "canal: {other_messages: skip, table: shop.orders}",
        "key": "key: [id]\n  key_order: one_partition",
        **changes,
    }
    return write_lake_job(folder, bootstrap_servers=bootstrap_servers, topic=topic, **given)


def _assert_equal(job: LakeJob, source: CanalSource) -> None:
    found = job.rows("id", "name", "amount", "city")
    assert [(r[0], r[1], str(r[2]), r[3]) for r in found] == source.wanted()


@pytest.mark.parametrize("partition_by", slow_after(1, ["[{column: city}]", "[]"]))
def test_a_table_equals_the_database_whenever_the_driver_is_killed(
    bootstrap_servers: str, new_topic: TopicFactory, tmp_path: Path, partition_by: str
) -> None:
    topic = new_topic(1)
    job = _job(tmp_path, bootstrap_servers, topic, partition_by=partition_by)
    source = CanalSource(31)
    for point in ("lake.placed", "lake.send.reply"):
        source.statements(120)
        source.tell("ALTER", None)
        tell(bootstrap_servers, topic, source.take())
        drive_until_killed(job, tmp_path / f"marks-{point}", point)
        assert drive(job) == 0
        _assert_equal(job, source)
    assert job.verified().problems == []


def test_a_message_with_a_row_that_no_partition_takes_is_dirty_whole(
    bootstrap_servers: str, new_topic: TopicFactory, tmp_path: Path
) -> None:
    topic = new_topic(1)
    job = _job(tmp_path, bootstrap_servers, topic, partition_by="[{column: city}]")
    source = CanalSource(1)
    good = {"name": "n", "amount": "1.00", "city": "Berlin"}
    source.tell("INSERT", [{"id": 1, **good}, {"id": 2, **good}])
    source.tell("INSERT", [{"id": 3, **good}, {"id": 4, **good, "city": "a\0b"}])
    source.tell("INSERT", [{"id": 5, **good}, {"id": 6, **good}])
    tell(bootstrap_servers, topic, source.take())
    job.catch_up()
    report = job.verified()
    assert report.problems == []
    ids = [row[0] for row in job.rows("id")]
    assert (report.dirty_rows, ids) == (1, [1, 2, 5, 6])
    (route,) = compile_routes(load_job(job.path).spec).routes
    assert route.key is not None
    assert route.key.one_partition
