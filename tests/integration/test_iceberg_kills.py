"""A driver of a lake table that is killed at each side of its calls: the next one goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sluiceway.observe.failpoints import Action, FailpointSpec
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import LakeJob, write_lake_job
from tools.lake_orders import order
from tools.topic_writer import TopicWriter

_TESTS = Path(__file__).parents[1]


def _drive(job: LakeJob, **variables: str) -> int:
    """A driver in a process of its own, until it is caught up or dies; its exit code."""
    environ = {**os.environ, "PYTHONPATH": str(_TESTS), **variables}
    command = [sys.executable, "-m", "tools.local_driver", str(job.path), "--until-caught-up"]
    with (job.folder / "driver.log").open("ab") as log:
        done = subprocess.run(command, env=environ, stdout=log, stderr=log, check=False)
    return done.returncode


@pytest.mark.parametrize(
    ("point", "hit"),
    [
        ("lake.placed", 1),
        ("lake.send.request", 1),
        ("lake.send.reply", 1),
        ("lake.load.reply", 2),
        ("publish.file", 2),
    ],
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
    marks = tmp_path / "marks"
    marks.mkdir()
    spec = FailpointSpec(point, Action.KILL, str(marks), hit=hit)
    assert _drive(job, SLUICEWAY_FAILPOINTS=spec.text()) == -signal.SIGKILL
    assert (marks / "hit").exists()
    assert _drive(job) == 0
    assert job.rows("_source_partition", "_offset") == [(p, n) for p in range(2) for n in range(50)]
