"""The route's watermark in the ledger: what the fold takes, refuses and keeps."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import InvariantError
from sluiceway.ledger.data_parts import (
    MAX_HELD_BY,
    HeldByRecord,
    SourceName,
    WatermarkRecord,
)
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.kept_partitions import forget
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.placing import placed
from sluiceway.ledger.records import (
    Body,
    DataRecord,
    RangeRecord,
    decode_record,
    encode_record,
)
from sluiceway.ledger.snapshot import load_snapshot, write_side_file
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import data, fence, fold_of, record, sources, span

HOUR = "dt=20261120/hr=08"
ZERO, ONE = SourceName("orders", 0), SourceName("orders", 1)


def put(fold: Fold, body: Body) -> None:
    """Through the codec into the fold."""
    fold.set_published_through(fold.next_seq)
    made = record(fold, body)
    raw = encode_record(made)
    fold.apply(decode_record(raw, "slot"), raw)


def rows(partition: int, start: int, end: int, newest_us: int | None) -> RangeRecord:
    """Rows of one source partition."""
    newest = None if newest_us is None else BigInt(newest_us)
    return replace(span(partition, start, end), max_event_time_us=newest)


def epoch(fold: Fold, mark: WatermarkRecord | None, *spans: RangeRecord) -> DataRecord:
    """The next epoch."""
    body = data(fold.term, fold.last_epoch + 1, *spans)
    made = placed(replace(body, closed=tuple(fold.closed)), fold)
    return replace(made, watermark=mark)


def closing(fold: Fold, bound_us: int | None, read_at_us: int = 2000) -> DataRecord:
    """A record that closes an hour."""
    mark = WatermarkRecord(
        BigInt(read_at_us), bound_us=None if bound_us is None else BigInt(bound_us)
    )
    return replace(epoch(fold, mark), closed=(HOUR,), watermark=mark)


def at(us: int | None, read_at_us: int = 2000, **more: object) -> WatermarkRecord:
    """A watermark."""
    made = WatermarkRecord(BigInt(read_at_us), us=None if us is None else BigInt(us))
    return replace(made, **more)  # type: ignore[arg-type]


def two_at(first_us: int, second_us: int, watermark_us: int | None) -> Fold:
    """Two source partitions with rows, and a third without."""
    fold = fold_of(fence(), sources(0, 1))
    spans = (rows(0, 0, 4, first_us), rows(1, 0, 3, second_us))
    put(fold, epoch(fold, at(watermark_us), *spans))
    return fold


def test_watermark_is_kept_with_who_held_it() -> None:
    fold = fold_of(fence(), sources(0))
    held = (HeldByRecord("orders", 0, BigInt(9), BigInt(9)),)

    put(fold, epoch(fold, at(900, held_by=held), rows(0, 0, 4, 1000)))

    assert fold.watermark.us == 900
    assert fold.watermark.read_at_us == 2000
    assert fold.watermark.held_by == held
    assert fold.sources["orders", 0].quiet_since_us == 2000


def test_record_without_a_watermark_has_the_bytes_that_it_had_before_there_was_one() -> None:
    fold = fold_of(fence(), sources(0))
    made = record(fold, epoch(fold, None, rows(0, 0, 4, 1000)))

    raw = encode_record(made)

    assert b"watermark" not in raw
    assert decode_record(raw, "slot") == made


def test_watermark_takes_few_bytes_of_a_record_of_an_epoch() -> None:
    fold = fold_of(fence(), sources(0))
    body = epoch(fold, None, rows(0, 0, 4, 1000))
    us = 1_795_176_000_000_000
    marked = replace(body, watermark=at(us, us))

    grown = len(encode_record(record(fold, marked))) - len(encode_record(record(fold, body)))

    assert grown < 80


def test_row_of_the_future_counts_for_the_time_at_which_it_was_read() -> None:
    fold = fold_of(fence(), sources(0))

    with pytest.raises(InvariantError, match="watermark 2001"):
        put(fold, epoch(fold, at(2001), rows(0, 0, 4, 9000)))
    put(fold, epoch(fold, at(2000), rows(0, 0, 4, 9000)))

    assert fold.sources["orders", 0].max_event_time_us == 2000


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        (at(899), "after 900"),
        (at(900), "after 900"),
        (at(951), r"orders\[1\] is at 950"),
        (at(None, 1999), "looked at 1999"),
        (at(None, by="all_idle"), "that stays"),
        (at(1500, by="all_idle"), "is not idle"),
        (at(920, by="guess"), "`guess`"),
        (at(920, idle=(ZERO, ONE)), "rises by rows"),
        (at(2000, by="all_idle", idle=(ZERO, ONE)), "at 2000"),
        (at(None, idle=(ZERO, ZERO)), "twice"),
        (at(None, idle=(SourceName("orders", 7),)), "not read"),
        (at(None, woken=(ZERO,)), "was not idle"),
        (at(None, bound_us=BigInt(1)), "closes nothing"),
        (at(None, held_by=(HeldByRecord("orders", 0, None, None),) * 9), "names 9"),
    ],
)
def test_unlawful_watermark_is_refused(mark: WatermarkRecord, says: str) -> None:
    fold = two_at(1000, 950, 900)

    with pytest.raises(InvariantError, match=says):
        put(fold, epoch(fold, mark))

    assert fold.watermark.us == 900


def test_watermark_names_as_many_that_hold_it_as_a_record_takes() -> None:
    fold = two_at(1000, 950, 900)
    held = (HeldByRecord("orders", 0, None, None),) * MAX_HELD_BY
    put(fold, epoch(fold, at(None, held_by=held)))
    assert fold.watermark.held_by == held


def test_source_partition_that_is_idle_does_not_hold_until_it_has_rows_again() -> None:
    fold = two_at(1000, 950, 900)

    put(fold, epoch(fold, at(1000, idle=(ONE,))))
    with pytest.raises(InvariantError, match="idle already"):
        put(fold, epoch(fold, at(None, idle=(ONE,))))
    put(fold, epoch(fold, at(None, 2500), rows(1, 3, 5, 970)))

    assert not fold.sources["orders", 1].idle
    assert fold.sources["orders", 1].quiet_since_us == 2500
    with pytest.raises(InvariantError, match="is at 970"):
        put(fold, epoch(fold, at(1001, 2600), rows(0, 4, 6, 1100)))


def test_source_partition_that_has_more_to_read_holds_again() -> None:
    fold = two_at(1000, 950, 900)
    put(fold, epoch(fold, at(1000, idle=(ONE,))))

    put(fold, epoch(fold, at(None, woken=(ONE,))))

    with pytest.raises(InvariantError, match="is at 950"):
        put(fold, epoch(fold, at(1001, 2600), rows(0, 4, 6, 1100)))


def test_source_partition_without_a_row_holds_unless_it_is_idle() -> None:
    fold = two_at(1000, 950, 900)
    put(fold, sources(2, how="discovered"))

    with pytest.raises(InvariantError, match="is at None"):
        put(fold, epoch(fold, at(920)))
    put(fold, epoch(fold, at(920, idle=(SourceName("orders", 2),))))

    assert fold.watermark.us == 920


def test_retired_source_partition_takes_no_part() -> None:
    fold = two_at(1000, 950, 900)
    put(fold, sources(1, retired=True))

    put(fold, epoch(fold, at(1000)))

    assert fold.watermark.us == 1000


def test_all_idle_raises_the_watermark_only_when_a_row_was_ever_seen() -> None:
    fold = two_at(1000, 950, 900)
    put(fold, epoch(fold, at(1500, by="all_idle", idle=(ZERO, ONE))))
    assert (fold.watermark.us, fold.watermark.by) == (1500, "all_idle")

    empty = fold_of(fence(), sources(0))
    with pytest.raises(InvariantError, match="no row was ever seen"):
        put(empty, epoch(empty, at(1500, by="all_idle", idle=(ZERO,))))


def test_record_that_closes_nothing_by_its_slot_says_nothing_of_why_it_may() -> None:
    """Another record has closed the hour since the epoch was planned."""
    fold = fold_of(fence(), sources(0))
    put(fold, epoch(fold, at(950, 1000), rows(0, 0, 5, 1000)))
    mark = WatermarkRecord(BigInt(2000), BigInt(1000), bound_us=BigInt(900))
    planned = replace(data(1, 1, span(0, 5, 6)), closed=(HOUR,), counted=(HOUR,), watermark=mark)
    first = placed(planned, fold)
    assert (first.closed, first.counted, first.watermark) == ((HOUR,), (HOUR,), mark)
    put(fold, closing(fold, 900))
    again = placed(planned, fold)
    assert (again.closed, again.counted) == ((), ())
    assert again.watermark == replace(mark, bound_us=None)


def test_prefix_is_closed_only_below_the_watermark_of_an_earlier_record() -> None:
    fold = two_at(1000, 950, 900)

    with pytest.raises(InvariantError, match="closes up to 901"):
        put(fold, closing(fold, 901))
    with pytest.raises(InvariantError, match="closes up to None"):
        put(fold, closing(fold, None))
    raising = replace(closing(fold, 950), watermark=at(950, bound_us=BigInt(950)))
    with pytest.raises(InvariantError, match="closes up to 950"):
        put(fold, raising)
    put(fold, closing(fold, 900))

    assert HOUR in fold.closed


def test_prefix_in_a_ledger_without_a_watermark_has_no_bound() -> None:
    fold = fold_of(fence(), sources(0))

    with pytest.raises(InvariantError, match="without a watermark"):
        put(fold, closing(fold, 1))


def test_snapshot_brings_the_watermark_and_idle_source_partitions_back(tmp_path: Path) -> None:
    fold = two_at(1000, 950, 900)
    held = (HeldByRecord("orders", 0, None, None),)
    put(fold, epoch(fold, at(1000, idle=(ONE,), held_by=held)))
    fold.set_published_through(fold.next_seq)
    storage, layout = LocalStorage(), LedgerLayout(str(tmp_path), "orders")

    body = write_side_file(storage, layout, fold)
    found = load_snapshot(storage, layout, record(fold, body))

    assert found is not None
    assert found.watermark == fold.watermark
    assert found.sources == fold.sources
    assert found == fold


@pytest.mark.parametrize("watermark_us", [900, None])
def test_partition_that_was_never_announced_is_not_forgotten(
    watermark_us: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor while a source partition without a row holds back the first watermark."""
    monkeypatch.setattr("sluiceway.ledger.kept_partitions.MAX_PARTITIONS", 0)
    fold = two_at(1000, 950, watermark_us)
    fold.effects_through = fold.next_seq

    forget(fold)

    assert list(fold.partitions) == [HOUR]


def test_partition_of_a_route_that_announces_nothing_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sluiceway.ledger.kept_partitions.MAX_PARTITIONS", 0)
    fold = fold_of(fence(), sources(0))
    put(fold, epoch(fold, None, rows(0, 0, 4, 1000)))
    fold.effects_through = fold.next_seq

    forget(fold)

    assert not fold.partitions


def test_record_that_only_closes_has_not_looked_at_what_was_pinned_since() -> None:
    fold = two_at(1000, 1200, 900)
    put(fold, sources(2))
    put(fold, closing(fold, 900))
    assert fold.sources["orders", 2].quiet_since_us is None

    put(fold, epoch(fold, at(None, 2500)))
    assert fold.sources["orders", 2].quiet_since_us == 2500
