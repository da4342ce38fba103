"""Whether a change that is read once more is still the last of its key, by the committed changes.

Each change with a greater offset in its source partition was committed in the slot of the dirty row
or later. So the files of changes from there on have all of them, deletes too. Where such a file is
gone, or the source partition was moved since, it is unknown, and the row stays dirty.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sluiceway.ledger.dirty_sources import DirtySource
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.lane_records import LaneDataRecord
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.operator_records import ResetRecord, SourceChangeRecord
from sluiceway.ledger.records import DataRecord, Record, SourcesRecord
from sluiceway.sinks.change_judge import ChangeJudge, Verdict
from sluiceway.sinks.iceberg.keyed.key_index import KeyIndex, canonical_keys
from sluiceway.sinks.iceberg.keyed.keyed_changes import (
    KIND,
    OFFSET,
    PARTITION,
    TOPIC,
    ChangeColumns,
    control_columns,
    read_changes,
)
from sluiceway.types.row_kinds import RowKind

_Source = tuple[str, Any]
_Place = tuple[int, _Source, int]
"""Slot, source partition and offset of a change."""
_WITHOUT_KEY = (RowKind.TRUNCATE, RowKind.FIRST_LOST)
_GONE = "files of later changes are gone, so it is unknown whether one of them deleted it"
_MOVED = "its source partition was moved since, so its offset does not compare with later ones"
_ELSEWHERE = "another source partition has a change of its key, and no order with this one"


def origin_slot(ledger: LedgerLog, source: DirtySource) -> int:
    """The slot in which the rows of a dirty file were first read from the queue, or one before.

    Rows that a replay found dirty again lie in a file of the replay.

    Raises:
        LedgerCorruptError: The slot holds something else.
        StorageUnavailableError: The store failed.
    """
    found = ledger.read_slot(source.seq)
    body = None if found is None else found[0].body
    if not isinstance(body, LaneDataRecord):
        return source.seq
    return min(origin_slot(ledger, DirtySource.parse(span.source)) for span in body.ranges)


class ChangeHistory(ChangeJudge):
    """See `ChangeJudge`. Made for one lane, of the log as it is whenever it is asked.

    Args:
        ledger: The route's log.
        key: Columns of the key, as change files have to have them.
        columns: The ones that decide.
        names: Names of the offset, the source partition and the topic; no topic where there is one.
    """

    def __init__(
        self,
        ledger: LedgerLog,
        key: Sequence[str],
        columns: ChangeColumns,
        names: tuple[str, str, str | None],
    ) -> None:
        self._log = ledger
        self._key = list(key)
        self._columns = columns
        self._names = names
        self._origins: dict[str, int] = {}
        self._from: int | None = None
        self._next = 0
        self._files: dict[str, tuple[int, FileRecord]] = {}
        self._moved: dict[_Source, int] = {}
        self._gone = -1
        self._truncates: dict[str, list[_Place]] = {}
        self._index = KeyIndex(self._read_keys)

    @property
    def next_slot(self) -> int:
        """The slot after the last that was read."""
        return self._next

    def close(self) -> None:
        """Remove what is cached. Safe to repeat."""
        self._index.close()

    def judge(self, rows: pa.RecordBatch, sources: Sequence[str]) -> Verdict:
        """See `ChangeJudge.judge`."""
        since = [self._origin(each) for each in sources]
        superseded = np.zeros(rows.num_rows, np.bool_)
        unknown: dict[int, str] = {}
        if not since:
            return Verdict(superseded, unknown)
        self._read_log(min(since))
        keys = _keys(rows, self._key)
        later = self._later(keys)
        truncates = [place for places in self._truncates.values() for place in places]
        told = zip(keys.to_pylist(), self._sources(rows), self._offsets(rows), since, strict=True)
        for row, (key, source, offset, first) in enumerate(told):
            places = [*later.get(tuple(key.values()), ()), *truncates]
            behind = [place for place in places if place[0] >= first]
            if self._moved.get(source, -1) > first:
                unknown[row] = _MOVED
            elif any(at == source and other >= offset for _, at, other in behind):
                superseded[row] = True
            elif any(at != source for _, at, _ in behind):
                unknown[row] = _ELSEWHERE
            elif self._gone >= first:
                unknown[row] = _GONE
        return Verdict(superseded, unknown)

    def _origin(self, source: str) -> int:
        if source not in self._origins:
            self._origins[source] = origin_slot(self._log, DirtySource.parse(source))
        return self._origins[source]

    # The log

    def _read_log(self, first: int) -> None:
        """Take in what was committed from a slot on."""
        if self._from is None or first < self._from:
            self._from = self._next = first
            self._files, self._moved, self._truncates, self._gone = {}, {}, {}, -1
        for record, _ in self._log.records(self._next):
            self._apply(record)
            self._next = record.seq + 1

    def _apply(self, record: Record) -> None:
        match record.body:
            case DataRecord() | LaneDataRecord() as body:
                for file in body.files:
                    path = self._path(file)
                    if path is None:
                        self._gone = record.seq
                    else:
                        self._files[path] = record.seq, file
            case ResetRecord() | SourceChangeRecord() as body:
                for moved in body.partitions:
                    self._set_moved(moved.topic, moved.partition, record.seq)
            case SourcesRecord() as body:
                for pinned in body.partitions:
                    if not pinned.retired:
                        self._set_moved(pinned.topic, pinned.partition, record.seq)
            case _:
                return

    def _set_moved(self, topic: str, partition: object, seq: int) -> None:
        self._moved[self._topic(topic), partition] = seq

    def _path(self, file: FileRecord) -> str | None:
        """Where a committed file lies now; None when it is gone."""
        layout, storage = self._log.layout, self._log.storage
        final = layout.final(file.final)
        # Published between the two reads, it is under its final name.
        for path in (final, layout.attempt(file.staged), final):
            if storage.has_file(path):
                return path
        return None

    # Changes

    def _later(self, keys: pa.Table) -> dict[tuple[Any, ...], list[_Place]]:
        """All changes of these keys, by key."""
        found: dict[tuple[Any, ...], list[_Place]] = {}
        distinct = keys.group_by(keys.column_names).aggregate([])
        for path, positions in self._index.find(self._files, distinct).items():
            seq, _ = self._files[path]
            changes = self._with_key(path).take(pa.array(positions))
            names = [name for name in changes.column_names if name.startswith("k")]
            for change in changes.to_pylist():
                place = (seq, (change[TOPIC], change[PARTITION]), change[OFFSET])
                found.setdefault(tuple(change[name] for name in names), []).append(place)
        return found

    def _control(self, path: str) -> pa.Table:
        seq, file = self._files[path]
        where = path if self._log.storage.has_file(path) else self._log.layout.final(file.final)
        table = read_changes(self._log.storage, where, file)
        return control_columns(table, seq, self._columns)

    def _with_key(self, path: str) -> pa.Table:
        """The changes of rows; others have no key."""
        control = self._control(path)
        return control.filter(pa.array(~np.isin(control[KIND].to_numpy(), _WITHOUT_KEY)))

    def _read_keys(self, path: str) -> tuple[pa.Table]:
        seq, _ = self._files[path]
        control = self._control(path)
        of_all = control[KIND].to_numpy() == RowKind.TRUNCATE
        self._truncates[path] = [
            (seq, (each[TOPIC], each[PARTITION]), each[OFFSET])
            for each in control.filter(pa.array(of_all)).to_pylist()
        ]
        names = [name for name in control.column_names if name.startswith("k")]
        return (self._with_key(path).select(names),)

    # Rows

    def _topic(self, topic: str) -> str:
        return topic if self._columns.topic is not None else ""

    def _sources(self, rows: pa.RecordBatch) -> list[_Source]:
        _, partition, topic = self._names
        partitions = rows.column(partition).to_pylist()
        if topic is None:
            return [("", each) for each in partitions]
        return list(zip(rows.column(topic).to_pylist(), partitions, strict=True))

    def _offsets(self, rows: pa.RecordBatch) -> list[int]:
        found: list[int] = rows.column(self._names[0]).to_pylist()
        return found


def _keys(rows: pa.RecordBatch, names: Sequence[str]) -> pa.Table:
    """As change files have them, once they are canonical."""
    held = {name.lower(): name for name in rows.schema.names}
    found = canonical_keys(pa.table(rows).select([held[name.lower()] for name in names]))
    return found.rename_columns([f"k{number}" for number in range(found.num_columns)])
