"""What the ledger adds up to, as plain state; `ledger.fold` says what changes it."""

from dataclasses import dataclass, field
from typing import Protocol

from sluiceway.ledger.lane_state import LaneBook
from sluiceway.ledger.partition_records import ReplaceRecord
from sluiceway.ledger.places import is_below, prefixes
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
    """A partition of the table as the ledger knows it.

    Attributes:
        folder: Its name: where its first rows went, relative to the table.
        location: Where its files are now.
        version: How often it has moved.
        moved_seq: Slot from which on records name its live files.
        placed_seq: Slot that last changed what the catalog has to show.
        last_seq: Slot that last touched it.
        file_sum: Of the live files (`places.file_sum`).
        whole: Whether rows, files and sum count all live files. Not so when it may have been
            forgotten before it came again.
        expired: Dropped by its owner, and no rows have come since.
    """

    values: tuple[str | None, ...]
    folder: str
    first_seq: int
    last_seq: int
    location: str
    moved_seq: int
    placed_seq: int
    rows: int = 0
    files: int = 0
    size_bytes: int = 0
    file_sum: int = 0
    version: int = 0
    whole: bool = True
    expired: bool = False

    @classmethod
    def begun(cls, values: tuple[str | None, ...], folder: str, seq: int) -> "PartitionState":
        """As its first rows find it."""
        return cls(values, folder, seq, seq, location=folder, moved_seq=seq, placed_seq=seq)

    def move(self, location: str, seq: int) -> None:
        """It goes on elsewhere, without a file yet."""
        self.location = location
        self.version += 1
        self.moved_seq = self.placed_seq = self.last_seq = seq
        self.rows = self.files = self.size_bytes = self.file_sum = 0


@dataclass(slots=True)
class OpenIntent:
    """Background work that has neither ended nor been abandoned."""

    partition: str
    uuid: str
    version: int


@dataclass(slots=True)
class ClosedPrefix:
    """A part of the table that rows reach by the late policy only.

    Attributes:
        closed_seq: Slot of the DATA that was planned with it closed.
        version: Of the last READY, in slot `ready_seq`; 0 when there is none.
    """

    closed_seq: int
    version: int = 0
    ready_seq: int = -1


@dataclass(slots=True)
class LeftFolder:
    """A folder that a REPLACE, in slot `seq`, has left."""

    partition: str
    seq: int


@dataclass(slots=True)
class FoldState:
    """Everything that the ledger says, up to and without slot `next_seq`.

    Attributes:
        fence_seq: Slot of the latest FENCE.
        last_epoch: Of the latest DATA since then, in slot `data_seq`; -1 when there is none.
        counts: Of what was read from source partitions; lanes have their own.
        partitions: By name; those that nothing is owed to are forgotten now and then.
        forgotten_up_to: Greatest name of a forgotten partition.
        forgotten: Where forgotten partitions go when somebody wants them; None drops them.
        moved: Location -> name, of partitions that have moved.
        intents: By slot.
        closed: By prefix.
        left: Folders that may be there still. Nothing is decided by them but what may be removed.
        bytes_since_snapshot: Of the records behind the last SNAPSHOT, as a start reads them.
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
    unpublished: dict[int, EpochRecord | ReplaceRecord] = field(default_factory=dict)
    data_records: int = 0
    snapshot_through: int = 0
    forgotten_up_to: str = ""
    forgotten: dict[str, PartitionState] | None = None
    moved: dict[str, str] = field(default_factory=dict)
    intents: dict[int, OpenIntent] = field(default_factory=dict)
    closed: dict[str, ClosedPrefix] = field(default_factory=dict)
    left: dict[str, LeftFolder] = field(default_factory=dict)
    bytes_since_snapshot: int = field(default=0, compare=False)
    lanes: LaneBook = field(default_factory=LaneBook)

    @property
    def dirty_rows_open(self) -> int:
        """Dirty rows that no lane has consumed yet."""
        return int(self.counts.dirty + self.lanes.counts.dirty - self.lanes.counts.read)

    def closed_above(self, partition: str) -> str | None:
        """The closed prefix that stands for a partition; None when it is open."""
        return next((prefix for prefix in prefixes(partition) if prefix in self.closed), None)

    def knows_all_below(self, prefix: str) -> bool:
        """Whether no partition that a prefix stands for may have been forgotten."""
        return prefix > self.forgotten_up_to and all(each.whole for each in self.below(prefix))

    def below(self, prefix: str) -> list[PartitionState]:
        """Partitions that a prefix stands for, in name order, without dropped ones."""
        found = (each for each in self.partitions.values() if is_below(each.folder, prefix))
        return sorted((each for each in found if not each.expired), key=lambda state: state.folder)

    def drop_published(self, through: int) -> None:
        """All files of all records below slot `through` are published."""
        self.published_through = max(self.published_through, through)
        for seq in [seq for seq in self.unpublished if seq < through]:
            del self.unpublished[seq]
