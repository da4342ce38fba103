"""The page `/metrics`: figures of all routes, as Prometheus reads them."""

import threading
import time
from collections.abc import Iterable, Iterator
from functools import reduce

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from sluiceway import __version__
from sluiceway.driver.status_board import MeasuredRoute, StatusBoard
from sluiceway.observe import metrics
from sluiceway.observe.figures import FigureLimits, Histogram, Labels
from sluiceway.observe.metrics import (
    METRICS,
    OTHER,
    EpochResult,
    Metric,
    MetricKind,
    RecoveryKind,
)
from sluiceway.route.status import RouteState
from sluiceway.types.dirty import DirtyReason
from sluiceway.worker.plan import LatePolicy
from sluiceway.worker.task_figures import resident_bytes

_NO_LABELS: Labels = ()
_SHOWN_STATES = (
    RouteState.STARTING,
    RouteState.RUNNING,
    RouteState.WAITING,
    RouteState.HALTED,
    RouteState.CAUGHT_UP,
    RouteState.STOPPED,
)


_ZEROES: dict[str, dict[Labels, float]] = {
    metric.name: {(str(value),): 0 for value in values}
    for metric, values in (
        (metrics.RECORDS_DIRTY, DirtyReason),
        (metrics.RECORDS_LATE, LatePolicy),
        (metrics.EPOCHS, EpochResult),
        (metrics.RECOVERIES, RecoveryKind),
    )
}


class MetricsPage:
    """Makes the page. Any thread may ask; one at a time is served.

    Args:
        job: Its name.
        board: Whose routes are shown.
        limits: How many of them.
    """

    def __init__(self, job: str, board: StatusBoard, limits: FigureLimits) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_JobCollector(job, board, limits))
        ProcessCollector(registry=self._registry)
        self._lock = threading.Lock()

    def render(self, accept: str) -> tuple[bytes, str]:
        """The page and its content type.

        Args:
            accept: Header of the request; empty is the plain text form.
        """
        encode, content_type = choose_encoder(accept)
        with self._lock:
            return encode(self._registry), content_type


class _JobCollector(Collector):
    def __init__(self, job: str, board: StatusBoard, limits: FigureLimits) -> None:
        self._job = job
        self._board = board
        self._limits = limits
        self._started = time.time()

    def describe(self) -> Iterable[Family]:
        """Nothing: else the registry would collect once to learn the names."""
        return ()

    def collect(self) -> Iterator[Family]:
        """All families, in the order of their definition; called once a request."""
        routes = self._board.measured()
        shown, rest = routes[: self._limits.routes], routes[self._limits.routes :]
        for metric in METRICS:
            if metric.of_route:
                yield self._of_routes(metric, shown, rest)
        yield from self._of_process(routes, rest)

    def _of_routes(
        self, metric: Metric, shown: tuple[MeasuredRoute, ...], rest: tuple[MeasuredRoute, ...]
    ) -> Family:
        family = _family(metric)
        for route in shown:
            labels = (self._job, route.status.route, route.status.table)
            if isinstance(family, HistogramMetricFamily):
                _add_spreads(family, labels, _spreads_of(route, metric))
            else:
                _add_numbers(family, labels, _numbers_of(route, metric))
        other = (self._job, OTHER, OTHER)
        if isinstance(family, HistogramMetricFamily) and rest:
            _add_spreads(family, other, _sum_spreads(rest, metric))
        elif metric.kind is MetricKind.COUNTER and rest:
            # What gauges say of many routes is no sum.
            _add_numbers(family, other, _sum_numbers(rest, metric))
        return family

    def _of_process(
        self, routes: tuple[MeasuredRoute, ...], rest: tuple[MeasuredRoute, ...]
    ) -> Iterator[Family]:
        cut: dict[Labels, float] = {(label,): 0 for label in ("route", "topic", "partition")}
        for route in routes:
            for label, count in route.figures.cut.items():
                cut[label,] = cut.get((label,), 0) + count
        cut["route",] += len(rest)
        found: dict[str, dict[Labels, float]] = {
            metrics.BUILD_INFO.name: {(__version__,): 1},
            metrics.THREADS.name: {_NO_LABELS: threading.active_count()},
            metrics.DRIVER_MEMORY.name: {_NO_LABELS: resident_bytes()},
            metrics.STARTED.name: {_NO_LABELS: self._started},
            metrics.BEAT_AGE.name: {_NO_LABELS: self._board.beat_age_s()},
            metrics.CUT_OFF.name: cut,
        }
        for metric in METRICS:
            if not metric.of_route:
                family = _family(metric)
                _add_numbers(family, (self._job,), found[metric.name])
                yield family


def _family(metric: Metric) -> Family:
    kinds = {
        MetricKind.COUNTER: CounterMetricFamily,
        MetricKind.GAUGE: GaugeMetricFamily,
        MetricKind.HISTOGRAM: HistogramMetricFamily,
    }
    made: Family = kinds[metric.kind](metric.full_name, metric.help, labels=metric.all_labels)
    return made


def _numbers_of(route: MeasuredRoute, metric: Metric) -> dict[Labels, float]:
    status = route.status
    if metric.name == metrics.JOB_STATE.name:
        return {(state.value,): float(status.state is state) for state in _SHOWN_STATES}
    if metric.name == metrics.LAG_SECONDS.name:
        known_ms = status.lag_at_least_ms if status.lag_ms is None else status.lag_ms
        return {} if known_ms is None else {_NO_LABELS: known_ms / 1000}
    if metric.name == metrics.LAG_RECORDS.name and status.lag_records is None:
        return {}
    if metric.name == metrics.LAST_COMMIT.name and status.last_commit_ms is not None:
        return {_NO_LABELS: status.last_commit_ms / 1000}
    if metric.name == metrics.PARTITIONS_LEFT_OUT.name:
        return {_NO_LABELS: status.left_out_count}
    if metric.name == metrics.FOLLOWER_BEHIND_SLOTS.name:
        return {(each.name,): each.behind_slots for each in status.followers}
    if metric.name == metrics.FOLLOWER_BEHIND_SECONDS.name:
        return {(each.name,): each.behind_s for each in status.followers}
    found = dict(route.rooms.get(metric.name) or route.figures.numbers.get(metric.name, {}))
    if metric.kind is MetricKind.COUNTER:
        # A counter that begins with its first increase would hide that one from `rate`.
        found = _ZEROES.get(metric.name, {} if metric.labels else {_NO_LABELS: 0}) | found
    return found


def _spreads_of(route: MeasuredRoute, metric: Metric) -> dict[Labels, Histogram]:
    found = dict(route.figures.spreads.get(metric.name, {}))
    if not found and not metric.labels:
        found = {_NO_LABELS: Histogram(metric.bounds)}
    return found


def _sum_numbers(routes: Iterable[MeasuredRoute], metric: Metric) -> dict[Labels, float]:
    found: dict[Labels, float] = {}
    for route in routes:
        for labels, value in _numbers_of(route, metric).items():
            # Topics of routes that are put together are put together too.
            key = (OTHER,) if metric.labels == ("topic",) else labels
            found[key] = found.get(key, 0) + value
    return found


def _sum_spreads(routes: Iterable[MeasuredRoute], metric: Metric) -> dict[Labels, Histogram]:
    found: dict[Labels, list[Histogram]] = {}
    for route in routes:
        for labels, spread in _spreads_of(route, metric).items():
            found.setdefault(labels, []).append(spread)
    return {labels: reduce(Histogram.plus, spreads) for labels, spreads in found.items()}


def _add_numbers(family: Family, base: Labels, values: dict[Labels, float]) -> None:
    for labels, value in sorted(values.items()):
        # Both kinds have it; their common class does not say so.
        family.add_metric((*base, *labels), value)  # type: ignore[attr-defined]


def _add_spreads(
    family: HistogramMetricFamily, base: Labels, values: dict[Labels, Histogram]
) -> None:
    for labels, spread in sorted(values.items(), key=lambda each: each[0]):
        under, buckets = 0, []
        bounds = [*(f"{bound:g}" for bound in spread.bounds), "+Inf"]
        for bound, count in zip(bounds, spread.counts, strict=True):
            under += count
            buckets.append((bound, under))
        family.add_metric((*base, *labels), buckets, spread.total)
