"""PREPARE: from what the tasks answered to the DATA record, every claim checked."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sluiceway.errors import InvariantError
from sluiceway.ledger.data_parts import NO_LATE_ROWS
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.log_tail import joined_tails
from sluiceway.ledger.offset_sum import add_sums
from sluiceway.ledger.records import NO_ROWS, DataRecord, RangeRecord, RowCounts
from sluiceway.schedule.planner import PlannedSplit
from sluiceway.sources.contract import TABLE_TOPIC
from sluiceway.types.dirty import bounded_counts
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import SplitResult, TaskResult

if TYPE_CHECKING:
    from sluiceway.types.log_key import SourceKey


def prepare_record(
    fold: Fold,
    epoch: int,
    planned: Mapping[int, Sequence[PlannedSplit]],
    results: Sequence[TaskResult],
    schema: str,
) -> DataRecord | None:
    """The DATA record of an epoch, or None when no end moved.

    Args:
        fold: State of the ledger.
        epoch: Number of the epoch.
        planned: Splits by task.
        results: Answers of the tasks that finished, at most one a task; failed ones are left out.
            Pieces of a source partition are in the order of their offsets.
        schema: Fingerprint of the schema that the rows were converted to.

    Raises:
        InvariantError: A task answered something that it was not asked.
    """
    ranges: list[RangeRecord] = []
    counts, late = NO_ROWS, NO_LATE_ROWS
    reasons, timings = dict[str, int](), dict[str, int]()
    for result in results:
        # Tasks of the SQL read no split.
        splits = planned.get(result.task, ())
        _check_answer(fold, epoch, splits, result)
        for plan, split in zip(splits, result.splits, strict=True):
            if split.end > plan.range_start:
                ranges.append(_range(fold, plan, split))
        counts = counts.plus(result.counts)
        late = late.plus(result.late_rows)
        _add_counts(reasons, result.dirty_reasons)
        _add_counts(timings, result.timings_ms)
    if not ranges:
        return None
    return DataRecord(
        epoch=epoch,
        ranges=_joined(ranges),
        files=tuple(file for result in results for file in result.files),
        dirty_files=tuple(file for result in results for file in result.dirty_files),
        late_files=tuple(file for result in results for file in result.late_files),
        counts=_only_moved(counts),
        schema=schema,
        dirty_reasons=bounded_counts(reasons),
        timings_ms=timings,
        late_rows=late,
    )


def _check_answer(
    fold: Fold, epoch: int, planned: Sequence[PlannedSplit], result: TaskResult
) -> None:
    asked = [(plan.split.partition.topic, plan.split.partition.partition) for plan in planned]
    answered = [(split.topic, split.partition) for split in result.splits]
    starts_fit = all(
        plan.split.start_offset == split.start
        for plan, split in zip(planned, result.splits, strict=False)
    )
    if (result.term, result.epoch) != (fold.term, epoch) or asked != answered or not starts_fit:
        raise InvariantError(
            f"task {result.task} of epoch {epoch} answered {answered}, asked was {asked}"
        )


def _range(fold: Fold, plan: PlannedSplit, split: SplitResult) -> RangeRecord:
    known = fold.sources[(split.topic, split.partition)]
    return RangeRecord(
        topic=split.topic,
        partition=split.partition,
        cluster_id=known.cluster_id,
        topic_id=known.topic_id,
        start=BigInt(plan.range_start),
        end=split.end,
        rows=split.rows,
        gaps=BigInt(split.gaps + plan.split.start_offset - plan.range_start),
        leader_epoch=None,
        max_event_time_us=split.max_event_time_us,
        offset_sum=split.offset_sum,
        end_epoch=split.end_epoch,
        # Rows of a table follow each other without a gap, until some are replaced.
        corrected=split.gaps if split.topic.startswith(TABLE_TOPIC) else BigInt(0),
        copies=split.copies,
        origin_end=split.origin_end,
        tail=split.tail,
    )


def _joined(ranges: Sequence[RangeRecord]) -> tuple[RangeRecord, ...]:
    """One range a source partition: several tasks may each have read a piece of it."""
    by_source: dict[SourceKey, RangeRecord] = {}
    for piece in ranges:
        key = (piece.topic, piece.partition)
        before = by_source.get(key)
        by_source[key] = piece if before is None else _prolonged(before, piece)
    return tuple(by_source.values())


def _prolonged(before: RangeRecord, piece: RangeRecord) -> RangeRecord:
    if before.end != piece.start:
        raise InvariantError(
            f"{piece.topic}-{piece.partition} was read to {before.end} and from {piece.start} on"
        )
    times = [t for t in (before.max_event_time_us, piece.max_event_time_us) if t is not None]
    return replace(
        before,
        end=piece.end,
        rows=BigInt(before.rows + piece.rows),
        gaps=BigInt(before.gaps + piece.gaps),
        corrected=BigInt(before.corrected + piece.corrected),
        copies=BigInt(before.copies + piece.copies),
        origin_end=piece.origin_end,
        end_epoch=piece.end_epoch,
        max_event_time_us=max(times, default=None),
        offset_sum=add_sums(before.offset_sum, piece.offset_sum),
        tail=joined_tails(before.tail, piece.tail),
    )


def _only_moved(counts: RowCounts) -> RowCounts:
    if not counts.balanced():
        raise InvariantError(f"P6 does not hold in the tasks' answers: {counts}")
    return counts


def _add_counts(total: dict[str, int], more: dict[str, int]) -> None:
    for name, number in more.items():
        total[name] = total.get(name, 0) + number
