"""Limits of dirty rows: whether an epoch may be committed, given the ledger before it.

The window consists of DATA records alone. A driver that starts reads the last ones back. So a
restart neither forgets dirty rows nor counts them twice, and no local state is needed.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sluiceway.errors import DirtyLimitError
from sluiceway.ledger.records import Body, DataRecord, EpochRecord
from sluiceway.types.dirty import by_reason
from sluiceway.worker.plan import DirtySample, TaskResult

if TYPE_CHECKING:
    # Every process that loads a job file imports the limits, but not the log.
    from sluiceway.ledger.log import LedgerLog

PREPARED_AT = "prepared_at"
"""Key of a record's `timings_ms`: when it was prepared, milliseconds since 1970."""

MOST_RECORDS = 4_000
"""Most slots that a start reads back; a window of more epochs begins there."""

_MOST_SAMPLES = 5


@dataclass(frozen=True, slots=True)
class DirtyLimits:
    """How many dirty rows a route accepts before it halts; None and empty set no limit.

    Attributes:
        ratio: Greatest share of the rows read that may be dirty, 0 to 1.
        ratio_window_ms: Time over which the share counts.
        ratio_min_rows: The share of fewer rows is not judged.
        rows: Most dirty rows.
        reasons: (reason, most rows) of single reasons.
        rows_window_ms: Time over which `rows` and `reasons` count.
    """

    ratio: float | None = None
    ratio_window_ms: int = 600_000
    ratio_min_rows: int = 100
    rows: int | None = None
    reasons: tuple[tuple[str, int], ...] = ()
    rows_window_ms: int = 600_000

    @property
    def window_ms(self) -> int:
        """How far back the limits count; 0 without limits."""
        counts = self.rows is not None or bool(self.reasons)
        windows = (self.ratio_window_ms * (self.ratio is not None), self.rows_window_ms * counts)
        return max(windows)


NO_LIMITS = DirtyLimits()
"""Dirty rows never halt the route."""


@dataclass(frozen=True, slots=True)
class _Epoch:
    """What one epoch read, and when it was prepared."""

    at_ms: int
    read: int
    dirty: int
    reasons: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Breach:
    """A limit that is exceeded."""

    rule: str
    dirty: int
    read: int
    limit: str
    window_ms: int


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class DirtyWatch:
    """The last epochs of a route under one driver. Used by one thread at a time.

    A clock that is set back makes the window longer, never shorter: an epoch from the future
    counts as one of now.

    Attributes:
        limits: Limits of the job file.
        clock_ms: Clock, milliseconds since 1970.
        route: Name of the route, for commands.
    """

    limits: DirtyLimits
    clock_ms: Callable[[], int] = _now_ms
    route: str = ""
    _epochs: deque[_Epoch] = field(default_factory=deque)

    @classmethod
    def recalled(cls, limits: DirtyLimits, ledger: "LedgerLog", next_seq: int) -> "DirtyWatch":
        """A watch with the window from the ledger. Called at START, after fencing.

        Raises:
            LedgerCorruptError: A slot holds something else.
            StorageUnavailableError: The store failed.
        """
        watch = cls(limits, route=ledger.layout.route)
        watch.recall(ledger, next_seq)
        return watch

    def recall(self, ledger: "LedgerLog", next_seq: int) -> None:
        """Read the window back from the ledger.

        Args:
            ledger: Log of the route.
            next_seq: The first free slot.

        Raises:
            LedgerCorruptError: A slot holds something else.
            StorageUnavailableError: The store failed.
        """
        oldest = self.clock_ms() - self.limits.window_ms
        if self.limits.window_ms == 0:
            return
        for seq in range(next_seq - 1, max(-1, next_seq - 1 - MOST_RECORDS), -1):
            found = ledger.read_slot(seq)
            if found is None:
                return
            body = found[0].body
            if not isinstance(body, DataRecord) or not body.ranges:
                # A record that only closes prefixes has read nothing and has no time.
                continue
            # A record of an older version has no time, and neither do those before it.
            if prepared_ms(body) < oldest:
                return
            self._epochs.appendleft(_epoch(body))

    def count(self, record: DataRecord) -> None:
        """Add a committed epoch."""
        if self.limits.window_ms:
            self._drop_old(self.clock_ms())
            self._epochs.append(_epoch(record))

    def checked(self, record: DataRecord, results: Sequence[TaskResult], where: str) -> DataRecord:
        """Refuse an epoch that exceeds a limit. Called in PREPARE, before its commit.

        An epoch without dirty rows of the kind that a limit counts is never refused.

        Args:
            record: DATA record of the epoch whose dirty rows count.
            results: Answers of its tasks, which name the files of the rows.
            where: The table.

        Returns:
            The record with the time at which it was prepared.

        Raises:
            DirtyLimitError: Which limit, with counts, and a few of the rows.
        """
        now_ms = self.clock_ms()
        record = replace(record, timings_ms={**record.timings_ms, PREPARED_AT: now_ms})
        if not record.counts.dirty or not self.limits.window_ms:
            return record
        self._drop_old(now_ms)
        own = _epoch(record)
        breach = next(iter(self._breaches(own, now_ms)), None)
        if breach is None:
            return record
        samples = [sample for result in results for sample in result.dirty_samples]
        raise DirtyLimitError(
            f"{breach.dirty:,} of the {breach.read:,} rows of the last "
            f"{_span(breach.window_ms)} are dirty, {breach.rule} allows {breach.limit}; the epoch "
            "was not committed",
            where=where,
            hint="repair the producer or the columns in the job file, or raise the limit; the rows "
            "are read again when the job is started again",
        ).with_report(_evidence(breach, own, samples), self._commands(breach, own))

    def _commands(self, breach: _Breach, own: _Epoch) -> tuple[str, ...]:
        """Commands that show the rows; those of the refused epoch are only in the topic."""
        again = ("sluiceway validate JOB", "sluiceway run JOB")
        if breach.dirty <= own.dirty:
            return again
        return (f"sluiceway dirty show JOB --route {self.route}", *again)

    def _drop_old(self, now_ms: int) -> None:
        while self._epochs and self._epochs[0].at_ms < now_ms - self.limits.window_ms:
            self._epochs.popleft()

    def _breaches(self, own: _Epoch, now_ms: int) -> Iterable[_Breach]:
        limits = self.limits
        if limits.ratio is not None:
            epochs = self._since(now_ms - limits.ratio_window_ms, own)
            read, dirty = sum(e.read for e in epochs), sum(e.dirty for e in epochs)
            if read >= limits.ratio_min_rows and dirty > limits.ratio * read:
                share = f"{limits.ratio:.4%}".replace("0000%", "%").replace(".%", "%")
                yield _Breach("dirty.max_rate", dirty, read, share, limits.ratio_window_ms)
        epochs = self._since(now_ms - limits.rows_window_ms, own)
        read = sum(epoch.read for epoch in epochs)
        for reason, most in limits.reasons:
            rows = sum(epoch.reasons.get(reason, 0) for epoch in epochs)
            if own.reasons.get(reason) and rows > most:
                rule = f"dirty.reasons.{reason}"
                yield _Breach(rule, rows, read, f"{most:,}", limits.rows_window_ms)
        dirty = sum(epoch.dirty for epoch in epochs)
        if limits.rows is not None and dirty > limits.rows:
            limit = f"{limits.rows:,}"
            yield _Breach("dirty.max_rows", dirty, read, limit, limits.rows_window_ms)

    def _since(self, oldest_ms: int, own: _Epoch) -> list[_Epoch]:
        return [*(epoch for epoch in self._epochs if epoch.at_ms >= oldest_ms), own]


def prepared_ms(body: Body) -> int:
    """When an epoch was prepared, by its driver's clock; 0 when its record has no time."""
    return body.timings_ms.get(PREPARED_AT, 0) if isinstance(body, EpochRecord) else 0


def _epoch(record: DataRecord) -> _Epoch:
    at_ms = prepared_ms(record)
    counts = record.counts
    return _Epoch(at_ms, int(counts.read), int(counts.dirty), by_reason(record.dirty_reasons))


def _evidence(breach: _Breach, own: _Epoch, samples: Sequence[DirtySample]) -> dict[str, object]:
    reasons = sorted(own.reasons.items(), key=lambda item: (-item[1], item[0]))
    found: dict[str, object] = {
        "rule": breach.rule,
        "dirty_rows": breach.dirty,
        "rows_read": breach.read,
        "reasons_of_the_epoch": ", ".join(f"{reason} {rows:,}" for reason, rows in reasons),
    }
    for number, sample in enumerate(_mixed(samples), 1):
        place = f"{sample.topic}[{sample.partition}] offset {sample.offset}"
        path = f" {sample.path}" if sample.path else ""
        found[f"row_{number}"] = f"{place}: {sample.reason}{path}: {sample.message}"
    return found


def _mixed(samples: Sequence[DirtySample]) -> list[DirtySample]:
    """A few rows; each reason before the second row of any."""
    turns: dict[str, int] = {}
    placed = []
    for sample in samples:
        turns[sample.reason] = turns.get(sample.reason, 0) + 1
        placed.append((turns[sample.reason], sample))
    return [sample for _, sample in sorted(placed, key=lambda item: item[0])][:_MOST_SAMPLES]


def _span(window_ms: int) -> str:
    for unit, size_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if window_ms % size_ms == 0:
            return f"{window_ms // size_ms}{unit}"
    return f"{window_ms}ms"
