"""Which files are live in a partition: read from the log, proven by the fold's sum."""

from collections.abc import Iterable, Sequence

from sluiceway.errors import InvariantError
from sluiceway.ledger.file_records import FileRecord
from sluiceway.ledger.fold_state import PartitionState
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import RemovedFile, ReplaceRecord
from sluiceway.ledger.places import add_sums, file_sum
from sluiceway.ledger.records import EpochRecord


def live_files(
    log: LedgerLog,
    state: PartitionState,
    known: Sequence[FileRecord] = (),
    known_through: int | None = None,
) -> tuple[FileRecord, ...]:
    """Files that are live in a partition, as of `state.last_seq`, in commit order.

    Reads the records since it last moved: for background work, not for each epoch.

    Args:
        log: Of the route.
        state: A copy, or one that does not change meanwhile; `state.whole`.
        known: What was live before, when it has not moved since; only later records are read.
        known_through: `last_seq` of that time; None when nothing is known.

    Raises:
        InvariantError: The log's files do not add up to what the fold says.
        LedgerCorruptError: A record cannot be read.
        StorageUnavailableError: The store failed.
    """
    found = list(known)
    start = state.moved_seq if known_through is None else known_through + 1
    for record, _ in log.records(start):
        if record.seq > state.last_seq:
            break
        body = record.body
        if isinstance(body, EpochRecord):
            found += _within(state.location, body.files)
        elif isinstance(body, ReplaceRecord) and body.folder == state.location:
            found += body.added
    if not is_all_of(state, found):
        raise InvariantError(
            f"{state.folder} has {len(found)} files in the log, and {state.files} in the fold",
            hint="keep the table and its _sluiceway folder as they are and run `sluiceway verify`",
        )
    return tuple(found)


def is_all_of(state: PartitionState, files: Sequence[FileRecord]) -> bool:
    """Whether these are exactly the files that are live in a partition."""
    sums = 0
    for file in files:
        sums = add_sums(sums, _sum(file))
    return state.whole and (len(files), sums) == (state.files, state.file_sum)


def removed_files(live: Iterable[FileRecord]) -> tuple[RemovedFile, ...]:
    """How a REPLACE names the files that it removes."""
    return tuple(RemovedFile(_name(file), file.rows, file.size_bytes, file.crc32c) for file in live)


def _within(folder: str, files: Iterable[FileRecord]) -> list[FileRecord]:
    return [file for file in files if file.final.rpartition("/")[0] == folder]


def _name(file: FileRecord) -> str:
    return file.final.rpartition("/")[2]


def _sum(file: FileRecord) -> int:
    return file_sum(_name(file), int(file.rows), int(file.size_bytes), file.crc32c)
