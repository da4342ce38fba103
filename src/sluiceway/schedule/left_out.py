"""Source partitions that a route goes on without, since no leader answers: said, as lag is silent.

Their rows wait where they are. Their committed ends stay, and they hold the watermark.
"""

from typing import TYPE_CHECKING

from sluiceway.ledger.fold import Fold
from sluiceway.observe.log import Log
from sluiceway.schedule.planner import Bounds, undescribed
from sluiceway.sources.contract import SourcePartition

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_NAMED = 20
"""More are only counted, in an event and in the route's status."""


class LeftOut:
    """Owned by a route's session, used by one thread.

    Args:
        log: Told when they become others.

    Attributes:
        why: Partition -> why it is left out, the first `MOST_NAMED` of them.
        count: Of all.
    """

    def __init__(self, log: Log) -> None:
        self.why: Mapping[str, str] = {}
        self.count = 0
        self._log = log
        self._before: frozenset[SourcePartition] = frozenset()

    def look(self, fold: Fold, bounds: Bounds, copies: Bounds) -> None:
        """Take in what the brokers have said. Called with each plan that has a part to read."""
        left = undescribed(fold, bounds)
        self.count = len(left)
        self.why = {str(one): _why(fold, one, copies) for one in left[:MOST_NAMED]}
        now = frozenset(left)
        if now - self._before:
            self._log.warning("partitions_left_out", count=self.count, partitions=list(self.why))
        elif self._before and not now:
            self._log.info("partitions_back", count=len(self._before))
        self._before = now


def _why(fold: Fold, one: SourcePartition, copies: Bounds) -> str:
    known, copy = fold.sources[one.topic, one.partition], copies.get(one)
    if copy is None:
        return f"it is gone, or no leader answers for it; rows behind offset {known.end} wait"
    return (
        f"no leader answers for it; it is read from a copy, which has rows up to offset "
        f"{copy.end_offset}"
    )
