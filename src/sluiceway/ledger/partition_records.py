"""Records about whole partitions of the table: where their files are, and what was announced.

Only the driver that holds the fence puts them, between two epochs, through its one writer. Each
file of a partition that they speak of is at its final name by then (commit rule 2).
"""

from dataclasses import dataclass
from typing import ClassVar

from sluiceway.ledger.file_names import FileRecord
from sluiceway.types.strict_json import BigInt


@dataclass(frozen=True, slots=True)
class IntentRecord:
    """Background work on a partition begins; its staged folder has the name of this slot.

    Attributes:
        partition: Folder that the partition's first rows went to: its name for ever.
        version: Version of the partition that is read.
        uuid: Made for this work; part of the names of all its folders.
        purpose: What the work is, `compact`.
    """

    partition: str
    version: int
    uuid: str
    purpose: str


@dataclass(frozen=True, slots=True)
class AbandonRecord:
    """The work of an INTENT has ended without a REPLACE; nothing will ever name its files.

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
