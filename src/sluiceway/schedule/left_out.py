"""Source partitions that a route goes on without, since no leader answers: said, as lag is silent.

Their rows wait where they are. Their committed ends stay, and they hold the watermark.
"""

from typing import TYPE_CHECKING

from sluiceway.ledger.folding.fold import Fold
from sluiceway.observe.log import Log
from sluiceway.schedule.planner import way_out_of
from sluiceway.schedule.source_view import SourceView, undescribed
from sluiceway.sources.contract import SourcePartition

if TYPE_CHECKING:
    from collections.abc import Mapping

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
