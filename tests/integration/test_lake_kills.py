"""A driver of a lake table that is killed at a call to its catalog: the next one goes on.

The crash matrix has every such call of a keyed table; here rows are appended, or changed by key.
"""

from pathlib import Path

import pytest

from tools.change_source import KEYED_COLUMNS, ChangeSource, tell
from tools.driver_kills import drive, drive_until_killed
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import write_lake_job
from tools.lake_orders import order
from tools.topic_writer import TopicWriter


@pytest.mark.parametrize(("point", "hit"), [("lake.send.reply", 1), ("publish.file", 2)])
def test_a_driver_that_is_killed_leaves_every_row_to_the_next_one_once(
    point: str,
    hit: int,
    bootstrap_servers: str,
    new_topic: TopicFactory,
    writer: TopicWriter,
    tmp_path: Path,
) -> None:
    topic = new_topic(2)
    job = write_lake_job(tmp_path, bootstrap_servers=bootstrap_servers, topic=topic)
    for partition in range(2):
        writer.write(topic, [order(n) for n in range(50)], partition=partition)
    drive_until_killed(job, tmp_path / "marks", point, hit)
    assert drive(job) == 0
    assert job.rows("_source_partition", "_offset") == [(p, n) for p in range(2) for n in range(50)]


@pytest.mark.parametrize("point", ["lake.send.reply", "publish.file"])
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
