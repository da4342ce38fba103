"""Dirty rows that are replayed or given up: each row once in the end, whoever does it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sluiceway.audit.dirty_rows import DirtyFilter, DirtyRows
from sluiceway.cli.app import run_command
from sluiceway.cli.views.dirty_lanes import choose
from sluiceway.driver.stop import StopSignal
from sluiceway.errors import RequestRefusedError, StorageUnavailableError
from sluiceway.lab.lab import LabEndpoints
from sluiceway.ledger.lane_records import LaneDataRecord, LaneRecord
from sluiceway.ledger.records import FenceRecord
from sluiceway.observe.failpoints import VARIABLE, Action, FailpointSpec
from sluiceway.observe.log import stderr_log
from sluiceway.operate.replay import carry_out
from tools.independent_ledger import ledger_faults
from tools.job_files import COLUMNS, event
from tools.route_faults import NewRun
from tools.route_runs import RouteRun
from tools.table_proofs import read_independently
from tools.test_plan import slow_after
from tools.topic_writer import TopicWriter

_TESTS = Path(__file__).resolve().parents[1]
STRICT = COLUMNS.replace("name: city, type: string", "name: city, type: string, required: true")


def payloads(count: int, one_in: int) -> list[bytes]:
    """Events, of which one in so many has no city; of those one in three is broken for good."""
    made = []
    for number in range(count):
        body = json.loads(event(number))
        if number % one_in == 0:
            del body["city"]
        made.append(b"{" if number % (3 * one_in) == one_in else json.dumps(body).encode())
    return made


@dataclass(frozen=True, slots=True)
class Dirty:
    """A table with dirty rows, its job file, and the commands on them."""

    run: RouteRun
    rows: list[bytes]
    endpoints: LabEndpoints
    capsys: pytest.CaptureFixture[str]
    expectation: Path

    @property
    def job(self) -> str:
        return str(self.run.job.path)

    def repair(self) -> None:
        """The job file as it should have been: a city may be missing."""
        text = self.run.job.path.read_text()
        self.run.job.path.write_text(text.replace(STRICT, COLUMNS))
        assert STRICT not in self.run.job.path.read_text()

    def __call__(self, *arguments: str, code: int = 0) -> Any:
        self.capsys.readouterr()
        assert run_command(["dirty", *arguments, "-o", "json"]) == code
        return [json.loads(line) for line in self.capsys.readouterr().out.splitlines()]

    def shown(self, *arguments: str) -> str:
        """What `dirty show` prints for people."""
        self.capsys.readouterr()
        assert run_command(["dirty", "show", self.job, *arguments]) == 0
        return self.capsys.readouterr().out

    def lanes(self, *arguments: str, code: int = 0) -> list[dict[str, int]]:
        (answer,) = self(*arguments, code=code)
        lanes: list[dict[str, int]] = answer["lanes"]
        return lanes

    def open_rows(self) -> int:
        (listed,) = self("list", self.job)
        (route,) = listed["routes"]
        return int(route["open"])

    def bodies(self, kind: type) -> list[Any]:
        return [each.body for each in self.run.records() if isinstance(each.body, kind)]

    def assert_each_row_once(self) -> None:
        """Two verifiers, one of them without a line of the product; and row by row."""
        self.run.assert_verified()
        assert ledger_faults(self.run.root(), self.run.job.route.route) == []
        self.expectation.write_text('{"required": ["id", "ts"]}')
        found = read_independently(self.endpoints, self.run.job, expectation=self.expectation)
        clean = [n for n, row in enumerate(self.rows) if row != b"{"]
        assert (found["written"], found["lost"], found["doubled"]) == (len(clean), 0, 0)
        assert [offset for _, offset in self.run.rows()] == clean
        assert found["dirty"] == len(self.rows) - len(clean)


MakeDirty = Callable[[int, int], Dirty]


@pytest.fixture
def make_dirty(
    new_run: NewRun,
    writer: TopicWriter,
    lab_endpoints: LabEndpoints,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> MakeDirty:
    """Fills a table from so many events, one in so many of them dirty."""

    def make(count: int, one_in: int) -> Dirty:
        run, topic = new_run(columns=STRICT)
        rows = payloads(count, one_in)
        writer.write(topic, rows)
        run.catch_up()
        return Dirty(run, rows, lab_endpoints, capsys, tmp_path / "expectation.json")

    return make


def test_replay_without_a_driver_writes_each_repaired_row_once(make_dirty: MakeDirty) -> None:
    dirty = make_dirty(300, 10)
    job = dirty.job
    assert (len(dirty.run.rows()), dirty.open_rows()) == (270, 30)
    dirty.repair()
    (plan,) = dirty("replay", job, "--dry-run")
    assert (plan["rows"], plan["reasons"]) == (30, {"missing": 20, "broken": 10})
    assert (plan["outcome"]["written"], plan["still_dirty"]) == (20, {"broken": 10})
    assert dirty.bodies(LaneRecord) == []

    (lane,) = dirty.lanes("replay", job)
    assert (lane["read"], lane["written"], lane["dirty"]) == (30, 20, 10)
    assert dirty.open_rows() == 10
    dirty.assert_each_row_once()

    # Once more: the broken ones are dirty again, and only they.
    (lane,) = dirty.lanes("replay", job, code=1)
    assert (lane["read"], lane["written"], lane["dirty"]) == (10, 0, 10)
    (lane,) = dirty.lanes("purge", job, "--yes", "--why", "never whole")
    assert lane["purged"] == 10
    assert dirty.lanes("replay", job) == []
    assert dirty.open_rows() == 0
    dirty.run.catch_up()
    dirty.assert_each_row_once()


def test_rows_of_a_replay_keep_where_they_came_from(make_dirty: MakeDirty) -> None:
    dirty = make_dirty(40, 4)
    before = dirty("show", dirty.job, "--values", "--limit", "100")
    assert [row["offset"] for row in before] == list(range(0, 40, 4))
    assert all(json.loads(row["value"]) for row in before if row["reason"] == "missing")
    assert "value" not in dirty("show", dirty.job)[0]
    assert dirty.shown("--limit", "9").endswith("9 rows shown, and there are more: --limit\n")
    assert "more rows" not in dirty.shown("--limit", "10")
    assert dirty.shown("--field", "nothing").startswith("there is no such open row; ")
    dirty.repair()
    dirty.lanes("replay", dirty.job, "--reason", "missing")
    wanted = sorted(
        (row["offset"], row["timestamp_ms"]) for row in before if row["reason"] == "missing"
    )
    found = dirty.run.rows("_offset, epoch_ms(_timestamp)")
    assert [row for row in found if row in wanted] == wanted
    again = dirty("show", dirty.job)
    assert {row["reason"] for row in again} == {"broken"}
    gone = dirty("show", dirty.job, "--state", "replayed")
    assert sorted(row["offset"] for row in gone) == [offset for offset, _ in wanted]
    dirty.assert_each_row_once()


def test_live_driver_carries_requests_out_between_its_epochs(
    make_dirty: MakeDirty, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.upkeep.lanes._LOOK_EVERY_S", 0.2)
    # Two processes in one here: a lease tells nothing of a process by its own number.
    monkeypatch.setattr("sluiceway.operate.short_driver.is_alive", lambda process: True)
    dirty = make_dirty(60, 5)
    dirty.repair()
    stop = StopSignal()
    driver = threading.Thread(target=dirty.run.run_until, args=(stop,))
    # Before it begins: its fence may come at once.
    fences = len(dirty.bodies(FenceRecord))
    driver.start()
    try:
        while len(dirty.bodies(FenceRecord)) == fences:
            time.sleep(0.05)
        (lane,) = dirty.lanes("replay", dirty.job)
        assert (lane["read"], lane["written"], lane["dirty"]) == (12, 8, 4)
        # Its rows are dirty again, so they are others: a second lane, not the first one again.
        (other,) = dirty.lanes("purge", dirty.job, "--yes")
        assert (other["purged"], other["lane"] == lane["lane"]) == (4, False)
        assert len(dirty.bodies(FenceRecord)) == fences + 1
    finally:
        stop.ask()
        driver.join()
    assert not list(dirty.run.root().glob("_sluiceway/*/requests/*"))
    dirty.assert_each_row_once()


def test_lane_whose_dirty_file_is_damaged_waits_and_the_stream_is_read_on(
    make_dirty: MakeDirty, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluiceway.upkeep.lanes._FIRST_PAUSE_S", 0.1)
    monkeypatch.setattr("sluiceway.operate.replay._TRIES", 2)
    dirty = make_dirty(60, 5)
    dirty.repair()
    rows = DirtyRows.read(dirty.run.log())
    request = choose(rows, DirtyFilter()).request(rows, "replay", "me", "")
    (file,) = rows.files.values()
    path = dirty.run.root() / file.record.final
    content = path.read_bytes()
    path.write_bytes(bytes(len(content)))
    log = stderr_log(level="error")
    with pytest.raises(StorageUnavailableError):
        carry_out(dirty.run.config(), rows.log, request, lambda lane, elsewhere: None, log)
    dirty.rows.extend(event(n) for n in range(60, 70))
    writer.write(dirty.run.job.route.topics[0], dirty.rows[60:])
    dirty.run.catch_up()
    assert len(dirty.run.rows()) == 48 + 10
    assert dirty.bodies(LaneDataRecord) == []
    path.write_bytes(content)
    (lane,) = dirty.lanes("replay", dirty.job)
    assert (lane["read"], lane["written"]) == (12, 8)
    dirty.assert_each_row_once()


@pytest.mark.parametrize("point", slow_after(1, ["step.committed", "step.pinned", "step.prepared"]))
def test_replay_that_is_killed_goes_on_where_it_was(
    make_dirty: MakeDirty, tmp_path: Path, point: str
) -> None:
    """Killed at each step of the third epoch of its lane, or right after it was opened."""
    dirty = make_dirty(120, 3)
    dirty.repair()
    folder = tmp_path / "failpoint"
    folder.mkdir()
    spec = FailpointSpec(point, Action.KILL, str(folder), hit=1 if point == "step.pinned" else 3)
    killed = subprocess.run(
        [sys.executable, "-m", "tools.short_lanes", "dirty", "replay", dirty.job],
        cwd=_TESTS,
        stdin=subprocess.DEVNULL,
        env={**os.environ, VARIABLE: spec.text()},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert (folder / "hit").exists()
    done = {"step.pinned": 0, "step.prepared": 2, "step.committed": 3}[point]
    assert len(dirty.bodies(LaneDataRecord)) == done
    lanes = dirty.lanes("replay", dirty.job)
    assert len(dirty.bodies(LaneRecord)) == len(lanes)
    assert (lanes[0]["read"], lanes[0]["written"], lanes[0]["dirty"]) == (40, 27, 13)
    dirty.assert_each_row_once()


def test_overlapping_request_is_refused_and_changes_nothing(make_dirty: MakeDirty) -> None:
    dirty = make_dirty(60, 5)
    rows = DirtyRows.read(dirty.run.log())
    choice = choose(rows, DirtyFilter())
    (taken, *_), log = choice.ranges, stderr_log(level="warning")
    one = replace(choice.request(rows, "purge", "me", ""), ranges=(taken,))
    carry_out(dirty.run.config(), rows.log, one, lambda lane, elsewhere: None, log)
    before = len(dirty.bodies(LaneRecord))
    whole = choice.request(rows, "replay", "me", "")
    with pytest.raises(RequestRefusedError, match="belong to another lane"):
        carry_out(dirty.run.config(), rows.log, whole, lambda lane, elsewhere: None, log)
    foreign = replace(taken, source=taken.source.replace(".parquet", ".orc"))
    unknown = replace(whole, ranges=(foreign,))
    with pytest.raises(RequestRefusedError, match="no record has committed"):
        carry_out(dirty.run.config(), rows.log, unknown, lambda lane, elsewhere: None, log)
    assert len(dirty.bodies(LaneRecord)) == before
    # Asked once more, what is done is only told.
    carry_out(dirty.run.config(), rows.log, one, lambda lane, elsewhere: None, log)
    assert len(dirty.bodies(LaneRecord)) == before
    dirty.run.assert_verified()
