"""What the metrics say of the partitions of a route's table, surveyed now and then."""

import time
from collections import Counter, deque
from collections.abc import Collection

from sluiceway.eventtime.prefix_periods import Period
from sluiceway.eventtime.readiness import OpenPrefixes
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.folding.fold import Fold
from sluiceway.observe import metrics
from sluiceway.observe.figures import Figures, Labels
from sluiceway.observe.metrics import PartitionPhase

_LEAST_PAUSE_S = 5.0
# A survey takes at most an eight thousandth of the time, however many partitions there are.
_REST = 8000
_MICRO = 1_000_000
_EPOCHS = 2
_MOST_OVERDUE = 20


class PartitionSurvey:
    """Surveys one route. Used by one thread at a time, between its commits.

    Args:
        config: The route.
        metrics: Where the numbers go.
        announced: Where prefixes go that were announced since, with the time in seconds.
    """

    def __init__(
        self, config: RouteConfig, metrics: Figures, announced: "deque[tuple[str, float]]"
    ) -> None:
        self._figures = metrics
        self._announced = announced
        self._target_bytes = config.rolling.target_bytes
        rule = config.ready
        self._periods = None if rule is None else rule.periods()
        self._grace_us = self._overdue_after_us = 0
        if rule is not None:
            self._grace_us = rule.lateness_us + rule.watermark.out_of_orderness_us
            epochs_us = int(_EPOCHS * config.interval_s * _MICRO)
            self._overdue_after_us = rule.watermark.idle_after_us + epochs_us
        self._book: OpenPrefixes | None = None
        self._due = self._rested = 0.0
        self._announced_seq: int | None = None

    def update(self, fold: Fold, *, changed: bool = False) -> None:
        """Survey all partitions, unless that was just done.

        Args:
            fold: The ledger.
            changed: True after a commit: only the cost of a survey delays it.
        """
        started = time.monotonic()
        if started < (self._rested if changed else self._due):
            return
        self._count_states(fold)
        self._read_announced(fold)
        took = time.monotonic() - started
        self._rested = started + took * _REST
        self._due = max(self._rested, started + _LEAST_PAUSE_S)

    def _count_states(self, fold: Fold) -> None:
        states: Counter[PartitionPhase] = Counter()
        small = 0
        waiting: set[str] = set()
        for name, state in fold.partitions.items():
            if state.expired:
                continue
            needed = max(1, -(-state.size_bytes // self._target_bytes))
            small += max(0, state.files - needed)
            prefix = fold.closed_above(name)
            if prefix is None and fold.sealed_above(name) is None:
                states[PartitionPhase.OPEN] += 1
                waiting.add(name)
            elif prefix is not None and fold.closed[prefix].version == 0:
                states[PartitionPhase.CLOSED] += 1
                waiting.add(name)
            else:
                states[PartitionPhase.READY] += 1
        put = self._figures.put
        put(metrics.PARTITIONS, {(phase.value,): states[phase] for phase in PartitionPhase})
        self._figures.put_one(metrics.PARTITIONS_OPEN, states[PartitionPhase.OPEN])
        self._figures.put_one(metrics.SMALL_FILES, small)
        self._read_waiting(fold, waiting)
        self.count_overdue()

    def _read_waiting(self, fold: Fold, waiting: set[str]) -> None:
        """Keep which times wait for their READY, and the last that is closed."""
        if self._periods is None:
            return
        unannounced = {prefix for prefix, each in fold.closed.items() if each.version == 0}
        book = OpenPrefixes(self._periods, 0)
        book.see_closed(prefix for prefix in fold.closed if prefix not in unannounced)
        book.see_closed(fold.sealed)
        book.see_partitions(waiting | unannounced)
        self._book = book

    def count_overdue(self) -> None:
        """Count by the clock alone: a route that goes round no more is overdue all the same."""
        now_us, book, late = time.time_ns() // 1000, self._book, list[Period]()
        if book is not None:
            late += [each for each in book.open if each.end_us + self._grace_us <= now_us]
            # A partition without rows is closed once all is quiet.
            late += book.without_rows(now_us - self._grace_us - self._overdue_after_us)
        self._log_overdue(late)

    def _log_overdue(self, overdue: Collection[Period]) -> None:
        """How many there are, and since when the oldest of them."""
        self._figures.put_one(metrics.PARTITIONS_OVERDUE, len(overdue))
        oldest = sorted(overdue)[:_MOST_OVERDUE]
        since: dict[Labels, float] = {
            (each.prefix,): (each.end_us + self._grace_us) / _MICRO for each in oldest
        }
        self._figures.put(metrics.PARTITION_OVERDUE_SINCE, since)

    def _read_announced(self, fold: Fold) -> None:
        """What was announced since the last call. The first call finds an earlier driver's."""
        newest = fold.next_seq
        since, self._announced_seq = self._announced_seq, newest
        if since is None or self._periods is None:
            return
        found = sorted(
            (each.ready_seq, prefix, each.ready_at_us)
            for prefix, each in fold.closed.items()
            if each.ready_seq >= since and each.ready_at_us is not None
        )
        for _, prefix, at_us in found:
            self._announced.append((prefix, at_us / _MICRO))
            period = self._periods.of(prefix)
            if period is not None:
                delay_s = max(0.0, (at_us - period.end_us) / _MICRO)
                self._figures.observe(metrics.READY_DELAY, delay_s)
