"""What every source provides; one file because a plug-in implements it as a whole.

A source is a set of ordered logs (source partitions). `Source` opens both sides of it:
`SourceClient` runs on the driver and knows what there is; `SplitReader` runs inside a task and
reads.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final

from sluiceway.errors import InvariantError
from sluiceway.sources.copies import CopiedTopics
from sluiceway.types.log_key import LogKey

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from sluiceway.ledger.operator_records import OriginLog


@dataclass(frozen=True, slots=True, order=True)
class SourcePartition:
    """One ordered log.

    Attributes:
        partition: Its key in the topic: a number, or a text that the source makes of its own
            parts (`Source.text_keys`). The source gives it to the same log for ever.
    """

    topic: str
    partition: LogKey

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"

    @property
    def number(self) -> int:
        """The key, for a source that numbers its partitions.

        Raises:
            InvariantError: It is a text; the partition is another source's.
        """
        if isinstance(self.partition, str):
            raise InvariantError(f"{self}: expected a number")
        return self.partition


@dataclass(frozen=True, slots=True)
class SourceIdentity:
    """What makes a log this log and not another of the same name.

    Attributes:
        cluster_id: The cluster's own id.
        topic_id: The topic's unique id; a topic that was deleted and created again has another.
    """

    cluster_id: str
    topic_id: str


REFUSED_OFFSET: Final = "refused_offset"
"""Evidence of `OffsetsLostError`: the offset that a broker refused."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A state of a table that has removed or replaced rows, and that a route passes over.

    Attributes:
        slot: Number of the state.
        end: Offset after the rows that came before it.
        start: Offset of the first row that comes after it.
        removed: How many rows it has removed.
        added: How many rows it has put in their place, or more; the route does not read them.
        rows: How many rows have come after it and before the next such state.
    """

    slot: int
    end: int
    start: int
    removed: int
    added: int
    rows: int = 0


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Where a log begins and ends, read at one moment.

    Attributes:
        start_offset: First offset that can still be read.
        end_offset: First offset that cannot be read yet under read_committed (last stable offset).
        high_watermark: First offset not yet written on all in-sync replicas.
        leader_epoch: Epoch of the leader that said so; None when the source has none. It says who
            was asked, not where the log is: bounds are compared without it.
        removed_slot: Newest state of a table that has removed rows of the one before; -1 without
            one. Nothing is read that comes after it, unless the reading has begun there.
        removals: States of a table that are passed over, oldest first.
        state_ids: Number of a state -> its id, for all states that the table still has, current or
            not.
    """

    start_offset: int
    end_offset: int
    high_watermark: int
    leader_epoch: int | None = field(default=None, compare=False)
    removed_slot: int = -1
    removals: tuple[Removal, ...] = ()
    state_ids: Mapping[int, int] = field(default_factory=dict, compare=False, repr=False)

    def waiting(self, end: int) -> int:
        """Records after a committed end, in logs that follow a removal too."""
        return max(0, self.end_offset - end) + sum(each.rows for each in self.removals)


@dataclass(frozen=True, slots=True)
class DiscoveredPartition:
    """A source partition as the cluster describes it now.

    Attributes:
        newest_slot: See `PinnedPartition.newest_slot`; -1 of what is no table.
    """

    partition: SourcePartition
    identity: SourceIdentity
    leader_epoch: int | None
    newest_slot: int = -1


LEDGER_CLUSTER = "ledger"
"""`SourceIdentity.cluster_id` of a table: its topic id is the uuid of its ledger."""

LISTED_CLUSTER = "listed"
"""Likewise of a table without a ledger, which is listed: when it was created, and where."""

LAKE_CLUSTER = "iceberg"
"""Likewise of an Iceberg table of others: its topic id is the table's own uuid."""

TABLE_TOPIC = "table:"
"""How the name begins that stands for a topic where a route reads a table: `table:ods.raw`."""


AS_OF = "as_of"
"""Option of a reader that reads what a prefix of a table had at a slot: `<slot>:<prefix>`."""


@dataclass(frozen=True, slots=True)
class Correction:
    """A prefix of the source whose records were replaced by others.

    Attributes:
        ledger: Uuid of the ledger that says so.
        slot: Slot there.
        as_of: Slot there up to which all records are read, at least `slot`.
    """

    ledger: str
    prefix: str
    slot: int
    as_of: int


@dataclass(frozen=True, slots=True)
class InheritedReady:
    """What a source announces as complete.

    Attributes:
        ledger: Uuid of the ledger that does.
        prefix: See `ReadyRecord.prefix`.
        version: Version of the announcement.
        slot: Slot of the announcement.
        end: Offset after the last record that came before it.
    """

    ledger: str
    prefix: str
    version: int
    slot: int
    end: int


@dataclass(frozen=True, slots=True)
class Inheritance:
    """How far records are complete that a route has read, as their source says.

    Attributes:
        watermark_us: Watermark at the last record that was read; None before any.
        ready: All that the source had announced when it got the last of these records, and before
            it got another one; in the order of the announcements.
    """

    watermark_us: int | None
    ready: tuple[InheritedReady, ...]


@dataclass(frozen=True, slots=True)
class HandOver:
    """Where the topics begin that a table was filled from, after some of its rows.

    Attributes:
        ledger: Uuid of the table's ledger.
        slot: The rows are those of all slots up to this one.
        starts: The topics' source partitions, and the first offset of which the table has no row.
        reason: What a table has removed, where it is read on after that; empty elsewhere.
    """

    ledger: str
    slot: int
    starts: tuple[tuple[DiscoveredPartition, int], ...]
    reason: str = ""


class SourceClient(CopiedTopics, ABC):
    """The driver's view of a source. Calls block at most `request_timeout_s`.

    Attributes:
        inherits: Whether the source says itself what of its records is complete.
    """

    inherits: bool = False

    @abstractmethod
    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        """Describe all partitions of the topics. Called at start and between epochs.

        Returns:
            Ordered by topic, then partition.

        Raises:
            SourceUnavailableError: No broker answers.
            TopicNotFoundError: The cluster answers and does not have a topic; names it.
        """

    @abstractmethod
    def list_topics(self) -> tuple[str, ...]:
        """Names of all topics but the source's internal ones, in order.

        Called at start and once a discovery interval, when a route has a topic pattern. The names
        are others' text: nothing is promised of them.

        Raises:
            SourceUnavailableError: No broker answers.
        """

    @abstractmethod
    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        """Read first and last offsets of the given partitions from their leaders.

        Returns:
            Bounds of partitions whose leader answers in time. A silent one must not keep the
            others waiting; routes that read the rest go on.

        Raises:
            SourceUnavailableError: No leader answers.
        """

    def copies(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        """Read first and last offsets of copies of logs that `bounds` has left out.

        Called after `bounds`, with what no leader answers for. Readers read such a log from the
        copy. It may lack the log's end and begin elsewhere. So its offsets say what can be read
        now, and never where the log ends or what it has lost.

        Returns:
            Bounds of partitions of which a copy answers; a source without such copies returns
            nothing. It blocks and raises nothing for a copy that does not answer.
        """
        del partitions
        return {}

    def gone(self, partitions: Sequence[SourcePartition]) -> frozenset[SourcePartition]:
        """The partitions of unlisted topics that are gone for good.

        Called when a topic of a pattern is missed: its partitions are retired then, and hold no
        hour. The others may only be away together with what serves them, or out of our sight.

        Returns:
            All of them, where a list of topics depends neither on who is up nor on rights.

        Raises:
            SourceUnavailableError: It is not known now.
        """
        return frozenset(partitions)

    @abstractmethod
    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        """First offset whose record time is >= `timestamp_ms`; the end offset when none is.

        Raises:
            SourceUnavailableError: A leader does not answer.
        """

    def offsets_at_times(
        self, times_ms: Mapping[SourcePartition, int]
    ) -> dict[SourcePartition, int]:
        """As `offsets_at`, with a time for each source partition.

        Raises:
            SourceUnavailableError: A leader does not answer.
        """
        found = dict[SourcePartition, int]()
        for time_ms in sorted(set(times_ms.values())):
            same = [one for one, each in times_ms.items() if each == time_ms]
            found |= self.offsets_at(same, time_ms)
        return found

    @abstractmethod
    def committed(
        self, group: str, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, int]:
        """Read a consumer group's committed offsets: the first that it has not done.

        Called when a route takes a group over, before its first read. Partitions for which the
        group has committed nothing are left out.

        Raises:
            SourceUnavailableError: The group's coordinator does not answer, or a transaction that
                commits offsets of the group is still open.
        """

    @abstractmethod
    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        """Report to lag tools how far the ledger is. Never read back; best effort.

        Called after commits, for several groups at once, while the driver's other calls go on.

        Raises:
            SourceUnavailableError: The group's coordinator does not answer.
        """

    def refuse_lost(self, split: "Split") -> None:
        """Refuse a split whose rows are lost although bounds do not show it; for who only plans.

        Raises:
            OffsetsLostError: Rows of it can be read no more.
        """

    def reader_options(self) -> Mapping[str, str]:
        """Options that a task's readers get besides those of the connection.

        Called before each epoch: what only the driver may ask others for.

        Raises:
            SourceUnavailableError: It is not known now.
        """
        return {}

    def inheritance(self, ends: Mapping[SourcePartition, int]) -> Inheritance | None:
        """How far the records before these ends are complete, by the last `bounds`.

        Called before each record and after it; without I/O.

        Returns:
            None where a source does not say: rows and their times decide.
        """
        del ends
        return None

    def hand_over(self, ends: Mapping[SourcePartition, int], within_s: float) -> HandOver | None:
        """Where the topics go on that a table is filled from. Called between epochs.

        Args:
            ends: Committed ends of the table.
            within_s: How far the rows may lag that are not read yet.

        Returns:
            None as long as more is to be read, and where the source is no table.

        Raises:
            SourceUnavailableError: It is not known now.
            TableMismatchError: The table is not filled from topics.
        """
        del ends, within_s
        return None

    def expect(self, partitions: Mapping[SourcePartition, SourceIdentity]) -> None:
        """These were read before. Called at a route's START: what is missing then was dropped."""

    def leave(self, group: str) -> None:
        """Nothing more is read for this group. Called after a hand-over; best effort."""

    def corrections(
        self, starts: Mapping[SourcePartition, int], ends: Mapping[SourcePartition, int]
    ) -> tuple[Correction, ...]:
        """What was replaced of the records that are read; the newest of each prefix.

        Args:
            starts: Where the reading has begun.
            ends: First offsets that were not read.

        Returns:
            None of them where records never change, or a correction is not followed.

        Raises:
            SourceUnavailableError: The source does not answer.
        """
        del starts, ends
        return ()

    def slot_read(self, ends: Mapping[SourcePartition, int], prefix: str) -> tuple[str, int] | None:
        """Ledger of the table that is read, and the slot that has what was read of a prefix.

        Args:
            ends: First offsets that were not read.
            prefix: Prefix of partitions.

        Returns:
            None where it is no table whose rows come one after the other.

        Raises:
            RequestRefusedError: No slot has that: rows of one are read in part.
            SourceUnavailableError: The source does not answer.
        """
        del ends, prefix
        return None

    @abstractmethod
    def close(self) -> None:
        """Release connections. Safe to repeat."""


@dataclass(frozen=True, slots=True)
class Split:
    """Work for a task: read `partition` from `start_offset` on.

    Attributes:
        partition: The log.
        start_offset: First offset to read.
        stop_offset: Offset that is not read any more; None reads until the deadline.
        leader_epoch: Epoch that everything below `start_offset` was known to be of at most, for
            truncation checks; None unknown.
        new_leader: Whether another leader epoch has begun since, so that the check has to be made.
        newest_slot: See `PinnedPartition.newest_slot`.
        origin: The log that the route has left, copies of whose rows may be here; None where no
            row is a copy. Not for a source's reader: `open_reader` drops the copies.
        missing: Runs of rows that must not come (see `SourceState.missing`). Likewise.
    """

    partition: SourcePartition
    start_offset: int
    stop_offset: int | None = None
    leader_epoch: int | None = None
    new_leader: bool = False
    newest_slot: int = -1
    origin: "OriginLog | None" = None
    missing: str = ""


Headers = tuple[tuple[str, bytes | None], ...]

UNREADABLE_HEADERS: Headers = (("sluiceway.headers", b"unreadable: a name is not UTF-8"),)
"""Stands for the headers of a record that has one whose name is no text."""


@dataclass(frozen=True, slots=True)
class RawRecords:
    """All that the queue had for some rows, equally many values of each; kept whole for dirty rows.

    Attributes:
        topics: Topics of the logs that the records are of.
        partitions: Keys of these logs in their topics.
        offsets: Offsets in their logs.
        timestamps_ms: The queue's record times, since the epoch; None where it has none.
        keys: None is no key.
        values: None is a tombstone.
        headers: Headers in the record's order; names may repeat.
    """

    topics: Sequence[str]
    partitions: Sequence[LogKey]
    offsets: "Sequence[int] | npt.NDArray[np.int64]"
    timestamps_ms: Sequence[int | None]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers]


@dataclass(frozen=True, slots=True)
class Origins:
    """Where rows first came from, one value a row."""

    topics: Sequence[str]
    partitions: Sequence[LogKey]
    offsets: Sequence[int]


class SourceBatch(ABC):
    """Records of one split, offsets rising, as one fetch returned them.

    Attributes:
        split_index: Which of the reader's splits.
        values: Payloads in row order. Anything but a list may keep them in buffers, and make an
            object only of a payload that is asked for.
        offsets: Offsets of the rows; a list, or an array of int64.
    """

    split_index: int
    values: Sequence[bytes | None]
    offsets: "Sequence[int] | npt.NDArray[np.int64]"

    @abstractmethod
    def timestamps_ms(self) -> Sequence[int | None]:
        """Record times in row order. Called only when a route uses them."""

    def sampled_times_ms(self, step: int) -> Sequence[int | None]:
        """Record times of every so manieth row, from the first on. Called with every batch.

        Figures of how fresh rows are go by them, and by nothing else.

        Args:
            step: At least 1.
        """
        return self.timestamps_ms()[::step]

    def value_bytes(self) -> int:
        """Bytes of all payloads. Called with every batch."""
        try:
            return sum(map(len, self.values))  # type: ignore[arg-type]
        except TypeError:
            # There are tombstones among them.
            return sum(map(len, filter(None, self.values)))

    @abstractmethod
    def records(self, rows: Sequence[int]) -> RawRecords:
        """All that the queue has of these rows, in their order. Called for dirty rows.

        Args:
            rows: Numbers of rows of the batch, rising.
        """

    def origins(self) -> Origins | None:
        """Where the rows first came from, when that is not the split that they are read from.

        Called only when a route keeps it. Rows of a replay are read from a dirty file, and still
        have the topic, partition and offset that they had in the queue.
        """
        return None

    def keys(self) -> Sequence[bytes | None]:
        """Record keys in row order. Called only when a route has a column of them, or a key."""
        return self.records(range(len(self.values))).keys

    def may_have_headers(self) -> bool:
        """False where no record has one, as far as that is known without reading them."""
        return True

    def headers(self) -> Sequence[Headers]:
        """Headers in row order, as `keys`; `UNREADABLE_HEADERS` where they are no texts."""
        return self.records(range(len(self.values))).headers


@dataclass(frozen=True, slots=True)
class SplitEnd:
    """How far a split was read.

    Attributes:
        end_offset: First offset not covered by what was returned. When the log's end was met after
            the last row it is the EOF offset, else last row + 1 (never the consumer's position).
        rows: Records returned for this split.
        gaps: Offsets in [start, end) that were no row: compacted away, transaction markers,
            aborted transactions.
        leader_epoch: Epoch of the record just below `end_offset`; None when it is not known, and
            where markers or holes lie there.
        copies: Gaps that were copies of rows in the table.
        origin_end: First offset of the copied log whose row was not met; None without one.
    """

    end_offset: int
    rows: int
    gaps: int
    leader_epoch: int | None
    copies: int = 0
    origin_end: int | None = None


class SplitReader(ABC):
    """Reads several splits until stopped. Owned by one task and one thread.

    Attributes:
        reused: A connection of an earlier epoch goes on; part of the task's answer.
    """

    reused: bool = False

    @abstractmethod
    def read(self, timeout_s: float) -> list[SourceBatch]:
        """Return what has arrived, at most one batch a split; empty after `timeout_s`.

        Offsets of a split rise strictly and none is below its start; the reader asserts it.

        Raises:
            SourceUnavailableError: Connection lost beyond the client's own retries.
            OffsetsLostError: The wanted offset is out of range, truncated or of another log.
        """

    @abstractmethod
    def finished(self) -> bool:
        """True when every split with a stop offset has reached it."""

    @abstractmethod
    def ends(self) -> tuple[SplitEnd, ...]:
        """How far each split was read, in the order of the splits. Called once, at the end."""

    @abstractmethod
    def close(self, *, reusable: bool) -> None:
        """Give the reader back. Safe to repeat.

        Args:
            reusable: False after any exception: the underlying consumer is closed, not kept.
        """


class Source(ABC):
    """A kind of queue: opens both sides of it.

    An entry point of `sluiceway.sources` names the class, which is made without arguments, on the
    driver and in every worker process.

    Attributes:
        text_keys: Whether keys of its source partitions are texts; else they are numbers. The
            table's column of them and dirty files follow it.
        servers_option: Name of the option that says where its servers are, with commas between;
            lineage names topics by the first. Empty where nothing does.
    """

    text_keys: ClassVar[bool] = False
    servers_option: ClassVar[str] = ""

    def check(self, options: Mapping[str, str]) -> None:  # noqa: B027 - nothing to check is fine
        """Refuse options that cannot be. Called when a job is compiled; without I/O.

        Args:
            options: Options of the connection, names and values as text.

        Raises:
            ValueError: Says which option and why, in words for the user and without secrets.
            JobFileError: As ValueError, with a hint.
        """

    @abstractmethod
    def open_client(self, options: Mapping[str, str], *, request_timeout_s: float) -> SourceClient:
        """The driver's view. Called once per driver, tool and connection; need not connect yet.

        Args:
            options: Options of the connection.
            request_timeout_s: Longest time that a call of the client blocks.
        """

    @abstractmethod
    def open_reader(
        self, splits: Sequence[Split], options: Mapping[str, str], *, owner: str
    ) -> SplitReader:
        """A task's reader. Called once per task and connection.

        Args:
            splits: Splits, at most one per source partition; of any topics and routes.
            options: Options of the connection.
            owner: Ledgers and terms that the splits were planned by. A connection may be kept for
                the next task of the same owner, never for another's.

        Raises:
            SourceUnavailableError: No connection.
        """
