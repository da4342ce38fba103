"""A driver of a lake table that is killed at each side of its calls: the next one goes on."""

from pathlib import Path

import pytest

from tools.driver_kills import drive, drive_until_killed
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import write_lake_job
from tools.lake_orders import order
from tools.test_plan import slow_after
from tools.topic_writer import TopicWriter


@pytest.mark.parametrize(
    ("point", "hit"),
    slow_after(
        2,
        [
            ("lake.send.reply", 1),
            ("publish.file", 2),
            ("lake.placed", 1),
            ("lake.send.request", 1),
            ("lake.load.reply", 2),
        ],
    ),
)
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
