"""Positions by origin headers: what a follower has read, and what it refuses."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from sluiceway.errors import OffsetsLostError, SourceUnavailableError
from sluiceway.jobfile.compile.room_rule import MirrorRule
from sluiceway.ledger.folding.fold_state import SourceState
from sluiceway.ledger.operator_records import OriginLog
from sluiceway.rooms import origin
from sluiceway.rooms.origin import OriginFollower
from sluiceway.rooms.positions import CopiedLog, PositionMethod, ResumePosition
from sluiceway.sources.contract import (
    Headers,
    LogBounds,
    SourceBatch,
    SourceIdentity,
    SourcePartition,
    Split,
    SplitEnd,
    SplitReader,
)
from sluiceway.types.strict_json import BigInt
from tools.origin_rows import OriginBatch

ONE = SourcePartition("orders", 0)
RULE = MirrorRule(linked=False, exactly_once=False, origin="sw-origin", own_writers=False)
TIME = 1_795_000_000_000
OWN: Headers = ()


def copy_of(offset: object) -> Headers:
    return (("sw-origin", f"A1/orders/0:{offset}@{TIME}".encode()),)


class RoomLog:
    """A log of room b that is read along: rows may come later."""

    def __init__(self, *rows: Headers, first: int = 0) -> None:
        self.rows, self.first = list(rows), first
        self.failures: list[Exception] = []
        self.opened = 0
        self.closed = threading.Event()

    @property
    def end(self) -> int:
        return self.first + len(self.rows)

    def open(self, splits: list[Split]) -> SplitReader:
        self.opened += 1
        (split,) = splits
        return _Reader(self, split.start_offset)


class _Reader(SplitReader):
    def __init__(self, log: RoomLog, at: int) -> None:
        self._log, self._at = log, at

    def read(self, timeout_s: float) -> list[SourceBatch]:
        if self._log.failures:
            raise self._log.failures.pop(0)
        rows, at = self._log.rows[self._at - self._log.first :], self._at
        if not rows:
            threading.Event().wait(0.01)
            return []
        self._at += len(rows)
        return [OriginBatch.of(at, rows, TIME)]

    def finished(self) -> bool:
        return False

    def ends(self) -> tuple[SplitEnd, ...]:
        return (SplitEnd(self._at, 0, 0, None),)

    def close(self, *, reusable: bool) -> None:
        self._log.closed.set()


@pytest.fixture
def followers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[OriginFollower]]:
    monkeypatch.setattr(origin, "_AGAIN_S", 0.01)
    made: list[OriginFollower] = []
    yield made
    for each in made:
        each.close()


def copied(log: RoomLog, end: int, *, bounds_end: int | None = None, **more: Any) -> CopiedLog:
    state: dict[str, Any] = {"how": "earliest", "has_data": True, **more}
    known = SourceState("A1", "topic-a", 0, end=end, **state)
    last = log.end if bounds_end is None else bounds_end
    return CopiedLog(ONE, known, SourceIdentity("B2", "topic-b"), LogBounds(log.first, last, last))


def find(follower: OriginFollower, log: CopiedLog) -> ResumePosition:
    found = follower.find(RULE, log)
    assert found is not None
    return found


def read_whole(follower: OriginFollower, log: CopiedLog) -> ResumePosition:
    """The position once all that is there was read along."""
    for _ in range(2000):
        found = find(follower, log)
        if not found.unread:
            return found
        threading.Event().wait(0.005)
    raise TimeoutError(found)


def begun(followers: list[OriginFollower], log: RoomLog) -> OriginFollower:
    followers.append(OriginFollower(log.open))
    return followers[-1]


def test_place_is_the_first_row_that_the_table_lacks(followers: list[OriginFollower]) -> None:
    log = RoomLog(*map(copy_of, (0, 1, 2, 3, 1, 2, 3, 4)))
    follower = begun(followers, log)
    found = read_whole(follower, copied(log, 3))
    assert (found.offset, found.method, found.exact) == (3, PositionMethod.HEADER, True)
    assert found.evidence["origin_log"] == "A1/orders/0"
    # A repeats 1, 2 and 3: only the row with 4 is new.
    assert read_whole(follower, copied(log, 4)).offset == 7
    assert read_whole(follower, copied(log, 5)).offset == 8
    log.rows += [OWN, copy_of(5)]
    assert read_whole(follower, copied(log, 5)).offset == 8
    assert read_whole(follower, copied(log, 6)).offset == 8


def test_name_of_the_topic_is_that_of_the_other_room(followers: list[OriginFollower]) -> None:
    log = RoomLog((("sw-origin", f"A1/a.orders/0:0@{TIME}".encode()),))
    rule = replace(RULE, names_there=(("orders", "a.orders"),))
    found = begun(followers, log).find(rule, copied(log, 1))
    assert found is not None
    assert found.evidence["origin_log"] == "A1/a.orders/0"


def test_a_mirror_without_a_header_has_other_proofs(followers: list[OriginFollower]) -> None:
    log = RoomLog(copy_of(0))
    assert begun(followers, log).find(replace(RULE, origin=None), copied(log, 1)) is None


@pytest.mark.parametrize(
    ("rows", "end", "why"),
    [
        ((OWN, OWN), 3, "no row of its copy has the header"),
        ((), 3, "no row of its copy has the header"),
        ((OWN, copy_of(2)), 3, "before it had the transform"),
        ((copy_of(0), copy_of("x")), 3, "expected `<offset>@<record time>`"),
    ],
)
def test_copies_that_do_not_name_their_rows_are_refused(
    followers: list[OriginFollower], rows: Sequence[Headers], end: int, why: str
) -> None:
    log = RoomLog(*rows)
    follower = begun(followers, log)
    found = find(follower, copied(log, end))
    for _ in range(2000):
        if why in found.why:
            break
        threading.Event().wait(0.005)
        found = find(follower, copied(log, end))
    assert found.offset is None
    assert why in found.why


def test_rows_that_retention_took_may_be_missing(followers: list[OriginFollower]) -> None:
    log = RoomLog(copy_of(4), copy_of(5), first=7)
    assert "begins at 7" in read_whole(begun(followers, log), copied(log, 3)).why
    # All before the first copy that is there is in the table.
    assert read_whole(begun(followers, log), copied(log, 4)).offset == 7
    found = read_whole(follower := begun(followers, log), copied(log, 5))
    assert found.offset == 8
    moved = replace(copied(log, 5), bounds=LogBounds(9, 9, 9))
    assert "begins at 9" in find(follower, moved).why


def test_nothing_was_read_of_a_new_log(followers: list[OriginFollower]) -> None:
    log = RoomLog(OWN, copy_of(0), first=7)
    found = read_whole(begun(followers, log), copied(log, 0, has_data=False))
    assert (found.offset, found.evidence["origin_header"]) == (7, "sw-origin")


def test_a_log_that_was_read_before_the_last_switch_is_refused(
    followers: list[OriginFollower],
) -> None:
    log = RoomLog(copy_of(0))
    left = OriginLog("sw-origin", "B2/orders/0", "topic-b", BigInt(9))
    found = find(begun(followers, log), copied(log, 1, origin=left))
    assert found.offset is None
    assert "read before the last switch" in found.why
    assert log.opened == 0


def test_a_room_without_the_log_begins_with_it(followers: list[OriginFollower]) -> None:
    log = RoomLog()
    found = find(begun(followers, log), replace(copied(log, 3), bounds=None))
    assert (found.offset, found.exact, found.evidence["origin_log"]) == (0, True, "A1/orders/0")


def test_what_is_not_read_along_yet_is_said(followers: list[OriginFollower]) -> None:
    log = RoomLog(copy_of(0))
    follower = begun(followers, log)
    found = find(follower, copied(log, 5, bounds_end=3))
    assert (found.offset, found.exact) == (1, True)
    assert found.unread == 2


def test_a_queue_that_does_not_answer_is_asked_again(followers: list[OriginFollower]) -> None:
    log = RoomLog(copy_of(0), copy_of(1))
    log.failures = [SourceUnavailableError("no leader"), OffsetsLostError("it was cut")]
    assert read_whole(begun(followers, log), copied(log, 2)).offset == 2
    assert log.opened >= 3


def test_a_follower_ends_when_its_room_has_the_route(followers: list[OriginFollower]) -> None:
    log = RoomLog(copy_of(0))
    follower = begun(followers, log)
    read_whole(follower, copied(log, 1))
    follower.close()
    assert log.closed.wait(10)


def test_how_far_a_log_is_copied_is_known_after_a_row_of_the_room_itself(
    followers: list[OriginFollower],
) -> None:
    log = RoomLog(copy_of(0), copy_of(1), OWN, copy_of(2))
    followers += [OriginFollower(log.open, to_end=True), OriginFollower(log.open)]
    for follower in followers:
        found = read_whole(follower, copied(log, 2))
        assert (found.offset, found.unread) == (2, 0)
    # Without need, reading ends where the place cannot rise.
    assert [follower.copied() for follower in followers] == [{ONE: 3}, {ONE: 2}]
