from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.records import DataRecord, encode_record
from sluiceway.route.route_meter import RouteMeter, lag_records
from sluiceway.sources.contract import LAKE_CLUSTER, LogBounds, Removal, SourcePartition
from tools.ledger_records import data, fence, fold_of, record, sources, span


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def ends(*ends_by_partition: int) -> dict[SourcePartition, LogBounds]:
    return {
        SourcePartition("orders", number): LogBounds(0, end, end)
        for number, end in enumerate(ends_by_partition)
    }


def commit(meter: RouteMeter, fold: Fold, body: DataRecord) -> None:
    made = record(fold, body)
    fold.apply(made, encode_record(made))
    meter.commit(fold, body.counts, body.dirty_reasons)


def metered(*, interval_s: float = 10.0) -> tuple[RouteMeter, Fold, Clock]:
    clock = Clock()
    meter, fold = RouteMeter(interval_s, clock), fold_of(fence(), sources(0, 1))
    meter.advance(fold)
    return meter, fold, clock


def test_new_meter_knows_nothing() -> None:
    numbers = RouteMeter(10.0).read()
    assert (numbers.term, numbers.last_seq, numbers.rows_read) == (None, None, None)
    assert (numbers.lag_records, numbers.lag_ms, numbers.rows_per_s) == (None, None, 0.0)


def test_counts_are_the_ledgers_and_a_runs_own_are_kept_apart() -> None:
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 50), dirty=5), fence(driver="d2"))
    meter = RouteMeter(10.0, Clock())
    meter.advance(fold)
    numbers = meter.read()
    assert (numbers.term, numbers.last_seq, numbers.last_commit_ms) == (2, 3, None)
    assert (numbers.rows_read, numbers.rows_written, numbers.rows_dirty) == (50, 45, 5)
    assert meter.commits == 0
    commit(meter, fold, data(2, 0, span(0, 50, 60), dirty=1))
    numbers = meter.read()
    assert (numbers.rows_read, numbers.rows_dirty, numbers.last_seq) == (60, 6, 4)
    assert numbers.last_commit_ms is not None
    assert (meter.commits, meter.done.read, meter.done.written) == (1, 10, 9)


def test_rows_that_are_replaced_are_a_commit_and_those_of_before_the_start_are_not() -> None:
    meter, fold = RouteMeter(10.0, Clock()), fold_of(fence(), sources(0))
    fold.swaps["dt=20261120/hr=08"] = 1
    meter.advance(fold)
    assert meter.read().last_commit_ms is None
    meter.advance(fold)
    assert meter.read().last_commit_ms is None
    fold.swaps["dt=20261120/hr=08"] = 2
    meter.advance(fold)
    assert meter.read().last_commit_ms is not None


def test_lag_counts_partitions_that_are_read_and_known() -> None:
    fold = fold_of(fence(), sources(0, 1), data(1, 0, span(0, 0, 10)))
    assert lag_records(fold, ends(25, 7)) == 15 + 7
    assert lag_records(fold, ends(5)) == 0
    retired = fold_of(fence(), sources(0), sources(0, retired=True))
    assert lag_records(retired, ends(25)) == 0


def test_lag_of_a_table_that_has_lost_rows_is_not_known() -> None:
    meter, fold, _ = metered()
    del fold.sources["orders", 1]
    known, one = fold.sources["orders", 0], SourcePartition("orders", 0)
    known.cluster_id, known.newest_slot, known.end = LAKE_CLUSTER, 2, 10
    for place, lag in (
        (LogBounds(0, 14, 14, removed_slot=2), 4),
        (LogBounds(0, 14, 14, removed_slot=3), None),
        (LogBounds(0, 10, 10), 0),
        (LogBounds(0, 9, 9), None),
    ):
        meter.update(fold, {one: place})
        assert meter.read().lag_records == lag


def test_lag_counts_rows_that_came_after_others_were_removed() -> None:
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 10)))
    gone = (Removal(3, 10, 4, 6, 0, rows=5), Removal(5, 9, 8, 1, 0, rows=2))
    (one,) = ends(10)
    assert lag_records(fold, {one: LogBounds(0, 10, 10, removals=gone)}) == 5 + 2


def test_lag_in_seconds_is_zero_when_nothing_is_left() -> None:
    meter, fold, clock = metered()
    assert meter.update(fold, ends(0, 0)) == 0
    clock.now += 9
    assert meter.read().lag_ms == 0


def test_lag_in_seconds_grows_when_nobody_answers_any_more() -> None:
    meter, fold, clock = metered()
    meter.update(fold, ends(0, 0))
    clock.now += 600
    assert meter.read().lag_ms == 600_000


def test_lag_in_seconds_of_a_busy_route_is_the_age_of_what_is_covered() -> None:
    meter, fold, clock = metered()
    assert meter.update(fold, ends(100, 0)) == 100
    assert meter.read().lag_ms is None
    clock.now += 10
    # More came meanwhile; what was there ten seconds ago is committed.
    commit(meter, fold, data(1, 0, span(0, 0, 120)))
    assert meter.update(fold, ends(130, 0)) == 10
    assert meter.read().lag_ms == 10_000
    clock.now += 12
    commit(meter, fold, data(1, 1, span(0, 120, 140)))
    assert meter.read().lag_ms == 12_000


def test_lag_in_seconds_does_not_shrink_while_a_part_is_behind() -> None:
    meter, fold, clock = metered()
    meter.update(fold, ends(0, 0))
    clock.now += 1
    meter.update(fold, ends(10, 10))
    for epoch, (start, end) in enumerate([(0, 10), (10, 50)]):
        clock.now += 10
        commit(meter, fold, data(1, epoch, span(0, start, end)))
        meter.update(fold, ends(60, 10))
    assert meter.read().lag_ms == 21_000


def test_rates_are_of_the_last_minute_and_end() -> None:
    meter, fold, clock = metered()
    clock.now += 10
    commit(meter, fold, data(1, 0, span(0, 0, 1000), dirty=100))
    assert (meter.read().rows_per_s, meter.read().dirty_rows_per_s) == (100.0, 10.0)
    clock.now += 40
    assert meter.read().rows_per_s == 20.0
    clock.now += 30
    assert (meter.read().rows_per_s, meter.read().dirty_rows_per_s) == (0.0, 0.0)


def test_rates_of_long_epochs_are_taken_over_two_of_them() -> None:
    meter, fold, clock = metered(interval_s=300.0)
    clock.now += 300
    commit(meter, fold, data(1, 0, span(0, 0, 3000)))
    clock.now += 300
    assert meter.read().rows_per_s == 5.0
