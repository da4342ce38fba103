"""Numbers of one route, or of the process, by the definitions of `observe.metrics`."""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sluiceway.observe.metrics import OTHER, Metric

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Labels = tuple[str, ...]
"""Values of a metric's own labels, in their order."""


@dataclass(frozen=True, slots=True)
class FigureLimits:
    """How many values labels may have, so that no topic's name can fill a Prometheus.

    Attributes:
        routes: Routes of a job.
        topics: Topics of a route.
        partitions: Source partitions of a route: the ones with the largest lag.
    """

    routes: int = 500
    topics: int = 100
    partitions: int = 20


PLAIN_LIMITS = FigureLimits()
"""What holds when the job file says nothing."""


@dataclass(slots=True)
class Histogram:
    """A histogram: how many values fell under each bound.

    Attributes:
        bounds: Upper bounds, rising; a value on a bound is under it.
        counts: One more than bounds: the last counts values above all bounds.
    """

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def add(self, value: float, times: int = 1) -> None:
        """Take in a value that came so many times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def plus(self, other: "Histogram") -> "Histogram":
        """The sum of two with the same bounds."""
        counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        return Histogram(self.bounds, counts, self.total + other.total)


@dataclass(frozen=True, slots=True)
class FiguresRead:
    """All figures at one moment, by the metric's name."""

    numbers: Mapping[str, Mapping[Labels, float]]
    spreads: Mapping[str, Mapping[Labels, Histogram]]
    cut: Mapping[str, int]


class Figures:
    """Counts and keeps. Any thread may call it; nothing here waits for more than a copy.

    Args:
        limits: How many values its labels may have.
    """

    def __init__(self, limits: FigureLimits | None = None) -> None:
        self.limits = limits or PLAIN_LIMITS
        self._lock = threading.Lock()
        self._numbers: dict[str, dict[Labels, float]] = {}
        self._spreads: dict[str, dict[Labels, Histogram]] = {}
        self._topics: set[str] = set()
        self._cut: Counter[str] = Counter()

    def add(self, metric: Metric, amount: float, *labels: str) -> None:
        """Count so many more. Nothing is kept of an amount of 0.

        Args:
            metric: A counter.
            amount: Not negative.
            labels: Values of its own labels.
        """
        if not amount:
            return
        with self._lock:
            found = self._numbers.setdefault(metric.name, {})
            key = self._bounded(metric, labels)
            found[key] = found.get(key, 0) + amount

    def put(self, metric: Metric, values: Mapping[Labels, float]) -> None:
        """Say what a gauge has now; what it had before under other labels is gone."""
        with self._lock:
            self._numbers[metric.name] = dict(values)

    def put_one(self, metric: Metric, value: float | None) -> None:
        """As `put`, for a gauge without labels of its own; None takes it off the page."""
        self.put(metric, {} if value is None else {(): value})

    def observe(self, metric: Metric, value: float, *labels: str, times: int = 1) -> None:
        """Take a value into a histogram, so many times."""
        with self._lock:
            found = self._spreads.setdefault(metric.name, {})
            if labels not in found:
                found[labels] = Histogram(metric.bounds)
            found[labels].add(value, times)

    def observe_all(
        self, metric: Metric, values: "npt.NDArray[np.float64]", times: "npt.NDArray[np.int64]"
    ) -> None:
        """Take many values into a histogram without labels of its own.

        Args:
            metric: The histogram.
            values: The values.
            times: How often each came.
        """
        if not len(values):
            return
        import numpy as np  # noqa: PLC0415 - slow, and others want the names alone

        places = np.searchsorted(metric.bounds, values)
        counts = np.bincount(places, weights=times, minlength=len(metric.bounds) + 1)
        added = Histogram(metric.bounds, counts.astype(np.int64).tolist(), float(values @ times))
        with self._lock:
            found = self._spreads.setdefault(metric.name, {})
            found[()] = found[()].plus(added) if () in found else added

    def cut(self, label: str, values: int = 1) -> None:
        """Say that values of a label were left out."""
        with self._lock:
            self._cut[label] += values

    def read(self) -> FiguresRead:
        """A copy of all."""
        with self._lock:
            return FiguresRead(
                {name: dict(found) for name, found in self._numbers.items()},
                {
                    name: {
                        labels: Histogram(each.bounds, list(each.counts), each.total)
                        for labels, each in found.items()
                    }
                    for name, found in self._spreads.items()
                },
                dict(self._cut),
            )

    def _bounded(self, metric: Metric, labels: Labels) -> Labels:
        """The labels, with `_other` for a topic beyond the bound."""
        if "topic" not in metric.labels:
            return labels
        place = metric.labels.index("topic")
        topic = labels[place]
        if topic not in self._topics:
            if len(self._topics) >= self.limits.topics:
                self._cut["topic"] += 1
                return (*labels[:place], OTHER, *labels[place + 1 :])
            self._topics.add(topic)
        return labels


def largest(values: Mapping[str, float], most: int) -> tuple[dict[str, float], int]:
    """The greatest values by name, the rest added up under `_other`; and how many that are.

    Called for gauges, whose values are others each time.
    """
    if len(values) <= most:
        return dict(values), 0
    ordered = sorted(values, key=lambda name: (-values[name], name))
    found = {name: values[name] for name in ordered[:most]}
    # A topic may have this very name.
    found[OTHER] = found.get(OTHER, 0) + sum(values[name] for name in ordered[most:])
    return found, len(values) - most
