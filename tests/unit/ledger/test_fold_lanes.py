"""Lanes in the fold: each dirty row belongs to one lane at most, and is consumed once."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from sluiceway.errors import InvariantError
from sluiceway.ledger.dirty_sources import DirtySource, LateSource
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.lane_records import (
    LATE,
    NO_LANE_ROWS,
    PURGE,
    REPLAY,
    LaneCounts,
    LaneDataRecord,
    LaneRange,
    LaneRecord,
    LaneSpan,
)
from sluiceway.ledger.lane_state import ReplayLanes
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.records import DataRecord, decode_record, encode_record
from sluiceway.ledger.snapshot import lane_image, load_snapshot, write_side_file
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt, encode
from tools.ledger_records import LEDGER, data, fence, fold_of, record, sources, span, with_late

FILE = "dirty-of-slot-2.parquet"
NAME = str(DirtySource(LEDGER, 2, FILE))
OTHER = str(DirtySource(LEDGER, 2, "other.parquet"))


def part(start: int, stop: int, source: str = NAME) -> LaneRange:
    return LaneRange(source, BigInt(start), BigInt(stop))


def opened(*ranges: LaneRange, lane: str = "a", kind: str = REPLAY) -> LaneRecord:
    return LaneRecord(lane, kind, "me@host", "", ranges)


def counts(read: int, *, dirty: int = 0, purged: int = 0) -> LaneCounts:
    written = read - dirty - purged
    return LaneCounts(*map(BigInt, (read, written, dirty, 0, 0, purged)))


def epoch(
    number: int, *spans: LaneSpan, lane: str = "a", dirty: int = 0, purge: bool = False
) -> LaneDataRecord:
    read = sum(each.end - each.start for each in spans)
    made = data(1, number, span(0, 0, read), dirty=dirty)
    return LaneDataRecord(
        lane=lane,
        epoch=number,
        ranges=spans,
        files=() if purge else made.files,
        dirty_files=made.dirty_files,
        counts=counts(read, dirty=dirty, purged=read if purge else 0),
        schema="s",
        dirty_reasons={},
        timings_ms={},
        late_in=(),
    )


def done(start: int, end: int, source: str = NAME) -> LaneSpan:
    return LaneSpan(source, BigInt(start), BigInt(end))


def ledger() -> Fold:
    """Ten dirty rows of twenty, in slot 2."""
    return fold_of(fence(), sources(0), data(1, 0, span(0, 0, 20), dirty=10))


def put(fold: Fold, *bodies: LaneRecord | LaneDataRecord) -> Fold:
    for body in bodies:
        made = record(fold, body)
        raw = encode_record(made)
        assert decode_record(raw, "here") == made
        fold.apply(made, raw)
    return fold


def test_replay_consumes_its_rows_and_moves_nothing_else() -> None:
    fold = ledger()
    before = {key: known.end for key, known in fold.sources.items()}
    assert fold.dirty_rows_open == 10
    put(fold, opened(part(0, 4), part(6, 10)), epoch(1, done(0, 2), dirty=1))
    lane = fold.lanes.lanes["a"]
    assert (lane.finished, [each.start for each in lane.left()]) == (False, [2, 6])
    assert fold.dirty_rows_open == 9
    put(fold, epoch(2, done(2, 4), done(6, 10)))
    assert fold.lanes.lanes["a"].finished
    assert fold.lanes.open_lanes() == []
    assert fold.dirty_rows_open == 3
    assert {key: known.end for key, known in fold.sources.items()} == before
    assert (fold.counts.read, fold.counts.dirty) == (20, 10)
    assert fold.partitions["dt=20261120/hr=08"].rows == 10 + 7


def test_purge_consumes_rows_without_a_file() -> None:
    fold = put(ledger(), opened(part(0, 10), kind=PURGE), epoch(1, done(0, 10), purge=True))
    assert (fold.dirty_rows_open, fold.lanes.counts.purged) == (0, 10)
    assert fold.lanes.lanes["a"].finished


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (opened(part(3, 5), lane="b"), "belong to another lane"),
        (opened(part(0, 1), lane="b"), "belong to another lane"),
        (opened(part(4, 6), part(3, 4), lane="b"), "belong to another lane"),
        (opened(part(5, 7), part(6, 8), lane="b"), "come twice"),
        (opened(part(5, 7), part(5, 7), lane="b"), "come twice"),
        (opened(part(6, 8)), "opens lane a again"),
        (opened(lane="b"), "without rows"),
        (opened(part(6, 6), lane="b"), "are none"),
        (opened(part(6, 8), lane="b", kind="backfill"), "opens a `backfill`"),
        (opened(part(6, 8, NAME.replace(LEDGER, "e" * 32)), lane="b"), "none of this ledger's"),
        (opened(part(6, 8, NAME.replace("/2/", "/9/")), lane="b"), "none of this ledger's"),
        (opened(part(6, 8, "orders"), lane="b"), "no dirty file"),
        (opened(part(6, 8, NAME.replace("/2/", "/02/")), lane="b"), "no dirty file"),
    ],
)
def test_lane_that_may_not_be_opened_is_refused(body: LaneRecord, words: str) -> None:
    fold = put(ledger(), opened(part(0, 5)))
    with pytest.raises(InvariantError, match=words):
        fold.check(record(fold, body))


def hidden(body: LaneDataRecord) -> LaneDataRecord:
    """The same epoch, whose rows lie where late ones do and are not called late."""
    files = (replace(each, final=f"_sluiceway/orders/late/{each.final}") for each in body.files)
    return replace(body, files=tuple(files))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (epoch(1, done(0, 2), lane="b"), "never opened"),
        (epoch(1, done(3, 5)), "does not begin at a committed end"),
        (epoch(1, done(0, 6)), "does not begin at a committed end"),
        (epoch(1, done(0, 2, OTHER)), "does not begin at a committed end"),
        (epoch(1, done(2, 2)), "comes twice"),
        (epoch(1, done(2, 3), done(2, 4)), "comes twice"),
        (epoch(1), "consumes nothing"),
        (epoch(0, done(2, 4)), "has epoch 0 after 0"),
        (replace(epoch(1, done(2, 4)), counts=counts(3)), "read 3, its ranges 2"),
        (replace(epoch(1, done(2, 4)), files=()), "wrote 2, files 0"),
        (replace(epoch(1, done(2, 4), dirty=1), dirty_files=()), "has 1 dirty, files 0"),
        (replace(epoch(1, done(2, 4)), counts=NO_LANE_ROWS), "read 0, its ranges 2"),
        (epoch(1, done(2, 4), purge=True), "purges 2 in a replay"),
        (replace(epoch(1, done(2, 4)), late_in=("dt=20261120",)), "I7"),
        (hidden(epoch(1, done(2, 4))), "hides rows in _sluiceway/orders/late/"),
    ],
)
def test_epoch_of_a_lane_that_does_not_follow_is_refused(body: LaneDataRecord, words: str) -> None:
    fold = put(ledger(), opened(part(0, 2, OTHER), lane="c"), opened(part(2, 5)))
    with pytest.raises(InvariantError, match=words):
        fold.check(record(fold, body))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda file: replace(file, staged=file.staged.replace("1-1-", "1-7-")),
        lambda file: replace(file, final="../elsewhere.parquet"),
    ],
)
def test_file_of_another_epoch_or_outside_of_the_table_is_refused(
    wrong: Callable[[FileRecord], FileRecord],
) -> None:
    fold = put(ledger(), opened(part(0, 5)))
    body = epoch(1, done(0, 2))
    with pytest.raises(InvariantError, match=r"I[49] does not hold"):
        fold.check(record(fold, replace(body, files=tuple(map(wrong, body.files)))))


def test_snapshot_keeps_open_lanes_and_all_that_was_ever_taken(tmp_path: Path) -> None:
    storage, layout = LocalStorage(), LedgerLayout(str(tmp_path), "orders")
    fold = put(
        ledger(),
        opened(part(0, 4)),
        epoch(1, done(0, 4), dirty=2),
        opened(part(4, 7), part(8, 9), lane="b", kind=PURGE),
        epoch(2, done(4, 5), lane="b", purge=True),
    )
    fold.set_published_through(fold.next_seq)
    storage.make_folders(layout.stage)
    named = record(fold, write_side_file(storage, layout, fold))
    found = load_snapshot(storage, layout, named)
    assert found is not None
    assert found.lanes == fold.lanes
    with pytest.raises(InvariantError, match="belong to another lane"):
        found.check(record(found, opened(part(3, 4), lane="c")))
    assert [(each.start, each.stop) for each in found.lanes.lanes["b"].left()] == [(5, 7), (8, 9)]


def test_rows_that_are_taken_are_known_one_by_one() -> None:
    rng = random.Random(7)  # noqa: S311 - repeatable, not secret
    for _ in range(200):
        book, taken = ReplayLanes(), set[int]()
        for _ in range(12):
            start = rng.randrange(30)
            stop = start + rng.randint(1, 6)
            rows = set(range(start, stop))
            assert book.is_taken("f", start, stop) == bool(rows & taken)
            if not rows & taken:
                book.add("f", start, stop)
                taken |= rows
        intervals = book.taken.get("f", [])
        assert {row for a, b in intervals for row in range(a, b)} == taken
        assert all(b < c for (_, b), (c, _) in pairwise(intervals))


# Late rows that are brought in

HOUR = "dt=20261120/hr=08"


def late_ledger() -> tuple[Fold, str]:
    """An hour with fifteen rows, closed; five of it that came late lie aside, in slot 3."""
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 15)))
    came = replace(with_late(data(1, 1, span(0, 15, 20)), 5), files=(), closed=(HOUR,))
    put_data(fold, came)
    (file,) = came.late_files
    return fold, str(LateSource(LEDGER, 3, file.final.rpartition("/")[2]))


def put_data(fold: Fold, body: DataRecord) -> None:
    made = record(fold, body)
    fold.apply(made, encode_record(made))


def brought_in(number: int, source: str, rows: int = 5) -> LaneDataRecord:
    """Their file is in the hour, which is closed."""
    return replace(epoch(number, done(0, rows, source)), late_in=(HOUR,))


def test_late_rows_go_into_their_closed_hour_once_and_are_not_late_again() -> None:
    fold, source = late_ledger()
    assert (fold.closed[HOUR].late_rows, fold.partitions[HOUR].rows) == (5, 15)
    put(fold, opened(part(0, 5, source), kind=LATE), brought_in(2, source))
    assert fold.lanes.lanes["a"].finished
    assert (fold.closed[HOUR].late_rows, fold.partitions[HOUR].rows) == (5, 20)
    # They are no dirty rows.
    assert (fold.dirty_rows_open, fold.lanes.counts, fold.lanes.late.read) == (0, NO_LANE_ROWS, 5)
    with pytest.raises(InvariantError, match="belong to another lane"):
        fold.check(record(fold, opened(part(0, 5, source), lane="b", kind=LATE)))


@pytest.mark.parametrize(
    ("kind", "start", "wrong", "words"),
    [
        (REPLAY, 0, str, "no dirty file"),
        (PURGE, 0, str, "no dirty file"),
        (LATE, 0, lambda name: name.replace("late:", "dirty:"), "no late file"),
        (LATE, 0, lambda name: name.replace("/3/", "/9/"), "none of this ledger's"),
        (LATE, 1, str, "from row 1 on"),
    ],
)
def test_lane_of_late_rows_reads_whole_late_files_and_no_other_lane_does(
    kind: str, start: int, wrong: Callable[[str], str], words: str
) -> None:
    fold, source = late_ledger()
    with pytest.raises(InvariantError, match=words):
        fold.check(record(fold, opened(part(start, 5, wrong(source)), kind=kind)))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda body: replace(body, files=()), "wrote 5, files 0"),
        (lambda body: replace(body, files=(), counts=filtered(5)), "loses late rows"),
        (lambda body: replace(body, late_in=()), "I7"),
        (lambda body: replace(brought_in(2, body.ranges[0].source, 4)), "not the whole file"),
    ],
)
def test_late_row_that_would_be_lost_or_unmarked_is_refused(
    wrong: Callable[[LaneDataRecord], LaneDataRecord], words: str
) -> None:
    fold, source = late_ledger()
    put(fold, opened(part(0, 5, source), kind=LATE))
    with pytest.raises(InvariantError, match=words):
        fold.check(record(fold, wrong(brought_in(2, source))))


def filtered(rows: int) -> LaneCounts:
    return LaneCounts(*map(BigInt, (rows, 0, 0, rows, 0, 0)))


def test_snapshot_keeps_what_was_brought_in_and_is_as_before_without(tmp_path: Path) -> None:
    storage, layout = LocalStorage(), LedgerLayout(str(tmp_path), "orders")
    fold, source = late_ledger()
    storage.make_folders(layout.stage)
    assert b'"late":{' not in encode(lane_image(fold.lanes))
    put(fold, opened(part(0, 5, source), kind=LATE), brought_in(2, source))
    fold.set_published_through(fold.next_seq)
    found = load_snapshot(storage, layout, record(fold, write_side_file(storage, layout, fold)))
    assert found is not None
    assert found.lanes == fold.lanes
