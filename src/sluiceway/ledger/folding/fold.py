"""The state that all records up to the tail add up to.

The fold tests the same preconditions when it reads as a writer tests before it puts (commit rule
2). So a record that could not lawfully be written cannot be read either: it halts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sluiceway.ledger.counts_records import CountsRecord
from sluiceway.ledger.folding import (
    fold_counts,
    fold_data,
    fold_lanes,
    fold_log,
    fold_partitions,
    fold_sources,
    fold_swaps,
)
from sluiceway.ledger.folding.fold_state import FoldState, require
from sluiceway.ledger.lane_records import LaneDataRecord, LaneRecord
from sluiceway.ledger.operator_records import ResetRecord, SourceChangeRecord
from sluiceway.ledger.partition_records import (
    AbandonRecord,
    ExpireRecord,
    IntentRecord,
    ReadyRecord,
    ReplaceRecord,
    SwapRecord,
)
from sluiceway.ledger.record_formats import needed_format
from sluiceway.ledger.records import (
    DataRecord,
    FenceRecord,
    Record,
    SnapshotRecord,
    SourcesRecord,
    record_hash,
)

_Step = Callable[[FoldState, Any, Record], None]

_STEPS: dict[type, tuple[_Step, _Step]] = {
    FenceRecord: (fold_log.check_fence, fold_log.apply_fence),
    SourcesRecord: (fold_sources.check_sources, fold_sources.apply_sources),
    DataRecord: (fold_data.check_data, fold_data.apply_data),
    SnapshotRecord: (fold_log.check_snapshot, fold_log.apply_snapshot),
    ResetRecord: (fold_sources.check_reset, fold_sources.apply_reset),
    SourceChangeRecord: (fold_sources.check_source_change, fold_sources.apply_source_change),
    IntentRecord: (fold_partitions.check_intent, fold_partitions.apply_intent),
    ReplaceRecord: (fold_partitions.check_replace, fold_partitions.apply_replace),
    AbandonRecord: (fold_partitions.check_abandon, fold_partitions.apply_abandon),
    ReadyRecord: (fold_partitions.check_ready, fold_partitions.apply_ready),
    LaneRecord: (fold_lanes.check_lane, fold_lanes.apply_lane),
    LaneDataRecord: (fold_lanes.check_lane_data, fold_lanes.apply_lane_data),
    ExpireRecord: (fold_partitions.check_expire, fold_partitions.apply_expire),
    SwapRecord: (fold_swaps.check_swap, fold_swaps.apply_swap),
    CountsRecord: (fold_counts.check_counts, fold_counts.apply_counts),
}
"""By kind of record: its preconditions, and what it changes."""


@dataclass(slots=True)
class Fold(FoldState):
    """Everything that the ledger says; it grows by one lawful record at a time."""

    def apply(self, record: Record, raw: bytes) -> None:
        """Take the record of slot `next_seq` in, or leave everything as it was.

        Raises:
            InvariantError: A precondition or invariant does not hold; says which.
        """
        self.check(record)
        self.bytes_since_snapshot += len(raw)
        take = _STEPS[type(record.body)][1]
        take(self, record.body, record)
        if record.published_through > self.published_through:
            self.drop_published(record.published_through)
        self.effects_through = max(self.effects_through, record.effects_through)
        self.format = record.format
        self.head = record_hash(raw)
        self.next_seq = record.seq + 1

    def check(self, record: Record) -> None:
        """Test a record against the fold before it is put or taken in.

        Raises:
            InvariantError: As in `apply`.
        """
        require(record.seq == self.next_seq, "I1", f"slot {record.seq}, expected {self.next_seq}")
        require(
            record.prev == self.head, "I1", f"slot {record.seq} is not chained to the one before"
        )
        through = (record.published_through, record.effects_through)
        require(max(through) <= record.seq, "I1", f"slot {record.seq} claims the future: {through}")
        if not isinstance(record.body, FenceRecord):
            require(
                record.term == self.term and self.fence is not None,
                "I3",
                f"slot {record.seq} has term {record.term}, the fence has {self.term}",
            )
            wanted = max(self.format, needed_format(record.body))
            require(
                record.format == wanted,
                "rule 26",
                f"slot {record.seq} has format {record.format}, expected {wanted}",
            )
        check = _STEPS[type(record.body)][0]
        check(self, record.body, record)

    def set_published_through(self, seq: int) -> None:
        """Note that all files of all records below `seq` are published."""
        self.drop_published(seq)
