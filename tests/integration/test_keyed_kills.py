"""A driver of a keyed table that is killed at each side of its calls: the next one goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sluiceway.observe.failpoints import Action, FailpointSpec
from tools.change_source import KEYED_COLUMNS, ChangeSource, tell
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import LakeJob, write_lake_job

_TESTS = Path(__file__).parents[1]


def _drive(job: LakeJob, **variables: str) -> int:
    """A driver in a process of its own, until it is caught up or dies; its exit code."""
    environ = {**os.environ, "PYTHONPATH": str(_TESTS), **variables}
    command = [sys.executable, "-m", "tools.local_driver", str(job.path), "--until-caught-up"]
    with (job.folder / "driver.log").open("ab") as log:
        done = subprocess.run(command, env=environ, stdout=log, stderr=log, check=False)
    return done.returncode


@pytest.mark.parametrize(
    "point",
    ["lake.resolved", "lake.placed", "lake.send.request", "lake.send.reply", "publish.file"],
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
        marks = tmp_path / f"marks-{number}"
        marks.mkdir()
        spec = FailpointSpec(point, Action.KILL, str(marks), hit=1)
        assert _drive(job, SLUICEWAY_FAILPOINTS=spec.text()) == -signal.SIGKILL
        assert (marks / "hit").exists()
        assert _drive(job) == 0
        rows = job.rows("id", "name", "amount", "city")
        assert [(r[0], r[1], str(r[2]), r[3]) for r in rows] == source.wanted()
