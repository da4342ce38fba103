"""What a driver that has the route does for the other rooms."""

import time
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from sluiceway.errors import SourceUnavailableError
from sluiceway.jobfile.compile.room_rule import MirrorRule, RoomRule
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.room_files import (
    GivenUpRoom,
    RoomReport,
    SwitchRequest,
    read_advice,
    write_advice,
)
from sluiceway.observe.log import stderr_log
from sluiceway.route.rooms import RoomKeeper, RoomProgress, RouteRooms, _mirror_gauges
from sluiceway.sources.contract import LogBounds, SourcePartition
from sluiceway.storage.local import LocalStorage
from tools.session_on_disk import session_on_disk

if TYPE_CHECKING:
    from sluiceway.ledger.driver_term import OwnedLedger

RULE = RoomRule("a", "a", ("a", "b"), auto=False, after_s=1.0, give_way_s=0.0, digest="d")
OTHER = RoomReport("b", 1, "d2", "h", 2, "d", False, True, (), 5, 1, 1)  # noqa: FBT003


@dataclass
class Kept:
    """A keeper of room a on a local disk, in its term 3."""

    keeper: RoomKeeper
    storage: LocalStorage
    layout: LedgerLayout
    progress: RoomProgress
    lines: StringIO
    problems: tuple[str, ...] = ()

    def look(self) -> str | None:
        self.keeper._reported_at = float("-inf")
        self.keeper.look()
        return self.keeper.leave_to

    def other(self, **changes: object) -> None:
        report = replace(OTHER, **changes)  # type: ignore[arg-type]
        write_advice(self.storage, self.layout, self.layout.room("b"), report)

    def own(self) -> RoomReport:
        found = read_advice(self.storage, self.layout.room("a"), RoomReport)
        assert found is not None
        return found


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    storage, layout = LocalStorage(), LedgerLayout(str(tmp_path), "orders")
    storage.make_folders(layout.root)
    writer = SimpleNamespace(term=3)
    owned = SimpleNamespace(storage=storage, layout=layout, writer=writer, driver="d1")
    progress, lines = RoomProgress(0, "", compared=False), StringIO()
    found = Kept(cast("RoomKeeper", None), storage, layout, progress, lines)
    ledger = cast("OwnedLedger", owned)
    found.keeper = RoomKeeper(
        RULE, ledger, lambda: found.progress, lambda: found.problems, stderr_log(stream=lines)
    )
    return found


def _ask(kept: Kept, **changes: object) -> None:
    asked = SwitchRequest("i", "b", 3, "ann", "", now=False, force=False, requested_ms=1)
    asked = replace(asked, **changes)  # type: ignore[arg-type]
    write_advice(kept.storage, kept.layout, kept.layout.switch, asked)


def test_a_driver_leaves_when_its_own_term_is_asked_to(kept: Kept) -> None:
    assert kept.look() is None
    for wrong in ({"term": 2}, {"to": "a"}, {"to": "c"}):
        _ask(kept, **wrong)
        assert kept.look() is None
    _ask(kept)
    assert kept.look() == "b"


def test_a_driver_reports_that_it_has_the_route(kept: Kept) -> None:
    kept.look()
    first = kept.own()
    assert (first.holds, first.ready, first.term, first.digest) == (True, True, 3, "d")
    kept.look()
    assert kept.own().counter == first.counter + 1


def test_a_comparison_is_owed_until_the_catalog_has_all(kept: Kept) -> None:
    owes = replace(OTHER, room="a", compare_owed=True, auto_term=3)
    write_advice(kept.storage, kept.layout, kept.layout.room("a"), owes)
    kept.look()
    assert (kept.own().compare_owed, kept.own().auto_term) == (True, 3)
    kept.progress = replace(kept.progress, compared=True)
    kept.look()
    assert (kept.own().compare_owed, kept.own().auto_term) == (False, 3)


def test_a_driver_that_cannot_work_gives_way_to_a_ready_room_with_rows(kept: Kept) -> None:
    kept.progress = replace(kept.progress, refused="SW101 no broker answers")
    kept.other()
    assert kept.look() is None
    # Its counter has not risen yet: the report may be of a room that is gone.
    assert kept.look() is None
    kept.other(counter=2, ready=False)
    assert kept.look() is None
    kept.other(counter=3, waiting_rows=0)
    assert kept.look() is None
    kept.other(counter=4)
    assert kept.look() == "b"


def test_a_driver_that_works_stays(kept: Kept) -> None:
    for counter in range(1, 5):
        kept.other(counter=counter)
        assert kept.look() is None


def test_announcements_wait_for_a_lost_room_until_it_is_given_up(kept: Kept) -> None:
    mirror = MirrorRule(linked=False, exactly_once=True, origin=None, own_writers=True)
    took_over = replace(OTHER, room="a", lost_room="b", lost_ms=7)
    write_advice(kept.storage, kept.layout, kept.layout.room("a"), took_over)
    kept.look()
    assert kept.keeper.lost_before_us() is None
    for holds in (False, True):
        kept.keeper._rule = replace(RULE, mirror=replace(mirror, holds=holds))
        kept.look()
        assert kept.keeper.lost_before_us() == (7000 if holds else None)
    # Its own reports keep it.
    kept.look()
    assert (kept.own().lost_room, kept.keeper.lost_before_us()) == ("b", 7000)
    given = GivenUpRoom("b", 7, drained=True, operator="ann", reason="")
    write_advice(kept.storage, kept.layout, kept.layout.given_up, replace(given, lost_ms=6))
    kept.look()
    assert kept.keeper.lost_before_us() == 7000
    write_advice(kept.storage, kept.layout, kept.layout.given_up, given)
    kept.look()
    kept.look()
    assert kept.keeper.lost_before_us() is None
    assert kept.lines.getvalue().count("room_given_up") == 1


def test_rows_wait_for_the_room_that_has_the_fewest_copies(kept: Kept) -> None:
    mirror = MirrorRule(linked=False, exactly_once=True, origin="o", own_writers=True, first=True)
    kept.keeper._rule = replace(RULE, names=("a", "b", "c"), mirror=mirror)
    kept.other(copied={"orders/0": 7, "orders/1": 3})
    kept.keeper.look()
    assert kept.keeper.copied() == {}
    third = replace(OTHER, room="c", copied={"orders/0": 5})
    write_advice(kept.storage, kept.layout, kept.layout.room("c"), third)
    kept.keeper.look()
    assert kept.keeper.copied() == {"orders/0": 5}


def test_a_room_that_is_silent_or_not_ready_is_waited_for_no_longer_than_is_said(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = MirrorRule(linked=False, exactly_once=True, origin="o", own_writers=True, first=True)
    kept.keeper._rule = replace(RULE, mirror=replace(mirror, first_s=30.0))
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)

    def copied(at_s: float, **report: object) -> object:
        nonlocal now_s
        now_s = at_s
        kept.other(copied={"orders/0": 7}, **report)
        kept.look()
        return kept.keeper.copied()

    assert copied(1.0, counter=1) == {"orders/0": 7}
    assert copied(30.9, counter=1) == {"orders/0": 7}
    assert copied(31.0, counter=1) is None
    assert "room b is silent or not ready for 30 s" in kept.own().notices[0]
    assert kept.keeper.gauges() == {"room_not_waited_for": {("b",): 1.0}}
    assert copied(40.0, counter=2) == {"orders/0": 7}
    assert kept.own().notices == ()
    assert kept.keeper.gauges() == {"room_not_waited_for": {("b",): 0.0}}
    # A room that says all the time that it cannot work is no better than a silent one.
    assert copied(69.0, counter=3, ready=False) == {"orders/0": 7}
    assert copied(70.0, counter=4, ready=False) is None
    assert kept.lines.getvalue().count("room_not_waited_for") == 2
    assert "rooms_in_one_place" not in kept.lines.getvalue()
    kept.keeper._rule = replace(RULE, mirror=mirror)
    assert copied(999.0, counter=4) == {"orders/0": 7}


def test_a_room_that_took_over_waits_for_no_copies(kept: Kept) -> None:
    mirror = MirrorRule(linked=False, exactly_once=True, origin="o", own_writers=True, first=True)
    kept.keeper._rule = replace(RULE, home="b", mirror=replace(mirror, first_s=0.0))
    kept.look()
    assert kept.keeper.gauges() == {}
    assert kept.own().notices == ()
    assert "room_not_waited_for" not in kept.lines.getvalue()


def test_log_ends_are_reported_once_and_only_for_copies_with_a_header(kept: Kept) -> None:
    ends = {SourcePartition("orders", 0): LogBounds(0, 9, 10)}
    mirror = MirrorRule(linked=False, exactly_once=True, origin=None, own_writers=True)
    for origin, wanted in ((None, {}), ("o", {"orders/0": 10})):
        kept.keeper._rule = replace(RULE, mirror=replace(mirror, origin=origin))
        kept.progress = replace(kept.progress, log_ends=(time.monotonic(), ends))
        kept.look()
        assert kept.own().log_ends == wanted
    # Ends that were read before the last report say nothing new.
    kept.look()
    assert kept.own().log_ends == {}


def test_metrics_show_how_many_positions_are_exact_and_the_lag_of_the_mirror() -> None:
    holds = replace(OTHER, room="a", holds=True, log_ends={"orders/0": 50, "orders/1": 9})
    ready = replace(OTHER, positions={"header": 2, "refused": 1}, copied={"orders/0": 30})
    assert _mirror_gauges([holds, OTHER]) == {}
    assert _mirror_gauges([holds, ready]) == {
        "room_positions": {("b", "header"): 2.0, ("b", "refused"): 1.0},
        "mirror_lag_records": {("b",): 29.0},
    }
    # A standby knows no log ends of the other room.
    assert _mirror_gauges([ready])["mirror_lag_records"] == {}


def test_files_that_differ_are_logged_once(kept: Kept) -> None:
    for counter in range(1, 5):
        kept.other(counter=counter, digest="e")
        kept.look()
    assert kept.lines.getvalue().count("file_differs") == 1


def test_rows_in_one_room_only_are_logged_and_reported(kept: Kept) -> None:
    kept.problems = ("orders: min.insync.replicas is 1",)
    # Before the source has answered, nothing is said of it.
    assert kept.keeper.gauges() == {}
    for _ in range(2):
        kept.keeper._checked_at = float("-inf")
        kept.look()
    assert kept.own().notices == kept.problems
    assert kept.keeper.gauges() == {"rooms_in_one_place": {(): 1.0}}
    assert kept.lines.getvalue().count("rooms_in_one_place") == 1


@pytest.mark.parametrize("problems", [(), ("orders: min.insync.replicas is 1",)])
def test_source_that_answers_no_more_keeps_a_problem_and_no_good_news(
    kept: Kept, problems: tuple[str, ...]
) -> None:
    def silent() -> tuple[str, ...]:
        raise SourceUnavailableError("no broker answers")

    kept.problems = problems
    kept.look()
    assert kept.keeper.one_place_problems == problems
    kept.keeper._one_place = silent
    kept.keeper._checked_at = float("-inf")
    kept.look()
    assert kept.keeper.one_place_problems == (problems or None)


def test_clusters_of_one_room_each_are_not_asked_for_replicas_elsewhere(kept: Kept) -> None:
    mirror = MirrorRule(linked=True, exactly_once=True, origin=None, own_writers=True)
    kept.keeper._rule = replace(RULE, mirror=mirror)
    kept.problems = ("orders: a broker has no broker.rack",)
    kept.look()
    assert kept.own().notices == ()


@pytest.mark.parametrize(("room", "waits"), [("a", True), ("b", False)])
def test_a_session_has_what_its_rooms_wait_for(
    room: str,
    waits: bool,  # noqa: FBT001
    kept: Kept,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mirror = MirrorRule(linked=True, exactly_once=True, origin=None, own_writers=True, first=True)
    monkeypatch.setattr(RoomKeeper, "_run", lambda _: None)
    took_over = replace(OTHER, room=room, lost_room="c", lost_ms=7)
    write_advice(kept.storage, kept.layout, kept.layout.room(room), took_over)
    rule = replace(RULE, room=room, mirror=mirror)
    context: Any = SimpleNamespace(config=SimpleNamespace(rooms=rule), copied=None, log=None)
    owned = kept.keeper._owned
    fold = SimpleNamespace(next_seq=1)
    held: Any = SimpleNamespace(
        catalog=None, owned=SimpleNamespace(**vars(owned), fold=fold), readiness=SimpleNamespace()
    )
    RouteRooms(context, standby=cast("Any", object())).begin(held)
    assert held.readiness.lost_before_us() == 7000
    # Only the home room waits: after its loss nothing is copied there.
    assert (context.copied is not None) is waits


@pytest.mark.parametrize("copied", [True, False])
def test_metrics_say_nothing_of_a_room_whose_reports_are_only_copied(
    kept: Kept, *, copied: bool
) -> None:
    kept.other()
    kept.look()
    standby = cast("Any", SimpleNamespace(report=None, rule=replace(RULE, copied=copied)))
    rooms = RouteRooms(cast("Any", None), standby, _keeper=kept.keeper)
    ready = rooms.gauges()["room_ready"]
    assert ready == ({("a",): 1.0} if copied else {("a",): 1.0, ("b",): 0.0})


def test_a_plan_ends_where_the_copies_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with session_on_disk(tmp_path, monkeypatch) as session:
        context = session.session._context
        context.copied = lambda: {"orders/0": 4}
        (planned,) = session.plan().splits
        assert (planned.split.start_offset, planned.split.stop_offset) == (0, 4)
        assert [each.high_watermark for each in context.log_ends[1].values()] == [10]
        context.copied = lambda: None
        (planned,) = session.plan().splits
        assert planned.split.stop_offset is None
