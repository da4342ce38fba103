from dataclasses import replace

import pytest

from sluiceway.errors import InvariantError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.records import Body, DataRecord, encode_record
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import data, fence, fold_of, record, sources, span


def test_fold_of_a_lawful_log_has_the_ends_and_counts() -> None:
    fold = fold_of(
        fence(),
        sources(0, 1),
        data(1, 0, span(0, 0, 10), span(1, 0, 4, gaps=1)),
        data(1, 3, span(0, 10, 12), dirty=1),
    )
    assert fold.next_seq == 4
    assert [fold.sources["orders", n].end for n in (0, 1)] == [12, 4]
    assert (fold.counts.read, fold.counts.written, fold.counts.dirty) == (15, 14, 1)
    assert set(fold.unpublished) == {2, 3}
    assert fold.partitions["dt=20261120/hr=08"].rows == 14


def test_fold_forgets_unpublished_records_below_published_through() -> None:
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 3)), data(1, 1, span(0, 3, 5)))
    made = replace(record(fold, data(1, 2, span(0, 5, 6))), published_through=3)
    fold.apply(made, encode_record(made))
    assert set(fold.unpublished) == {3, 4}


def test_fence_starts_epochs_anew_and_raises_the_term() -> None:
    fold = fold_of(fence(), sources(0), data(1, 5, span(0, 0, 3)), fence(driver="d2"))
    assert fold.term == 2
    made = record(fold, data(2, 0, span(0, 3, 4)))
    fold.apply(made, encode_record(made))
    assert fold.sources["orders", 0].end == 4


def _moved(base: DataRecord, **changes: object) -> DataRecord:
    return replace(base, **changes)  # type: ignore[arg-type]


OK = data(1, 5, span(0, 3, 8))
UNLAWFUL: dict[str, Body] = {
    "gap": data(1, 5, span(0, 4, 8)),
    "overlap": data(1, 5, span(0, 2, 8)),
    "unknown partition": data(1, 5, span(7, 0, 8)),
    "another topic id": data(1, 5, span(0, 3, 8, topic_id="t2")),
    "same partition twice": data(1, 5, span(0, 3, 8), span(0, 3, 8)),
    "old epoch": data(1, 0, span(0, 3, 8)),
    "same epoch": data(1, 1, span(0, 3, 8)),
    "file below a folder of the epoch's": _moved(
        OK, files=(replace(OK.files[0], staged="1-5-a/b/c.parquet"),)
    ),
    "file that leaves the epoch's folder": _moved(
        OK, files=(replace(OK.files[0], staged="1-5-a/.."),)
    ),
    "files of another epoch": _moved(OK, files=data(1, 6, span(0, 3, 8)).files),
    "files of another term": _moved(OK, files=data(2, 5, span(0, 3, 8)).files),
    "rows missing from files": _moved(OK, files=()),
    "rows read that are in no range": _moved(data(1, 5, span(0, 3, 9)), ranges=OK.ranges),
    "dirty rows missing from files": _moved(data(1, 5, span(0, 3, 8), dirty=1), dirty_files=()),
    "unbalanced": _moved(OK, counts=replace(OK.counts, skipped=BigInt(1))),
    "rows and gaps do not fill the range": _moved(
        OK, ranges=(replace(OK.ranges[0], gaps=BigInt(1)),)
    ),
    "file outside the table": _moved(
        OK, files=(replace(OK.files[0], final="dt=1/../../../etc/x.parquet"),)
    ),
    "pinned twice": sources(0),
    "retired, never pinned": sources(9, retired=True),
    "fence of another ledger": fence(ledger="0" * 32),
    "fence of another job": fence(job="other"),
}


@pytest.mark.parametrize("name", UNLAWFUL)
def test_fold_refuses_an_unlawful_record_and_keeps_its_state(name: str) -> None:
    fold = fold_of(fence(), sources(0), data(1, 1, span(0, 0, 3)))
    before = (fold.next_seq, fold.head, fold.term, fold.sources["orders", 0].end)
    made = record(fold, UNLAWFUL[name])
    with pytest.raises(InvariantError):
        fold.apply(made, encode_record(made))
    assert (fold.next_seq, fold.head, fold.term, fold.sources["orders", 0].end) == before


def test_range_that_ends_before_it_starts_is_refused_and_an_empty_one_is_not() -> None:
    fold = fold_of(fence(), sources(0), data(1, 1, span(0, 0, 3)))
    # No record can be written so: its counts balance, and it would take rows back.
    back = replace(data(1, 5), ranges=(span(0, 3, 1), span(1, 0, 2)))
    fold.apply(made := record(fold, sources(1)), encode_record(made))
    with pytest.raises(InvariantError, match=r"P6.*\[3, 1\)"):
        fold.check(record(fold, back))
    fold.check(record(fold, data(1, 5, span(0, 3, 3))))


def test_fold_refuses_a_slot_out_of_order_an_old_term_and_a_broken_chain() -> None:
    fold = fold_of(fence(), sources(0), fence(driver="d2"))
    good = record(fold, data(2, 0, span(0, 0, 3)))
    for bad in (
        replace(good, seq=9),
        replace(good, term=1),
        replace(good, prev="0" * 64),
        replace(good, published_through=99),
    ):
        with pytest.raises(InvariantError):
            fold.apply(bad, encode_record(bad))
    fold.apply(good, encode_record(good))


@pytest.mark.parametrize("body", [sources(1), sources(0, start=3, retired=True)])
def test_fold_refuses_a_record_of_another_term_than_its_fence_whatever_it_says(
    body: Body,
) -> None:
    # Nothing in these bodies names the term, so nothing else of the fold can refuse them.
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 3)), fence(driver="d2"))
    for term in (1, 3):
        late = replace(record(fold, body), term=term)
        with pytest.raises(InvariantError, match=f"I3.*has term {term}, the fence has 2"):
            fold.apply(late, encode_record(late))
    good = record(fold, body)
    fold.apply(good, encode_record(good))


def test_fold_refuses_a_record_before_any_fence() -> None:
    fold = Fold()
    first = record(fold, sources(0))
    assert first.term == fold.term
    with pytest.raises(InvariantError, match="I3"):
        fold.apply(first, encode_record(first))


def test_fold_refuses_a_record_of_another_format_than_its_fence_declares() -> None:
    fold = fold_of(fence())
    good = record(fold, sources(0))
    for number in (good.format - 1, good.format + 1):
        with pytest.raises(InvariantError, match=f"rule 26.*has format {number}"):
            fold.check(replace(good, format=number))
    fold.check(good)


def test_retired_partition_goes_on_only_at_its_committed_end() -> None:
    fold = fold_of(
        fence(), sources(0), data(1, 0, span(0, 0, 3)), sources(0, start=3, retired=True)
    )
    with pytest.raises(InvariantError):
        fold.check(record(fold, data(1, 1, span(0, 3, 4))))
    with pytest.raises(InvariantError):
        fold.check(record(fold, sources(0, start=0, how="resumed")))
    made = record(fold, sources(0, start=3, how="resumed"))
    fold.apply(made, encode_record(made))
    fold.check(record(fold, data(1, 1, span(0, 3, 4))))
