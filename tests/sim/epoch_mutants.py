"""Wrong variants of leader epochs: kept with ends of others, or held against nothing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sluiceway.errors import TaskFailedError
from sluiceway.ledger.folding.fold_state import SourceState
from sluiceway.ledger.records import RangeRecord
from sluiceway.schedule import pieces, planner
from sluiceway.schedule.planner import PlannedEpoch, PlannedSplit
from sluiceway.sources.contract import LogBounds, SourcePartition, Split
from sluiceway.sources.kafka.progress import SplitProgress


def never_assigned(*arguments: Any) -> list[PlannedSplit]:
    """Logs are read on without a look at what their leaders have."""
    return [
        replace(each, split=replace(each.split, leader_epoch=None)) for each in _PLAN(*arguments)
    ]


_PLAN = planner.plan_splits


def move_and_keep(progress: SplitProgress, offset: int) -> None:
    """The epoch of the last row stays while the end goes past markers."""
    progress.next_offset = offset


def note_always(progress: SplitProgress, offset: int, leader_epoch: int | None) -> None:
    """The same for a stop in a hole."""
    del offset
    progress.leader_epoch = leader_epoch


def copy_to_pieces(
    chains: dict[SourcePartition, Any],
    epoch: PlannedEpoch,
    partition: SourcePartition,
    piece: int,
    task: int,
) -> None:
    """A piece is held against the epoch of the committed end, which is not where it begins."""
    known = next(e.split.leader_epoch for e in epoch.splits if e.split.partition == partition)
    _APPEND(chains, epoch, partition, piece, task)
    (rest,) = epoch.by_task[task]
    changed = {task: (replace(rest, split=replace(rest.split, leader_epoch=known)),)}
    epoch.by_task = {**epoch.by_task, **changed}


_APPEND = pieces._append


def cut_is_retried(consumer: object, split: Split, cut: object) -> TaskFailedError:
    """A log that was cut fails its task, again and again."""
    del consumer, cut
    return TaskFailedError("truncation detected", where=str(split.partition))


def vouched_by_anyone(
    span: RangeRecord,
    asked: Mapping[SourcePartition, int | None],
    bounds: Mapping[SourcePartition, LogBounds],
) -> RangeRecord:
    """Whoever answers vouches for an end, also one that was voted out and has less."""
    del asked
    place = bounds.get(SourcePartition(span.topic, span.partition))
    if span.end_epoch is not None or place is None:
        return span
    return replace(span, end_epoch=place.leader_epoch)


def keep_old_epoch(state: Any, span: Any, read_at_us: int | None = None) -> None:
    """An end that moves without an epoch of its own keeps the one it had."""
    before = state.end_epoch
    _ADVANCE(state, span, read_at_us)
    state.end_epoch = before if span.end_epoch is None else span.end_epoch


_ADVANCE = SourceState.advance


def no_epochs(progress: SplitProgress, offset: int, leader_epoch: int | None) -> None:
    """No row is asked for its epoch."""
    del progress, offset, leader_epoch
