"""Keys of changes: what a record's own key says, compared with the row's and put in its place.

The queue keeps the order of one key only among records that have it as their own key (L21), so a
change whose record has another could overtake what came before it. It is dirty, never guessed.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_rows import parse_object
from sluiceway.convert.exact_values import compile_field
from sluiceway.errors import SourceOrderError
from sluiceway.formats.changes.connect_values import SchemaView
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.sources.contract import SourceBatch, SourcePartition
from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.types.payloads import JoinedPayloads, rows_with
from sluiceway.types.row_kinds import RowKind
from sluiceway.types.schema import Field, Schema
from sluiceway.worker.plan import KeyForm, KeyRule

_RECORD, _PLACE = "$record", "$place"
_TEXT = "text"
_WRAPPER = "payload"
_PREFIX = "pk."
_PAYLOAD, _SCHEMA = b'"payload"', b'"schema"'
_STAGE = "decode"
_NONE = np.empty(0, np.int64)


class KeyedRows:
    """Checks and completes the keys of decoded changes. Created once per task, used by one thread.

    Args:
        rule: Which columns, and what the records' keys look like.
        schema: Columns that are decoded from the payload.

    Raises:
        ValueError: A column of the key is not among them.
    """

    def __init__(self, rule: KeyRule, schema: Schema) -> None:
        places = {field.name.lower(): place for place, field in enumerate(schema.fields)}
        lacking = [name for name in rule.columns if name.lower() not in places]
        if lacking:
            raise ValueError(f"the key column {lacking[0]} is not read from the payload")
        self._rule = rule
        self._places = [places[name.lower()] for name in rule.columns]
        self._fields = [schema.fields[place] for place in self._places]
        self._keys = _keys_reader(rule, self._fields)

    def settle(
        self,
        rows: pa.RecordBatch,
        kinds: pa.Array,
        batches: Sequence[SourceBatch],
        indices: pa.Array,
    ) -> tuple[pa.RecordBatch, list[DirtyRow]]:
        """Give each change the whole key of its row. Called once a read.

        Args:
            rows: Decoded.
            kinds: Of the rows.
            batches: As one read returned them.
            indices: Which record of the batches each row is.

        Returns:
            The rows, and those without a key that can be trusted; `index` counts the rows.
        """
        dirty: dict[int, DirtyRow] = {}
        told: Sequence[pa.Array] | None = None
        if self._keys is not None and rows.num_rows:
            told = self._told_by_records(batches, indices, dirty)
        deleted = pc.equal(kinds, pa.scalar(int(RowKind.DELETE), kinds.type))
        of_all = pc.equal(kinds, pa.scalar(int(RowKind.TRUNCATE), kinds.type))
        arrays = list(rows.columns)
        for number, (place, field) in enumerate(zip(self._places, self._fields, strict=True)):
            column = arrays[place]
            if told is not None:
                absent = column.is_null()
                filled = absent if self._rule.fills else pc.and_(deleted, absent)
                column = pc.if_else(filled, told[number], column)
                same = pc.fill_null(pc.equal(column, told[number]), False)  # noqa: FBT003
                for row in pc.indices_nonzero(pc.invert(same)).to_pylist():
                    dirty.setdefault(row, _mismatch(row, field.name))
                arrays[place] = column
            for row in pc.indices_nonzero(pc.and_not(column.is_null(), of_all)).to_pylist():
                dirty.setdefault(row, _no_key(row, field.name))
        settled = pa.RecordBatch.from_arrays(arrays, schema=rows.schema)
        return settled, [dirty[row] for row in sorted(dirty)]

    def _told_by_records(
        self, batches: Sequence[SourceBatch], indices: pa.Array, dirty: dict[int, DirtyRow]
    ) -> list[pa.Array]:
        """The key's columns of each row as its record's own key has them."""
        assert self._keys is not None  # noqa: S101 - the caller has looked
        keys = JoinedPayloads([part for batch in batches for part in _parts(batch.keys())])
        records = indices.to_numpy()
        if not self._keys.reads_all:
            held = list(keys)
            return self._keys.read([held[record] for record in records.tolist()], dirty)
        of_records: dict[int, DirtyRow] = {}
        columns = self._keys.read(keys, of_records)
        for row in np.flatnonzero(np.isin(records, list(of_records))).tolist():
            dirty[row] = replace(of_records[int(records[row])], index=row)
        return [column.take(indices) for column in columns]

    def last_of_records(self, rows: pa.RecordBatch, indices: pa.Array) -> NDArray[np.bool_]:
        """Which rows are the last of their key in their record; others nobody would ever see."""
        names = [str(number) for number in range(len(self._places))]
        columns = [rows.column(place) for place in self._places]
        places = pa.array(np.arange(rows.num_rows))
        table = pa.table([*columns, indices, places], names=[*names, _RECORD, _PLACE])
        newest = table.group_by([*names, _RECORD]).aggregate([(_PLACE, "max")])
        kept = np.zeros(rows.num_rows, np.bool_)
        kept[newest[f"{_PLACE}_max"].to_numpy()] = True
        return kept


def has_several(indices: pa.Array) -> bool:
    """Whether some record has more than one row."""
    numbers = indices.to_numpy()
    return bool((numbers[1:] == numbers[:-1]).any())


def check_one_partition(rule: KeyRule, splits: Sequence[SourcePartition]) -> None:
    """See that a topic whose order alone counts has one partition. Called once a task.

    A task sees its own splits only; the driver counts all of a topic before it pins them.

    Raises:
        SourceOrderError: It has others.
    """
    seen: set[str] = set()
    for split in splits if rule.one_partition else ():
        is_further = isinstance(split.partition, int) and split.partition != 0
        if is_further or split.topic in seen:
            raise several_partitions(str(split))
        seen.add(split.topic)


def several_partitions(where: str) -> SourceOrderError:
    """What a second partition of a topic is, where the order of one counts."""
    return SourceOrderError(
        "the job file says key_order: one_partition, and the topic has more",
        where=where,
        hint="write key_order: by_key where records have the row's key as their own, "
        "by_partition where the producer sends all changes of a key to one, or read a "
        "topic of one partition",
    )


def _parts(keys: Sequence[bytes | None]) -> Sequence[Sequence[bytes | None]]:
    return keys.parts if isinstance(keys, JoinedPayloads) else [keys]


def _mismatch(row: int, name: str) -> DirtyRow:
    message = "the record's own key has another value, so the order of its changes is not kept"
    return DirtyRow(row, _STAGE, DirtyReason.KEY_MISMATCH, name, message)


def _no_key(row: int, name: str) -> DirtyRow:
    message = "a column of the row's key is null or missing"
    return DirtyRow(row, _STAGE, DirtyReason.KEY_MISMATCH, name, message)


def _keys_reader(
    rule: KeyRule, fields: Sequence[Field]
) -> "_RecordKeys | _FramedKeys | _TextKeys | None":
    """What reads the records' own keys; None where they are not looked at."""
    if rule.form is None:
        return None
    if rule.format is not None:
        return _FramedKeys(rule.format, fields)
    if rule.form is KeyForm.TEXT:
        return _TextKeys(fields)
    return _RecordKeys(rule.form, fields)


class _RecordKeys:
    """Reads the columns of a row's key from the keys of records.

    Attributes:
        reads_all: Whether it is given the keys of all records, also of those that gave no row: as
            buffers they cost less than a part of them as objects. A registry is asked for those
            of rows alone.
    """

    reads_all = True

    def __init__(self, form: KeyForm, fields: Sequence[Field]) -> None:
        prefix = _PREFIX if form is KeyForm.PREFIXED else ""
        steps = [f"{prefix}{(field.path or (field.name,))[-1]}" for field in fields]
        plain = [
            replace(field, path=(step,), required=True)
            for field, step in zip(fields, steps, strict=True)
        ]
        self._plain = JsonDecoder(Schema(tuple(plain)), tombstones="dirty")
        self._schema = self._plain.arrow_schema
        self._wrapped = [replace(field, path=(_WRAPPER, *field.path)) for field in plain]
        self._readers = [compile_field(field, field.path) for field in self._wrapped]
        self._unwraps = form is KeyForm.CONNECT

    def read(self, keys: Sequence[bytes | None], dirty: dict[int, DirtyRow]) -> list[pa.Array]:
        """Values of the columns; null where a key does not tell them, which is told in `dirty`."""
        wrapped = _NONE
        if self._unwraps:
            with_payload, with_schema = rows_with(keys, [_PAYLOAD]), rows_with(keys, [_SCHEMA])
            wrapped = np.intersect1d(with_payload, with_schema, assume_unique=True)
        plain = np.delete(np.arange(len(keys)), wrapped)
        found = self._plain.decode([keys[row] for row in plain.tolist()] if len(wrapped) else keys)
        for row in found.dirty:
            number = int(plain[row.index])
            dirty[number] = _unreadable(number, row.message)
        rows = plain[found.indices.to_numpy()]
        columns = list(found.rows.columns)
        wrapped_rows, values = self._read_wrapped(keys, wrapped.tolist(), dirty)
        if wrapped_rows:
            made = [
                pa.array(column, field.type)
                for column, field in zip(zip(*values, strict=True), self._schema, strict=True)
            ]
            columns = [pa.concat_arrays([a, b]) for a, b in zip(columns, made, strict=True)]
            rows = np.concatenate([rows, wrapped_rows])
        return _spread(columns, rows, len(keys))

    def _read_wrapped(
        self, keys: Sequence[bytes | None], wrapped: Sequence[int], dirty: dict[int, DirtyRow]
    ) -> tuple[list[int], list[list[object]]]:
        rows, values = [], []
        for row in wrapped:
            try:
                seen = SchemaView(parse_object(keys[row] or b"", lenient=False))
                values.append(
                    [
                        read(seen.of(field))
                        for field, read in zip(self._wrapped, self._readers, strict=True)
                    ]
                )
                rows.append(row)
            except DirtyValueError as error:
                dirty[row] = _unreadable(row, error.row(row).message)
        return rows, values


class _FramedKeys:
    """Reads the columns of a row's key from keys of records that are no JSON, all at once."""

    reads_all = False

    def __init__(self, choice: FormatChoice, fields: Sequence[Field]) -> None:
        steps = [(field, (field.path or (field.name,))[-1]) for field in fields]
        schema = Schema(tuple(replace(of, path=(step,), required=True) for of, step in steps))
        self._decoder = open_decoder(choice, schema)

    def read(self, keys: Sequence[bytes | None], dirty: dict[int, DirtyRow]) -> list[pa.Array]:
        """See `_RecordKeys.read`."""
        found = self._decoder.decode(keys)
        for row in found.dirty:
            dirty[row.index] = _unreadable(row.index, row.message)
        return _spread(found.rows.columns, found.indices.to_numpy(), len(keys))


class _TextKeys:
    """Reads the one column of a row's key from keys that are its text, as JSON reads a text."""

    reads_all = False

    def __init__(self, fields: Sequence[Field]) -> None:
        (of,) = fields
        self._decoder = JsonDecoder(
            Schema((replace(of, path=(_TEXT,), required=True),)), tombstones="dirty"
        )

    def read(self, keys: Sequence[bytes | None], dirty: dict[int, DirtyRow]) -> list[pa.Array]:
        """See `_RecordKeys.read`."""
        payloads: list[bytes | None] = []
        for row, key in enumerate(keys):
            try:
                payloads.append(None if key is None else _as_object(key))
            except UnicodeDecodeError as error:
                dirty[row] = _unreadable(row, str(error))
                payloads.append(None)
        found = self._decoder.decode(payloads)
        for each in found.dirty:
            dirty.setdefault(each.index, _unreadable(each.index, each.message))
        return _spread(found.rows.columns, found.indices.to_numpy(), len(keys))


def _as_object(key: bytes) -> bytes:
    return json.dumps({_TEXT: key.decode()}, ensure_ascii=False).encode()


def _spread(columns: Sequence[pa.Array], rows: NDArray[np.int64], count: int) -> list[pa.Array]:
    """Values for each of so many records; null for those that were not read."""
    if len(rows) == count and (np.diff(rows) > 0).all():
        return list(columns)
    places = np.full(count, -1, np.int64)
    places[rows] = np.arange(len(rows))
    taken = pa.array(places, mask=places < 0)
    return [column.take(taken) for column in columns]


def _unreadable(row: int, why: str) -> DirtyRow:
    message = f"the record's own key does not hold the row's key: {why}"[:300]
    return DirtyRow(row, _STAGE, DirtyReason.KEY_MISMATCH, "", message)
