"""Audited counts in the ledger: what the fold takes, refuses and keeps."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import InvariantError
from sluiceway.ledger.counts_records import CountedPrefix, CountsEnd, CountsRecord
from sluiceway.ledger.data_parts import WatermarkRecord
from sluiceway.ledger.folding import fold_counts
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.records import Body, DataRecord, decode_record, encode_record
from sluiceway.ledger.snapshot import load_snapshot, write_side_file
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.partition_bodies import counts_body, expire_body
from tools.ledger_records import data, fence, fold_of, record, sources, span

SEVEN, EIGHT = "dt=20261120/hr=07", "dt=20261120/hr=08"
LOG = ("counts", "c1", "t1")


def put(fold: Fold, body: Body) -> None:
    """Through the codec into the fold."""
    fold.set_published_through(fold.next_seq)
    made = record(fold, body)
    raw = encode_record(made)
    fold.apply(decode_record(raw, "slot"), raw)


def counts(*rows: tuple[str, int], end: int = 5) -> CountsRecord:
    """What was read of the topic."""
    found = tuple(CountedPrefix(prefix, BigInt(number)) for prefix, number in rows)
    return CountsRecord(*LOG, ends=(CountsEnd(0, BigInt(end)),), counts=found)


def closing(fold: Fold, *prefixes: str, counted: tuple[str, ...], bound: int | None) -> DataRecord:
    """A record that closes, by counts and by the watermark."""
    mark = WatermarkRecord(BigInt(2000), bound_us=None if bound is None else BigInt(bound))
    empty = data(fold.term, fold.last_epoch + 1)
    return replace(empty, closed=prefixes, counted=counted, watermark=mark)


@pytest.fixture
def fold() -> Fold:
    """Ten rows at eight o'clock."""
    made = fold_of(fence(), sources(0))
    put(made, data(1, 0, span(0, 0, 10)))
    return made


def test_closing_by_a_count_needs_the_count_and_all_of_its_rows(fold: Fold) -> None:
    body = closing(fold, EIGHT, counted=(EIGHT,), bound=None)
    with pytest.raises(InvariantError, match="10 rows of None"):
        put(fold, body)
    put(fold, counts((EIGHT, 11)))
    with pytest.raises(InvariantError, match="10 rows of 11"):
        put(fold, body)
    put(fold, data(1, 1, span(0, 10, 11)))
    put(fold, closing(fold, EIGHT, counted=(EIGHT,), bound=None))
    assert list(fold.closed) == [EIGHT]
    assert fold.counted.rows == {}
    assert fold.watermark.us is None


def test_last_word_on_a_prefix_holds(fold: Fold) -> None:
    put(fold, counts((EIGHT, 9)))
    put(fold, counts((EIGHT, 11), (SEVEN, 0)))
    assert fold.counted.rows == {SEVEN: 0, EIGHT: 11}
    assert not fold.has_counted(EIGHT)
    put(fold, counts((EIGHT, 10)))
    assert fold.has_counted(EIGHT)
    assert fold.has_counted(SEVEN)


def test_what_no_count_closes_needs_the_watermark(fold: Fold) -> None:
    put(fold, counts((EIGHT, 10)))
    mark = WatermarkRecord(BigInt(1000), BigInt(900))
    moved = replace(span(0, 10, 11), max_event_time_us=BigInt(950))
    put(fold, replace(data(1, 1, moved), watermark=mark))
    with pytest.raises(InvariantError, match="rule 6"):
        put(fold, closing(fold, SEVEN, EIGHT, counted=(EIGHT,), bound=None))
    with pytest.raises(InvariantError, match="rule 6"):
        put(fold, closing(fold, SEVEN, EIGHT, counted=(EIGHT,), bound=901))
    put(fold, closing(fold, SEVEN, EIGHT, counted=(EIGHT,), bound=900))
    assert sorted(fold.closed) == [SEVEN, EIGHT]


def test_unlawful_counts_are_refused(fold: Fold) -> None:
    put(fold, counts((EIGHT, 10)))
    put(fold, closing(fold, EIGHT, counted=(EIGHT,), bound=None))
    base = counts((SEVEN, 1))
    wrong = {
        "is closed": counts((EIGHT, 12)),
        "twice": counts((SEVEN, 1), (SEVEN, 2)),
        "has -1": counts((SEVEN, -1)),
        r"\.\./x has 1": counts(("../x", 1)),
        "has ends": replace(base, ends=(*base.ends, *base.ends)),
    }
    for says, body in wrong.items():
        with pytest.raises(InvariantError, match=says):
            put(fold, body)
    for counted in ((SEVEN,), (EIGHT, EIGHT)):
        with pytest.raises(InvariantError, match="counts"):
            put(fold, closing(fold, counted=counted, bound=None))


def test_rows_that_their_owner_drops_are_expected_no_more(fold: Fold) -> None:
    put(fold, counts((EIGHT, 25)))
    fold.set_published_through(fold.next_seq)
    body = expire_body(fold, [EIGHT], "dropped")
    assert body is not None
    put(fold, body)
    assert fold.counted.rows == {EIGHT: 15}
    assert fold.rows_below(EIGHT) == 0


def test_counts_of_another_log_of_the_name_begin_anew(fold: Fold) -> None:
    put(fold, counts((EIGHT, 3), end=7))
    put(fold, replace(counts(end=9), ends=(CountsEnd(1, BigInt(4)),)))
    assert fold.counted.ends == {0: 7, 1: 4}
    put(fold, replace(counts(end=2), topic_id="t2"))
    assert (fold.counted.log, fold.counted.ends) == (("counts", "c1", "t2"), {0: 2})
    assert fold.counted.rows == {EIGHT: 3}


def test_more_counts_than_are_kept_lose_the_oldest(
    fold: Fold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold_counts, "MAX_COUNTED", 2)
    put(fold, counts(*((f"dt=20261120/hr={hour:02d}", hour) for hour in range(4))))
    assert fold.counted.rows == {"dt=20261120/hr=02": 2, "dt=20261120/hr=03": 3}


def test_count_that_a_closing_was_decided_by_is_kept_until_that_is_in_the_ledger(
    fold: Fold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold_counts, "MAX_COUNTED", 2)
    put(fold, counts((EIGHT, 10), ("dt=20261120/hr=09", 1)))
    more = {"dt=20261120/hr=10": 1}
    body = counts_body(fold, (EIGHT,), LOG, {0: 6}, more)
    if body is not None:
        put(fold, body)
    put(fold, closing(fold, EIGHT, counted=(EIGHT,), bound=None))
    body = counts_body(fold, (EIGHT,), LOG, {0: 6}, more)
    assert body is not None
    put(fold, body)
    assert sorted(fold.counted.rows) == ["dt=20261120/hr=09", "dt=20261120/hr=10"]


def test_snapshot_keeps_counts_and_ends(fold: Fold, tmp_path: Path) -> None:
    storage, layout = LocalStorage(), LedgerLayout(str(tmp_path), "orders")
    put(fold, counts((EIGHT, 11), (SEVEN, 0), end=9_007_199_254_740_993))
    fold.set_published_through(fold.next_seq)
    storage.make_folders(layout.stage)
    body = write_side_file(storage, layout, fold)
    loaded = load_snapshot(storage, layout, record(fold, body))
    assert loaded is not None
    assert loaded.counted == fold.counted
    assert loaded.counted.ends == {0: 9_007_199_254_740_993}


def test_body_leaves_out_what_the_driver_has_closed_or_will(fold: Fold) -> None:
    put(fold, counts((EIGHT, 10)))
    put(fold, closing(fold, EIGHT, counted=(EIGHT,), bound=None))
    nine = "dt=20261120/hr=09"
    asked = {EIGHT: 12, SEVEN: 1, nine: 3}
    body = counts_body(fold, (SEVEN,), LOG, {1: 8, 0: 5}, asked)
    assert body is not None
    assert body.counts == (CountedPrefix(nine, BigInt(3)),)
    assert [(each.partition, each.end) for each in body.ends] == [(0, 5), (1, 8)]
    put(fold, body)
