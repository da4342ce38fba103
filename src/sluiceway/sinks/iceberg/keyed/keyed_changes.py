"""What a batch of changes comes to: the last change of each key, by the log's order.

Change files hold the rows as the table has them, and after them what each change is
(`types.row_kinds`). The order is the log's alone: slot, then offset; a source's own positions
decide nothing (L20). All changes of a key are in one source partition, so offsets compare.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sluiceway.errors import FileLostError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.sinks.iceberg.keyed.key_index import canonical_keys
from sluiceway.sinks.iceberg.keyed.keyed_files import names_by_id
from sluiceway.storage.contract import Storage
from sluiceway.types.row_kinds import KIND_COLUMN, RowKind

OFFSET, KIND, PARTITION, TOPIC = "$offset", "$kind", "$partition", "$topic"
_SLOT, _RANK = "$slot", "$rank"
_FIRSTS = (RowKind.FIRST, RowKind.FIRST_GONE, RowKind.FIRST_LOST)
SlotFile = tuple[int, FileRecord]


@dataclass(frozen=True, slots=True)
class ChangeColumns:
    """Columns of change files that decide, by their field ids.

    Attributes:
        key: Ids of the key's columns.
        offset: Id of the offset of the record with the change.
        partition: Id of that record's source partition.
        topic: Id of that record's topic; None where all are of one topic.
    """

    key: tuple[int, ...]
    offset: int
    partition: int
    topic: int | None = None


@dataclass(frozen=True, slots=True)
class NewRows:
    """Rows of one partition that go into one new file.

    Attributes:
        texts: Values of the partition, as the ledger has them.
        rows: Rows in the columns of the table, with field ids.
    """

    texts: tuple[str | None, ...]
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What a batch does to the table.

    Attributes:
        keys: Keys of all rows that changed, each once: older rows of them go.
        images: What they are from now on; deleted rows have none.
        changes: Number of changes that were read.
        begins_again: A snapshot begins after other changes of its source partition in this batch.
        begins: Topics and partitions of the records with which one begins at all; an empty name
            where all are of one topic.
        emptied: All rows that were in the table before this batch go, and none begins again.
    """

    keys: pa.Table
    images: tuple[NewRows, ...]
    changes: int
    begins: frozenset[tuple[str, str]] = frozenset()
    begins_again: bool = False
    emptied: bool = False


def last_changes(
    files: Sequence[SlotFile],
    columns: ChangeColumns,
    storage: Storage,
    path_of: Callable[[FileRecord], str],
) -> BatchOutcome:
    """Read a batch's change files; the last change of each key.

    Args:
        files: Files, each with its slot.
        columns: Which decide.
        storage: The ledger's storage.
        path_of: Where a committed file lies.

    Raises:
        FileLostError: A file is not the one that was committed.
        StorageUnavailableError: The store failed.
    """
    tables = [read_changes(storage, path_of(file), file) for _, file in files]
    control = pa.concat_tables(
        control_columns(table, seq, columns) for (seq, _), table in zip(files, tables, strict=True)
    )
    names = [name for name in control.column_names if name.startswith("k")]
    counted = _behind_truncates(control)
    emptied = len(counted) < control.num_rows
    left = control.take(pa.array(counted)) if emptied else control
    keyed = np.flatnonzero(left[KIND].to_numpy() != RowKind.FIRST_LOST)
    last = counted[keyed[_last_of_each(left.take(pa.array(keyed)), names)]]
    kept = np.zeros(control.num_rows, bool)
    kept[last] = True
    kinds = control[KIND].to_numpy()
    kept &= ~np.isin(kinds, (RowKind.DELETE, RowKind.FIRST_GONE))
    of_firsts = np.isin(left[KIND].to_numpy(), _FIRSTS)
    firsts = left.filter(pa.array(of_firsts))
    return BatchOutcome(
        control.select(names).take(pa.array(last)),
        _images(files, tables, kept),
        control.num_rows,
        begins=frozenset() if emptied else _places(firsts),
        begins_again=_begins_again(left, firsts),
        emptied=emptied,
    )


def _behind_truncates(control: pa.Table) -> NDArray[np.int64]:
    """Rows that count: the rows after the last truncate, which one source partition has."""
    truncates = np.flatnonzero(control[KIND].to_numpy() == RowKind.TRUNCATE)
    if not len(truncates):
        return np.arange(control.num_rows)
    slots, offsets = control[_SLOT].to_numpy(), control[OFFSET].to_numpy()
    slot, offset = max((slots[row], offsets[row]) for row in truncates)
    return np.flatnonzero((slots > slot) | ((slots == slot) & (offsets > offset)))


def _places(firsts: pa.Table) -> frozenset[tuple[str, str]]:
    """Topic and partition of each."""
    partitions = map(str, firsts[PARTITION].to_pylist())
    return frozenset(zip(firsts[TOPIC].to_pylist(), partitions, strict=True))


def _begins_again(control: pa.Table, firsts: pa.Table) -> bool:
    """Whether changes of its source partition come before one of these.

    Other partitions may have been read first, up to rows of the very snapshot that begins here.
    """
    for first in firsts.to_pylist():
        topic = control.filter(pc.equal(control[TOPIC], first[TOPIC]))
        slots, offsets = topic[_SLOT].to_numpy(), topic[OFFSET].to_numpy()
        same = np.asarray(pc.equal(topic[PARTITION], first[PARTITION]))
        before = (slots < first[_SLOT]) | ((slots == first[_SLOT]) & (offsets < first[OFFSET]))
        if (same & before).any():
            return True
    return False


def control_columns(table: pa.Table, seq: int, columns: ChangeColumns) -> pa.Table:
    """The columns of a file that decide; the key's are `k0`, `k1`, ..."""
    names = names_by_id(table.schema)
    keys = canonical_keys(table.select([names[each] for each in columns.key]))
    slots = pa.array(np.full(table.num_rows, seq, np.int64))
    rest = {
        OFFSET: table[names[columns.offset]],
        PARTITION: table[names[columns.partition]],
        TOPIC: _topics(table, names, columns.topic),
        KIND: table[KIND_COLUMN],
        _SLOT: slots,
    }
    return pa.table(
        [*keys.columns, *rest.values()],
        names=[*(f"k{n}" for n in range(keys.num_columns)), *rest],
    )


def _topics(table: pa.Table, names: Mapping[int, str], topic: int | None) -> Any:
    if topic is None:
        return pa.array([""], pa.string()).take(pa.array(np.zeros(table.num_rows, np.int64)))
    return table[names[topic]].cast(pa.string())


def _last_of_each(control: pa.Table, key: list[str]) -> NDArray[np.int64]:
    """Rows that are the last of their key, rising."""
    order = pc.sort_indices(control, [(_SLOT, "ascending"), (OFFSET, "ascending")])
    ranked = control.select(key).take(order)
    ranked = ranked.append_column(_RANK, pa.array(np.arange(ranked.num_rows)))
    newest = ranked.group_by(key).aggregate([(_RANK, "max")])[f"{_RANK}_max"]
    rows: NDArray[np.int64] = order.take(newest.combine_chunks()).to_numpy().astype(np.int64)
    return np.sort(rows)


def _images(
    files: Sequence[SlotFile], tables: Sequence[pa.Table], kept: NDArray[np.bool_]
) -> tuple[NewRows, ...]:
    """Rows by partition; files whose columns differ, as after a change of the table, stay apart."""
    groups: dict[tuple[str | None, ...], list[list[pa.Table]]] = {}
    begin = 0
    for (_, file), table in zip(files, tables, strict=True):
        mask = kept[begin : begin + table.num_rows]
        begin += table.num_rows
        if not mask.any():
            continue
        rows = table.drop_columns([KIND_COLUMN]).filter(pa.array(mask))
        alike = groups.setdefault(file.values, [])
        for group in alike:
            if group[0].schema.equals(rows.schema, check_metadata=True):
                group.append(rows)
                break
        else:
            alike.append([rows])
    return tuple(
        NewRows(texts, pa.concat_tables(group).combine_chunks())
        for texts, alike in groups.items()
        for group in alike
    )


def read_changes(storage: Storage, path: str, file: FileRecord) -> Any:
    """A file of changes, as it was committed.

    Raises:
        FileLostError: It is gone, or another.
        StorageUnavailableError: The store failed.
    """
    if not storage.has_file(path):
        raise FileLostError("a committed file of changes is gone", where=path)
    with storage.open_read(path) as handle:
        raw = handle.read()
    found = f"{google_crc32c.value(raw):08x}"
    if found != file.crc32c:
        raise FileLostError(f"its checksum is {found}, not {file.crc32c}", where=path)
    table = pq.read_table(io.BytesIO(raw))
    if table.num_rows != int(file.rows):
        raise FileLostError(f"it has {table.num_rows} rows, not {file.rows}", where=path)
    return table
