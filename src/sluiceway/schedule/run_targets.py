"""Where a bounded run ends, and what it still waits for."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from sluiceway.ledger.folding.fold import Fold
from sluiceway.schedule.planner import Bounds, Targets, check_described
from sluiceway.schedule.source_view import undescribed
from sluiceway.sources.contract import TABLE_TOPIC, SourcePartition

_NOTHING: Final[Mapping[SourcePartition, int]] = MappingProxyType({})


class RunTargets:
    """The log ends that a bounded run reads to. Used by one thread.

    They come from its first reading; where no leader answered then, from the first reading in
    which one does.
    """

    def __init__(self) -> None:
        self._ends: dict[SourcePartition, int] | None = None
        self._unaimed: set[SourcePartition] = set()

    def aim(
        self,
        fold: Fold,
        discovered: Collection[SourcePartition],
        bounds: Bounds,
        awaited: Mapping[SourcePartition, int] = _NOTHING,
    ) -> Targets:
        """Take in log ends that were just read. Called with each plan of a bounded run.

        Args:
            fold: State of the ledger.
            discovered: All source partitions of the route's topics.
            bounds: Bounds of partitions whose leaders answer.
            awaited: Ends up to which others wait for a source partition: it is read that far, or
                the run would wait for ever.
        """
        if self._ends is None:
            left = undescribed(fold, bounds)
            self._ends, self._unaimed = {}, {*left, *(one for one in discovered if one in bounds)}
        # A table has one log. Another one goes on with it after rows that were removed.
        tables = {one for one in discovered if one.topic.startswith(TABLE_TOPIC)}
        self._unaimed |= tables - self._ends.keys()
        for one in [each for each in self._unaimed if each in bounds]:
            self._unaimed.discard(one)
            self._ends[one] = bounds[one].end_offset
        for one, end in awaited.items():
            self._ends[one] = max(end, self._ends.get(one, end))
        return self._ends

    def check_reached(self, fold: Fold, bounds: Bounds) -> None:
        """Check that nothing is left where no leader answers. Called when nothing is planned.

        Raises:
            SourceUnavailableError: The run cannot say yet that it has read all.
        """
        ends = self._ends or {}
        for one in undescribed(fold, bounds):
            end = fold.sources[one.topic, one.partition].end
            if one in self._unaimed or end < ends.get(one, end):
                check_described([one], bounds, fold)
