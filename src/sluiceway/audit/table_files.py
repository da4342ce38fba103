"""Which files readers of a table have to read, as its ledger says, for those that ask no metastore.

A pattern of folders does not tell: compacted partitions lie below a folder whose name begins with
`_`, and for the readers' grace what they have left lies where it was.
"""

from dataclasses import dataclass

from sluiceway.audit.open_table import OpenLedger
from sluiceway.ledger.file_records import FileRecord
from sluiceway.ledger.folding.fold_state import FoldState
from sluiceway.ledger.live_files import LiveFiles, readers_of
from sluiceway.ledger.partition_records import ExpireRecord, ReadyRecord, ReplaceRecord
from sluiceway.ledger.places import is_below, prefixes
from sluiceway.ledger.records import Body, EpochRecord, Record
from sluiceway.sinks.partition_path import requested_folder


@dataclass(frozen=True, slots=True)
class ListedTableFile:
    """A file of the table.

    Attributes:
        partition: Name of its partition; empty in a table without.
        values: Of the partition columns, null for the default partition.
        path: Absolute.
    """

    partition: str
    values: tuple[str | None, ...]
    path: str
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The files of a table, or of a part of it.

    Attributes:
        as_of_slot: All that was committed up to this slot is in them, and nothing later.
    """

    as_of_slot: int
    files: tuple[ListedTableFile, ...]


def table_files(ledger: OpenLedger, below: str = "", *, on_ready: bool = False) -> TableFiles:
    """The live files of a table, with final names.

    Of partitions that the ledger's fold knows the log is read from where they are; for others, and
    for a whole table, all of it.

    Args:
        ledger: Read to its tail.
        below: A partition, or a folder above some; empty is the whole table.
        on_ready: Leave out what was never announced, as the metastore does.
    """
    name = requested_folder(below)
    fold = ledger.fold
    if name and _knows_all(fold, name):
        found = _from_fold(ledger, name, on_ready=on_ready)
        if found is not None:
            return found
    book = _Book(ledger)
    for record, _ in ledger.log.records():
        if not book.apply(record):
            break
    return book.files_below(name, on_ready=on_ready)


def _knows_all(fold: FoldState, name: str) -> bool:
    sealed = any(is_below(each, name) for each in fold.sealed) or fold.sealed_above(name)
    return not sealed and fold.knows_all_below(name)


def _from_fold(ledger: OpenLedger, name: str, *, on_ready: bool) -> TableFiles | None:
    """Of known partitions; None where something is not at its final name yet."""
    fold = ledger.fold
    states = [
        state
        for state in fold.below(name)
        if state.files and (not on_ready or fold.is_announced(state))
    ]
    if any(state.last_seq >= fold.published_through for state in states):
        return None
    readers: list[LiveFiles] = readers_of(ledger.log, states)
    found = [
        _file(ledger, state.folder, file)
        for state, reader in zip(states, readers, strict=True)
        for file in reader.of(state)
    ]
    return TableFiles(fold.next_seq - 1, tuple(found))


class _Book:
    """All live files, record by record."""

    def __init__(self, ledger: OpenLedger) -> None:
        self._ledger = ledger
        self._live: dict[str, list[FileRecord]] = {}
        self._names: dict[str, str] = {}
        self._announced: set[str] = set()
        self._last = -1

    def apply(self, record: Record) -> bool:
        """Take a record in; False at the first one whose files are not all published."""
        body = record.body
        if record.seq >= self._ledger.fold.published_through and not self._is_there(body):
            return False
        self._last = record.seq
        if isinstance(body, EpochRecord):
            for file in body.files:
                folder = file.final.rpartition("/")[0]
                self._live.setdefault(self._names.get(folder, folder), []).append(file)
        elif isinstance(body, ReplaceRecord):
            self._live[body.partition] = list(body.added)
            self._names[body.folder] = body.partition
        elif isinstance(body, ExpireRecord):
            for each in body.partitions:
                self._live.pop(each.partition, None)
                self._names[each.next_folder] = each.partition
        elif isinstance(body, ReadyRecord):
            self._announced.add(body.prefix)
        return True

    def _is_there(self, body: Body) -> bool:
        files: tuple[FileRecord, ...] = ()
        if isinstance(body, EpochRecord):
            files = body.files
        elif isinstance(body, ReplaceRecord):
            files = body.added
        storage, layout = self._ledger.log.storage, self._ledger.log.layout
        return all(storage.status(layout.final(file.final)) is not None for file in files)

    def files_below(self, name: str, *, on_ready: bool) -> TableFiles:
        """What is below a folder."""
        found = [
            _file(self._ledger, partition, file)
            for partition, files in sorted(self._live.items())
            if (not name or is_below(partition, name))
            and (not on_ready or not self._announced.isdisjoint(prefixes(partition)))
            for file in files
        ]
        return TableFiles(self._last, tuple(found))


def _file(ledger: OpenLedger, partition: str, file: FileRecord) -> ListedTableFile:
    path = ledger.log.layout.final(file.final)
    return ListedTableFile(partition, file.values, path, int(file.rows), int(file.size_bytes))
