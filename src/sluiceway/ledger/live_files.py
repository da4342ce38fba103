"""Which files are live in a partition: read from the log, proven by the fold's sum."""

from collections.abc import Collection, Iterable, Sequence

from sluiceway.errors import InvariantError, LedgerCorruptError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold_state import PartitionState
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import RemovedFile
from sluiceway.ledger.places import add_sums, file_sum
from sluiceway.ledger.records import table_files


class LiveFiles:
    """Live files of some partitions; the log is read once for all of them.

    Used by one thread at a time, for background work, not for each epoch.

    Args:
        ledger: The route's log.
        states: The partitions' states, as they were last moved.
    """

    def __init__(self, ledger: LedgerLog, states: Iterable[PartitionState]) -> None:
        moved = {state.location: state.moved_seq for state in states}
        self._log = ledger
        self._next_seq = min(moved.values(), default=0)
        self._found: dict[str, list[tuple[int, FileRecord]]] = {place: [] for place in moved}

    def of(self, state: PartitionState) -> tuple[FileRecord, ...]:
        """Live files of one of the partitions at slot `state.last_seq`, in commit order.

        Reads the records that were not read before.

        Args:
            state: A copy, or a state that does not change meanwhile; `state.whole`, and it has not
                moved since.

        Raises:
            InvariantError: The log's files do not add up to what the fold says.
            LedgerCorruptError: A record cannot be read.
            StorageUnavailableError: The store failed.
        """
        self.read_through(state.last_seq)
        found = [file for seq, file in self._found[state.location] if seq <= state.last_seq]
        if not is_all_of(state, found):
            raise InvariantError(
                f"{state.folder} has {len(found)} files in the log, and {state.files} in the fold",
                hint="keep the table and its _sluiceway folder as they are and run "
                "`sluiceway verify JOB`",
            )
        return tuple(found)

    def read_through(self, last_seq: int) -> None:
        """Read records up to this slot, if they were not read before.

        Raises:
            LedgerCorruptError: A record cannot be read.
            StorageUnavailableError: The store failed.
        """
        if last_seq < self._next_seq:
            return
        for record, _ in self._log.records(self._next_seq):
            for file in table_files(record.body):
                self._add(file.final.rpartition("/")[0], record.seq, file)
            self._next_seq = record.seq + 1
            if record.seq >= last_seq:
                return

    def _add(self, folder: str, seq: int, file: FileRecord) -> None:
        known = self._found.get(folder)
        if known is not None:
            known.append((seq, file))


def readers_of(ledger: LedgerLog, states: Sequence[PartitionState]) -> list[LiveFiles]:
    """For each partition where its live files are found: in one reading of the log, for all.

    Where a record is damaged each has a reading of its own: it may be older than what some need.

    Raises:
        StorageUnavailableError: The store failed.
    """
    shared = LiveFiles(ledger, states)
    try:
        shared.read_through(max((state.last_seq for state in states), default=-1))
    except LedgerCorruptError:
        return [LiveFiles(ledger, [state]) for state in states]
    return [shared] * len(states)


def is_all_of(state: PartitionState, files: Collection[FileRecord]) -> bool:
    """Whether these are exactly the files that are live in a partition."""
    sums = 0
    for file in files:
        sums = add_sums(sums, _sum(file))
    return state.whole and (len(files), sums) == (state.files, state.file_sum)


def removed_files(live: Iterable[FileRecord]) -> tuple[RemovedFile, ...]:
    """How a REPLACE names the files that it removes."""
    return tuple(RemovedFile(_name(file), file.rows, file.size_bytes, file.crc32c) for file in live)


def _name(file: FileRecord) -> str:
    return file.final.rpartition("/")[2]


def _sum(file: FileRecord) -> int:
    return file_sum(_name(file), int(file.rows), int(file.size_bytes), file.crc32c)
