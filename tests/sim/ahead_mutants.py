"""Wrong variants of two epochs in flight; in most of them the writer tests nothing either.

The product throws an epoch away in three places: in the loop when the one before has failed, in
the route's session when it does not follow, and in the ledger's writer, which would halt. Each
variant gets past all of them that are in its way.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sluiceway.driver.loop import JobLoop
from sluiceway.driver.route_slot import RouteSlot
from sluiceway.errors import SluicewayError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.route import route_planner
from sluiceway.types.log_key import SourceKey


def always(fold: Fold, planned: object) -> bool:
    """Any epoch follows."""
    del fold, planned
    return True


def react_and_keep(loop: JobLoop, route_slot: RouteSlot, error: SluicewayError) -> None:
    """The epoch behind a failed one stays, to be committed when the route goes on."""
    staged = route_slot.staged
    _REACT(loop, route_slot, error)
    route_slot.staged = staged


_REACT = JobLoop._react


def commit_at_once(loop: JobLoop) -> None:
    """Begin the commit of the next epoch while that of the one before is under way."""
    due = [route_slot for route_slot in loop._route_slots if route_slot.staged is not None]
    views = loop._read_sources(due)
    for route_slot in due:
        staged, route_slot.staged = route_slot.staged, None
        view = views.get(route_slot.session.config.source)
        if staged is None or view is None or not route_slot.session.started:
            continue
        route_slot.ahead = route_slot.session.planner.ahead_of(staged.answers)
        finish = partial(
            route_slot.session.committer.commit_epoch, staged.planned, staged.answers, view
        )
        route_slot.work = loop._pool.submit(finish)


_FOLD_AFTER = route_planner.fold_after


def fold_too_far(fold: Fold, answers: Sequence[Any]) -> Fold | None:
    """Plan from the offset behind what the tasks have read."""
    found = _FOLD_AFTER(fold, answers)
    if found is None:
        return None
    moved = {(split.topic, split.partition) for answer in answers for split in answer.splits}
    sources = {
        key: replace(known, end=known.end + 1) if key in moved else known
        for key, known in found.sources.items()
    }
    return replace(found, sources=sources)


def fold_before(fold: Fold, answers: Sequence[Any]) -> Fold | None:
    """Plan from the ends before the epoch whose commit is under way."""
    found = _FOLD_AFTER(fold, answers)
    return None if found is None else replace(found, sources=_copies(fold))


def _copies(fold: Fold) -> dict[SourceKey, Any]:
    return {key: replace(known) for key, known in fold.sources.items()}
