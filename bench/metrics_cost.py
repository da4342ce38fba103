"""What metrics cost: a record in a task, an epoch in the driver, a request for the page.

No server is needed. `python -m bench.metrics_cost` ends with one JSON line, of CPU time alone:
microseconds a record for fetches of confluent-kafka's messages and for those of buffers,
milliseconds an epoch of 8 tasks and 1,000 source partitions, milliseconds a survey of 10,000
table partitions and the epoch with its share of it, milliseconds a page of 80 routes.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

from sluiceway.driver.status_board import MeasuredRoute, StatusBoard
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.loader import load_job
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import PartitionState, SourceState
from sluiceway.ledger.records import DataRecord, RangeRecord, RowCounts
from sluiceway.observe.figures import FigureLimits
from sluiceway.route.epoch_report import EpochDone
from sluiceway.route.route_figures import RouteFigures
from sluiceway.route.status import RouteState, RouteStatus
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.service.metrics_page import MetricsPage
from sluiceway.sources.contract import LogBounds, SourcePartition
from sluiceway.sources.kafka.reader import KafkaBatch, MessageRows
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import TaskFigures, TaskResult
from sluiceway.worker.task_figures import FigureTally

ROWS = 10_000
ROUNDS = 60
TASKS, SOURCES, PARTITIONS, ROUTES = 8, 1000, 10_000, 80
EXAMPLE = Path(__file__).parents[1] / "examples" / "orders.yaml"
HERE = SourcePartition("orders", 0)


class _Buffers(KafkaBatch):
    """As the native module hands rows over: times in an array, the size known."""

    times = np.arange(ROWS, dtype=np.int64) + 1_795_176_000_000

    def sampled_times_ms(self, step: int) -> Sequence[int | None]:  # type: ignore[override]
        return self.times[::step]  # type: ignore[return-value]

    def value_bytes(self) -> int:
        return 250 * ROWS


def typical_s(act: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Median seconds of CPU that a call takes: other work on the machine does not count."""
    found = []
    for _ in range(rounds):
        started = time.thread_time()
        act()
        found.append(time.thread_time() - started)
    return statistics.median(found)


def record_us(kind: type[KafkaBatch]) -> float:
    """Microseconds a record in a task: sizes, times of append, event times."""
    messages = [
        Message(
            topic="orders",
            partition=0,
            offset=n,
            key=None,
            value=b"x" * 250,
            timestamp=(TIMESTAMP_CREATE_TIME, 1_795_176_000_000 + n),
        )
        for n in range(ROWS)
    ]
    batch = kind(0, HERE, MessageRows(messages))
    times = pa.array(np.arange(ROWS, dtype=np.int64) * 1000 + 1_795_176_000_000_000)
    tally = FigureTally([HERE])

    def take() -> None:
        tally.count([batch])
        tally.happened(times)

    return typical_s(take) / ROWS * 1e6


def config() -> RouteConfig:
    """The example's route, with readiness."""
    environ = {"SLUICEWAY_KAFKA": "h:1", "SLUICEWAY_METASTORE": "thrift://h:1"}
    (found,) = compile_routes(load_job(EXAMPLE, environ=environ).spec).routes
    return found


def fold() -> Fold:
    """A ledger of many source partitions and table partitions."""
    found = Fold()
    for n in range(SOURCES):
        found.sources["orders", n] = SourceState(
            "c", "t", 0, "earliest", 1000, max_event_time_us=1_795_176_000_000_000 + n
        )
    for n in range(PARTITIONS):
        name = f"dt={20200101 + n // 24}/hr={n % 24:02d}"
        state = PartitionState.begun((name[3:11], name[15:]), name, 1)
        state.files, state.size_bytes = 3, 1 << 20
        found.partitions[name] = state
    return found


@dataclass(frozen=True, slots=True)
class Driver:
    """What a commit and a look cost it, and a survey of the table's partitions alone."""

    epoch_ms: float
    survey_ms: float


def driver() -> Driver:
    """Milliseconds of what the driver does for metrics in an epoch."""
    state, figures = fold(), RouteFigures(config())
    bounds = {SourcePartition("orders", n): LogBounds(0, 2000, 2000) for n in range(SOURCES)}
    steps = tuple(v for n in range(192) for v in (1_795_176_000_000 + 50 * n, 100))
    told = TaskFigures(
        {"orders": 1 << 30},
        steps,
        steps,
    )
    results = [_result(told, task) for task in range(TASKS)]
    done = EpochDone(7, _record(), results, PlannedEpoch(7, [], None), time.monotonic())  # type: ignore[arg-type]
    survey = figures._survey  # noqa: SLF001 - measured alone

    def look() -> None:
        survey._due = 0.0  # noqa: SLF001
        survey.update(state)

    survey_s = typical_s(look, 20)
    survey._due = survey._rested = float("inf")  # noqa: SLF001

    def epoch() -> None:
        figures.finishing()
        figures.record_commit(done, done.record, state)
        figures._looked = None  # noqa: SLF001
        figures.looked(state, bounds)

    return Driver(1000 * typical_s(epoch), 1000 * survey_s)


def _record() -> DataRecord:
    counts = RowCounts(*(BigInt(n) for n in (1000, 900, 50, 20, 20, 10)))
    ranges = tuple(
        RangeRecord("orders", n, "c", "t", *(BigInt(0),) * 4, None, None, "0" * 32)
        for n in range(SOURCES)
    )
    return DataRecord(7, ranges, (), (), counts, "s", {"missing id": 50}, {})


def _result(told: TaskFigures, task: int) -> TaskResult:
    counts = RowCounts(*(BigInt(0),) * 6)
    made = TaskResult("l", 1, 7, task, "a", (), (), (), counts, {}, {}, False, None)  # noqa: FBT003
    return TaskResult(**{**{n: getattr(made, n) for n in made.__slots__}, "figures": told})


class _Board(StatusBoard):
    routes: tuple[MeasuredRoute, ...] = ()

    def measured(self) -> tuple[MeasuredRoute, ...]:
        return self.routes


def page_ms() -> float:
    """Milliseconds of a request in a job of many routes."""
    figures = RouteFigures(config())
    told = TaskFigures({"orders": 1}, (1_795_176_000_000, 1), (1_795_176_000_000, 1))
    done = EpochDone(7, _record(), [_result(told, 0)], PlannedEpoch(7, [], None), 0.0)  # type: ignore[arg-type]
    figures.record_commit(done, done.record, Fold())
    board = _Board()
    board.routes = tuple(
        MeasuredRoute(
            RouteStatus(route=f"r{n}", table=f"ods.r{n}", state=RouteState.RUNNING),
            figures.figures.read(),
        )
        for n in range(ROUTES)
    )
    page = MetricsPage("job", board, FigureLimits())
    return 1000 * typical_s(lambda: page.render(""), 10)


def main() -> int:
    """Measure and tell."""
    seen = driver()
    # A survey rests eight thousand times as long as it took.
    share_ms = min(seen.survey_ms, 10_000 / 8000)
    found = {
        "record_us_messages": round(record_us(KafkaBatch), 4),
        "record_us_buffers": round(record_us(_Buffers), 4),
        "epoch_ms": round(seen.epoch_ms, 2),
        "survey_ms": round(seen.survey_ms, 2),
        "epoch_ms_with_survey": round(seen.epoch_ms + share_ms, 2),
        "page_ms_80_routes": round(page_ms(), 1),
    }
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
