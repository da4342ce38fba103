"""SWAP: what the fold takes, what it refuses, and what readers of row places make of it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import InvariantError
from sluiceway.ledger.data_parts import TablePin
from sluiceway.ledger.dirty_files import dirty_sources, late_sources
from sluiceway.ledger.dirty_sources import DirtySource
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.garbage import Decided
from sluiceway.ledger.lane_records import NO_LANE_ROWS, LaneDataRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.partition_records import SwapCounts, SwapInput, SwapRecord
from sluiceway.ledger.record_formats import needed_format
from sluiceway.ledger.records import (
    FORMAT,
    Body,
    DataRecord,
    Record,
    decode_record,
    encode_record,
)
from sluiceway.ledger.row_places import RowBook
from sluiceway.ledger.snapshot import load_snapshot, write_side_file
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt, decode, encode
from sluiceway.upkeep.partition_bodies import (
    SwapParts,
    expire_body,
    intent_body,
    ready_body,
    swap_body,
    swap_intent_body,
    why_not_swapped,
)
from tools.ledger_records import data, fence, fold_of, record, sources, span, staged

DAY, HOUR, NINE = "dt=20261120", "dt=20261120/hr=08", "dt=20261120/hr=09"
INPUT = SwapInput("e" * 32, HOUR, 1, 17)
_Log = list[Record]


def put(fold: Fold, body: Body | None, log: _Log | None = None) -> int:
    """Through the codec into the fold, all published; returns the slot."""
    assert body is not None
    fold.set_published_through(fold.next_seq)
    raw = encode_record(record(fold, body))
    made = decode_record(raw, "slot")
    fold.apply(made, raw)
    fold.set_published_through(fold.next_seq)
    if log is not None:
        log.append(made)
    return made.seq


def rows(fold: Fold, start: int, end: int, *, closed: tuple[str, ...] = ()) -> DataRecord:
    """The next epoch: rows of 8 o'clock."""
    body = data(fold.term, fold.last_epoch + 1, span(0, start, end))
    state = fold.partitions.get(HOUR)
    place = HOUR if state is None else state.location
    files = tuple(
        replace(file, final=f"{place}/{file.final.rpartition('/')[2]}") for file in body.files
    )
    late = (HOUR,) if HOUR in fold.closed else ()
    return replace(body, files=files, late_in=late, closed=closed)


def begun(*, since: bool = False, prefix: str = HOUR) -> tuple[Fold, int, SwapParts]:
    """An hour of four rows whose replacement is under way, with three rows that came since."""
    fold = fold_of(fence(), sources(0))
    before = rows(fold, 0, 4)
    put(fold, before)
    intent = put(fold, swap_intent_body(fold, prefix, "backfill"))
    came: tuple[FileRecord, ...] = ()
    if since:
        later = rows(fold, 4, 7)
        put(fold, later)
        came = later.files
    return fold, intent, parts(fold, intent, before.files, came)


def parts(
    fold: Fold, intent: int, live: tuple[FileRecord, ...], came: tuple[FileRecord, ...]
) -> SwapParts:
    """Five rows at 8 and one at 9 o'clock in place of what was live."""
    eight, nine = staged(fold, intent, 5, 1)
    values = live[0].values
    eight, nine = replace(eight, values=values), replace(nine, values=(*values[:-1], "09"))
    folder = eight.staged.partition("/")[0]
    copies = [replace(file, staged=f"{folder}/{file.final.rpartition('/')[2]}") for file in came]
    added = {HOUR: [eight]}
    if fold.intents[intent].partition == DAY:
        added[NINE] = [nine]
    written = sum(int(file.rows) for files in added.values() for file in files)
    return SwapParts(
        live={HOUR: live},
        added=added,
        since={HOUR: came} if came else {},
        carried={HOUR: copies} if came else {},
        counts=SwapCounts(BigInt(written + 2), BigInt(written), outside=BigInt(2)),
        inputs=(INPUT,),
        sql="abc",
        operator="me@here",
        reason="wrong rate",
    )


def swapped(*, since: bool = True, prefix: str = DAY) -> tuple[Fold, SwapRecord]:
    fold, intent, made = begun(since=since, prefix=prefix)
    body = swap_body(fold, intent, made)
    assert body is not None
    put(fold, body)
    return fold, body


def test_swap_gives_a_prefix_other_rows_and_keeps_what_came_meanwhile() -> None:
    fold, body = swapped()
    eight, nine = fold.partitions[HOUR], fold.partitions[NINE]
    assert (eight.rows, eight.files, eight.version) == (5 + 3, 2, 1)
    assert (nine.rows, nine.files, nine.version) == (1, 1, 1)
    assert (body.rows_before, body.rows_after) == (7, 9)
    # Each folder goes as a whole one day: no two partitions share one.
    assert len({state.location.rpartition("/")[0] for state in (eight, nine)}) == 2
    assert fold.swaps == {DAY: fold.next_seq - 1}
    assert fold.intents == {}
    assert list(fold.left) == [HOUR]
    # The next rows go where the partition is.
    put(fold, rows(fold, 7, 9))
    assert eight.rows == 10


def test_partition_without_a_new_row_is_empty_and_stays() -> None:
    fold, intent, made = begun()
    made = replace(made, added={}, counts=SwapCounts(BigInt(0), BigInt(0)))
    put(fold, swap_body(fold, intent, made))
    state = fold.partitions[HOUR]
    assert (state.rows, state.files, state.expired) == (0, 0, False)
    assert state.location != HOUR


def test_prefix_without_a_row_yet_gets_its_first_by_a_swap() -> None:
    fold = fold_of(fence(), sources(0))
    intent = put(fold, swap_intent_body(fold, HOUR, "recompute"))
    (file,) = staged(fold, intent, 5)
    counts = SwapCounts(BigInt(40), BigInt(5), merged=BigInt(35))
    made = SwapParts({}, {HOUR: [file]}, {}, {}, counts, inputs=(INPUT,))
    put(fold, swap_body(fold, intent, made))
    state = fold.partitions[HOUR]
    assert (state.rows, state.version, state.folder) == (5, 1, HOUR)
    assert fold.left == {}


def test_announced_prefix_is_announced_again_after_a_swap() -> None:
    fold = fold_of(fence(), sources(0))
    before = rows(fold, 0, 4)
    put(fold, before)
    put(fold, rows(fold, 4, 4, closed=(HOUR,)))
    put(fold, ready_body(fold, HOUR))
    assert ready_body(fold, HOUR) is None
    intent = put(fold, swap_intent_body(fold, HOUR, "correct"))
    put(fold, swap_body(fold, intent, parts(fold, intent, before.files, ())))
    again = ready_body(fold, HOUR)
    assert again is not None
    assert (again.version, again.rows) == (2, 5)
    put(fold, again)


@pytest.mark.parametrize("name", [DAY, HOUR, NINE])
def test_nothing_else_is_begun_where_a_swap_is_under_way(name: str) -> None:
    fold, _, _ = begun(prefix=DAY)
    assert swap_intent_body(fold, name, "backfill") is None
    assert intent_body(fold, HOUR, "compact") is None
    assert expire_body(fold, [HOUR], "old") is None


def test_no_swap_is_begun_where_a_compaction_is_under_way() -> None:
    fold = fold_of(fence(), sources(0))
    put(fold, rows(fold, 0, 4))
    put(fold, intent_body(fold, HOUR, "compact"))
    assert not why_not_swapped(fold, DAY)
    assert swap_intent_body(fold, DAY, "backfill") is None


def test_swap_waits_for_copies_of_what_came_since_its_intent() -> None:
    fold, intent, made = begun(since=True)
    assert swap_body(fold, intent, replace(made, since={}, carried={})) is None
    assert swap_body(fold, intent, made) is not None


def _partition(body: SwapRecord, **changes: object) -> SwapRecord:
    first, *others = body.partitions
    return replace(body, partitions=(replace(first, **changes), *others))  # type: ignore[arg-type]


REFUSED: dict[str, tuple[str, Callable[[SwapRecord], SwapRecord]]] = {
    "another prefix": ("rule 2", lambda b: replace(b, prefix=NINE)),
    "no intent": ("rule 2", lambda b: replace(b, intent=b.intent + 1)),
    "a partition left out": ("rule 2", lambda b: replace(b, partitions=b.partitions[1:])),
    "a partition twice": ("rule 2", lambda b: replace(b, partitions=b.partitions * 2)),
    "a foreign partition": ("rule 2", lambda b: _partition(b, partition="dt=20261119/hr=08")),
    "a folder of before": ("rule 4", lambda b: _partition(b, folder=HOUR)),
    "a version too high": ("rule 4", lambda b: _partition(b, version=2)),
    "a live file left out": (
        "rule 2",
        lambda b: _partition(b, removed=b.partitions[0].removed[1:]),
    ),
    "rows that came since left out": ("rule 4", lambda b: _partition(b, carried=())),
    "rows carried twice": ("I4", lambda b: _partition(b, carried=b.partitions[0].carried * 2)),
    "files of another work": (
        "I9",
        lambda b: _partition(
            b, added=tuple(replace(f, staged="1-0-x/f") for f in b.partitions[0].added)
        ),
    ),
    "files elsewhere": (
        "I4",
        lambda b: _partition(
            b, added=tuple(replace(f, final=f"{HOUR}/f") for f in b.partitions[0].added)
        ),
    ),
    "other values": ("rule 2", lambda b: _partition(b, values=("20261120", "07"))),
    "a count too many": (
        "P6",
        lambda b: replace(b, counts=replace(b.counts, read=BigInt(b.counts.read + 1))),
    ),
    "rows that no file has": (
        "P6",
        lambda b: replace(b, counts=SwapCounts(BigInt(99), BigInt(99))),
    ),
    "dirty rows that no file has": (
        "P6",
        lambda b: replace(b, counts=replace(b.counts, outside=BigInt(0), dirty=BigInt(2))),
    ),
    "another number before": ("P6", lambda b: replace(b, rows_before=BigInt(4))),
    "another number after": ("P6", lambda b: replace(b, rows_after=BigInt(4))),
}


@pytest.mark.parametrize(("rule", "spoil"), REFUSED.values(), ids=REFUSED)
def test_unlawful_swap_is_refused(rule: str, spoil: Callable[[SwapRecord], SwapRecord]) -> None:
    fold, intent, made = begun(since=True, prefix=DAY)
    body = swap_body(fold, intent, made)
    assert body is not None
    before = fold.head
    with pytest.raises(InvariantError, match=rf"^{rule} "):
        put(fold, spoil(body))
    assert fold.head == before
    put(fold, body)


def test_intent_of_an_unknown_purpose_is_refused() -> None:
    fold = fold_of(fence(), sources(0))
    put(fold, rows(fold, 0, 4))
    body = swap_intent_body(fold, HOUR, "backfill")
    assert body is not None
    with pytest.raises(InvariantError, match="rule 2"):
        put(fold, replace(body, purpose="polish"))


def test_ledger_keeps_its_format_until_the_first_swap_is_begun() -> None:
    fold, _, _ = begun()
    assert (fold.format, needed_format(fence())) == (2, FORMAT)
    old = fold_of(fence(), sources(0))
    put(old, rows(old, 0, 4))
    put(old, intent_body(old, HOUR, "compact"))
    assert old.format == FORMAT
    # And never falls: a later fence of the old format is refused.
    with pytest.raises(InvariantError, match="rule 26"):
        put(fold, fence(driver="d2"))


def test_snapshot_keeps_what_a_swap_under_way_needs(tmp_path: Path) -> None:
    fold, intent, made = begun(since=True, prefix=DAY)
    fold.swaps["dt=20261119"] = 1
    layout, storage = LedgerLayout(str(tmp_path), "orders"), LocalStorage()
    storage.make_folders(layout.stage)
    at = record(fold, write_side_file(storage, layout, fold))
    restored = load_snapshot(storage, layout, at)
    assert restored is not None
    assert (restored.intents, restored.swaps) == (fold.intents, fold.swaps)
    assert restored.intents[intent].since.rows == 3
    assert restored.format == 2
    put(restored, swap_body(restored, intent, made))


def test_staged_files_of_a_swap_stay_until_it_is_published() -> None:
    fold, intent, made = begun()
    body = swap_body(fold, intent, made)
    assert body is not None
    raw = encode_record(record(fold, body))
    fold.apply(decode_record(raw, "slot"), raw)
    assert intent in Decided.of(fold).intents
    fold.set_published_through(fold.next_seq)
    assert intent not in Decided.of(fold).intents


def test_rows_before_a_swap_are_gone_and_later_ones_follow_its_own() -> None:
    fold = fold_of(fence(), sources(0))
    log: _Log = []
    before = rows(fold, 0, 4)
    first = put(fold, before, log)
    intent = put(fold, swap_intent_body(fold, HOUR, "backfill"), log)
    later = rows(fold, 4, 7)
    put(fold, later, log)
    body = swap_body(fold, intent, parts(fold, intent, before.files, later.files))
    at = put(fold, body, log)
    last = put(fold, rows(fold, 7, 9), log)
    book = RowBook()
    for each in log:
        book.apply(each)
    assert book.rows == 9
    arrivals = book.arrivals(first - 1, last)
    gone = [book.let_go(each.partition, each.life) for each in arrivals]
    assert [each is not None and each.corrected for each in gone] == [True, True, False]
    assert gone[0] is not None
    assert (gone[0].slot, gone[0].reason) == (at, "wrong rate")
    # The new rows and the carried ones come first; what came later starts after these.
    assert (arrivals[-1].first, arrivals[-1].place) == (5 + 3, 7)
    (span_,) = book.spans(arrivals[-1:])
    assert (span_.first_row, span_.rows) == (0, 2)
    assert [each.rows for each in book.first_rows(HOUR, 10, last)] == [5, 3, 2]
    # A SWAP lets go of no place: a new reader begins with the first row, and finds a gap.
    assert book.whole_from == 0


def test_dirty_rows_of_a_swap_are_open_and_can_be_replayed(tmp_path: Path) -> None:
    fold, intent, made = begun()
    folder = made.added[HOUR][0].staged.partition("/")[0]
    layout = LedgerLayout(str(tmp_path), "orders")
    dirty = replace(
        made.added[HOUR][0],
        staged=f"{folder}/d.parquet",
        final=layout.dirty_relative("d.parquet"),
        values=(),
        rows=BigInt(2),
    )
    counts = replace(made.counts, outside=BigInt(0), dirty=BigInt(2))
    body = swap_body(fold, intent, replace(made, counts=counts, dirty_files=(dirty,)))
    seq = put(fold, body)
    assert fold.dirty_rows_open == 2
    assert body is not None
    found = dirty_sources("u", record(fold, body, seq=seq))
    assert found == {DirtySource("u", seq, "d.parquet"): dirty}
    assert late_sources("u", record(fold, body, seq=seq)) == {}
    storage = LocalStorage()
    storage.make_folders(layout.stage)
    restored = load_snapshot(storage, layout, record(fold, write_side_file(storage, layout, fold)))
    assert restored is not None
    assert restored.dirty_rows_open == 2


def test_corrected_rows_are_gaps_and_need_the_newer_format() -> None:
    fold = fold_of(fence(), sources(0))
    body = data(fold.term, 0, span(0, 0, 4, gaps=2))
    (read,) = body.ranges
    for corrected in (3, -1):
        wrong = replace(body, ranges=(replace(read, corrected=BigInt(corrected)),))
        with pytest.raises(InvariantError, match="P6"):
            put(fold, wrong)
    assert needed_format(body) == FORMAT
    put(fold, replace(body, ranges=(replace(read, corrected=BigInt(2)),)))
    assert fold.format == 2


def test_pins_of_joined_tables_need_the_newer_format_and_are_left_out_without() -> None:
    fold = fold_of(fence(), sources(0))
    body = data(fold.term, 0, span(0, 0, 4))
    pins = (TablePin("users", f"{'f' * 32}@{2**60}"),)
    lane = LaneDataRecord("l", 0, (), (), (), NO_LANE_ROWS, "s", {}, {}, ())
    for plain in (body, lane):
        assert (needed_format(plain), b'"pins"' in encode(plain)) == (FORMAT, False)
        pinned = replace(plain, pins=pins)
        assert needed_format(pinned) == 2
        assert decode(encode(pinned), type(plain)) == pinned
    put(fold, replace(body, pins=pins))
    assert fold.format == 2
