"""Whoever compacts is killed at the worst moments: no row is lost or doubled, and it is done."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sluiceway.ledger.records import RecordType
from sluiceway.observe.failpoints import VARIABLE, Action, FailpointSpec
from tools.driver_process import DriverProcess
from tools.job_files import event
from tools.route_faults import NewRun
from tools.route_runs import RouteRun
from tools.test_plan import slow_after
from tools.topic_writer import TopicWriter
from tools.waiting import wait_for

PATIENCE_S = 240.0
COLUMNS = "_partition, _offset, id, ts, city, amount, _topic, _timestamp"
EPOCHS = 4
HOUR_8_MS, HOUR_MS = 1_795_161_600_000, 3_600_000


@dataclass(frozen=True, slots=True)
class Moment:
    """Where it is killed, and whether REPLACE has landed by then."""

    point: str
    place: str = "*"
    replaced: bool = False
    action: Action = Action.KILL
    hit: int = 1


MOMENTS = {
    "in-the-rewriting": Moment("rewrite.file", hit=2),
    "between-publish-and-metastore": Moment("metastore.alter_partitions.request", replaced=True),
    "after-replace": Moment("publish.file", "*/_sluiceway-*", replaced=True),
}


def fill(run: RouteRun, writer: TopicWriter, topic: str) -> str:
    """Some commits, each with a file of its own in one partition, whose name is returned."""
    for start in range(0, 10 * EPOCHS, 10):
        writer.write(topic, [event(n) for n in range(start, start + 10)], partition=0)
        run.catch_up()
    (value,) = run.partitions()
    return f"dt={value.replace('/', '/hr=')}"


def compact(
    run: RouteRun, partition: str, spec: FailpointSpec | None = None
) -> "subprocess.CompletedProcess[str]":
    """The command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if spec is not None:
        environment[VARIABLE] = spec.text()
    command = [sys.executable, "-m", "sluiceway", "compact", str(run.job.path), partition]
    return subprocess.run(
        [*command, "-o", "json"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def kinds(run: RouteRun) -> list[RecordType]:
    return [record.type for record in run.records()]


@pytest.mark.parametrize("name", slow_after(2, MOMENTS))
def test_kill_while_compacting_loses_nothing_and_the_next_one_does_it(
    name: str, new_run: NewRun, writer: TopicWriter, tmp_path: Path
) -> None:
    moment = MOMENTS[name]
    run, topic = new_run()
    partition = fill(run, writer, topic)
    rows, (old,) = run.rows(COLUMNS), run.partitions().values()
    points = tmp_path / "points"
    points.mkdir()
    spec = FailpointSpec(
        moment.point, moment.action, str(points), hit=moment.hit, place=moment.place
    )
    died = compact(run, partition, spec)
    assert died.returncode == -9, died.stderr
    assert (points / "hit").exists()
    assert (RecordType.REPLACE in kinds(run)) is moment.replaced
    # Readers are where they were, or have gone over as a whole.
    assert run.rows(COLUMNS) == rows
    again = compact(run, partition)
    assert again.returncode == 0, again.stderr
    (done,) = json.loads(again.stdout)["routes"][0]["partitions"]
    assert done["outcome"] == ("left" if moment.replaced else "compacted"), done
    (new,) = run.partitions().values()
    assert new != old
    (merged,) = Path(new).glob("*.parquet")
    assert pq.read_table(merged)["_offset"].to_pylist() == list(range(10 * EPOCHS))
    assert run.rows(COLUMNS) == rows
    assert len(list(Path(old).glob("*.parquet"))) == EPOCHS
    found = kinds(run)
    assert found.count(RecordType.REPLACE) == 1
    assert found.count(RecordType.INTENT) == (1 if moment.replaced else 2)
    assert found.count(RecordType.ABANDON) == (0 if moment.replaced else 1)
    run.assert_verified()


HOURS = 3
IN_A_GROUP = {
    "all-rewritten-and-one-replaced": (
        Moment("publish.file", "*/_sluiceway-*", replaced=True, hit=2),
        HOURS - 2,
        2,
    ),
    "intents-half-put": (Moment("storage.put.link.request", "*/log/*.json", hit=3), 1, 0),
    "second-one-rewritten": (Moment("rewrite.file", hit=EPOCHS + 1), HOURS, 0),
}
"""Moment; how many INTENTs are open then, and how many partitions have a REPLACE."""


@pytest.mark.parametrize("name", slow_after(1, IN_A_GROUP))
def test_kill_in_the_middle_of_a_group_leaves_each_partition_whole_and_the_next_one_does_it(
    name: str, new_run: NewRun, writer: TopicWriter, tmp_path: Path
) -> None:
    moment, open_ones, moved = IN_A_GROUP[name]
    run, topic = new_run()
    for start in range(0, 10 * EPOCHS, 10):
        rows_of = [
            event(n, ts_ms=HOUR_8_MS + n % HOURS * HOUR_MS) for n in range(start, start + 10)
        ]
        writer.write(topic, rows_of, partition=0)
        run.catch_up()
    rows, before = run.rows(COLUMNS), run.partitions()
    assert len(before) == HOURS
    points = tmp_path / "points"
    points.mkdir()
    spec = FailpointSpec(
        moment.point, moment.action, str(points), hit=moment.hit, place=moment.place
    )
    died = compact(run, "dt=20261120", spec)
    assert died.returncode == -9, died.stderr
    assert (points / "hit").exists()
    assert kinds(run).count(RecordType.INTENT) - moved == open_ones
    assert kinds(run).count(RecordType.REPLACE) == moved
    assert run.rows(COLUMNS) == rows
    again = compact(run, "dt=20261120")
    assert again.returncode == 0, again.stderr
    done = json.loads(again.stdout)["routes"][0]["partitions"]
    outcomes = [each["outcome"] for each in done]
    assert sorted(outcomes) == ["compacted"] * (HOURS - moved) + ["left"] * moved
    assert run.rows(COLUMNS) == rows
    after = run.partitions()
    for value, place in after.items():
        assert place != before[value]
        (merged,) = Path(place).glob("*.parquet")
        offsets = pq.read_table(merged)["_offset"].to_pylist()
        hour = offsets[0] % HOURS
        assert offsets == [n for n in range(10 * EPOCHS) if n % HOURS == hour]
    found = kinds(run)
    assert found.count(RecordType.REPLACE) == HOURS
    assert found.count(RecordType.ABANDON) == open_ones
    run.assert_verified()


def test_driver_that_is_killed_while_epochs_go_on_is_followed_by_one_that_compacts(
    new_run: NewRun, writer: TopicWriter, tmp_path: Path
) -> None:
    run, topic = new_run()
    partition = fill(run, writer, topic)
    points = tmp_path / "points"
    points.mkdir()
    spec = FailpointSpec("rewrite.done", Action.KILL, str(points))
    first = DriverProcess(
        run.job, tmp_path, module="tools.inline_driver", environment={VARIABLE: spec.text()}
    )
    with first:
        writer.write(topic, [event(n) for n in range(40, 50)], partition=0)
        wait_for(lambda: len(run.rows()) == 50)
        # The command asks the driver that lives, then is it when that has died.
        done = compact(run, partition)
        assert (points / "hit").exists()
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)["routes"][0]["partitions"]
    assert (told["outcome"], told["files_before"], told["files_after"]) == ("compacted", 5, 1)
    assert run.rows() == [(0, n) for n in range(50)]
    assert kinds(run).count(RecordType.ABANDON) == 1
    run.assert_verified()


def test_partition_that_every_epoch_writes_to_is_compacted_meanwhile(
    new_run: NewRun, writer: TopicWriter, tmp_path: Path
) -> None:
    run, topic = new_run()
    partition = fill(run, writer, topic)
    (old,) = run.partitions().values()
    written = 40
    with DriverProcess(run.job, tmp_path, module="tools.inline_driver") as driver:
        driver.wait_for_event("fenced")
        command = [sys.executable, "-m", "sluiceway", "compact", str(run.job.path), partition]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with subprocess.Popen(
            [*command, "-o", "json"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        ) as asked:
            end = time.monotonic() + PATIENCE_S
            # Every epoch finds rows for it, until it has moved.
            while asked.poll() is None:
                assert time.monotonic() < end
                writer.write(topic, [event(n) for n in range(written, written + 5)], partition=0)
                written += 5
                time.sleep(0.1)
            assert asked.stdout is not None
            (told,) = json.loads(asked.stdout.read())["routes"][0]["partitions"]
        assert told["outcome"] == "compacted", told
        driver.wait_until(lambda: len(run.rows()) >= written, f"{written} rows")
    (new,) = run.partitions().values()
    assert new != old
    assert run.rows() == [(0, n) for n in range(written)]
    run.assert_verified()
