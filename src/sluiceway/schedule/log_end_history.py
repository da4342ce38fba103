"""A log that ends below its committed end is read again before it is called truncated.

A newly elected leader, or a former one that does not know it yet, answers with a high watermark of
a moment ago. That says nothing about the log and is over in seconds; a truncation stays.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from sluiceway.errors import SourceUnavailableError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.sources.contract import LogBounds, SourcePartition

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
                doubt = doubt or SourceUnavailableError(
                    f"its leader says that the log ends at {place.high_watermark}, the committed "
                    f"end is {known.end}; it is asked again before that is believed",
                    where=str(one),
                )
        if doubt is not None:
            raise doubt
