"""One epoch ahead: an epoch is planned from what the tasks of the one before have returned.

The commit of the one before is under way meanwhile. Nothing is committed from an end that the
ledger does not have. When the epoch before does not land, what was planned after it is discarded
and read again from the committed ends (commit rule 3).
"""

from collections.abc import Sequence
from dataclasses import replace

from sluiceway.ledger.folding.fold import Fold
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.worker.plan import TaskResult


def fold_after(fold: Fold, answers: Sequence[TaskResult]) -> Fold | None:
    """The fold as it will be for planning if an epoch is committed as its tasks have answered.

    Called by the loop's thread before the commit begins: from then on the fold is the commit's.

    Args:
        fold: State of the ledger; nothing of it is changed.
        answers: Answers of one route and epoch.

    Returns:
        None when too little is known: a task has failed, or answers what it was not asked.
    """
    sources = dict(fold.sources)
    for answer in answers:
        if answer.failure is not None:
            return None
        for split in answer.splits:
            known = sources.get((split.topic, split.partition))
            if known is None:
                return None
            if split.end > known.end:
                known = replace(known)
                known.advance(split)
                sources[split.topic, split.partition] = known
    return replace(fold, sources=sources)


def follows(fold: Fold, planned: PlannedEpoch) -> bool:
    """Whether an epoch was planned from the very ends that are committed.

    Not when it was planned ahead of an epoch that has landed otherwise, or not at all.
    """
    return all(
        fold.sources[each.split.partition.topic, each.split.partition.partition].end
        == each.range_start
        for each in planned.splits
    )
