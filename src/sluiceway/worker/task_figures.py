"""What a task counts for metrics alone; the driver adds it up when its rows are committed.

Times of rows are counted in coarse steps: the finer, the younger the row. At most about a hundred
rows of a fetch are sampled, each for its neighbours too, so that a record costs next to nothing.
"""

import os
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluiceway.ledger.data_parts import NO_LATE_ROWS, LateRows
from sluiceway.ledger.offset_sum import ZERO
from sluiceway.sources.contract import RawRecords, SourceBatch, SourcePartition
from sluiceway.types.dirty import MOST_COUNTED, DirtyReason, DirtyRow, counted_as
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import DirtySample, TaskFigures
from sluiceway.worker.split_tail import SplitTail

_Ints = npt.NDArray[np.int64]
_LOOKED_AT = 64
_TAKEN_AT_ONCE = 4096
_MOST_STEPS = 192
# Rows up to this age are counted in steps of this width, both in milliseconds.
_AGES_MS = np.array([1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000, 2_592_000_000])
_WIDTHS_MS = np.array([50, 250, 1_000, 10_000, 60_000, 1_800_000, 21_600_000, 432_000_000])


class TimeSteps:
    """Counts times in steps, a bounded number of them. One thread."""

    def __init__(self) -> None:
        self._steps: dict[int, int] = {}
        self._waiting: list[tuple[_Ints, _Ints]] = []
        self._waiting_rows = 0

    def count(self, times_ms: _Ints, weights: _Ints) -> None:
        """Count times, each for as many rows as its weight says.

        Args:
            times_ms: Milliseconds since 1970.
            weights: Weights, as many.
        """
        self._waiting.append((times_ms, weights))
        self._waiting_rows += len(times_ms)
        if self._waiting_rows >= _TAKEN_AT_ONCE:
            self._count()

    def counts(self) -> tuple[int, ...]:
        """A time, its rows, the next time, its rows and so on, by rising time."""
        self._count()
        return tuple(value for step in sorted(self._steps) for value in (step, self._steps[step]))

    def _count(self) -> None:
        if not self._waiting_rows:
            return
        times_ms = np.concatenate([times for times, _ in self._waiting])
        weights = np.concatenate([weights for _, weights in self._waiting])
        self._waiting, self._waiting_rows = [], 0
        widths = _WIDTHS_MS[np.searchsorted(_AGES_MS, times_ms.max() - times_ms)]
        found, places = np.unique(times_ms - times_ms % widths + widths // 2, return_inverse=True)
        rows = np.bincount(places, weights=weights).astype(np.int64)
        for step, count in zip(found.tolist(), rows.tolist(), strict=True):
            self._steps[step] = self._steps.get(step, 0) + count
        while len(self._steps) > _MOST_STEPS:
            self._halve()

    def _halve(self) -> None:
        """Put neighbours together, so that half as many steps are left."""
        ordered = sorted(self._steps)
        merged = {}
        for place in range(0, len(ordered), 2):
            pair = ordered[place : place + 2]
            rows = sum(self._steps[step] for step in pair)
            merged[sum(step * self._steps[step] for step in pair) // rows] = rows
        self._steps = merged


@dataclass(slots=True)
class FetchedFigures:
    """What was fetched, for one route or for all that share it.

    Attributes:
        bytes: Bytes of payloads by topic.
        appended: When the records were appended.
        rows: Records.
    """

    bytes: dict[str, int] = field(default_factory=dict)
    appended: TimeSteps = field(default_factory=TimeSteps)
    rows: int = 0


class FigureTally:
    """Counts for one route of a task while it reads. One thread.

    Args:
        splits: What it reads, by index.
        fetched: Filled by another tally; None fills its own.

    Attributes:
        fetched: What was fetched.
    """

    def __init__(
        self, splits: Sequence[SourcePartition], fetched: FetchedFigures | None = None
    ) -> None:
        self._topics = [split.topic for split in splits]
        self.fetched = fetched or FetchedFigures()
        self._happened = TimeSteps()

    def count(self, batches: Sequence[SourceBatch]) -> None:
        """Count what was fetched. Called with every fetch."""
        found = self.fetched
        for batch in batches:
            rows = len(batch.values)
            if not rows:
                continue
            found.rows += rows
            topic = self._topics[batch.split_index]
            found.bytes[topic] = found.bytes.get(topic, 0) + batch.value_bytes()
            step = -(-rows // _LOOKED_AT)
            found.appended.count(*_known(batch.sampled_times_ms(step), _weights(rows, step)))

    def happened(self, times_us: pa.Array) -> None:
        """Count event times of rows that are written or put aside."""
        rows = len(times_us)
        if not rows:
            return
        step = -(-rows // _LOOKED_AT)
        sampled = times_us.to_numpy(zero_copy_only=False)[::step]
        self._happened.count(sampled.astype(np.int64) // 1000, _weights(rows, step))

    def finished(self, open_files: int) -> TaskFigures:
        """All of it, when the files are closed."""
        return TaskFigures(
            self.fetched.bytes,
            self.fetched.appended.counts(),
            self._happened.counts(),
            open_files,
            resident_bytes(),
        )

    def lost(self) -> TaskFigures:
        """Figures of an attempt that has failed."""
        found = self.fetched
        return TaskFigures(found.bytes, rows_read=found.rows, memory_bytes=resident_bytes())


def _known(times: Sequence[int | None], weights: _Ints) -> tuple[_Ints, _Ints]:
    """Times of records that have one, and their weights."""
    if isinstance(times, np.ndarray):
        return times, weights
    if None not in times:
        return np.array(times, dtype=np.int64), weights
    known = np.array([time is not None for time in times], dtype=np.bool_)
    found = np.array([time for time in times if time is not None], dtype=np.int64)
    return found, weights[known]


def _weights(rows: int, step: int) -> _Ints:
    """For how many rows each sampled one stands: itself and all up to the next."""
    count = -(-rows // step)
    weights = np.full(count, step, dtype=np.int64)
    weights[-1] = rows - step * (count - 1)
    return weights


def resident_bytes() -> int:
    """Resident memory of this process; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def seconds_before(counts: Sequence[int], until_ms: int) -> tuple[npt.NDArray[np.float64], _Ints]:
    """How many seconds before a moment each step was, none less than 0; and its rows.

    Args:
        counts: As `TaskFigures.appended`.
        until_ms: The moment.
    """
    pairs = np.array(counts, dtype=np.int64).reshape(-1, 2)
    return np.maximum(until_ms - pairs[:, 0], 0) / 1000, pairs[:, 1]


class TaskClock:
    """The driver's clock, as a task knows it. One task's.

    The clocks of the workers' machines take no part: they may differ by hours. It is later than the
    driver's by the time that the task waited to be started, and never before an earlier epoch's.

    Args:
        planned_us: The driver's clock when the epoch was planned; 0 takes this machine's.
        started: When the task started, on the monotonic clock.
    """

    def __init__(self, planned_us: int, started: float) -> None:
        self._planned_us = planned_us or time.time_ns() // 1000
        self._started = started

    def now_us(self) -> int:
        """Microseconds since the epoch, UTC."""
        return self._planned_us + int((time.monotonic() - self._started) * 1_000_000)


MOST_COLUMNS = 100
"""Columns that a task names; further ones count as filled."""


class TaskUnfilledColumns:
    """One task's, in batches as they were decoded. Used by its thread."""

    def __init__(self) -> None:
        self._names: list[str] | None = None

    def check(self, rows: pa.RecordBatch) -> None:
        """Take in decoded rows. Called once a batch; reads columns that were empty so far."""
        if rows.num_rows == 0:
            return
        names = rows.schema.names if self._names is None else self._names
        if names:
            self._names = [name for name in names if _is_empty(rows.column(name))]

    def names(self, named: Collection[str] = ()) -> tuple[str, ...] | None:
        """In the order of the columns; None when there was no row.

        Args:
            named: Columns whose key payloads have: their names are right, though all is null.
        """
        if self._names is None:
            return None
        return tuple([name for name in self._names if name not in named][:MOST_COLUMNS])


def _is_empty(values: pa.Array) -> bool:
    return int(values.null_count) == len(values)


_SAMPLES_PER_REASON = 3


class DirtyTally:
    """One task's. Used by its thread.

    Attributes:
        samples: The first rows of each reason; messages are as short and redacted as in the file.
    """

    def __init__(self) -> None:
        self.samples: list[DirtySample] = []
        self._counts: Counter[str] = Counter()
        self._sampled: Counter[DirtyReason] = Counter()

    def add(self, rows: Sequence[DirtyRow], records: RawRecords) -> None:
        """Called once for the dirty rows of a read.

        Args:
            rows: Why each is dirty.
            records: The record of each of them.
        """
        found = Counter((row.reason, row.path) for row in rows)
        for (reason, path), count in found.items():
            name = counted_as(reason, path)
            if name not in self._counts and len(self._counts) >= MOST_COUNTED:
                name = reason.value
            self._counts[name] += count
        self._sample(rows, records, {reason for reason, _ in found})

    def _sample(
        self, rows: Sequence[DirtyRow], records: RawRecords, reasons: set[DirtyReason]
    ) -> None:
        wanted = {one for one in reasons if self._sampled[one] < _SAMPLES_PER_REASON}
        for place, row in enumerate(rows):
            if not wanted:
                return
            if row.reason not in wanted:
                continue
            self._sampled[row.reason] += 1
            if self._sampled[row.reason] == _SAMPLES_PER_REASON:
                wanted.remove(row.reason)
            self.samples.append(
                DirtySample(
                    topic=records.topics[place],
                    partition=records.partitions[place],
                    offset=BigInt(records.offsets[place]),
                    stage=row.stage,
                    reason=row.reason.value,
                    path=row.path,
                    message=row.message,
                )
            )

    def counts(self) -> dict[str, int]:
        """Rows by names of `counted_as`."""
        return dict(self._counts)


@dataclass(slots=True)
class SplitTotals:
    """What the pipeline saw of one split."""

    rows: int = 0
    offset_sum: str = ZERO
    max_event_time_us: int | None = None
    tail: SplitTail = field(default_factory=SplitTail)


@dataclass(slots=True)
class TaskCounts:
    """What became of the fetched rows of one task, and where its time went. Used by its thread.

    Attributes:
        read: Fetched rows.
        expanded: Rows in addition to the first one of their record.
        late_rows: Late rows that are dirty; the writer counts the others.
        reasons: Why rows are dirty.
        notes: What the format has counted, by a short name.
        seconds: Part of the pipeline -> seconds in it.
    """

    read: int = 0
    dirty: int = 0
    filtered: int = 0
    skipped: int = 0
    expanded: int = 0
    late_rows: LateRows = NO_LATE_ROWS
    reasons: DirtyTally = field(default_factory=DirtyTally)
    notes: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add_time(self, part: str, since: float) -> float:
        """Add the time since a moment of the monotonic clock to a part; returns the time now."""
        now = time.monotonic()
        self.seconds[part] += now - since
        return now
