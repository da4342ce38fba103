"""Late rows that lie aside go into their hours by a command: each once, whoever does it."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.app import run_command
from sluiceway.ledger.lane_records import LaneDataRecord, LaneRecord
from sluiceway.ledger.records import FenceRecord
from sluiceway.observe.failpoints import VARIABLE, Action, FailpointSpec
from tools.independent_ledger import ledger_faults
from tools.route_faults import NewRun
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter
from tools.waiting import wait_for

from .test_late_rows import aside, in_table
from .test_route_readiness import Running, announced, prefix, row

pytestmark = pytest.mark.slow

_TESTS = Path(__file__).resolve().parents[1]
IN_ANNOUNCED = [(0, 0), (0, 1), (0, 3), (0, 4), (0, 5)]
"""Rows of the hours that readers see; that of 10 is open."""
EVENT_TIME = "{field: ts, unit: ms, out_of_orderness: 0s, idle_after: 1s}"


@pytest.fixture
def run(new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch) -> RouteRun:
    """Hours 08 and 09 are announced; then rows 3 and 4 come for the one, 5 for the other."""
    # An hour may be announced again at once.
    monkeypatch.setattr("sluiceway.route.route_readiness._US_PER_S", 0)
    made, topic = new_run(event_time=EVENT_TIME, ready="{on_all_idle: hold}")
    writer.write(topic, [row(0, "08:10"), row(1, "08:20"), row(2, "10:30")])
    made.catch_up()
    made.catch_up()
    writer.write(topic, [row(3, "08:30"), row(4, "08:40"), row(5, "09:10"), row(6, "10:40")])
    made.catch_up()
    assert {each.prefix: each.version for each in announced(made)} == {prefix(8): 1, prefix(9): 1}
    assert aside(made) == {prefix(8): [3, 4], prefix(9): [5]}
    return made


def listed(run: RouteRun, capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[int, int]]:
    """Hour -> its late rows, and those of them that lie aside."""
    capsys.readouterr()
    assert run_command(["partitions", "list", str(run.job.path), "-o", "json"]) == 0
    (route,) = json.loads(capsys.readouterr().out)["routes"]
    return {
        each["prefix"]: (each["late_rows"], each["late_rows_aside"])
        for each in route["prefixes"]
        if each["late_rows"]
    }


def replay(run: RouteRun, capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    capsys.readouterr()
    command = ["late", "replay", str(run.job.path), *options, "-o", "json"]
    assert run_command(command) == 0
    return json.loads(capsys.readouterr().out)


def lanes(run: RouteRun) -> tuple[int, int]:
    """How many were opened, and how many epochs they had."""
    bodies = [each.body for each in run.records()]
    opened = sum(isinstance(body, LaneRecord) for body in bodies)
    return opened, sum(isinstance(body, LaneDataRecord) for body in bodies)


def assert_each_row_once(run: RouteRun, late: int) -> None:
    report = run.verified()
    assert (report.rows, report.late_rows) == (7 - late, late)
    assert ledger_faults(run.root(), run.config().route) == []


def test_late_rows_go_into_their_hour_which_is_announced_again(
    run: RouteRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert listed(run, capsys) == {prefix(8): (2, 2), prefix(9): (1, 1)}
    assert_each_row_once(run, late=3)
    plan = replay(run, capsys, "--dry-run")
    assert (plan["rows"], plan["partitions"]) == (3, {prefix(8): 2, prefix(9): 1})
    assert lanes(run) == (0, 0)

    (lane,) = replay(run, capsys, "--partition", prefix(8), "--why", "asked for")["lanes"]
    assert (lane["read"], lane["written"], lane["late"]) == (2, 2, 0)
    assert in_table(run)[prefix(8)] == [0, 1, 3, 4]
    assert listed(run, capsys) == {prefix(8): (2, 0), prefix(9): (1, 1)}
    assert_each_row_once(run, late=1)

    # The next driver announces it.
    run.catch_up()
    again = announced(run)[-1]
    assert (again.prefix, again.version, again.rows) == (prefix(8), 2, 4)

    (lane,) = replay(run, capsys)["lanes"]
    assert (lane["read"], lane["written"]) == (1, 1)
    run.catch_up()
    assert (announced(run)[-1].prefix, announced(run)[-1].version) == (prefix(9), 2)
    before = lanes(run)
    assert replay(run, capsys)["lanes"] == []
    assert lanes(run) == before
    assert run.rows() == IN_ANNOUNCED
    assert_each_row_once(run, late=0)
    # Their files need not be there any more, and no others may be missing.
    for path in run.root().glob("_sluiceway/*/late/**/*.parquet"):
        path.unlink()
    assert run.verified().let_go == 2
    assert_each_row_once(run, late=0)


def test_live_driver_brings_late_rows_in_and_announces_their_hours_again(
    run: RouteRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.upkeep.lanes._LOOK_EVERY_S", 0.2)
    # Two processes in one here: a lease tells nothing of a process by its own number.
    monkeypatch.setattr("sluiceway.operate.short_driver.is_alive", lambda process: True)

    def fences() -> int:
        return sum(isinstance(each.body, FenceRecord) for each in run.records())

    def versions() -> dict[str, int]:
        return {each.prefix: each.version for each in announced(run)}

    before = fences()
    with Running(run, threading.Event()):
        wait_for(lambda: fences() > before)
        (lane,) = replay(run, capsys)["lanes"]
        assert (lane["read"], lane["written"]) == (3, 3)
        wait_for(lambda: versions() == {prefix(8): 2, prefix(9): 2})
    assert fences() == before + 1
    assert run.rows() == IN_ANNOUNCED
    assert_each_row_once(run, late=0)


@pytest.mark.parametrize("point", ["step.committed", "step.pinned", "lane.close"])
def test_replay_that_is_killed_brings_each_row_in_once(
    run: RouteRun, capsys: pytest.CaptureFixture[str], tmp_path: Path, point: str
) -> None:
    """Killed right after its lane was opened, with copies that no record names, or committed."""
    folder = tmp_path / "failpoint"
    folder.mkdir()
    spec = FailpointSpec(point, Action.KILL, str(folder), hit=1)
    killed = subprocess.run(
        [sys.executable, "-m", "tools.short_lanes", "late", "replay", str(run.job.path)],
        cwd=_TESTS,
        stdin=subprocess.DEVNULL,
        env={**os.environ, VARIABLE: spec.text()},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    done = {"step.pinned": 0, "lane.close": 0, "step.committed": 1}[point]
    assert lanes(run) == (1, done)
    (lane,) = replay(run, capsys)["lanes"]
    assert (lane["read"], lane["written"]) == (3, 3)
    # It goes on where it was: a file an epoch in the command that was killed, the rest in one.
    assert lanes(run) == (1, done + 1)
    run.catch_up()
    assert run.rows() == IN_ANNOUNCED
    assert_each_row_once(run, late=0)
