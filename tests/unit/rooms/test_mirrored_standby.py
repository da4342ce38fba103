"""A room whose queue has copies: what it does before its fence, and right after it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sluiceway.errors import (
    NeedsConfirmationError,
    OffsetsLostError,
    RoomNotReadyError,
    RunnerLostError,
    StorageUnavailableError,
    UnhealthyEnvironmentError,
)
from sluiceway.jobfile.compile.room_rule import MirrorRule, RoomRule
from sluiceway.ledger.lease import Lease
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.log_tail import tail_runs
from sluiceway.ledger.operator_records import ORIGIN_HEADER, ORIGIN_LOG, OriginLog
from sluiceway.ledger.room_files import (
    HandPosition,
    RoomReport,
    SwitchRequest,
    lost_room,
    read_advice,
    write_advice,
)
from sluiceway.ledger.snapshot import load_snapshot, write_side_file
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.observe.log import stderr_log
from sluiceway.rooms import copy_reader, standby
from sluiceway.rooms.positions import (
    CopiedLog,
    PositionMethod,
    ResumePosition,
    refused_position,
)
from sluiceway.rooms.resume import OriginFinder
from sluiceway.rooms.standby import StandbyParts, StandbyRoom
from sluiceway.schedule.planner import plan_splits
from sluiceway.sources.contract import SourcePartition
from sluiceway.sources.copies import CopyTraits
from sluiceway.types.strict_json import BigInt, encode
from tools.ledger_records import data, fence, new_log, record, sources, span
from tools.made_logs import ACCESS, MadeLog, MadeLogs, tail_before

ONE = SourcePartition("orders", 0)
MIRROR = MirrorRule(
    linked=False, exactly_once=True, origin=None, own_writers=True, transactional_ids=("mm",)
)
RULE = RoomRule(
    *("b", "a", ("a", "b")), auto=True, after_s=0.0, give_way_s=30.0, digest="d", mirror=MIRROR
)


@dataclass
class Rooms:
    """A ledger that room a has read up to row 20, and room b's copies under other offsets."""

    log: LedgerLog
    copies: MadeLogs
    writer: LedgerWriter

    def standby(
        self, mirror: MirrorRule = MIRROR, origin: OriginFinder | None = None
    ) -> StandbyRoom:
        parts = StandbyParts(
            lambda: self.copies, lambda: ("orders",), lambda: 2, "d2", stderr_log(), ACCESS, origin
        )
        return StandbyRoom(replace(RULE, mirror=mirror), parts)

    def commit(self, first: int, end: int) -> None:
        """What room a's driver commits."""
        read = replace(span(0, first, end), tail=tail_before(range(first, end)))
        self.writer.commit(data(self.writer.term, first, read))

    def confirm(self, *confirms: str, term: int = 1) -> None:
        asked = SwitchRequest("i", "b", term, "ann", "lost", True, False, 1, confirms)  # noqa: FBT003
        write_advice(self.log.storage, self.log.layout, self.log.layout.switch, asked)

    def decide(self, *by_hand: HandPosition) -> None:
        asked = SwitchRequest("i", "b", 1, "ann", "lost", True, False, 1, (), by_hand)  # noqa: FBT003
        write_advice(self.log.storage, self.log.layout, self.log.layout.switch, asked)

    def take_over(self, room: StandbyRoom) -> LedgerWriter:
        """A fence of room b, as `take_over` puts it."""
        fold = self.log.fold()
        room.check_positions(self.log, fold)
        writer = LedgerWriter(self.log, fold, lambda *_: None)
        writer.fence(replace(fence(driver="d2"), site="b"), lambda: None)
        return writer

    def switch(self, room: StandbyRoom) -> LedgerWriter:
        writer = self.take_over(room)
        change = room.source_change(writer.fold)
        assert change is not None
        writer.commit(change)
        return writer


@pytest.fixture
def rooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rooms:
    log = new_log(tmp_path)
    writer = LedgerWriter(log, log.fold(), lambda *_: None)
    writer.fence(replace(fence(), site="a"), lambda: None)
    writer.commit(sources(0))
    copies = MadeLogs({ONE: MadeLog.of(range(30), step=3)})
    found = Rooms(log, copies, writer)
    found.commit(0, 20)
    monkeypatch.setattr(copy_reader, "read_splits", copies.read)
    return found


def test_the_source_moves_right_after_the_fence(rooms: Rooms) -> None:
    writer = rooms.switch(rooms.standby())
    known = writer.fold.sources["orders", 0]
    assert (known.cluster_id, known.topic_id, known.generation) == ("c2", "t2", 1)
    # The row at offset 57 of the copy is the last one in the table.
    assert (known.end, known.tail) == (58, tail_before(range(20)))
    assert rooms.copies.ended == ["mm"]


def test_a_mirror_whose_transactions_may_not_be_ended_stops_no_switch(
    rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They end by their own time-out; until then they hide the copy's last rows."""

    def refused(ids: Sequence[str]) -> None:
        tried.extend(ids)
        raise UnhealthyEnvironmentError("no Write", where=f"transactional id {ids[0]}")

    tried: list[str] = []
    monkeypatch.setattr(rooms.copies, "end_transactions", refused)
    writer = rooms.switch(rooms.standby(replace(MIRROR, transactional_ids=("mm-0", "mm-1"))))
    assert tried == ["mm-0", "mm-1"]
    assert writer.fold.sources["orders", 0].end == 58


def test_no_other_room_begins_where_the_home_has_only_fenced(rooms: Rooms, tmp_path: Path) -> None:
    log = new_log(tmp_path / "new")
    LedgerWriter(log, log.fold(), lambda *_: None).fence(replace(fence(), site="a"), lambda: None)
    with pytest.raises(RoomNotReadyError, match="room a has read nothing yet"):
        rooms.standby().check_positions(log, log.fold())
    home = StandbyRoom(replace(RULE, room="a", mirror=MIRROR), rooms.standby()._parts)
    home.check_positions(log, log.fold())
    assert home.source_change(log.fold()) is None


def test_a_room_that_reads_its_own_logs_changes_nothing(rooms: Rooms) -> None:
    rooms.switch(rooms.standby())
    again = rooms.standby()
    writer = rooms.take_over(again)
    assert again.source_change(writer.fold) is None


def test_a_driver_that_dies_after_its_fence_leaves_the_change_to_the_next(rooms: Rooms) -> None:
    rooms.take_over(rooms.standby())
    writer = rooms.switch(rooms.standby())
    assert (writer.term, writer.fold.sources["orders", 0].end) == (3, 58)


def test_rows_that_were_committed_until_the_fence_count(rooms: Rooms) -> None:
    room = rooms.standby()
    fold = rooms.log.fold()
    room.check_positions(rooms.log, fold)
    rooms.commit(20, 25)
    writer = LedgerWriter(rooms.log, rooms.log.fold(), lambda *_: None)
    writer.fence(replace(fence(driver="d2"), site="b"), lambda: None)
    change = room.source_change(writer.fold)
    assert change is not None
    assert [int(each.new_end) for each in change.partitions] == [24 * 3 + 1]


def test_a_second_check_that_fails_leaves_a_fence_alone(rooms: Rooms) -> None:
    room = rooms.standby()
    writer = rooms.take_over(room)
    rooms.copies.logs[ONE] = MadeLog.of([*range(20), *range(10, 20)])
    with pytest.raises(RoomNotReadyError, match="the tail is there 2 times"):
        room.source_change(writer.fold)
    assert writer.fold.sources["orders", 0].cluster_id == "c1"


@pytest.mark.parametrize(
    ("copy", "traits", "says"),
    [
        (MadeLog.of([*range(20), *range(10, 20)]), CopyTraits(), "the tail is there 2 times"),
        (MadeLog.of(range(30)), CopyTraits(append_time=True), "LogAppendTime"),
        (MadeLog.of(range(40, 50), start=40), CopyTraits(), "no row of the tail is there"),
        (MadeLog.of(range(5)), CopyTraits(compacted=True), "the log is compacted"),
    ],
)
def test_nothing_is_fenced_while_a_position_is_refused(
    rooms: Rooms, copy: MadeLog, traits: CopyTraits, says: str
) -> None:
    rooms.copies.logs[ONE], rooms.copies.traits = copy, traits
    with pytest.raises(RoomNotReadyError, match=says):
        rooms.take_over(rooms.standby())
    assert rooms.log.fold().term == 1


def test_a_short_copy_needs_a_confirmation_for_the_latest_term(rooms: Rooms) -> None:
    rooms.copies.logs[ONE] = MadeLog.of(range(17), step=3)
    with pytest.raises(NeedsConfirmationError, match="never continues") as asked:
        rooms.take_over(rooms.standby())
    assert "--term 1 --confirm mirror_closed" in asked.value.commands[0]
    rooms.confirm("mirror_closed", term=7)
    with pytest.raises(NeedsConfirmationError):
        rooms.take_over(rooms.standby())
    rooms.confirm("mirror_only", term=1)
    with pytest.raises(NeedsConfirmationError):
        rooms.take_over(rooms.standby())
    rooms.confirm("mirror_closed", term=1)
    writer = rooms.switch(rooms.standby())
    known = writer.fold.sources["orders", 0]
    assert (known.end, known.tail) == (16 * 3 + 1, tail_before(range(12, 17)))
    # The last three rows of room a must never come here.
    hashes = {run.row for run in tail_runs(tail_before(range(17, 20)))}
    assert {run.row for run in tail_runs(known.missing)} == hashes
    (planned,) = plan_splits(writer.fold, rooms.copies.bounds([ONE]), None)
    assert planned.split.missing == known.missing
    storage, layout = rooms.log.storage, rooms.log.layout
    writer.fold.set_published_through(writer.fold.next_seq)
    written = write_side_file(storage, layout, writer.fold)
    restored = load_snapshot(storage, layout, record(writer.fold, written))
    assert restored is not None
    assert restored.sources["orders", 0].missing == known.missing


def test_an_operator_decides_a_position_that_is_refused(rooms: Rooms) -> None:
    rooms.copies.logs[ONE] = MadeLog.of([*range(20), *range(10, 20)])
    rooms.decide(HandPosition("orders", 0, 99, "gap"))
    with pytest.raises(RoomNotReadyError, match="offset 99 is outside of its log"):
        rooms.take_over(rooms.standby())
    rooms.decide(HandPosition("orders", 0, 30, "gap"))
    room = rooms.standby()
    writer = rooms.take_over(room)
    change = room.source_change(writer.fold)
    assert change is not None
    (moved,) = change.partitions
    assert (int(moved.new_end), moved.evidence) == (30, {"method": "by_hand", "accepted": "gap"})


def test_a_standby_reports_how_many_positions_are_exact(
    rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of a ledger that it does not count, a standby cannot tell whether others wrote.
    monkeypatch.setattr("sluiceway.rooms.standby._MOST_COUNTED_SLOTS", 2)
    room = rooms.standby(replace(MIRROR, own_writers=False))
    rooms.copies.logs[SourcePartition("orders", 1)] = MadeLog.of(range(3))
    with pytest.raises(NeedsConfirmationError):
        room.wait_until_ours(rooms.log, lambda _: None)
    report = read_advice(rooms.log.storage, rooms.log.layout.room("b"), RoomReport)
    assert report is not None
    assert report.positions == {"inside, needs mirror_only": 1}
    assert (report.ready, report.waiting_rows) == (True, 90 - 58)


def test_a_copy_with_as_many_rows_as_the_table_needs_no_confirmation(rooms: Rooms) -> None:
    room = rooms.standby(replace(MIRROR, own_writers=False))
    room._report_if_due(rooms.log)
    writer = rooms.take_over(room)
    change = room.source_change(writer.fold)
    assert change is not None
    (moved,) = change.partitions
    assert (int(moved.new_end), moved.evidence["method"]) == (58, "inside")
    assert (moved.evidence["counts"], moved.evidence.get("confirmed")) == ("equal", None)


NAMED = replace(MIRROR, origin="sw-origin", exactly_once=False, own_writers=False)


def named_at(offset: int, unread: int = 0) -> OriginFinder:
    """What the follower of copies says."""

    def find(rule: MirrorRule, log: CopiedLog) -> ResumePosition:
        evidence = {ORIGIN_HEADER: str(rule.origin), ORIGIN_LOG: "c1/orders/0"}
        return ResumePosition(log, offset, PositionMethod.HEADER, evidence=evidence, unread=unread)

    return find


def test_a_switch_by_headers_needs_no_confirmation_and_keeps_the_origin_end(rooms: Rooms) -> None:
    writer = rooms.switch(rooms.standby(NAMED, named_at(31, unread=5)))
    known = writer.fold.sources["orders", 0]
    assert known.end == 31
    assert known.origin == OriginLog("sw-origin", "c1/orders/0", "t1", BigInt(20))
    assert writer.fold.format == 2


def test_a_store_that_fails_between_two_records_leaves_the_counts_equal(
    rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = rooms.standby()
    assert _judged(rooms, room) == ((), ())
    rooms.commit(20, 25)
    rooms.commit(25, 28)
    read = LedgerLog.read_slot

    def fails_at_the_last(log: LedgerLog, seq: int) -> object:
        if seq == rooms.writer.fold.next_seq - 1:
            raise StorageUnavailableError("the store is away")
        return read(log, seq)

    with monkeypatch.context() as patch:
        patch.setattr(LedgerLog, "read_slot", fails_at_the_last)
        with pytest.raises(StorageUnavailableError):
            room._advanced(rooms.log)
    assert _judged(rooms, room) == ((), ())


def test_a_room_takes_over_by_itself_only_once_it_has_read_the_copies_along(rooms: Rooms) -> None:
    with pytest.raises(RoomNotReadyError, match="5 offsets of the copies are not read along yet"):
        rooms.standby(NAMED, named_at(31, unread=5)).wait_until_ours(rooms.log, lambda _: None)
    assert rooms.standby(NAMED, named_at(31)).wait_until_ours(rooms.log, lambda _: None) is None


def test_a_position_by_hand_still_knows_copies_by_their_headers(rooms: Rooms) -> None:
    def refuse(rule: MirrorRule, log: CopiedLog) -> ResumePosition:
        evidence = {ORIGIN_HEADER: str(rule.origin), ORIGIN_LOG: "c1/orders/0", "log_end": "9"}
        return ResumePosition(log, None, None, why="its copy begins late", evidence=evidence)

    with pytest.raises(RoomNotReadyError, match="begins late"):
        rooms.take_over(rooms.standby(NAMED, refuse))
    rooms.decide(HandPosition("orders", 0, 30, "gap"))
    known = rooms.switch(rooms.standby(NAMED, refuse)).fold.sources["orders", 0]
    assert known.end == 30
    assert known.origin == OriginLog("sw-origin", "c1/orders/0", "t1", BigInt(20))


def test_a_planned_switch_waits_for_the_copies_of_what_was_committed(rooms: Rooms) -> None:
    lease = Lease(
        driver="d1",
        term=1,
        counter=5,
        released=True,
        host="far",
        boot_id="x",
        pid=1,
        start_ticks=1,
        room="a",
        released_to="b",
    )
    rooms.log.storage.overwrite(rooms.log.layout.lease, encode(lease))
    rooms.copies.logs[ONE] = MadeLog.of(range(17), step=3)
    room = rooms.standby()
    with pytest.raises(RoomNotReadyError, match="rows of 1 source partitions are not copied yet"):
        room.wait_until_ours(rooms.log, lambda _: None)
    rooms.copies.logs[ONE] = MadeLog.of(range(20), step=3)
    assert room.wait_until_ours(rooms.log, lambda _: None) == lease
    # Nothing was lost with room a.
    room.mark_change(rooms.log, rooms.log.fold())
    assert lost_room(rooms.log.storage, rooms.log.layout, "b") is None


def test_a_room_that_takes_over_without_a_release_reports_the_lost_one(rooms: Rooms) -> None:
    room = rooms.standby()
    room.wait_until_ours(rooms.log, lambda _: None)
    room.mark_change(rooms.log, rooms.log.fold())
    found = lost_room(rooms.log.storage, rooms.log.layout, "b")
    assert found is not None
    assert (found.lost_room, found.lost_ms > 0, found.compare_owed) == ("a", True, True)
    rooms.switch(room)
    room.mark_change(rooms.log, rooms.log.fold())
    again = lost_room(rooms.log.storage, rooms.log.layout, "b")
    assert again is not None
    assert again.lost_ms == found.lost_ms


def _holds(rooms: Rooms, counter: int, end: int | None = None) -> None:
    """What room a's driver reports of its log."""
    ends = {} if end is None else {"orders/0": end}
    report = RoomReport(
        *("a", counter, "d1", "h", 1, "d", True, True, (), None, 1, 1), log_ends=ends
    )
    write_advice(rooms.log.storage, rooms.log.layout, rooms.log.layout.room("a"), report)


def test_a_log_that_was_cut_after_it_was_copied_halts_the_route(
    rooms: Rooms,
) -> None:
    room = rooms.standby(NAMED, named_at(31))
    room._parts = replace(room._parts, copied=lambda: {ONE: 25})
    fold = room._advanced(rooms.log)

    def cut() -> tuple[str, ...]:
        return room._cut_logs(rooms.log, fold, room._view(fold))

    _holds(rooms, 4, end=22)
    # Row 24 may have come, and was copied, after that report.
    assert cut() == ()
    assert room._copied == {"orders/0": 25}
    _holds(rooms, 6, end=22)
    assert cut() == ()
    _holds(rooms, 7, end=25)
    assert cut() == ()
    _holds(rooms, 10)
    assert cut() == ()
    _holds(rooms, 13, end=24)
    (found,) = cut()
    assert found.startswith("orders/0 was cut in room a: it ended before a row that was copied")
    with pytest.raises(OffsetsLostError, match="was cut"):
        room.wait_until_ours(rooms.log, lambda _: None)
    assert room.report is not None
    assert (room.report.ready, room.report.reasons[-1]) == (False, found)
    # It stays so when the log has grown again, after a new start, and where it is forced.
    _holds(rooms, 16, end=99)
    assert cut() == (found,)
    again = rooms.standby(NAMED, named_at(31))
    with pytest.raises(OffsetsLostError, match="was cut"):
        again._take(rooms.log, None, force=True, auto=False)
    # A copy that was created again has the log as it is now.
    view = again._view(fold)
    (described,) = view.by_topic["orders"]
    made_again = replace(described, identity=replace(described.identity, topic_id="t9"))
    view = replace(view, by_topic={"orders": (made_again,)})
    assert again._cut_logs(rooms.log, fold, view) == ()


def test_a_copy_that_contradicts_its_log_halts_the_route_until_an_operator_decides(
    rooms: Rooms,
) -> None:
    def unreadable(rule: MirrorRule, log: CopiedLog) -> ResumePosition:
        return replace(refused_position(log, "offset 9: no offset"), halts=True)

    room = rooms.standby(NAMED, unreadable)
    with pytest.raises(OffsetsLostError, match="offset 9: no offset"):
        room.wait_until_ours(rooms.log, lambda _: None)
    assert room.report is not None
    assert (room.report.ready, len(room.report.reasons)) == (False, 1)
    with pytest.raises(OffsetsLostError, match="offset 9: no offset"):
        rooms.standby(NAMED, unreadable)._take(rooms.log, None, force=True, auto=False)
    asked = SwitchRequest(
        *("i", "b", 1, "ann", "a test"),
        now=True,
        force=False,
        requested_ms=1,
        by_hand=(HandPosition("orders", 0, 30, "gap"),),
    )
    write_advice(rooms.log.storage, rooms.log.layout, rooms.log.layout.switch, asked)
    assert rooms.standby(NAMED, unreadable).wait_until_ours(rooms.log, lambda _: None) is None


def test_a_driver_that_fails_early_forgets_nothing_of_its_room(
    rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = rooms.standby()
    earlier._advanced(rooms.log)
    earlier._write(rooms.log, (), None, cut={"orders/0": "t1"}, unfaithful=("orders/0",))

    def no_runner() -> int:
        raise RunnerLostError("Spark's JVM does not answer any more")

    room = rooms.standby()
    room._parts = replace(room._parts, slots=no_runner)
    room._report_if_due(rooms.log)
    path = rooms.log.layout.room("b")
    report = read_advice(rooms.log.storage, path, RoomReport)
    assert report is not None
    assert report.reasons == ("SW406 Spark's JVM does not answer any more",)
    assert (report.cut, report.unfaithful) == ({"orders/0": "t1"}, ("orders/0",))
    # The store fails once, between the ledger and that report.
    with monkeypatch.context() as patch:
        patch.setattr(standby, "read_advice", _fails)
        with pytest.raises(StorageUnavailableError):
            room._advanced(rooms.log)
    assert room._advanced(rooms.log).term == 1
    room._write(rooms.log, (), None)
    assert room.report is not None
    assert (room.report.cut, room.report.unfaithful) == ({"orders/0": "t1"}, ("orders/0",))


def _fails(*_: object) -> None:
    raise StorageUnavailableError("the store is away")


def test_linked_copies_reach_as_far_as_their_logs(rooms: Rooms) -> None:
    room = rooms.standby(replace(MIRROR, linked=True))
    fold = rooms.log.fold()
    assert room._cut_logs(rooms.log, fold, room._view(fold)) == ()
    assert room._copied == {"orders/0": 90}


def _judged(rooms: Rooms, room: StandbyRoom) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the one position needs, and what the room reports of counts."""
    fold = room._advanced(rooms.log)
    room._find_positions(fold, room._view(fold))
    room._write(rooms.log, (), None)
    report = read_advice(rooms.log.storage, rooms.log.layout.room("b"), RoomReport)
    assert report is not None
    return room._resume.positions[0].needs, report.notices


def test_a_copy_that_gets_other_rows_needs_a_confirmation_until_a_switch(rooms: Rooms) -> None:
    room = rooms.standby()
    assert _judged(rooms, room) == ((), ())
    rooms.commit(20, 25)
    assert _judged(rooms, room) == ((), ())
    # Two rows of room b's own producers come between the next two of room a.
    rows = [*range(26), 90, 91, *range(26, 50)]
    rooms.copies.logs[ONE] = MadeLog.of(rows, step=3)
    rooms.commit(25, 40)
    needs, notices = _judged(rooms, room)
    assert needs == ("mirror_only",)
    assert notices == ("orders[0]: 17 rows came to the copy for 15 of the table",)
    # Also after the next rows, and of a standby that has begun again.
    rooms.commit(40, 50)
    assert _judged(rooms, room)[0] == ("mirror_only",)
    again = rooms.standby()
    assert _judged(rooms, again)[0] == ("mirror_only",)
    with pytest.raises(NeedsConfirmationError, match="only the mirror wrote"):
        rooms.take_over(again)
    rooms.confirm("mirror_only")
    known = rooms.switch(again).fold.sources["orders", 0]
    assert known.end == 51 * 3 + 1
