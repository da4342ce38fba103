"""A driver of a keyed table that is killed at each side of its calls: the next one goes on."""

from pathlib import Path

import pytest

from tools.change_source import KEYED_COLUMNS, ChangeSource, tell
from tools.driver_kills import drive, drive_until_killed
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import write_lake_job
from tools.test_plan import slow_after


@pytest.mark.parametrize(
    "point",
    slow_after(
        2, ["lake.send.reply", "publish.file", "lake.resolved", "lake.placed", "lake.send.request"]
    ),
)
def test_a_driver_that_is_killed_leaves_a_table_that_becomes_the_database(
    point: str,
    bootstrap_servers: str,
    new_topic: TopicFactory,
    tmp_path: Path,
) -> None:
    topic = new_topic(2)
    job = write_lake_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        topic=topic,
        columns=KEYED_COLUMNS,
        partition_by="[{column: id, transform: 'bucket[2]'}]",
        payload="debezium: {}",
        key="key: [id]",
    )
    source = ChangeSource(3, partitions=2)
    for number in range(2):
        source.change(150)
        tell(bootstrap_servers, topic, source.take())
        drive_until_killed(job, tmp_path / f"marks-{number}", point)
        assert drive(job) == 0
        rows = job.rows("id", "name", "amount", "city")
        assert [(r[0], r[1], str(r[2]), r[3]) for r in rows] == source.wanted()
