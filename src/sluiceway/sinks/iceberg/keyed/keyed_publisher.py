"""Makes a keyed lake table equal to its source: each key's last change, by positions, no MERGE.

The older rows of a key are found among the keys of all files that are live at the head that the
request asserts. When the head has moved, they are found again. One snapshot brings the new rows and
the position deletes of the old ones. So a reader sees the table as it was at one place of the log,
and one key once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from sluiceway.errors import InvariantError, SourceAgainError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.follower import LogView
from sluiceway.ledger.records import DataRecord
from sluiceway.observe.failpoints import reach
from sluiceway.sinks.iceberg.column_types import find_column
from sluiceway.sinks.iceberg.commit_request import SlotBatch
from sluiceway.sinks.iceberg.data_files import PlacedFile, data_file, missing_files, read_footer
from sluiceway.sinks.iceberg.keyed.key_index import KeyIndex, canonical_keys
from sluiceway.sinks.iceberg.keyed.keyed_changes import ChangeColumns, last_changes
from sluiceway.sinks.iceberg.keyed.keyed_files import FilePlace
from sluiceway.sinks.iceberg.keyed.keyed_upkeep import Group, due_work, group_of
from sluiceway.sinks.iceberg.keyed.table_head import Head, HeadReader, living
from sluiceway.sinks.iceberg.keyed.upsert_request import TableChange, upsert_request
from sluiceway.sinks.iceberg.partition_fields import find_spec, partition_record
from sluiceway.sinks.iceberg.publish.lake_batch import LakeBatch
from sluiceway.sinks.iceberg.publish.publisher import LakePublisher, batch_notes, check_required
from sluiceway.sinks.iceberg.table_history import record_hash
from sluiceway.storage.locations import path_below

Positions = NDArray[np.int64]
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Made:
    """What was made of a batch, whatever the head is.

    Attributes:
        slots: First and last.
        keys: Keys of all rows that changed.
        placed: Files with the new rows.
        emptied: All that was in the table goes.
    """

    slots: tuple[int, int]
    keys: pa.Table
    placed: tuple[PlacedFile, ...]
    emptied: bool = False


@dataclass(frozen=True, slots=True)
class _Work:
    """What one try works on.

    Attributes:
        metadata: Metadata of the table as it was loaded.
        head: Its head.
        heads: Knows which rows were dead there.
        fresh: Rows by data file that this batch deletes.
    """

    metadata: TableMetadata
    place: FilePlace
    head: Head
    heads: HeadReader
    fresh: dict[str, Positions]

    def dead(self, path: str) -> Positions:
        """Rows of a data file that no reader sees after this publish."""
        return np.union1d(self.heads.dead(path), self.fresh.get(path, _NONE))

    def dead_rows(self, path: str) -> int:
        """How many these are: what a batch deletes was alive before."""
        return len(self.heads.dead(path)) + len(self.fresh.get(path, _NONE))


class KeyedPublisher(LakePublisher):
    """Publishes changes of keyed rows; see `LakePublisher` for what is the same."""

    # Held in memory while the last change of each key is found.
    most_rows = 1_000_000
    _index: KeyIndex | None = None
    _heads: HeadReader | None = None
    _columns: ChangeColumns = ChangeColumns((), 0, 0)
    _batch: _Made | None = None

    def close(self) -> None:
        """See `Follower.close`: the cache of keys goes."""
        if self._index is not None:
            self._index.close()
        self._index, self._heads = None, None

    def _try(self, table: Table, batch: LakeBatch, view: LogView) -> str:
        """See `LakePublisher._try`: resolve the batch's keys at this head, and send once."""
        if batch.swap is not None:
            raise InvariantError(f"slot {batch.last} replaces a prefix of a table with a key")
        place = self._file_place()
        heads, index = self._opened(table, place)
        made = self._made_of(batch, view, table.metadata, place)
        head = heads.read(table)
        older = {} if made.emptied else index.find(head.data, made.keys)
        fresh = {path: living(rows, heads.dead(path)) for path, rows in older.items()}
        reach("lake.resolved", self._table.where)
        work = _Work(table.metadata, place, head, heads, fresh)
        change = self._change(work, made)
        reach("lake.placed", self._table.where)
        slots = SlotBatch(
            ledger=self._route.ledger,
            first=batch.first,
            last=batch.last,
            record_hash=record_hash(view.log.read_bytes(batch.last) or b""),
            notes=batch_notes(batch),
        )
        return self._table.send(table, upsert_request(table, slots, change, head.entries))

    def _opened(self, table: Table, place: FilePlace) -> tuple[HeadReader, KeyIndex]:
        if self._heads is None or self._index is None:
            find = partial(find_column, table.metadata.schema())
            self._columns = ChangeColumns(
                tuple(find(name).field_id for name in self._options.key),
                find(self._options.offset_column).field_id,
                find(self._options.partition_column).field_id,
                find(self._options.topic_column).field_id if self._options.topic_column else None,
            )
            self._heads = HeadReader(place.read_deletes)
            self._index = KeyIndex(partial(_read_keys, place, self._columns.key))
        return self._heads, self._index

    def _made_of(
        self, batch: LakeBatch, view: LogView, metadata: TableMetadata, place: FilePlace
    ) -> _Made:
        """The batch's last changes and new files; made once, whatever becomes of requests.

        Again where files that were made for a request that never landed are gone.
        """
        slots, made = (batch.first, batch.last), self._batch
        if (
            made is not None
            and made.slots == slots
            and not missing_files(place.storage, made.placed)
        ):
            return made

        def path_of(file: FileRecord) -> str:
            return view.layout.final(file.final)

        outcome = last_changes(batch.files, self._columns, self._files.storage, path_of)
        if outcome.begins_again or self._was_told(outcome.begins, batch, view):
            raise SourceAgainError(
                "the source began to send all of its rows again, after changes that are in the "
                "table: rows that were deleted meanwhile never come",
                where=f"{self._table.where}, slots {batch.first} to {batch.last}",
                hint="fill a new table from this snapshot on: docs/guides/keyed-tables.md, "
                "A snapshot that begins again",
            )
        begins = _begins_of_names(batch.files)
        placed = [
            place.place_rows(each.rows, each.texts, begins[each.texts]) for each in outcome.images
        ]
        self._batch = _Made(slots, outcome.keys, tuple(placed), outcome.emptied)
        return self._batch

    def _was_told(
        self, begins: frozenset[tuple[str, str]], batch: LakeBatch, view: LogView
    ) -> bool:
        """Whether changes of one of these topics' partitions were committed before the batch.

        The log is read for it: only where a snapshot begins after other snapshots of the table.
        """
        if not begins or not self._table.has_slots:
            return False
        of_one = self._columns.topic is None
        return any(
            ("" if of_one else span.topic, str(span.partition)) in begins and int(span.rows) > 0
            for record in LogView(view.log, batch.first).records(0)
            if isinstance(record.body, DataRecord)
            for span in record.body.ranges
        )

    def _file_place(self) -> FilePlace:
        files = self._files
        return FilePlace(files.storage, files.root, files.uri, files.compression)

    def _change(self, work: _Work, made: _Made) -> TableChange:
        """Files that come and go: the batch's own, and the rewritten ones."""
        metadata, head = work.metadata, work.head
        if made.emptied:
            gone = frozenset((*head.data, *head.deletes))
            return TableChange([self._added(file, metadata) for file in made.placed], (), gone)
        due = due_work(head, work.dead_rows, self._options.target_bytes)
        added = [self._added(file, metadata) for file in made.placed]
        removed: set[str] = set()
        for paths in due.rows:
            removed.update(self._rewrite(paths, work, added))
        dead: dict[Group, dict[str, Positions]] = {}
        for path, entry in head.data.items():
            group = group_of(entry)
            rows = work.dead(path) if group in due.deletes else work.fresh.get(path, _NONE)
            if path not in removed and len(rows):
                dead.setdefault(group, {})[path] = rows
        deletes = [
            work.place.place_deletes(rows, head.data[next(iter(rows))]) for rows in dead.values()
        ]
        removed.update(
            path for path, entry in head.deletes.items() if group_of(entry) in due.deletes
        )
        return TableChange(added, deletes, frozenset(removed))

    def _added(self, file: PlacedFile, metadata: TableMetadata) -> DataFile:
        """A file with new rows, as a manifest has it."""
        schema = metadata.schema()
        spec = find_spec(
            list(metadata.specs().values()), metadata.default_spec_id, self._options.fields, schema
        )
        footer = read_footer(self._files.storage, file.path)
        needed = {of.field_id: of.name for of in schema.fields if of.required}
        check_required(needed, footer, file, where=self._table.where)
        record = partition_record(file.texts, self._options.fields, spec, schema)
        return data_file(file, footer, metadata, spec, record)

    def _rewrite(
        self, paths: tuple[str, ...], work: _Work, added: list[DataFile]
    ) -> tuple[str, ...]:
        """Write the living rows of data files as one; the files that it stands for.

        Files with other columns than the first stay as they are.
        """
        parts: list[pa.Table] = []
        taken: list[str] = []
        for path in paths:
            rows = work.place.read_rows(path, work.dead(path))
            if not parts or rows.schema.equals(parts[0].schema, check_metadata=True):
                parts.append(rows)
                taken.append(path)
        if len(paths) > 1 and len(taken) == 1:
            return ()
        whole = pa.concat_tables(parts).combine_chunks()
        if whole.num_rows:
            of = work.head.data[paths[0]].data_file
            inside = path_below(f"{work.place.uri}/data", paths[0]) or ""
            folder, slash, _ = inside.rpartition("/")
            file = work.place.place_rows(whole, (), f"{folder}{slash}")
            spec = work.metadata.specs()[of.spec_id]
            footer = read_footer(self._files.storage, file.path)
            added.append(data_file(file, footer, work.metadata, spec, of.partition))
        return tuple(taken)


def _begins_of_names(files: Sequence[tuple[int, FileRecord]]) -> dict[tuple[str | None, ...], str]:
    """How the name of a partition's new file begins: as that of its first file of changes.

    What is made of a batch is kept while requests fail, for days perhaps. By these names orphan
    removal knows it for files of slots that the table does not have yet.
    """
    begins: dict[tuple[str | None, ...], str] = {}
    for _, file in files:
        folder, slash, name = file.final.rpartition("/")
        begins.setdefault(file.values, f"{folder}{slash}{name.rpartition('.')[0]}-")
    return begins


def _read_keys(place: FilePlace, ids: tuple[int, ...], path: str) -> Iterator[pa.Table]:
    return map(canonical_keys, place.read_columns(path, ids))
