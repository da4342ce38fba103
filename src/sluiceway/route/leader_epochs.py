"""Which leader epoch belongs to an end after markers or aborted records.

The reader knows the epoch of a row only. After that row may lie records of newer epochs, which no
reader sees. The leader's own epoch is as good, when it led before the rows were read and still
does. All that is committed under it is of its epoch or an older one, and every later leader has it.
So a log that no longer has it was truncated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sluiceway.ledger.records import DataRecord, RangeRecord
from sluiceway.schedule.planner import PlannedSplit
from sluiceway.sources.contract import LogBounds, SourcePartition


def with_end_epochs(
    record: DataRecord,
    planned: Sequence[PlannedSplit],
    bounds: Mapping[SourcePartition, LogBounds],
) -> DataRecord:
    """The record with the epochs that its tasks could not know. Called once an epoch.

    Args:
        record: The record as the tasks have answered.
        planned: What was to be read, with the leaders that were asked before.
        bounds: Log ends as the brokers say after the tasks.
    """
    asked = {each.split.partition: each.leader_epoch for each in planned}
    return replace(
        record, ranges=tuple(_with_end_epoch(each, asked, bounds) for each in record.ranges)
    )


def _with_end_epoch(
    span: RangeRecord,
    asked: Mapping[SourcePartition, int | None],
    bounds: Mapping[SourcePartition, LogBounds],
) -> RangeRecord:
    one = SourcePartition(span.topic, span.partition)
    place = bounds.get(one)
    if span.end_epoch is not None or place is None or place.leader_epoch is None:
        return span
    # A leader that was voted out and does not know it has not got what the next one committed.
    if place.leader_epoch != asked.get(one) or span.end > place.high_watermark:
        return span
    return replace(span, end_epoch=place.leader_epoch)
