"""The order of the proofs, what needs a confirmation, and the record of a switch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from sluiceway.jobfile.compile.room_rule import MirrorRule
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import SourceState
from sluiceway.ledger.log_tail import tail_of
from sluiceway.rooms.positions import (
    MIRROR_CLOSED,
    MIRROR_END,
    MIRROR_ONLY,
    CopiedLog,
    PositionMethod,
    ResumePosition,
    TailReader,
    copied_logs,
    resume_positions,
    switch_record,
)
from sluiceway.rooms.resume import Resume
from sluiceway.rooms.tail_search import TailMatch
from sluiceway.schedule.source_view import SourceView
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceIdentity,
    SourcePartition,
)

ONE = SourcePartition("orders", 0)
B_LOG = SourceIdentity("cluster-b", "topic-b")
TAIL = tail_of([(1, 5), (2, 6)])
OWN = MirrorRule(linked=False, exactly_once=True, origin=None, own_writers=True)
SHARED = replace(OWN, own_writers=False)
LINKED = replace(OWN, linked=True)
INSIDE = TailMatch(40, inside=True, found=True, scanned=9, matches=1, tail=TAIL)
SHORT = TailMatch(39, inside=False, found=True, scanned=9, matches=0)
NONE = TailMatch(None, inside=False, found=False, scanned=0, matches=0, why="no row is there")


def known(**more: Any) -> SourceState:
    state: dict[str, Any] = {"how": "earliest", "end": 50, "has_data": True, "tail": TAIL}
    return SourceState("cluster-a", "topic-a", 0, **{**state, **more})


def copied(state: SourceState | None = None, bounds: tuple[int, int] | None = (0, 60)) -> CopiedLog:
    log = None if bounds is None else LogBounds(bounds[0], bounds[1], bounds[1] + 2)
    return CopiedLog(ONE, state or known(), B_LOG, log)


def found(
    log: CopiedLog, rule: MirrorRule, match: TailMatch = NONE, before: str = ""
) -> ResumePosition:
    def search(logs: Sequence[CopiedLog]) -> Mapping[SourcePartition, TailMatch]:
        return {each.partition: match for each in logs}

    def tails(ends: Mapping[SourcePartition, int]) -> Mapping[SourcePartition, str]:
        return dict.fromkeys(ends, before)

    (position,) = resume_positions([log], rule, TailReader(search, tails), None)
    return position


@pytest.mark.parametrize(
    ("rule", "match", "offset", "method", "needs"),
    [
        (OWN, INSIDE, 40, PositionMethod.INSIDE, ()),
        (SHARED, INSIDE, 40, PositionMethod.INSIDE, (MIRROR_ONLY,)),
        (OWN, SHORT, 39, PositionMethod.SHORT, (MIRROR_CLOSED,)),
        (SHARED, SHORT, 39, PositionMethod.SHORT, (MIRROR_ONLY, MIRROR_CLOSED)),
        (OWN, NONE, 60, PositionMethod.MIRROR_END, (MIRROR_CLOSED,)),
        (SHARED, NONE, 60, PositionMethod.MIRROR_END, (MIRROR_END, MIRROR_CLOSED)),
        (OWN, replace(NONE, complete=False), None, None, ()),
        (OWN, replace(NONE, found=True), None, None, ()),
        (replace(OWN, exactly_once=False), INSIDE, None, None, ()),
    ],
)
def test_a_search_comes_to_a_position_and_what_it_needs(
    rule: MirrorRule,
    match: TailMatch,
    offset: int | None,
    method: PositionMethod | None,
    needs: tuple[str, ...],
) -> None:
    position = found(copied(), rule, match)
    assert (position.offset, position.method, position.needs) == (offset, method, needs)
    assert position.exact == (offset is not None and not needs)
    assert bool(position.why) == (offset is None)


def test_a_log_that_was_not_read_begins_at_its_first_offset_here() -> None:
    unread = known(has_data=False, end=0, tail="")
    assert found(copied(unread, (7, 60)), OWN).offset == 7
    lacking = found(copied(unread, None), OWN)
    assert (lacking.offset, lacking.needs, lacking.evidence["missing"]) == (0, (), "")
    none = found(copied(known(), None), OWN)
    assert (none.needs, none.evidence["missing"]) == ((MIRROR_CLOSED,), TAIL)
    absent = found(copied(), OWN, replace(NONE, missing=TAIL))
    assert absent.evidence["missing"] == TAIL
    pinned = found(copied(replace(unread, how="latest")), OWN)
    assert "keeps no row before its committed end" in pinned.why


def test_equal_offsets_hold_while_the_copy_is_long_enough_and_has_the_tail() -> None:
    same = found(copied(), LINKED, before=TAIL)
    assert (same.offset, same.method) == (50, PositionMethod.SAME)
    short = found(copied(bounds=(0, 49)), LINKED, SHORT, before=TAIL)
    assert (short.offset, short.method) == (39, PositionMethod.SHORT)
    # Of a shorter copy the table has read: where its tail is, rows of the table may follow.
    left = found(copied(known(missing=TAIL)), LINKED, replace(NONE, found=True), before=TAIL)
    assert left.method is None
    other = found(copied(), LINKED, INSIDE, before=tail_of([(3, 3)]))
    assert other.method is PositionMethod.INSIDE


def test_a_header_comes_before_the_tail() -> None:
    log = copied()
    header = ResumePosition(log, 3, PositionMethod.HEADER)
    positions = resume_positions(
        [log], OWN, TailReader(lambda _: {}, lambda _: {}), lambda _: header
    )
    assert positions == (header,)


def _view(*, silent: bool = False) -> SourceView:
    here = DiscoveredPartition(ONE, B_LOG, None)
    bounds = {} if silent else {ONE: LogBounds(0, 60, 62)}
    return SourceView({"orders": (here,)}, bounds, {})


def test_only_logs_of_another_cluster_move() -> None:
    fold = Fold()
    fold.sources["orders", 0] = known()
    fold.sources["orders", 1] = known()
    fold.sources["orders", 2] = known(retired=True)
    fold.sources["orders", 3] = SourceState("cluster-b", "topic-b", 0, "earliest", 9)
    fold.sources["other", 0] = known()
    logs, lacking = copied_logs(fold, _view())
    assert [log.partition.partition for log in logs] == [0, 1]
    assert [log.bounds is None for log in logs] == [False, True]
    assert lacking == ("this room has no topic other",)
    _, lacking = copied_logs(fold, _view(silent=True))
    assert lacking == ("no leader answers for orders/0", "this room has no topic other")


def test_the_record_keeps_the_proof_and_the_confirmations() -> None:
    position = found(copied(), SHARED, INSIDE)
    record = switch_record([position], "me@here", "room a is lost", (MIRROR_ONLY, MIRROR_END))
    (changed,) = record.partitions
    assert (changed.old_end, changed.new_end, changed.generation) == (50, 40, 1)
    assert (changed.old_cluster_id, changed.new_cluster_id) == ("cluster-a", "cluster-b")
    assert changed.evidence == {
        "method": "inside",
        "scanned": "9",
        "matches": "1",
        "log_end": "60",
        "tail": TAIL,
        "confirmed": MIRROR_ONLY,
    }


def test_a_route_is_ready_when_all_have_a_position_and_the_confirmations_are_given() -> None:
    inside, refused = found(copied(), SHARED, INSIDE), found(copied(known(tail="")), OWN)
    resume = Resume((inside, refused), ("no leader answers for x/0",))
    assert len(resume.problems) == 2
    assert resume.missing(()) == (MIRROR_ONLY,)
    assert resume.missing((MIRROR_ONLY,)) == ()
    assert resume.counts == {"inside, needs mirror_only": 1, "refused": 2}
    assert resume.waiting_rows == 22
    assert resume.moved == {ONE}
