"""What the ledger adds up to, as plain state; `ledger.fold` says what changes it."""

from dataclasses import dataclass, field
from typing import Protocol

from sluiceway.ledger.lane_state import LaneBook
from sluiceway.ledger.records import (
    FIRST_PREV,
    NO_ROWS,
    EpochRecord,
    FenceRecord,
    RowCounts,
)

PartitionKey = tuple[str, int]
"""(topic, partition number)."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a route reads, as its last SOURCES record has it."""

    topics: tuple[str, ...]
    pattern: str
    start: str


class ReadSpan(Protocol):
    """What was read of one source partition: a range of a DATA record, or a task's answer."""

    @property
    def end(self) -> int:
        """First offset behind what was read."""

    @property
    def rows(self) -> int:
        """Records that were read."""

    @property
    def leader_epoch(self) -> int | None:
        """Of the last record; None when unknown."""

    @property
    def max_event_time_us(self) -> int | None:
        """Greatest one; None without event times."""


@dataclass(slots=True)
class SourceState:
    """Committed end of one source partition.

    Attributes:
        start: Where its generation begins: the pin, or what a RESET or SOURCE_CHANGE said.
        how: A `PinnedPartition.how`, `reset` or `source_change`.
        generation: How often an operator has moved its end; sums and dedupe are per generation.
        has_data: Whether this generation has rows.
    """

    cluster_id: str
    topic_id: str
    start: int
    how: str
    end: int
    generation: int = 0
    has_data: bool = False
    retired: bool = False
    leader_epoch: int | None = None
    max_event_time_us: int | None = None

    def advance(self, span: ReadSpan) -> None:
        """Take in what was read from the committed end on."""
        self.end = int(span.end)
        self.has_data = self.has_data or span.rows > 0
        if span.leader_epoch is not None:
            self.leader_epoch = span.leader_epoch
        if span.max_event_time_us is not None:
            newest = int(span.max_event_time_us)
            self.max_event_time_us = max(newest, self.max_event_time_us or newest)


@dataclass(slots=True)
class PartitionState:
    """A partition of the table as the ledger knows it."""

    values: tuple[str | None, ...]
    folder: str
    first_seq: int
    last_seq: int
    rows: int = 0
    files: int = 0


@dataclass(slots=True)
class FoldState:
    """Everything that the ledger says, up to and without slot `next_seq`.

    Attributes:
        fence_seq: Slot of the latest FENCE.
        last_epoch: Of the latest DATA since then, in slot `data_seq`; -1 when there is none.
        counts: Of what was read from source partitions; lanes have their own.
    """

    next_seq: int = 0
    head: str = FIRST_PREV
    term: int = 0
    format: int = 1
    fence: FenceRecord | None = None
    first_fence: FenceRecord | None = None
    fence_seq: int = -1
    last_epoch: int = -1
    data_seq: int = -1
    subscription: Subscription | None = None
    sources: dict[PartitionKey, SourceState] = field(default_factory=dict)
    partitions: dict[str, PartitionState] = field(default_factory=dict)
    counts: RowCounts = NO_ROWS
    published_through: int = 0
    effects_through: int = 0
    unpublished: dict[int, EpochRecord] = field(default_factory=dict)
    data_records: int = 0
    snapshot_through: int = 0
    lanes: LaneBook = field(default_factory=LaneBook)

    @property
    def dirty_rows_open(self) -> int:
        """Dirty rows that no lane has consumed yet."""
        return int(self.counts.dirty + self.lanes.counts.dirty - self.lanes.counts.read)

    def drop_published(self, through: int) -> None:
        """All files of all records below slot `through` are published."""
        self.published_through = max(self.published_through, through)
        for seq in [seq for seq in self.unpublished if seq < through]:
            del self.unpublished[seq]
