"""Compaction of an append table on a real catalog: killed at each of its calls, and in a run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sluiceway.observe.failpoints import Action, FailpointSpec
from sluiceway.sinks.iceberg.compact import lake_upkeep
from tools.lab_fixture import TopicFactory
from tools.lake_jobs import LakeJob, write_lake_job
from tools.lake_orders import order
from tools.running_lake import running, wait_for
from tools.test_plan import slow_after
from tools.topic_writer import TopicWriter

_TESTS = Path(__file__).parents[1]
_COMPACT = """
import sys
from sluiceway.cli.app import run_command
from sluiceway.observe.failpoints import Role, arm
arm(Role.DRIVER)
sys.exit(run_command(["compact", sys.argv[1], "--all-closed"]))
"""


@pytest.fixture
def job(
    bootstrap_servers: str, metastore_uri: str, new_topic: TopicFactory, tmp_path: Path
) -> LakeJob:
    return write_lake_job(
        tmp_path,
        bootstrap_servers=bootstrap_servers,
        topic=new_topic(1),
        metastore=metastore_uri,
        partition_by="[{column: ts, transform: day}]",
    )


def fill(job: LakeJob, writer: TopicWriter, snapshots: int, first: int = 0) -> None:
    """Five rows a snapshot."""
    for number in range(first, first + snapshots):
        rows = [order(n) for n in range(number * 5, number * 5 + 5)]
        writer.write(job.path.stem, rows, partition=0)
        job.catch_up()


def compact(job: LakeJob, *point: str) -> int:
    """`sluiceway compact` in a process of its own; its exit code."""
    environment = {**os.environ, "PYTHONPATH": str(_TESTS)}
    if point:
        marks = job.folder / "marks"
        marks.mkdir()
        spec = FailpointSpec(point[0], Action.KILL, str(marks), hit=1)
        environment["SLUICEWAY_FAILPOINTS"] = spec.text()
    with (job.folder / "compact.log").open("ab") as log:
        command = [sys.executable, "-c", _COMPACT, str(job.path)]
        return subprocess.run(
            command, env=environment, stdout=log, stderr=log, check=False
        ).returncode


def files(job: LakeJob) -> int:
    return len(list(job.load().scan().plan_files()))


def assert_exact(job: LakeJob, rows: int) -> None:
    assert job.rows("id", "_offset") == [(n, n) for n in range(rows)]
    report = job.verified()
    assert report.problems == []
    assert report.foreign == []


@pytest.mark.parametrize(
    "point",
    slow_after(1, ["lake.send.reply", "lake.rewritten", "lake.replacing", "lake.send.request"]),
)
def test_a_compaction_that_is_killed_leaves_every_row_once(
    job: LakeJob, writer: TopicWriter, point: str
) -> None:
    fill(job, writer, 3)
    assert files(job) == 3
    assert compact(job, point) == -signal.SIGKILL
    assert_exact(job, 15)
    assert files(job) == (1 if point == "lake.send.reply" else 3)
    fill(job, writer, 1, first=3)
    assert compact(job) == 0
    assert files(job) == 1
    assert_exact(job, 20)


def test_a_file_that_is_gone_fails_the_command_when_all_others_are_compacted(
    job: LakeJob, writer: TopicWriter
) -> None:
    fill(job, writer, 4)
    (gone, *_) = [task.file.file_path for task in job.load().scan().plan_files()]
    Path(gone.removeprefix("file://").removeprefix("file:")).unlink()
    assert compact(job) == 1
    told = (job.folder / "compact.log").read_text("utf-8")
    assert "failed: " in told
    assert gone.rpartition("/")[2] in told
    assert files(job) == 2
    # What is left is one small file that can be read.
    assert compact(job) == 1
    assert files(job) == 2


def test_a_running_job_makes_few_files_of_many_snapshots(
    job: LakeJob, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_upkeep, "LOOK_INTERVAL_S", 1.0)
    fill(job, writer, 9)
    with running(job):
        wait_for(lambda: files(job) == 1)
        writer.write(job.path.stem, [order(n) for n in range(45, 50)], partition=0)
        wait_for(lambda: len(job.rows("id")) == 50)
    assert_exact(job, 50)
