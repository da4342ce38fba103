"""Two drivers of one job in two rooms, in threads: who has the route, and what moves it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.driver import run as run_module
from sluiceway.driver.run import Observers, run_routes
from sluiceway.driver.stop import StopSignal
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.room_rule import RoomRule
from sluiceway.jobfile.loader import parse_job
from sluiceway.ledger import lease, room_files
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import FenceRecord
from sluiceway.observe.log import stderr_log
from sluiceway.observe.progress import Progress
from sluiceway.operate import switch
from sluiceway.operate.switch import RoutePlace, SwitchPlan, plan_switch, request_switch, run_drill
from sluiceway.rooms import standby
from sluiceway.route import rooms, takeover
from sluiceway.sources.contract import LogBounds
from sluiceway.storage.local import LocalStorage
from tools import session_on_disk
from tools.inline_runner import InlineRunner
from tools.session_on_disk import DiskTable, SmallSource

RULE = RoomRule("a", "a", ("a", "b"), auto=False, after_s=0.2, give_way_s=60.0, digest="d")


class Rooms:
    """Drivers by room, on one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source, self.table = SmallSource(LogBounds(0, 0, 0)), DiskTable(folder)
        self.stops: dict[str, StopSignal] = {}
        self.threads: dict[str, threading.Thread] = {}

    def start(self, room: str, **changes: object) -> None:
        """Start the driver of a room."""
        text = parse_job(session_on_disk._JOB, Path("job.yaml"), {})
        job = compile_routes(text.spec)
        rule = replace(RULE, room=room, **changes)  # type: ignore[arg-type]
        job = replace(job, routes=tuple(replace(each, rooms=rule) for each in job.routes))
        stop, eyes = StopSignal(), Observers(stderr_log(level="error"), Progress())
        runner = InlineRunner()
        thread = threading.Thread(target=run_routes, args=(job, runner, stop, eyes), daemon=True)
        self.stops[room], self.threads[room] = stop, thread
        thread.start()

    def stop(self, room: str) -> None:
        """End the driver of a room in order."""
        self.stops[room].ask()
        self.threads[room].join(60.0)
        assert not self.threads[room].is_alive()

    def place(self, room: str = "a") -> RoutePlace:
        """The route as a command of a room sees it."""
        log = LedgerLog(LocalStorage(), LedgerLayout(str(self.folder), "orders"))
        (config,) = compile_routes(
            parse_job(session_on_disk._JOB, Path("job.yaml"), {}).spec
        ).routes
        rule = replace(RULE, room=room)
        return RoutePlace(config, rule, log.storage, log.layout, log, log.fold())

    def plan(self, to: str) -> SwitchPlan:
        """What a switch would do now."""
        return plan_switch(self.place(), to, self.source)

    def sites(self) -> list[str]:
        """Rooms of all fences so far, in order."""
        records = LedgerLog(LocalStorage(), LedgerLayout(str(self.folder), "orders")).records()
        return [record.body.site for record, _ in records if isinstance(record.body, FenceRecord)]

    def wait_for(self, *sites: str) -> None:
        """Wait until the fences are of these rooms."""
        waiting = threading.Event()
        for _ in range(600):
            if self.sites() == list(sites):
                return
            waiting.wait(0.1)
        raise AssertionError(self.sites())


@pytest.fixture
def two_rooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rooms]:
    found = Rooms(tmp_path / "table")
    found.folder.mkdir()
    storage = LocalStorage()
    monkeypatch.setattr(takeover, "open_storage", lambda *_: (storage, str(found.folder)))
    for module in (run_module, rooms):
        monkeypatch.setattr(module, "open_source", lambda _: found.source)
    monkeypatch.setattr(run_module, "open_sink", lambda _: found.table)
    for module in (standby, rooms, room_files, switch):
        monkeypatch.setattr(module, "REPORT_EVERY_S", 0.2)
    monkeypatch.setattr(rooms, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(lease, "RENEW_INTERVAL_S", 0.1)
    with _ended(found):
        yield found


@contextmanager
def _ended(found: Rooms) -> Iterator[None]:
    try:
        yield
    finally:
        for room in found.stops:
            found.stop(room)


def test_a_drill_moves_the_route_to_the_other_room_and_back(two_rooms: Rooms) -> None:
    two_rooms.start("a")
    two_rooms.wait_for("a")
    two_rooms.start("b")
    there = two_rooms.plan("b")
    there.refuse(now=False, term=None, force=False)
    assert (there.place.holder, there.holder_lives, there.is_done) == ("a", True, False)
    result = run_drill(there, "ann")
    assert (result.came_from, result.to, result.ok) == ("a", "b", True)
    back = two_rooms.plan("a")
    back.refuse(now=False, term=None, force=False)
    assert run_drill(back, "ann").ok
    assert two_rooms.sites() == ["a", "b", "a"]


def test_a_standby_stays_one_while_the_home_room_is_stopped(two_rooms: Rooms) -> None:
    two_rooms.start("a")
    two_rooms.wait_for("a")
    two_rooms.start("b")
    two_rooms.stop("a")
    plan = two_rooms.plan("b")
    assert (plan.holder_lives, plan.standby is not None) == (False, True)
    assert two_rooms.sites() == ["a"]
    request_switch(plan, "ann", "room a is lost", now=True, force=False)
    two_rooms.wait_for("a", "b")


def test_a_standby_takes_over_by_itself_with_switch_auto(two_rooms: Rooms) -> None:
    two_rooms.start("a", auto=True)
    two_rooms.wait_for("a")
    two_rooms.start("b", auto=True)
    two_rooms.stop("a")
    two_rooms.wait_for("a", "b")
    assert two_rooms.sites() == ["a", "b"]
