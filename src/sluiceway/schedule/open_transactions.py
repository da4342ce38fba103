"""Rows that wait for a transaction which never ends: logged, since lag does not show them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sluiceway.ledger.folding.fold import Fold
from sluiceway.observe.log import Log
from sluiceway.sources.contract import LogBounds, SourcePartition

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
                self._tell(partition, before, place, now)
        self._waiting = held_up

    def _tell(
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
