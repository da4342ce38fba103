"""Wrong variants of several tasks reading one source partition, a piece each."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sluiceway.ledger.records import RangeRecord
from sluiceway.route import prepare
from sluiceway.schedule import pieces
from sluiceway.schedule.pieces import SplitPieces
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.sources.contract import SourcePartition


def join_all(
    found: SplitPieces, route: str, epoch: PlannedEpoch, answers: Sequence[Any]
) -> list[Any]:
    """All pieces count, also later ones than a piece that was not read to its end."""
    chains = found._chains.get(route, {}).values()
    followers = [task for chain in chains for task in chain.tasks[1:]]
    by_task = {answer.task: answer for answer in answers}
    kept = [answer for answer in answers if answer.task not in followers]
    return kept + [by_task[task] for task in followers if task in by_task]


def prolonged_blindly(before: RangeRecord, piece: RangeRecord) -> RangeRecord:
    """Two pieces are one range, whatever lies between them."""
    return _PROLONGED(before, _moved(piece, before.end))


def _moved(piece: RangeRecord, start: Any) -> RangeRecord:
    hole = int(piece.start - start)
    return replace(piece, start=start, gaps=type(start)(piece.gaps + hole))


_PROLONGED = prepare._prolonged


def append_overlapping(
    chains: dict[SourcePartition, Any],
    epoch: PlannedEpoch,
    partition: SourcePartition,
    piece: int,
    task: int,
) -> None:
    """A piece begins at the last offset of the one before."""
    _APPEND(chains, epoch, partition, piece, task)
    (rest,) = epoch.by_task[task]
    split = replace(rest.split, start_offset=rest.split.start_offset - 1)
    changed: Mapping[int, Any] = {task: (replace(rest, split=split),)}
    epoch.by_task = {**epoch.by_task, **changed}


_APPEND = pieces._append
