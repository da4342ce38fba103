"""A lost room that is back: what is left there, and how announcements stop waiting for it."""

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.errors import NotInThisVersionError, RequestRefusedError, WrongUsageError
from sluiceway.jobfile.compile.room_rule import MirrorRule, RoomRule
from sluiceway.ledger.operator_records import (
    ORIGIN_HEADER,
    ORIGIN_LOG,
    ChangedSource,
    SourceChangeRecord,
)
from sluiceway.ledger.room_files import GivenUpRoom, RoomReport, read_advice, write_advice
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.operate import drain
from sluiceway.operate.drain import LeftLog, await_drain, give_up, rows_left, waited_for
from sluiceway.operate.switch import RoutePlace
from sluiceway.sources.contract import SourcePartition
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import data, fence, new_log, sources, span
from tools.made_logs import ACCESS, MadeLog, MadeLogs

ONE = SourcePartition("orders", 0)
MIRROR = MirrorRule(linked=False, exactly_once=False, origin="sw-origin", own_writers=False)
RULE = RoomRule(
    *("a", "a", ("a", "b")), auto=False, after_s=1.0, give_way_s=30.0, digest="d", mirror=MIRROR
)
TOOK_OVER = RoomReport(
    *("b", 1, "d2", "h", 2, "d", True, True, (), None, 2, 1), lost_room="a", lost_ms=77
)


@dataclass
class Drained:
    """A ledger whose route room b has; it has read 20 of the 23 rows of room a."""

    place: RoutePlace
    source: MadeLogs
    writer: LedgerWriter

    def left(self, **changes: Any) -> tuple[LeftLog, ...]:
        place = replace(self.place, rule=replace(RULE, **changes))
        return rows_left(place, "a", self.source)

    def read_copies(self, first: int, end: int, origin_end: int) -> None:
        """What room b's driver commits of the copy."""
        copy = span(0, first, end, topic_id="t2")
        read = replace(copy, cluster_id="c2", origin_end=BigInt(origin_end))
        self.writer.commit(data(self.writer.term, first, read))

    def given(self) -> GivenUpRoom | None:
        return read_advice(self.place.storage, self.place.layout.given_up, GivenUpRoom)


@pytest.fixture
def drained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drained:
    log = new_log(tmp_path)
    storage, layout = log.storage, log.layout
    writer = LedgerWriter(log, log.fold(), lambda *_: None)
    writer.fence(replace(fence(), site="a"), lambda: None)
    writer.commit(sources(0))
    writer.commit(data(1, 0, span(0, 0, 58)))
    writer.fence(replace(fence(driver="d2"), site="b"), lambda: None)
    evidence = {ORIGIN_HEADER: "sw-origin", ORIGIN_LOG: "c1/orders/0"}
    moved = ChangedSource("orders", 0, "c1", "t1", "c2", "t2", BigInt(58), BigInt(0), 1, evidence)
    writer.commit(SourceChangeRecord("ann", "a is lost", (moved,)))
    write_advice(storage, layout, layout.room("b"), TOOK_OVER)
    # Of every three offsets of room a's log one is a row: the rest were aborted.
    source = MadeLogs({ONE: MadeLog.of(range(23), step=3)}, "c1", "t1")
    monkeypatch.setattr(drain, "read_splits", source.read)
    monkeypatch.setattr(drain, "_AGAIN_S", 0.0)
    config = cast("Any", SimpleNamespace(route="orders", source=ACCESS))
    place = RoutePlace(config, RULE, storage, layout, log, log.fold())
    return Drained(place, source, writer)


def test_what_is_left_is_counted_in_rows_not_in_offsets(drained: Drained) -> None:
    assert drained.left() == (LeftLog(ONE, 58, 69, 3, 0),)
    drained.source.logs[ONE].start = 61
    assert drained.left() == (LeftLog(ONE, 58, 69, 2, 3),)


def test_rooms_of_one_cluster_have_nothing_to_drain(drained: Drained) -> None:
    with pytest.raises(RequestRefusedError, match="both rooms read one cluster") as refused:
        drained.left(mirror=None)
    assert "give-up" not in (refused.value.hint or "")
    assert "switch --to a" in (refused.value.hint or "")


def test_a_drain_ends_once_the_driver_has_read_the_copies_of_all_rows(drained: Drained) -> None:
    (left,) = await_drain(drained.place, "a", drained.source, within_s=0.0)
    assert left.rows == 3
    drained.read_copies(0, 5, 67)
    (left,) = await_drain(drained.place, "a", drained.source, within_s=600.0)
    # No row lies between the last row of room a and its log's end.
    assert (left.origin_end, left.log_end, left.rows) == (67, 69, 0)


def test_a_topic_that_was_created_again_has_nothing_to_drain(drained: Drained) -> None:
    drained.source.topic_id = "t3"
    with pytest.raises(RequestRefusedError, match="is not the log c1/orders/0 that the route has"):
        drained.left()
    drained.source.topic_id, drained.source.cluster_id = "t1", "c3"
    with pytest.raises(RequestRefusedError, match="is not the log"):
        drained.left()


def test_a_drain_is_refused_where_nothing_can_be_known(drained: Drained) -> None:
    with pytest.raises(WrongUsageError, match="this process is of room b"):
        drained.left(room="b")
    with pytest.raises(NotInThisVersionError, match="without an origin header"):
        drained.left(mirror=replace(MIRROR, origin=None))
    drained.writer.fence(replace(fence(driver="d3"), site="a"), lambda: None)
    drained.place.log.advance(drained.place.fold)
    with pytest.raises(RequestRefusedError, match="room a has the route"):
        drained.left()


def test_announcements_wait_until_the_room_is_given_up(drained: Drained) -> None:
    place = drained.place
    assert waited_for(place, "a") == TOOK_OVER
    assert waited_for(place, "b") is None
    with pytest.raises(RequestRefusedError, match="nothing waits for rows of room b"):
        give_up(place, "b", "ann@host", "gone", drained=False)
    assert drained.given() is None
    give_up(place, "a", "ann@host", "it burns", drained=False)
    assert drained.given() == GivenUpRoom("a", 77, False, "ann@host", "it burns")  # noqa: FBT003
    assert waited_for(place, "a") is None
    # A later loss of the same room is another one.
    later = replace(TOOK_OVER, lost_ms=99)
    write_advice(place.storage, place.layout, place.layout.room("b"), later)
    assert waited_for(place, "a") == later


def test_a_drained_room_may_be_one_that_nothing_waits_for(drained: Drained) -> None:
    write_advice(
        drained.place.storage,
        drained.place.layout,
        drained.place.layout.room("b"),
        replace(TOOK_OVER, lost_room="", lost_ms=0),
    )
    give_up(drained.place, "a", "ann@host", "", drained=True)
    assert drained.given() is None
