"""Records about whole partitions of the table: where their files are, and what was announced.

Only the driver that holds the fence puts them, between two epochs, through its one writer. Each
file of a partition that they speak of is at its final name by then (commit rule 2).
"""

from dataclasses import dataclass, field
from typing import ClassVar

from sluiceway.ledger.file_names import FileRecord
from sluiceway.types.strict_json import BigInt

COMPACT = "compact"
SWAP_PURPOSES = frozenset({"recompute", "backfill", "correct"})
"""Purposes of an INTENT that ends with a SWAP."""

_NONE = BigInt(0)


@dataclass(frozen=True, slots=True)
class IntentRecord:
    """Background work begins; its staged folder has the name of this slot.

    Attributes:
        partition: Folder that the partition's first rows went to: its name for ever. For the
            purposes of a SWAP, the prefix whose rows are replaced; there may be no row yet.
        version: Version of the partition that is read. For a prefix, that of its last READY, 0
            without one.
        uuid: Made for this work; part of the names of all its folders.
        purpose: What the work is: `compact`, or one of `SWAP_PURPOSES`.
    """

    partition: str
    version: int
    uuid: str
    purpose: str


@dataclass(frozen=True, slots=True)
class AbandonRecord:
    """The work of an INTENT has ended without an effect; nothing will ever name its files.

    Attributes:
        intent: Slot of the INTENT.
        reason: Why the work has ended, in words.
    """

    intent: int
    reason: str


@dataclass(frozen=True, slots=True)
class RemovedFile:
    """A file that is not live any more; relative to the folder that the partition leaves.

    Attributes:
        name: Name of the file.
        rows: Rows in it.
        size_bytes: Size of the file, bytes.
        crc32c: CRC32C of the whole file, 8 hex digits.
    """

    name: str
    rows: BigInt
    size_bytes: BigInt
    crc32c: str


@dataclass(frozen=True, slots=True)
class ReplaceRecord:
    """A partition goes on in another folder, with the same rows in other files.

    Attributes:
        intent: Slot of the INTENT that the files were staged for.
        partition: As in `IntentRecord`.
        version: The partition's version afterwards.
        folder: Where it is afterwards, relative to the table; never used before.
        removed: All files that were live.
        added: All that are live afterwards; some may be copies of removed ones.
    """

    intent: int
    partition: str
    version: int
    folder: str
    removed: tuple[RemovedFile, ...]
    added: tuple[FileRecord, ...]


@dataclass(frozen=True, slots=True)
class SwapInput:
    """What the rows of a SWAP were made from.

    Attributes:
        ledger: Uuid of the ledger that was read.
        prefix: What was read of its table; empty for all of it.
        version: Version of the prefix's READY there; 0 without one.
        slot: Slot up to which it was read; -1 where it has no ledger.
    """

    ledger: str
    prefix: str
    version: int
    slot: int


@dataclass(frozen=True, slots=True)
class SwapCounts:
    """Where the rows went that a SWAP has read. Fields at zero are left out.

    `read + expanded = written + dirty + outside + filtered + skipped + merged`.

    Attributes:
        read: Rows that were read.
        written: Rows in the new files.
        dirty: Rows that could not be written, kept in dirty files.
        outside: Rows of other prefixes.
        filtered: Rows that `where` leaves out.
        skipped: Messages that are no rows.
        expanded: Rows beyond the first of each row that was read.
        merged: Rows that went into another one, as an aggregate makes one of many.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset(
        {"dirty", "outside", "filtered", "skipped", "expanded", "merged"}
    )

    read: BigInt
    written: BigInt
    dirty: BigInt = _NONE
    outside: BigInt = _NONE
    filtered: BigInt = _NONE
    skipped: BigInt = _NONE
    expanded: BigInt = _NONE
    merged: BigInt = _NONE

    def balanced(self) -> bool:
        """Whether every row is accounted for."""
        aside = self.dirty + self.outside + self.filtered + self.skipped + self.merged
        return self.read + self.expanded == self.written + aside


@dataclass(frozen=True, slots=True)
class SwappedPartition:
    """A partition of a prefix whose rows are replaced.

    Attributes:
        partition: Its name.
        values: Raw partition values; None for the default partition.
        version: The partition's version afterwards.
        folder: Where it is afterwards, relative to the table; never used before.
        removed: All files that were live.
        added: New files. None, without `carried`: the partition is empty from now on.
        carried: Copies of the files that were committed after the INTENT.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"removed", "added", "carried"})

    partition: str
    values: tuple[str | None, ...]
    version: int
    folder: str
    removed: tuple[RemovedFile, ...] = ()
    added: tuple[FileRecord, ...] = ()
    carried: tuple[FileRecord, ...] = ()

    @property
    def live(self) -> tuple[FileRecord, ...]:
        """All files that are live afterwards, in the order of their rows."""
        return (*self.added, *self.carried)


@dataclass(frozen=True, slots=True)
class SwapRecord:
    """The rows of a prefix are replaced by others, all at once. Fields that are empty are left out.

    Attributes:
        intent: Slot of the INTENT that the files were staged for. The new rows stand for all rows
            that were committed before it; files of later slots are carried over.
        prefix: Folder whose partitions are replaced, as `dt=20261120/hr=08`.
        counts: Where the rows went that were read.
        inputs: What the rows were made from.
        pins: Name of a table that was looked up -> its state then.
        sql: Hash of the SQL that made the rows.
        operator: `user@host` who asked for it.
        reason: In the operator's words.
        dirty_files: Rows that could not be written, with their reasons.
        rows_before: Rows below the prefix before.
        rows_after: Rows below the prefix afterwards, with the rows that were carried over.
        partitions: In name order.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset(
        {"inputs", "pins", "sql", "operator", "reason", "dirty_files", "partitions"}
    )

    intent: int
    prefix: str
    counts: SwapCounts
    rows_before: BigInt
    rows_after: BigInt
    partitions: tuple[SwappedPartition, ...] = ()
    dirty_files: tuple[FileRecord, ...] = ()
    inputs: tuple[SwapInput, ...] = ()
    pins: dict[str, str] = field(default_factory=dict)
    sql: str = ""
    operator: str = ""
    reason: str = ""

    @property
    def live(self) -> tuple[FileRecord, ...]:
        """Files of the table that are live with it."""
        return tuple(file for each in self.partitions for file in each.live)


@dataclass(frozen=True, slots=True)
class ReadyPartition:
    """A partition that is announced, as it is then.

    Attributes:
        partition: As in `IntentRecord`.
        version: Version of the partition, which a REPLACE raises.
        rows: Rows in it.
        files: Number of its files.
    """

    partition: str
    version: int
    rows: BigInt
    files: BigInt


@dataclass(frozen=True, slots=True)
class ReadyCause:
    """An announcement of another table that an announcement follows from.

    Attributes:
        ledger: Uuid of the ledger that made it.
        prefix: The prefix that it announced.
        version: Its version.
    """

    ledger: str
    prefix: str
    version: int


@dataclass(frozen=True, slots=True)
class ReadyRecord:
    """All partitions below a prefix are complete (commit rule 30a).

    Attributes:
        prefix: Folder, `dt=20261120/hr=08`; a partition of its own or above several.
        version: 1, and one more each time that late rows have come since.
        as_of_seq: Last slot that changed what is below.
        rows: Rows in all partitions.
        files: Number of their files.
        whole: Whether rows, files and partitions are all that there are. Not so when a partition
            may have been forgotten before it came again.
        partitions: Partitions in name order; none when the time has no rows.
        at_us: When it was put, by the driver's clock, us since the epoch; decides nothing. None in
            records of older versions.
        because: What it follows from, where the route reads a table; None elsewhere.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"at_us", "because"})
    prefix: str
    version: int
    as_of_seq: int
    rows: BigInt
    files: BigInt
    whole: bool
    partitions: tuple[ReadyPartition, ...]
    at_us: BigInt | None = None
    because: ReadyCause | None = None


@dataclass(frozen=True, slots=True)
class ExpiredPartition:
    """A partition that its owner has dropped.

    Attributes:
        partition: As in `IntentRecord`.
        rows: Rows that it had.
        files: Number of files that it had.
        next_folder: Where rows go that come for it later; never used before.
        removed: All files that were live, when the driver is to remove them; none when that is
            left to the owner.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"removed"})
    partition: str
    rows: BigInt
    files: BigInt
    next_folder: str
    removed: tuple[RemovedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class ExpireRecord:
    """Partitions that are not this ledger's any more; their files may be gone.

    Attributes:
        reason: Who dropped them, in words.
        partitions: What was dropped, each once.
    """

    reason: str
    partitions: tuple[ExpiredPartition, ...]
