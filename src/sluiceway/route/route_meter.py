"""Measures one route: its session writes, whoever shows numbers reads."""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sluiceway.followers.runner import FollowerState
from sluiceway.ledger.data_parts import LateRows
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import PartitionKey
from sluiceway.ledger.records import NO_ROWS, RowCounts
from sluiceway.route.status import RouteNumbers
from sluiceway.schedule.source_view import undescribed
from sluiceway.sources.contract import LAKE_CLUSTER, LogBounds, SourceIdentity, SourcePartition
from sluiceway.types.dirty import bounded_counts

_RATE_WINDOW_S = 60.0
_FRESH_S = 5.0

Bounds = Mapping[SourcePartition, LogBounds]
OnLook = Callable[[Fold, Bounds], None]


class CommittedEnd(NamedTuple):
    """Where a log is committed to, and which log that is.

    Attributes:
        newest_slot: See `PinnedPartition.newest_slot`.
    """

    end: int
    identity: SourceIdentity
    newest_slot: int = -1

    def counts_in(self, place: LogBounds) -> bool:
        """Whether the log's end says how many records wait: not where a table has lost rows."""
        is_lake = self.identity.cluster_id == LAKE_CLUSTER
        is_short = is_lake and place.high_watermark < self.end
        return place.removed_slot <= self.newest_slot and not is_short


Ends = Mapping[SourcePartition, CommittedEnd]


def _ignore_bounds(fold: Fold, bounds: Bounds) -> None:
    del fold, bounds


@dataclass(frozen=True, slots=True)
class _Look:
    """Log ends as the brokers had them at a moment of the monotonic clock."""

    at: float
    ends: Mapping[PartitionKey, int]

    def covered_by(self, fold: Fold) -> bool:
        """Whether all that was there then is committed now."""
        return all(
            key not in fold.sources or fold.sources[key].retired or fold.sources[key].end >= end
            for key, end in self.ends.items()
        )


@dataclass(slots=True)
class RouteMeter:
    """Numbers of one route under one driver. Any thread may call it; nothing here waits.

    Attributes:
        interval_s: Length of an epoch; rates are taken over two of them at least.
        clock: Monotonic seconds.
        commits: Commits of rows so far.
        done: Rows of these commits.
        on_look: Called with each reading of log ends.
        followers: Returns how far each follower is, see `RouteStatus`.
        ignored_fields: Sampled rows in which fields were seen that no column reads.
        unfilled_columns: See `RouteStatus`.
        left_out: Source partitions without a leader and why, some of them; and how many they are.
        units_wait_for: Returns why units are not computed; see `RouteStatus`.
        lag: Records that were not committed when an epoch was planned or committed last.
    """

    interval_s: float
    clock: Callable[[], float] = time.monotonic
    commits: int = 0
    done: RowCounts = NO_ROWS
    ignored_fields: Mapping[str, int] = field(default_factory=dict)
    unfilled_columns: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[Mapping[str, str], int] = ({}, 0)
    lag: int = 0
    followers: Callable[[], tuple[FollowerState, ...]] = tuple
    on_look: OnLook = _ignore_bounds
    units_wait_for: Callable[[], str] = str
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _started: float | None = None
    _term: int | None = None
    _last_seq: int | None = None
    _last_commit_ms: int | None = None
    _last_swap: int | None = None
    _counts: RowCounts | None = None
    _dirty_open: int | None = None
    _late: LateRows | None = None
    _lag_records: int | None = None
    _looked: float = 0.0
    _waits_for: _Look | None = None
    _covered: float | None = None
    _ends: Ends = field(default_factory=dict)
    _oldest_ms: int | None = None
    _reasons: Counter[str] = field(default_factory=Counter)
    _recent: deque[tuple[float, RowCounts]] = field(default_factory=deque)

    def advance(self, fold: Fold) -> None:
        """Take in a ledger that has grown by anything but rows; at START, all of it."""
        with self._lock:
            self._read_fold(fold)

    def recall(self, last_commit_ms: int | None) -> None:
        """Take over when an earlier driver has committed last; at START."""
        with self._lock:
            self._last_commit_ms = self._last_commit_ms or last_commit_ms

    def commit(self, fold: Fold, counts: RowCounts, reasons: Mapping[str, int]) -> None:
        """Take in a commit of rows.

        Args:
            fold: Fold with the commit.
            counts: Counts of that commit alone.
            reasons: Its dirty rows, by names of `types.dirty.counted_as`.
        """
        with self._lock:
            self._read_fold(fold)
            self._last_commit_ms = time.time_ns() // 1_000_000
            self.commits += 1
            self.done = self.done.plus(counts)
            self._reasons.update(reasons)
            self._reasons = Counter(bounded_counts(self._reasons))
            self._recent.append((self.clock(), counts))
            self._drop_old()
            if self._waits_for is not None and self._waits_for.covered_by(fold):
                self._covered = max(self._covered or 0.0, self._waits_for.at)
                self._waits_for = None

    def update(
        self,
        fold: Fold,
        bounds: Bounds,
        at: float | None = None,
    ) -> int:
        """Take in log ends.

        Args:
            fold: Fold with all that is committed.
            bounds: The log ends.
            at: When they were read, on the meter's clock; None just now.

        Returns:
            Records in the logs that are not committed.
        """
        self.on_look(fold, bounds)
        with self._lock:
            self._looked = self.clock() if at is None else at
            self._ends = _live_ends(fold)
            lag = self._set_lag(bounds)
            if undescribed(fold, bounds):
                # An unknown record may be as old as anything: nothing new is covered.
                self._waits_for = None
            elif lag == 0:
                self._covered, self._waits_for = self._looked, None
            elif self._waits_for is None:
                ends = {key: bounds.get(SourcePartition(*key)) for key in fold.sources}
                known = {key: log.end_offset for key, log in ends.items() if log is not None}
                self._waits_for = _Look(self._looked, known)
            self.lag = lag
            return lag

    @property
    def was_looked_at(self) -> bool:
        """Whether brokers have returned its log ends once."""
        return self._looked > 0

    @property
    def ends(self) -> Ends:
        """Committed ends of the logs that are read, at the last update."""
        with self._lock:
            return self._ends

    def update_idle(self, bounds: Bounds | None) -> None:
        """Take in log ends of a route that goes round no more: it waits or has halted.

        Args:
            bounds: Bounds of `ends`; a log that is another by now is left out. None when no
                leader answers.
        """
        with self._lock:
            if bounds is not None:
                self._looked = self.clock()
                if not self._set_lag(bounds) and len(bounds) >= len(self._ends):
                    self._covered, self._waits_for = self._looked, None
            elif self._lag_records == 0:
                # What waited can only have become more; that nothing does is not known any more.
                self._lag_records = None

    def set_oldest(self, age_ms: int | None) -> None:
        """Take in how old the oldest waiting record is at least, see `RouteStatus`."""
        with self._lock:
            self._oldest_ms = age_ms

    def read(self) -> RouteNumbers:
        """All numbers as they are now."""
        with self._lock:
            self._drop_old()
            seconds = self._measured_s()
            counts = self._counts
            return RouteNumbers(
                term=self._term,
                last_seq=self._last_seq,
                last_commit_ms=self._last_commit_ms,
                rows_read=None if counts is None else int(counts.read),
                rows_written=None if counts is None else int(counts.written),
                rows_dirty=None if counts is None else int(counts.dirty),
                rows_dirty_open=self._dirty_open,
                rows_late=None if self._late is None else self._late.total,
                late_rows={} if self._late is None else self._late.as_counts(),
                lag_records=self._lag_records,
                lag_ms=self._lag_ms(),
                lag_at_least_ms=None if self._covered is not None else self._oldest_ms,
                rows_per_s=round(sum(each.read for _, each in self._recent) / seconds, 1),
                dirty_rows_per_s=round(sum(each.dirty for _, each in self._recent) / seconds, 1),
                dirty_reasons=bounded_counts(self._reasons),
                ignored_fields=dict(self.ignored_fields),
                unfilled_columns=dict(self.unfilled_columns),
                left_out=dict(self.left_out[0]),
                left_out_count=self.left_out[1],
                followers=self.followers(),
                units_wait_for=self.units_wait_for(),
            )

    def _read_fold(self, fold: Fold) -> None:
        if self._started is None:
            self._started = self.clock()
        self._term = fold.term
        self._last_seq = fold.next_seq - 1
        self._counts = fold.counts
        self._dirty_open = fold.dirty_rows_open
        self._late = fold.late_rows
        swap, before = max(fold.swaps.values(), default=-1), self._last_swap
        if before is not None and swap > before:
            self._last_commit_ms = time.time_ns() // 1_000_000
        self._last_swap = swap

    def _set_lag(self, bounds: Bounds) -> int:
        """Keep what is known of the lag: nothing when no leader answers for any log."""
        ends = self._ends
        counted = (one for one in bounds if one not in ends or ends[one].counts_in(bounds[one]))
        bounds = {one: bounds[one] for one in counted}
        lag = lag_of({one: known.end for one, known in self._ends.items()}, bounds)
        answers = not self._ends or not self._ends.keys().isdisjoint(bounds)
        self._lag_records = lag if answers else None
        if not lag:
            self._oldest_ms = None
        return lag

    def _lag_ms(self) -> int | None:
        if self._covered is None:
            return None
        now = self.clock()
        # No route is updated while the tasks of an epoch run.
        is_new = now - self._looked <= self.interval_s + _FRESH_S
        if self._lag_records == 0 and is_new and not self.left_out[1]:
            return 0
        return round(1000 * (now - self._covered))

    def _window_s(self) -> float:
        return max(_RATE_WINDOW_S, 2 * self.interval_s)

    def _measured_s(self) -> float:
        """How long the rates' rows took; a route that has just begun is not called slow."""
        if self._started is None:
            return 1.0
        return max(1.0, min(self._window_s(), self.clock() - self._started))

    def _drop_old(self) -> None:
        oldest = self.clock() - self._window_s()
        while self._recent and self._recent[0][0] < oldest:
            self._recent.popleft()


def lag_records(fold: Fold, bounds: Bounds) -> int:
    """Records in the logs that the ledger has not committed; partitions not asked count none."""
    return lag_of(committed_ends(fold), bounds)


def committed_ends(fold: Fold) -> dict[SourcePartition, int]:
    """Where the logs that are read are committed to."""
    return {one: known.end for one, known in _live_ends(fold).items()}


def lag_of(ends: Mapping[SourcePartition, int], bounds: Bounds) -> int:
    """As `lag_records`, by committed ends."""
    places = ((bounds.get(one), end) for one, end in ends.items())
    return sum(place.waiting(end) for place, end in places if place is not None)


def _live_ends(fold: Fold) -> dict[SourcePartition, CommittedEnd]:
    return {
        SourcePartition(*key): CommittedEnd(
            known.end, SourceIdentity(known.cluster_id, known.topic_id), known.newest_slot
        )
        for key, known in fold.sources.items()
        if not known.retired
    }
