"""Where a bounded run ends, and what it still waits for."""

from collections.abc import Iterable

from sluiceway.ledger.fold import Fold
from sluiceway.schedule.planner import Bounds, Targets, check_described
from sluiceway.schedule.source_view import undescribed
from sluiceway.sources.contract import SourcePartition


class RunTargets:
    """The log ends that a bounded run reads to. Used by one thread.

    They are those of its first look; where no leader answered then, those of the first look at
    which one does.
    """

    def __init__(self) -> None:
        self._ends: dict[SourcePartition, int] | None = None
        self._unaimed: set[SourcePartition] = set()

    def aim(self, fold: Fold, discovered: Iterable[SourcePartition], bounds: Bounds) -> Targets:
        """Take in log ends that were just read. Called with each plan of a bounded run."""
        if self._ends is None:
            left = undescribed(fold, bounds)
            self._ends, self._unaimed = {}, {*left, *(one for one in discovered if one in bounds)}
        for one in [each for each in self._unaimed if each in bounds]:
            self._unaimed.discard(one)
            self._ends[one] = bounds[one].end_offset
        return self._ends

    def check_reached(self, fold: Fold, bounds: Bounds) -> None:
        """See that nothing is left to read where no leader answers. Called when nothing is planned.

        Raises:
            SourceUnavailableError: The run cannot say yet that it has read all.
        """
        ends = self._ends or {}
        for one in undescribed(fold, bounds):
            end = fold.sources[one.topic, one.partition].end
            if one in self._unaimed or end < ends.get(one, end):
                check_described([one], bounds, fold)
