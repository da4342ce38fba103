"""Source partitions to warn about: a shorter log, no leader, or a transaction left open.

A newly elected leader, or a former leader that does not know it yet, answers with a high watermark
of a moment ago. That says nothing about the log and is over in seconds; a truncation stays.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sluiceway.errors import SourceUnavailableError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.observe.log import Log
from sluiceway.schedule.planner import way_out_of
from sluiceway.schedule.source_view import SourceView, undescribed
from sluiceway.sources.contract import TABLE_TOPIC, LogBounds, SourcePartition

RECHECK_AFTER_S = 3.0
"""Seconds from the first reading to the one that is believed; watermarks follow much sooner."""


@dataclass(frozen=True, slots=True)
class _Behind:
    since: float
    leader_epoch: int | None


class LogEndHistory:
    """The log ends that one route has read; used by the route's thread alone."""

    def __init__(self) -> None:
        self._behind: dict[SourcePartition, _Behind] = {}

    def update(self, fold: Fold, bounds: Mapping[SourcePartition, LogBounds]) -> None:
        """Note which logs end below their committed ends. Called whenever they were asked for.

        Returns when the bounds can be believed: no log is short, or it was already some seconds
        ago, under the same leader epoch. Then the planner says what that means.

        Args:
            fold: State of the ledger.
            bounds: Log ends as the brokers say now; a partition without an answer is left as it is.

        Raises:
            SourceUnavailableError: A log ends below its committed end, and has not for long.
        """
        now = time.monotonic()
        doubt: SourceUnavailableError | None = None
        for (topic, number), known in sorted(fold.sources.items()):
            one = SourcePartition(topic, number)
            place = bounds.get(one)
            if place is None:
                continue
            if known.retired or known.end <= place.high_watermark:
                self._behind.pop(one, None)
                continue
            seen = self._behind.get(one)
            if seen is None or seen.leader_epoch != place.leader_epoch:
                # Another leader is another witness, and needs its own time.
                seen = self._behind[one] = _Behind(now, place.leader_epoch)
            if now - seen.since < RECHECK_AFTER_S:
                doubt = doubt or _doubted(one, known.end, place.high_watermark)
        if doubt is not None:
            raise doubt


def _doubted(one: SourcePartition, committed: int, end: int) -> SourceUnavailableError:
    found = f"its leader says that the log ends at {end}, the committed end is {committed}"
    if one.topic.startswith(TABLE_TOPIC):
        found = f"the table that is read ends at row {end:,}, {committed:,} rows were read"
    text = f"{found}; it is asked again before that is believed"
    return SourceUnavailableError(text, where=str(one))


MOST_NAMED = 20
"""More are only counted, in an event and in the route's status."""


class SkippedPartitions:
    """Owned by a route's session, used by one thread.

    Args:
        log: Gets each change of what is left out.

    Attributes:
        why: Partition -> why it is left out, the first `MOST_NAMED` of them.
        count: How many are left out in all.
    """

    def __init__(self, log: Log) -> None:
        self.why: Mapping[str, str] = {}
        self.count = 0
        self._log = log
        self._before: frozenset[SourcePartition] = frozenset()

    def update(self, fold: Fold, view: SourceView) -> None:
        """Take in what the brokers have said. Called with each plan that has a part to read."""
        left = undescribed(fold, view.bounds)
        self.count = len(left)
        self.why = {str(one): _why(fold, one, view) for one in left[:MOST_NAMED]}
        now = frozenset(left)
        if now - self._before:
            self._log.warning("partitions_left_out", count=self.count, partitions=list(self.why))
        elif self._before and not now:
            self._log.info("partitions_back", count=len(self._before))
        self._before = now


def _why(fold: Fold, one: SourcePartition, view: SourceView) -> str:
    end, copy = fold.sources[one.topic, one.partition].end, view.copies.get(one)
    if not view.has(one):
        return f"it is gone; rows from offset {end} on wait; {way_out_of(fold, one)}"
    if copy is None:
        return f"no leader answers for it; rows from offset {end} on wait"
    return f"no leader answers for it; a copy is read, which ends at offset {copy.end_offset}"


OPEN_FOR_S = 60.0
"""A transaction of a producer that lives ends sooner, as a rule: a minute by default."""

_AGAIN_S = 600.0


@dataclass(slots=True)
class _Waiting:
    stable_end: int
    since: float
    told: float | None = None


class OpenTransactions:
    """Watches where a route's logs are held up. Owned by its session, used by one thread.

    Args:
        log: Gets each partition after a minute, and every ten minutes.
        clock: Monotonic seconds.
    """

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._waiting: dict[SourcePartition, _Waiting] = {}

    def update(self, fold: Fold, bounds: Mapping[SourcePartition, LogBounds]) -> None:
        """Take in log ends that were just read. Called before each epoch."""
        now = self._clock()
        held_up = {}
        for (topic, number), known in fold.sources.items():
            partition = SourcePartition(topic, number)
            place = bounds.get(partition)
            if place is None or known.retired:
                continue
            # All is read that may be read, and there is more.
            if known.end >= place.end_offset and place.end_offset < place.high_watermark:
                before = self._waiting.get(partition)
                if before is None or before.stable_end != place.end_offset:
                    before = _Waiting(place.end_offset, now)
                held_up[partition] = before
                self._log_open(partition, before, place, now)
        self._waiting = held_up

    def _log_open(
        self, partition: SourcePartition, waiting: _Waiting, place: LogBounds, now: float
    ) -> None:
        told_lately = waiting.told is not None and now - waiting.told < _AGAIN_S
        if now - waiting.since < OPEN_FOR_S or told_lately:
            return
        waiting.told = now
        self._log.warning(
            "transaction_open",
            partition=str(partition),
            since_offset=place.end_offset,
            waiting=place.high_watermark - place.end_offset,
            for_s=round(now - waiting.since),
        )
