"""The files that readers of a table have to read, by its ledger, without a metastore.

A pattern of folders is not enough. Compacted partitions lie below a folder whose name begins with
`_`, and their old files stay in place for the readers' grace period.
"""

from dataclasses import dataclass

from sluiceway.audit.open_table import OpenLedger
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold_state import FoldState
from sluiceway.ledger.live_files import LiveFiles, readers_of
from sluiceway.ledger.partition_records import ReadyRecord
from sluiceway.ledger.places import is_below, prefixes
from sluiceway.ledger.row_places import COUNTED_ONLY, RowBook
from sluiceway.sinks.partition_path import requested_folder


@dataclass(frozen=True, slots=True)
class ListedTableFile:
    """A file of the table.

    Attributes:
        partition: Name of its partition; empty in a table without.
        values: Values of the partition columns, null for the default partition.
        path: Absolute path.
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
        as_of_slot: They hold all that was committed up to this slot, and nothing later.
    """

    as_of_slot: int
    files: tuple[ListedTableFile, ...]


def table_files(ledger: OpenLedger, below: str = "", *, on_ready: bool = False) -> TableFiles:
    """The live files of a table, with final names.

    For partitions in the ledger's fold, the log is read from their first slot; for others, and for
    a whole table, from its start.

    Args:
        ledger: The ledger, read to its tail.
        below: A partition, or a folder above some; empty for the whole table.
        on_ready: Leave out partitions that were never announced, as the metastore does.
    """
    name = requested_folder(below)
    fold = ledger.fold
    if name and _knows_all(fold, name):
        found = _from_fold(ledger, name, on_ready=on_ready)
        if found is not None:
            return found
    return _all_files(ledger, name, on_ready=on_ready)


def _knows_all(fold: FoldState, name: str) -> bool:
    sealed = any(is_below(each, name) for each in fold.sealed) or fold.sealed_above(name)
    return not sealed and fold.knows_all_below(name)


def _from_fold(ledger: OpenLedger, name: str, *, on_ready: bool) -> TableFiles | None:
    """Files of known partitions; None when one of them is not at its final name yet."""
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


def _all_files(ledger: OpenLedger, name: str, *, on_ready: bool) -> TableFiles:
    """Files below a folder, by the whole log."""
    book, announced = RowBook(COUNTED_ONLY), set[str]()
    records = ledger.log.published(ledger.log.records(), ledger.fold.published_through)
    for record, _ in records:
        book.apply(record)
        if isinstance(record.body, ReadyRecord):
            announced.add(record.body.prefix)
    found = [
        _file(ledger, partition, file)
        for partition, files in book.live()
        if (not name or is_below(partition, name))
        and (not on_ready or not announced.isdisjoint(prefixes(partition)))
        for file in files
    ]
    return TableFiles(book.slot, tuple(found))


def _file(ledger: OpenLedger, partition: str, file: FileRecord) -> ListedTableFile:
    path = ledger.log.layout.final(file.final)
    return ListedTableFile(partition, file.values, path, int(file.rows), int(file.size_bytes))
