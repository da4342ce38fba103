"""What a route's figures make of what its session tells."""

from collections import deque
from dataclasses import replace

import pytest

from sluiceway.ledger.folding.fold_state import ClosedPrefix, PartitionState, SourceState
from sluiceway.ledger.records import NO_ROWS, DataRecord, RowCounts
from sluiceway.observe.figures import FigureLimits
from sluiceway.observe.metrics import RecoveryKind
from sluiceway.observe.steps import Step
from sluiceway.route import route_figures
from sluiceway.route.epoch_report import EpochDone
from sluiceway.route.route_figures import RouteFigures
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.sources.contract import LogBounds, SourcePartition
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import TaskFailure, TaskFigures, TaskResult
from tools.board_sessions import placed_session
from tools.ledger_records import data, fence, fold_of, sources, span


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def figures(clock: Clock) -> RouteFigures:
    config = replace(placed_session("a").config, figure_limits=FigureLimits(partitions=1))
    return RouteFigures(config, clock)


def result(
    *, read: int = 0, failure: TaskFailure | None = None, told: TaskFigures | None = None
) -> TaskResult:
    counts = replace(NO_ROWS, read=BigInt(read))
    return TaskResult(
        *("l", 1, 1, 0, "a", (), (), (), counts, {}, {"write": 300, "close": 200}),
        consumer_reused=False,
        failure=failure,
        figures=told or TaskFigures(),
    )


def committed(figures: RouteFigures, record: DataRecord, *results: TaskResult) -> None:
    planned = PlannedEpoch(1, [], None)  # type: ignore[arg-type]
    done = EpochDone(7, record, results, planned, planned.started + 2.0)
    figures.record_commit(done, record, fold_of(fence(), sources(0)))


def numbers(figures: RouteFigures, name: str) -> dict[tuple[str, ...], float]:
    return dict(figures.figures.read().numbers.get(name, {}))


def test_rows_count_as_the_record_that_landed_says(figures: RouteFigures) -> None:
    record = replace(
        data(1, 0, span(0, 0, 9)),
        counts=RowCounts(*(BigInt(n) for n in (9, 4, 2, 0, 2, 1))),
        dirty_reasons={"missing id": 1, "missing ts": 1},
    )
    told = TaskFigures({"orders": 70}, open_files=2, memory_bytes=5)
    committed(figures, record, result(told=told), result(told=replace(told, memory_bytes=9)))
    assert sum(numbers(figures, "records_read_total").values()) == 9
    assert numbers(figures, "bytes_read_total") == {("orders",): 140}
    assert numbers(figures, "records_written_total") == {(): 4}
    assert numbers(figures, "records_filtered_total") == {(): 2}
    assert numbers(figures, "records_skipped_total") == {(): 1}
    assert numbers(figures, "records_dirty_total") == {("missing",): 2}
    assert numbers(figures, "epochs_total") == {("committed",): 1}
    assert numbers(figures, "open_writers") == {(): 4}
    assert numbers(figures, "worker_memory_bytes") == {(): 9}
    written = figures.figures.read().spreads["write_latency_seconds"][()]
    assert (sum(written.counts), written.total) == (2, 1.0)


def test_phases_are_timed_by_the_steps(figures: RouteFigures, clock: Clock) -> None:
    seen: list[Step] = []
    observe = figures.watching(seen.append)
    figures.planning()
    clock.now += 0.5
    observe(Step.PLANNED)
    figures.finishing()
    for step, seconds in ((Step.PREPARED, 1), (Step.COMMITTED, 2), (Step.PUBLISHED, 4)):
        clock.now += seconds
        observe(step)
    committed(figures, data(1, 0, span(0, 0, 9)))
    spreads = figures.figures.read().spreads["epoch_duration_seconds"]
    assert {labels[0]: spread.total for labels, spread in spreads.items()} == pytest.approx(
        {"plan": 0.5, "run": 2.0, "prepare": 1.0, "commit": 2.0, "publish": 4.0}
    )
    assert seen == [Step.PLANNED, Step.PREPARED, Step.COMMITTED, Step.PUBLISHED]


def test_what_was_read_in_vain_is_counted_apart(figures: RouteFigures) -> None:
    lost = TaskFigures({"orders": 50, "more": 1}, rows_read=12)
    failure = TaskFailure("TaskFailedError", "broken", "", "", {})
    figures.failed([result(read=99), result(failure=failure, told=lost)])
    figures.failed([result(read=99)])
    figures.died()
    figures.thrown_away([result(read=30), result(failure=failure, told=lost)])
    figures.put_repeated()
    figures.recovered(RecoveryKind.PUBLISH, 3)
    assert numbers(figures, "write_failed_records_total") == {(): 12}
    assert numbers(figures, "write_failed_bytes_total") == {(): 51}
    assert numbers(figures, "duplicates_prevented_total") == {(): 30}
    assert numbers(figures, "epochs_total") == {("failed",): 2, ("thrown_away",): 1}
    assert numbers(figures, "commit_retries_total") == {(): 1}
    assert numbers(figures, "recoveries_total") == {("publish",): 3}
    assert numbers(figures, "records_read_total") == {}


def test_lag_is_by_topic_and_partitions_are_those_furthest_behind(figures: RouteFigures) -> None:
    fold = fold_of(fence(), sources(0))
    fold.sources.clear()
    for topic, number, end, newest in (("a", 0, 10, 9), ("a", 1, 20, 3), ("b", 0, 30, None)):
        fold.sources[topic, number] = SourceState(
            "c", "t", 0, "earliest", end, max_event_time_us=newest and newest * 1_000_000
        )
    fold.sources["gone", 0] = SourceState("c", "t", 0, "earliest", 5, retired=True)
    bounds = {SourcePartition("a", n): LogBounds(0, 50, 50) for n in range(2)}
    figures.looked(fold, bounds)
    assert numbers(figures, "source_lag_records") == {("a",): 70}
    assert numbers(figures, "source_committed_offset") == {("a", "0"): 10}
    assert numbers(figures, "source_watermark_seconds") == {("a", "1"): 3.0}
    assert figures.figures.read().cut == {"partition": 2}


def test_rows_of_a_new_partition_are_readable_when_the_catalog_has_it(
    figures: RouteFigures, clock: Clock
) -> None:
    figures._unshown.append(route_figures._Unshown(7, clock.now))
    figures.applied(7)
    assert "readable_delay_seconds" not in figures.figures.read().spreads
    clock.now += 3.0
    figures.applied(8)
    assert figures.figures.read().spreads["readable_delay_seconds"][()].total == 3.0


def test_survey_counts_states_and_small_files(figures: RouteFigures) -> None:
    fold = fold_of(fence())
    for name, files, size in (("dt=1", 5, 10), ("dt=2", 1, 10), ("dt=3", 2, 10)):
        state = PartitionState.begun((name[3:],), name, 1)
        state.files, state.size_bytes = files, size
        fold.partitions[name] = state
    fold.partitions["dt=4"] = replace(fold.partitions["dt=1"], expired=True)
    fold.closed["dt=2"] = ClosedPrefix(1)
    fold.closed["dt=3"] = ClosedPrefix(1, version=1, ready_seq=2)
    figures.looked(fold, {})
    states = {("open",): 1, ("closed",): 1, ("ready",): 1}
    assert numbers(figures, "partitions") == states
    assert numbers(figures, "partitions_open") == {(): 1}
    assert numbers(figures, "small_files") == {(): 4 + 0 + 1}
    assert figures.announced == deque()
