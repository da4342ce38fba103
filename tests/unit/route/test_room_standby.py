"""When a driver of a job with rooms may fence."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sluiceway.errors import (
    LeaseHeldError,
    MetastoreUnavailableError,
    NeedsConfirmationError,
    RoomNotReadyError,
    StorageUnavailableError,
)
from sluiceway.jobfile.compile.room_rule import RoomRule
from sluiceway.ledger.lease import Lease
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.room_files import RoomReport, SwitchRequest, read_advice, write_advice
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.observe.log import stderr_log
from sluiceway.rooms.standby import StandbyParts, StandbyRoom
from sluiceway.sources.contract import LogBounds
from sluiceway.types.strict_json import encode
from tools.ledger_records import data, fence, new_log, sources, span
from tools.session_on_disk import ONE, SmallSource

RULE = RoomRule("b", "a", ("a", "b"), auto=True, after_s=0.0, give_way_s=30.0, digest="d")
LEASE = Lease("d1", 1, 5, released=False, host="far", boot_id="x", pid=1, start_ticks=1, room="a")


def _no_pause(seconds: float) -> None:
    del seconds


@dataclass
class Place:
    """A ledger on disk that room a has, and a standby in room b."""

    log: LedgerLog
    source: SmallSource
    slots: int = 2

    def standby(self, **changes: object) -> StandbyRoom:
        rule = replace(RULE, **changes)  # type: ignore[arg-type]
        parts = StandbyParts(
            lambda: self.source, lambda: (ONE.topic,), lambda: self.slots, "d2", stderr_log()
        )
        return StandbyRoom(rule, parts)

    def wait(self, room: StandbyRoom) -> Lease | None:
        return room.wait_until_ours(self.log, _no_pause)

    def lease(self, **changes: object) -> None:
        held = replace(LEASE, **changes)  # type: ignore[arg-type]
        self.log.storage.overwrite(self.log.layout.lease, encode(held))

    def report(self, room: str = "b") -> RoomReport:
        found = read_advice(self.log.storage, self.log.layout.room(room), RoomReport)
        assert found is not None
        return found

    def ask(self, **changes: object) -> None:
        asked = SwitchRequest("i", "b", 1, "ann", "lost", now=True, force=False, requested_ms=1)
        asked = replace(asked, **changes)  # type: ignore[arg-type]
        write_advice(self.log.storage, self.log.layout, self.log.layout.switch, asked)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    log = new_log(tmp_path)
    writer = LedgerWriter(log, log.fold(), lambda *_: None)
    writer.fence(replace(fence(), site="a"), lambda: None)
    writer.commit(sources(0))
    writer.commit(data(1, 0, span(0, 0, 4)))
    found = Place(log, SmallSource(LogBounds(0, 10, 10)))
    found.lease()
    return found


def test_only_the_home_room_begins_a_route(tmp_path: Path) -> None:
    empty = Place(new_log(tmp_path), SmallSource(LogBounds(0, 10, 10)))
    with pytest.raises(LeaseHeldError, match="its home is room a") as no:
        empty.wait(empty.standby())
    assert "if that room is lost, write `home: b`" in str(no.value.hint)
    assert empty.wait(empty.standby(room="a")) is None


def test_a_standby_reports_ready_with_the_rows_that_wait(place: Place) -> None:
    place.lease(released=True)
    place.wait(place.standby())
    report = place.report()
    assert (report.ready, report.reasons, report.waiting_rows, report.term) == (True, (), 6, 1)
    assert (report.holds, report.digest, report.driver) == (False, "d", "d2")


def test_a_standby_takes_over_by_itself_only_with_switch_auto(place: Place) -> None:
    assert place.wait(place.standby()) == LEASE
    report = place.report()
    assert (report.auto_term, report.compare_owed) == (2, False)
    with pytest.raises(NeedsConfirmationError, match="`switch: ask`") as asked:
        place.wait(place.standby(auto=False))
    command = "sluiceway switch JOB --to b --now --term 1 --reason WHY --execute"
    assert asked.value.commands == (command,)


def test_a_lease_that_moves_is_never_taken(place: Place) -> None:
    room, counter = place.standby(after_s=3600.0), iter(range(6, 9))

    def renew(seconds: float) -> None:
        del seconds
        place.lease(counter=next(counter))

    with pytest.raises(LeaseHeldError, match="in room a, term 1"):
        room.wait_until_ours(place.log, renew)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"silent": frozenset([ONE])}, "SW101"),
        ({"topic_id": "t2"}, "another topic from here"),
        ({"place": LogBounds(0, 3, 3)}, "the log ends at 3, the committed end is 4"),
    ],
)
def test_a_standby_that_is_not_ready_does_not_fence(
    place: Place, changes: dict[str, object], says: str
) -> None:
    place.source = replace(place.source, **changes)  # type: ignore[arg-type]
    with pytest.raises(RoomNotReadyError, match=says):
        place.wait(place.standby())
    report = place.report()
    assert (report.ready, report.auto_term, report.compare_owed) == (False, 0, False)
    assert says in report.reasons[0]


def test_a_standby_without_task_slots_is_not_ready(place: Place) -> None:
    place.slots = 0
    with pytest.raises(RoomNotReadyError, match="no task slots"):
        place.wait(place.standby())


def test_a_released_lease_goes_to_the_room_that_it_names(place: Place) -> None:
    place.lease(released=True, released_to="b")
    taken = place.wait(place.standby(auto=False))
    assert taken is not None
    assert place.report().auto_term == 0
    place.lease(released=True, released_to="c")
    with pytest.raises(NeedsConfirmationError):
        place.wait(place.standby(auto=False))


def test_an_operator_confirms_the_latest_term_only(place: Place) -> None:
    place.ask(term=7)
    with pytest.raises(NeedsConfirmationError):
        place.wait(place.standby(auto=False))
    place.ask(now=False)
    with pytest.raises(NeedsConfirmationError):
        place.wait(place.standby(auto=False))
    place.ask(to="c")
    with pytest.raises(NeedsConfirmationError):
        place.wait(place.standby(auto=False))
    place.ask()
    assert place.wait(place.standby(auto=False)) == LEASE


def test_force_takes_over_although_the_room_is_not_ready(place: Place) -> None:
    place.slots = 0
    place.ask()
    with pytest.raises(RoomNotReadyError):
        place.wait(place.standby(auto=False))
    place.ask(force=True)
    assert place.wait(place.standby(auto=False)) == LEASE


def test_a_second_switch_soon_after_one_without_an_operator_needs_one(place: Place) -> None:
    report = RoomReport("b", 1, "d9", "h", 1, "d", True, True, (), None, 1, 1, auto_term=1)  # noqa: FBT003
    write_advice(place.log.storage, place.log.layout, place.log.layout.room("b"), report)
    with pytest.raises(NeedsConfirmationError, match="less than 30 minutes ago"):
        place.wait(place.standby())


def test_an_outage_of_the_store_begins_the_wait_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, storage = place.standby(after_s=3600.0), place.log.storage
    asleep: list[float] = []

    def sleep(seconds: float) -> None:
        asleep.append(seconds)
        monkeypatch.setattr(type(storage), "read", fails)

    def fails(*_: object) -> bytes:
        raise StorageUnavailableError("away")

    with pytest.raises(StorageUnavailableError):
        room.wait_until_ours(place.log, sleep)
    monkeypatch.undo()
    assert asleep
    # Had the wait gone on, this look would find a lease that has moved.
    place.lease(counter=6)
    assert replace_after(room).wait_until_ours(place.log, _no_pause) == replace(LEASE, counter=6)


def replace_after(room: StandbyRoom) -> StandbyRoom:
    room.rule = replace(room.rule, after_s=0.0)
    return room


def test_a_catalog_that_does_not_answer_makes_the_room_not_ready(place: Place) -> None:
    room = place.standby()
    place.wait(room)
    room._reported_at = float("-inf")
    room.report_failure(MetastoreUnavailableError("down"))
    assert place.report().reasons == ("SW102 down",)


def test_a_driver_that_has_released_its_route_to_a_room_does_not_take_it_back(
    place: Place,
) -> None:
    place.lease(released=True, room="b", released_to="a")
    with pytest.raises(NeedsConfirmationError, match="room a is silent"):
        place.wait(place.standby(auto=False))


def test_a_comparison_of_the_catalog_is_owed_when_the_room_changes(place: Place) -> None:
    fold = place.log.fold()
    place.standby(room="a").mark_change(place.log, fold)
    assert read_advice(place.log.storage, place.log.layout.room("a"), RoomReport) is None
    room = place.standby()
    place.wait(room)
    room.mark_change(place.log, fold)
    report = place.report()
    assert (report.auto_term, report.compare_owed) == (2, True)
    # Another driver of the room finds it, whatever it reports before it has compared.
    place.lease(released=True, released_to="b")
    place.wait(place.standby())
    assert place.report().compare_owed


def test_the_own_room_comes_back_without_a_confirmation(place: Place) -> None:
    place.lease(released=True, room="b")
    taken = place.wait(place.standby(auto=False))
    assert taken is not None
    assert not place.report().compare_owed
