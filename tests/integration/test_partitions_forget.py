"""Partitions that are let go of: what their owner removes is no loss, and late rows begin anew."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.app import run_command
from sluiceway.followers import moved_partitions
from sluiceway.ledger.partition_records import ExpireRecord
from sluiceway.ledger.records import FenceRecord
from sluiceway.observe.failpoints import VARIABLE, Action, FailpointSpec
from tools.independent_ledger import ledger_faults
from tools.job_files import event
from tools.route_faults import NewRun, live, offsets
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

_TESTS = Path(__file__).resolve().parents[1]
DAY_MS = 86_400_000
EIGHT_MS = 1_795_161_600_000
EIGHT = "dt=20261120/hr=08"
YESTERDAY = "dt=20261119/hr=08"


@dataclass(frozen=True, slots=True)
class Hours:
    """A table of two hours, a day apart, with ten rows each, and the commands on it."""

    run: RouteRun
    topic: str
    writer: TopicWriter
    capsys: pytest.CaptureFixture[str]

    def write(self, numbers: range, ts_ms: int) -> None:
        self.writer.write(self.topic, [event(n, ts_ms=ts_ms) for n in numbers])

    def __call__(self, *arguments: str, code: int = 0) -> Any:
        self.capsys.readouterr()
        verb, *more = arguments
        found = run_command(["partitions", verb, str(self.run.job.path), *more, "-o", "json"])
        told = self.capsys.readouterr()
        assert found == code, told.err
        return json.loads(told.out) if code == 0 else told.err

    def forget(self, *arguments: str, code: int = 0) -> Any:
        return self("forget", *arguments, "--reason", "too old", code=code)

    def states(self) -> dict[str, str]:
        (route,) = self("list")["routes"]
        return {each["prefix"]: each["state"] for each in route["prefixes"]}

    def bodies(self, kind: type) -> list[Any]:
        return [each.body for each in self.run.records() if isinstance(each.body, kind)]

    def assert_sound(self) -> None:
        """Two verifiers, one of them without a line of the product."""
        self.run.assert_verified()
        assert ledger_faults(self.run.root(), self.run.job.route.route) == []


@pytest.fixture
def hours(new_run: NewRun, writer: TopicWriter, capsys: pytest.CaptureFixture[str]) -> Hours:
    run, topic = new_run()
    made = Hours(run, topic, writer, capsys)
    made.write(range(10), EIGHT_MS - DAY_MS)
    made.write(range(10, 20), EIGHT_MS)
    run.catch_up()
    return made


def test_forgotten_partition_is_no_loss_and_begins_anew_with_a_late_row(hours: Hours) -> None:
    plan = hours.forget(YESTERDAY, "--dry-run")
    assert (plan["executed"], plan["partitions"][0]["rows"]) == (False, 10)
    assert hours.bodies(ExpireRecord) == []
    done = hours.forget(YESTERDAY, "--yes")
    (record,) = hours.bodies(ExpireRecord)
    assert record.reason.endswith(": too old")
    assert [each.partition for each in record.partitions] == [YESTERDAY]
    assert done["partitions"][0]["slot"] is not None
    assert set(hours.run.partitions()) == {"20261120/08"}
    assert hours.states() == {YESTERDAY: "expired", EIGHT: "open"}
    # Its owner has not removed it yet, then has.
    hours.assert_sound()
    shutil.rmtree(hours.run.root() / YESTERDAY)
    hours.assert_sound()
    assert "are let go of already" in hours.forget(YESTERDAY, "--yes", code=7)

    hours.write(range(20, 23), EIGHT_MS - DAY_MS)
    hours.run.catch_up()
    assert hours.run.rows() == offsets(0, range(10, 23))
    place = Path(hours.run.partitions()["20261119/08"])
    assert place.parent.name.startswith("_sluiceway-")
    assert hours.states() == {YESTERDAY: "open", EIGHT: "open"}
    hours.assert_sound()


def test_live_driver_lets_go_between_its_epochs_and_is_not_fenced(
    hours: Hours, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.upkeep.lanes._LOOK_EVERY_S", 0.2)
    # Two processes in one here: a lease tells nothing of a process by its own number.
    monkeypatch.setattr("sluiceway.operate.short_driver.is_alive", lambda process: True)
    fences = len(hours.bodies(FenceRecord))
    with live(hours.run) as running:
        running.wait_for(lambda: len(hours.bodies(FenceRecord)) > fences)
        done = hours.forget("dt=20261119", "--yes")
        assert [each["partition"] for each in done["partitions"]] == [YESTERDAY]
        running.wait_for(lambda: set(hours.run.partitions()) == {"20261120/08"})
        hours.write(range(20, 25), EIGHT_MS - DAY_MS)
        running.wait_for(lambda: len(hours.run.rows()) == 15)
        # What was asked for is done: rows that came since are not let go of by a letter left over.
        running.stop()
    assert len(hours.bodies(FenceRecord)) == fences + 1
    assert len(hours.bodies(ExpireRecord)) == 1
    assert not list(hours.run.root().glob("_sluiceway/*/requests/*"))
    hours.assert_sound()


def test_dropped_files_go_after_the_readers_grace_and_only_they(
    hours: Hours, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = hours.run.root() / YESTERDAY
    stranger = folder / "notes.txt"
    stranger.write_text("mine")
    hours.forget(YESTERDAY, "--drop", "--yes")
    (record,) = hours.bodies(ExpireRecord)
    assert [file.rows for file in record.partitions[0].removed] == [10]
    assert list(folder.glob("*.parquet"))
    hours.run.assert_verified()
    monkeypatch.setattr(moved_partitions, "READERS_GRACE_S", 0.2)
    monkeypatch.setattr(moved_partitions, "_LOOK_EVERY_S", 0.5)
    with live(hours.run) as running:
        running.wait_for(lambda: not list(folder.glob("*.parquet")))
        running.stop()
    assert stranger.read_text() == "mine"
    stranger.unlink()
    assert list((hours.run.root() / EIGHT).glob("*.parquet"))
    hours.assert_sound()


@pytest.mark.parametrize("hit", [1, 2])
def test_forget_that_is_killed_is_done_once_when_it_is_repeated(
    hours: Hours, tmp_path: Path, hit: int
) -> None:
    folder = tmp_path / "failpoint"
    folder.mkdir()
    spec = FailpointSpec("effects.apply", Action.KILL, str(folder), hit=hit)
    killed = subprocess.run(
        [
            sys.executable, "-m", "sluiceway", "partitions", "forget", str(hours.run.job.path),
            YESTERDAY, "--reason", "too old", "--yes",
        ],
        cwd=_TESTS,
        stdin=subprocess.DEVNULL,
        env={**os.environ, VARIABLE: spec.text()},
        check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    assert (folder / "hit").exists()
    # Rows that come before it is repeated are not what was decided about.
    if hours.bodies(ExpireRecord):
        hours.write(range(20, 23), EIGHT_MS - DAY_MS)
        hours.run.catch_up()
        assert hours.run.rows() == offsets(0, range(10, 23))
    else:
        hours.forget(YESTERDAY, "--yes")
    assert len(hours.bodies(ExpireRecord)) == 1
    hours.run.catch_up()
    shutil.rmtree(hours.run.root() / YESTERDAY, ignore_errors=True)
    hours.assert_sound()


def test_old_partitions_go_by_event_time_and_open_ones_never(
    hours: Hours, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = hours.run.job.path
    path.write_text(f"{path.read_text()}retention: {{partitions: 1d, drop: true}}\n")
    monkeypatch.setattr("sluiceway.upkeep.expirer._FIRST_S", 0.1)
    monkeypatch.setattr("sluiceway.upkeep.expirer._EVERY_S", 0.3)
    monkeypatch.setattr(moved_partitions, "READERS_GRACE_S", 0.2)
    monkeypatch.setattr(moved_partitions, "_LOOK_EVERY_S", 0.5)
    with live(hours.run) as running:
        # At 08:00:19 of the next day: yesterday's hour has ended 23 hours ago.
        hours.write(range(20, 21), EIGHT_MS)
        running.wait_for(lambda: len(hours.run.rows()) == 21)
        assert hours.bodies(ExpireRecord) == []
        hours.write(range(21, 22), EIGHT_MS + DAY_MS // 24)
        old = hours.run.root() / YESTERDAY
        running.wait_for(lambda: not old.exists())
        running.stop()
    (record,) = hours.bodies(ExpireRecord)
    assert record.reason == "older than 1d"
    assert hours.run.rows() == offsets(0, range(10, 22))
    hours.assert_sound()
