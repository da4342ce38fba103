"""What the ledger adds up to, as plain state; `ledger.fold` says what changes it."""

from dataclasses import dataclass, field, replace
from typing import Protocol

from sluiceway.errors import InvariantError
from sluiceway.ledger.data_parts import NO_LATE_ROWS, HeldByRecord, LateRows
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.lane_state import ReplayLanes
from sluiceway.ledger.log_tail import NO_TAIL, joined_tails
from sluiceway.ledger.operator_records import OriginLog
from sluiceway.ledger.partition_records import COMPACT, RemovedFile
from sluiceway.ledger.places import add_sums, file_sum, is_below, overlaps, prefixes
from sluiceway.ledger.records import (
    FIRST_PREV,
    NO_ROWS,
    AdoptedRecord,
    FenceRecord,
    FilesRecord,
    RowCounts,
    TableIdentityRecord,
)
from sluiceway.types.log_key import SourceKey
from sluiceway.types.strict_json import BigInt

PartitionKey = SourceKey
"""(topic, key of the source partition in it)."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a route reads, as its last SOURCES record has it."""

    topics: tuple[str, ...]
    pattern: str
    start: str


@dataclass(frozen=True, slots=True)
class Adoption:
    """A generation of the log.

    Attributes:
        seq: Slot of its first record.
        room: Room that has begun it.
        table: The table since then.
        record: What was kept.
    """

    seq: int
    room: str
    table: TableIdentityRecord
    record: AdoptedRecord


class ReadSpan(Protocol):
    """What was read of one source partition: a range of a DATA record, or a task's answer."""

    @property
    def end(self) -> int:
        """First offset after what was read."""

    @property
    def rows(self) -> int:
        """Records that were read."""

    @property
    def end_epoch(self) -> int | None:
        """Leader epoch that belongs to `end`; None when unknown."""

    @property
    def max_event_time_us(self) -> int | None:
        """Greatest one; None without event times."""

    @property
    def origin_end(self) -> int | None:
        """See `RangeRecord.origin_end`."""

    @property
    def tail(self) -> str:
        """Tail of the rows; empty where none is kept."""


@dataclass(slots=True)
class SourceState:
    """Committed end of one source partition.

    Attributes:
        start: Where its generation begins: the pin, or what a RESET or SOURCE_CHANGE said.
        how: A `PinnedPartition.how`, `reset` or `source_change`.
        generation: How often an operator has moved its end; sums and dedupe are per generation.
        has_data: Whether this generation has rows.
        max_event_time_us: Greatest one of all generations; never falls.
        quiet_since_us: When log ends were read for the last epoch with a row of it, else for the
            first record that knew it; None before.
        idle: Whether it does not hold the route's watermark.
        end_epoch: Leader epoch that belongs to `end`, by which a truncation is seen; None when it
            is not known.
        newest_slot: See `PinnedPartition.newest_slot`.
        origin: The log that was left for this one, which has copies of its rows; None without one.
        tail: Tail of the log before `end`; empty where it is not known.
        missing: Runs of the tail in the log that was left which its copy lacked, so that they must
            never come; empty where there are none.
    """

    cluster_id: str
    topic_id: str
    start: int
    how: str
    end: int
    generation: int = 0
    has_data: bool = False
    retired: bool = False
    end_epoch: int | None = None
    max_event_time_us: int | None = None
    quiet_since_us: int | None = None
    idle: bool = False
    newest_slot: int = -1
    origin: OriginLog | None = None
    tail: str = NO_TAIL
    missing: str = NO_TAIL

    def advance(self, span: ReadSpan, read_at_us: int | None = None) -> None:
        """Take in what was read from the committed end on.

        Args:
            span: What was read.
            read_at_us: When log ends were read afterwards: no event time counts for more (commit
                rule 23). None without a watermark.
        """
        if int(span.end) != self.end:
            # One of an offset before says nothing about this one.
            self.end, self.end_epoch = int(span.end), span.end_epoch
        if self.origin is not None and span.origin_end is not None:
            self.origin = replace(self.origin, end=BigInt(span.origin_end))
        self.has_data = self.has_data or span.rows > 0
        if span.rows > 0:
            # Rows without a tail leave none: what came before them is not before the end.
            self.tail = joined_tails(self.tail, span.tail) if span.tail else NO_TAIL
        if span.max_event_time_us is not None:
            newest = int(span.max_event_time_us)
            if read_at_us is not None:
                newest = min(newest, read_at_us)
            known = self.max_event_time_us
            self.max_event_time_us = newest if known is None else max(newest, known)
        if span.rows > 0:
            self.idle = False
            self.quiet_since_us = read_at_us


@dataclass(slots=True)
class WatermarkState:
    """How far the route's event time is complete.

    Attributes:
        us: The watermark; None before there is one.
        by: `all_idle` when no row has moved it last.
        read_at_us: When log ends were read last.
        held_by: Source partitions that held it then, the one with the earliest time first.
    """

    us: int | None = None
    by: str = ""
    read_at_us: int | None = None
    held_by: tuple[HeldByRecord, ...] = ()


@dataclass(slots=True)
class CountedState:
    """What was counted elsewhere (`ready.counts`).

    Attributes:
        log: Topic, cluster id and topic id that the counts come from; empty before the first.
        ends: Partition -> first offset that was not read.
        rows: Prefix that is open -> all rows that it is expected to have.
    """

    log: tuple[str, str, str] = ("", "", "")
    ends: dict[int, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)


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
        file_sum: Sum over the live files (`places.file_sum`).
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

    def has_rows_since(self, seq: int) -> bool:
        """Whether rows came after slot `seq`; a partition that only moved has the same."""
        return self.last_seq > max(seq, self.moved_seq if self.version else seq)

    def move(self, location: str, seq: int) -> None:
        """It goes on elsewhere, without a file yet."""
        self.location = location
        self.version += 1
        self.moved_seq = self.placed_seq = self.last_seq = seq
        self.rows = self.files = self.size_bytes = self.file_sum = 0


@dataclass(frozen=True, slots=True)
class FileTotals:
    """What a set of files adds up to."""

    rows: int = 0
    files: int = 0
    size_bytes: int = 0
    file_sum: int = 0

    def plus(self, name: str, file: FileRecord | RemovedFile) -> "FileTotals":
        """With one more file.

        Args:
            name: The file's own name, without folders.
            file: The file.
        """
        rows, size_bytes = int(file.rows), int(file.size_bytes)
        added = file_sum(name, rows, size_bytes, file.crc32c)
        return FileTotals(
            self.rows + rows,
            self.files + 1,
            self.size_bytes + size_bytes,
            add_sums(self.file_sum, added),
        )


@dataclass(slots=True)
class OpenIntent:
    """Background work that has neither ended nor been abandoned.

    Attributes:
        partition: A partition or, for a SWAP, a prefix.
        since: Files that were committed below a SWAP's prefix after the INTENT.
    """

    partition: str
    uuid: str
    version: int
    purpose: str = COMPACT
    since: FileTotals = field(default_factory=FileTotals)


@dataclass(slots=True)
class ClosedPrefix:
    """A part of the table that rows reach by the late policy only.

    Attributes:
        closed_seq: Slot of the DATA that was planned with it closed.
        version: Version of the last READY, in slot `ready_seq`; 0 when there is none.
        ready_at_us: When that was put, as it says itself.
        late_rows: Rows that have come since it was closed, into it or aside.
    """

    closed_seq: int
    version: int = 0
    ready_seq: int = -1
    ready_at_us: int | None = None
    late_rows: int = 0


@dataclass(slots=True)
class LeftFolder:
    """A folder that a REPLACE or EXPIRE, in slot `seq`, has left."""

    partition: str
    seq: int


@dataclass(slots=True)
class FoldState:
    """Everything that the ledger says, up to and without slot `next_seq`.

    Attributes:
        fence_seq: Slot of the latest FENCE.
        adoptions: Generations after the first, in order.
        last_epoch: Number of the latest DATA's epoch, in slot `data_seq`; -1 when there is none.
        counts: Rows that were read from source partitions; lanes have their own counts.
        late_rows: The late rows among these.
        clock_us: Up to when rows were dated by the clock; 0 when none were.
        partitions: Partitions by name; a SNAPSHOT forgets partitions to which nothing is owed.
        forgotten_up_to: Greatest name of a forgotten partition.
        forgotten: Where forgotten partitions go on request; None drops them.
        moved: Location -> name, of partitions that have moved.
        intents: Open intents by slot.
        closed: Closed prefixes by name.
        sealed: Name of what is closed for ever -> slot of its last READY; -1 without one. Prefixes,
            and of tables that close nothing partitions. No row goes there any more.
        swaps: Prefix -> slot of its last SWAP, unless it is sealed.
        swap_dirty: Dirty rows of all SWAPs.
        left: Folders that may be there still. Nothing is decided by them but what may be removed.
        bytes_since_snapshot: Size of the records after the last SNAPSHOT, as a start reads them.
    """

    next_seq: int = 0
    head: str = FIRST_PREV
    term: int = 0
    format: int = 1
    fence: FenceRecord | None = None
    first_fence: FenceRecord | None = None
    fence_seq: int = -1
    adoptions: tuple[Adoption, ...] = ()
    last_epoch: int = -1
    data_seq: int = -1
    subscription: Subscription | None = None
    sources: dict[PartitionKey, SourceState] = field(default_factory=dict)
    partitions: dict[str, PartitionState] = field(default_factory=dict)
    counts: RowCounts = NO_ROWS
    late_rows: LateRows = NO_LATE_ROWS
    clock_us: int = 0
    published_through: int = 0
    effects_through: int = 0
    unpublished: dict[int, FilesRecord] = field(default_factory=dict)
    data_records: int = 0
    snapshot_through: int = 0
    forgotten_up_to: str = ""
    forgotten: dict[str, PartitionState] | None = None
    moved: dict[str, str] = field(default_factory=dict)
    intents: dict[int, OpenIntent] = field(default_factory=dict)
    closed: dict[str, ClosedPrefix] = field(default_factory=dict)
    sealed: dict[str, int] = field(default_factory=dict)
    swaps: dict[str, int] = field(default_factory=dict)
    swap_dirty: int = 0
    left: dict[str, LeftFolder] = field(default_factory=dict)
    bytes_since_snapshot: int = field(default=0, compare=False)
    lanes: ReplayLanes = field(default_factory=ReplayLanes)
    watermark: WatermarkState = field(default_factory=WatermarkState)
    counted: CountedState = field(default_factory=CountedState)

    @property
    def made_for(self) -> TableIdentityRecord | None:
        """The table that the log was made for, or adopted for last; None without a fence."""
        if self.adoptions:
            return self.adoptions[-1].table
        return None if self.first_fence is None else self.first_fence.table

    @property
    def dirty_rows_open(self) -> int:
        """Dirty rows that no lane has consumed yet."""
        brought = self.counts.dirty + self.lanes.counts.dirty
        return int(brought) + self.swap_dirty - int(self.lanes.counts.read)

    def closed_above(self, partition: str) -> str | None:
        """The closed prefix that stands for a partition; None when it is open."""
        return next((prefix for prefix in prefixes(partition) if prefix in self.closed), None)

    def is_closed(self, prefix: str) -> bool:
        """Whether rows reach it by the late policy only, or not at all."""
        return prefix in self.closed or prefix in self.sealed

    def sealed_above(self, partition: str) -> str | None:
        """The sealed prefix or partition above a partition; None when rows may still go there."""
        if not self.sealed:
            return None
        return next((prefix for prefix in prefixes(partition) if prefix in self.sealed), None)

    def knows_all_below(self, prefix: str) -> bool:
        """Whether no partition that a prefix stands for may have been forgotten."""
        return prefix > self.forgotten_up_to and all(each.whole for each in self.below(prefix))

    def is_worked_on(self, name: str) -> bool:
        """Whether background work on a partition or prefix is open, or on a part of it."""
        return any(overlaps(name, intent.partition) for intent in self.intents.values())

    def below(self, prefix: str) -> list[PartitionState]:
        """Partitions that a prefix stands for, in name order, without dropped ones."""
        own = self.partitions.get(prefix)
        if own is not None:
            # All partitions of a table are as many folders deep.
            return [] if own.expired else [own]
        found = (each for name, each in self.partitions.items() if is_below(name, prefix))
        return sorted((each for each in found if not each.expired), key=lambda state: state.folder)

    def rows_below(self, prefix: str) -> int:
        """Committed rows of all partitions that a prefix stands for."""
        return sum(each.rows for each in self.below(prefix))

    def has_counted(self, prefix: str) -> bool:
        """Whether the count of an open prefix has come, and as many rows are committed."""
        expected = self.counted.rows.get(prefix)
        return expected is not None and self.rows_below(prefix) >= expected

    def is_announced(self, state: PartitionState) -> bool:
        """Whether a READY has spoken of a partition since it had rows first."""
        prefix = self.closed_above(state.folder)
        if prefix is not None:
            return self.closed[prefix].ready_seq > state.first_seq
        sealed = self.sealed_above(state.folder)
        return sealed is not None and self.sealed[sealed] > state.first_seq

    def drop_published(self, through: int) -> None:
        """All files of all records below slot `through` are published."""
        self.published_through = max(self.published_through, through)
        for seq in [seq for seq in self.unpublished if seq < through]:
            del self.unpublished[seq]


def is_contained(relative: str) -> bool:
    """Whether a name stays inside the folder that it is relative to."""
    parts = relative.split("/")
    return not any(part in ("", ".", "..") for part in parts) and "\0" not in relative


def require(holds: bool, rule: str, message: str) -> None:  # noqa: FBT001
    """Refuse unless the rule holds.

    Raises:
        InvariantError: It does not; names the rule.
    """
    if not holds:
        raise violation(rule, message)


def violation(rule: str, message: str) -> InvariantError:
    """The error for a rule that does not hold."""
    return InvariantError(
        f"{rule} does not hold: {message}",
        hint="keep the table and its _sluiceway folder as they are and run `sluiceway verify JOB`",
    )
