"""Keys of changes: what a record's own key says, compared with the row's and put in its place.

The queue keeps the order of one key only among records that have it as their own key (L21). So a
change whose record has another could overtake what came before it. It is dirty, never guessed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

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
from sluiceway.formats.options import AVRO_BARE
from sluiceway.formats.registry import FormatChoice, open_decoder
from sluiceway.formats.schema_registry.frame import confluent_frame
from sluiceway.sources.contract import SourceBatch, SourcePartition
from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.types.payloads import JoinedPayloads, rows_with
from sluiceway.types.row_kinds import RowKind
from sluiceway.types.schema import Field, Schema
from sluiceway.types.schema_header import KEY_HEADER, with_schema_headers
from sluiceway.worker.plan import KeyForm, KeyRule

_RECORD, _PLACE = "$record", "$place"
_BARE = "bare"
_AVRO, _JSON = "avro", "json"
_WRAPPER = "payload"
_PREFIX = "pk."
_PAYLOAD, _SCHEMA = b'"payload"', b'"schema"'
_STAGE = "decode"
_NONE = np.empty(0, np.int64)


class KeyedRows:
    """Checks and completes the keys of decoded changes. Created once per task, used by one thread.

    Args:
        rule: Which columns, and the form of the records' keys.
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

    def complete_keys(
        self,
        rows: pa.RecordBatch,
        kinds: pa.Array,
        batches: Sequence[SourceBatch],
        indices: pa.Array,
    ) -> tuple[pa.RecordBatch, list[DirtyRow]]:
        """Give each change the whole key of its row. Called once a read.

        Args:
            rows: Decoded.
            kinds: Kinds of the rows.
            batches: Batches as one read returned them.
            indices: Which record of the batches each row is.

        Returns:
            The rows, and rows without a key that can be trusted; `index` counts the rows.
        """
        dirty: dict[int, DirtyRow] = {}
        told: Sequence[pa.Array] | None = None
        if self._keys is not None and rows.num_rows:
            told = self._types_by_records(batches, indices, dirty)
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

    def _types_by_records(
        self, batches: Sequence[SourceBatch], indices: pa.Array, dirty: dict[int, DirtyRow]
    ) -> list[pa.Array]:
        """The key's columns of each row as its record's own key has them."""
        assert self._keys is not None  # noqa: S101 - the caller has checked
        keys = JoinedPayloads([part for batch in batches for part in _parts(batch.keys())])
        records = indices.to_numpy()
        if not self._keys.reads_all:
            held = list(keys)
            if isinstance(self._keys, _FramedKeys):
                headers = [each for batch in batches for each in batch.headers()]
                held = with_schema_headers(held, headers, KEY_HEADER)
            return self._keys.read([held[record] for record in records.tolist()], dirty)
        of_records: dict[int, DirtyRow] = {}
        columns = self._keys.read(keys, of_records)
        for row in np.flatnonzero(np.isin(records, list(of_records))).tolist():
            dirty[row] = replace(of_records[int(records[row])], index=row)
        return [column.take(indices) for column in columns]

    def last_of_records(self, rows: pa.RecordBatch, indices: pa.Array) -> NDArray[np.bool_]:
        """Which rows are the last of their key in their record; a reader would never see others."""
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
    """Check that a topic whose order alone counts has one partition. Called once a task.

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
) -> "_RecordKeys | _FramedKeys | _BareKeys | None":
    """What reads the records' own keys; None where they are not read."""
    if rule.form is None:
        return None
    # Keys of change logs name their columns, also where there is one.
    may_be_bare = rule.fills and len(fields) == 1
    if rule.format is not None:
        return _FramedKeys(rule.format, fields, may_be_bare=may_be_bare)
    if rule.form in _AS_JSON:
        return _BareKeys(_AS_JSON[rule.form], fields)
    return _RecordKeys(rule.form, fields, may_be_bare=may_be_bare)


class _RecordKeys:
    """Reads the columns of a row's key from the keys of records.

    Args:
        form: Form of the keys.
        fields: Fields of the key.
        may_be_bare: Whether a key may be the value of the one column, without its name.

    Attributes:
        reads_all: Whether it gets the keys of all records, even of records without a row. As
            buffers they cost less than a part of them as objects. A registry is asked only for keys
            of rows.
    """

    reads_all = True

    def __init__(self, form: KeyForm, fields: Sequence[Field], *, may_be_bare: bool) -> None:
        prefix = _PREFIX if form is KeyForm.PREFIXED else ""
        self._may_be_bare = may_be_bare
        self._steps = [f"{prefix}{_step(field)}" for field in fields]
        plain = [
            replace(field, path=(step,), required=True)
            for field, step in zip(fields, self._steps, strict=True)
        ]
        self._plain = JsonDecoder(Schema(tuple(plain)), tombstones="dirty")
        self._schema = self._plain.arrow_schema
        self._wrapped = _readers([replace(each, path=(_WRAPPER, *each.path)) for each in plain])
        self._wrapped_bare = _readers([replace(each, path=(_WRAPPER,)) for each in plain])
        self._unwraps = form is KeyForm.CONNECT

    def read(self, keys: Sequence[bytes | None], dirty: dict[int, DirtyRow]) -> list[pa.Array]:
        """Values of the columns; null where a key has none, which `dirty` says."""
        wrapped = _NONE
        if self._unwraps:
            with_payload, with_schema = rows_with(keys, [_PAYLOAD]), rows_with(keys, [_SCHEMA])
            wrapped = np.intersect1d(with_payload, with_schema, assume_unique=True)
        plain = np.delete(np.arange(len(keys)), wrapped)
        objects = [keys[row] for row in plain.tolist()] if len(wrapped) else keys
        parts = [self._read_objects(objects, plain, dirty)]
        if self._may_be_bare and dirty:
            named = {row: _named(keys[row], self._steps[0]) for row in dirty}
            bare = [row for row, key in named.items() if key is not None]
            for row in bare:
                del dirty[row]
            values = [named[row] for row in bare]
            parts.append(self._read_objects(values, np.array(bare, np.int64), dirty))
        if len(wrapped):
            parts.append(self._read_wrapped(keys, wrapped.tolist(), dirty))
        if len(parts) == 1:
            return _spread(parts[0][1], parts[0][0], len(keys))
        rows = np.concatenate([rows for rows, _ in parts])
        columns = zip(*(columns for _, columns in parts), strict=True)
        return _spread([pa.concat_arrays(arrays) for arrays in columns], rows, len(keys))

    def _read_objects(
        self,
        keys: Sequence[bytes | None],
        numbers: NDArray[np.int64],
        dirty: dict[int, DirtyRow],
    ) -> tuple[NDArray[np.int64], list[pa.Array]]:
        """Which of these keys, whose records have these numbers, could be read; their values."""
        found = self._plain.decode(keys)
        for row in found.dirty:
            number = int(numbers[row.index])
            dirty[number] = _unreadable(number, row.message)
        return numbers[found.indices.to_numpy()], list(found.rows.columns)

    def _read_wrapped(
        self, keys: Sequence[bytes | None], wrapped: Sequence[int], dirty: dict[int, DirtyRow]
    ) -> tuple[NDArray[np.int64], list[pa.Array]]:
        rows: list[int] = []
        values: list[list[object]] = []
        for row in wrapped:
            try:
                told = parse_object(keys[row] or b"", lenient=False)
                is_bare = self._may_be_bare and not isinstance(told.get(_WRAPPER), dict)
                seen = SchemaView(told)
                readers = self._wrapped_bare if is_bare else self._wrapped
                values.append([read(seen.of(field)) for field, read in readers])
                rows.append(row)
            except DirtyValueError as error:
                dirty[row] = _unreadable(row, error.row(row).message)
        columns = zip(*values, strict=True) if values else ((),) * len(self._schema)
        made = [
            pa.array(column, field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        return np.array(rows, np.int64), made


def _readers(
    fields: Sequence[Field],
) -> list[tuple[Field, Callable[[Mapping[str, object]], object]]]:
    return [(field, compile_field(field, field.path)) for field in fields]


def _step(field: Field) -> str:
    """The name that a column has in a key."""
    return (field.path or (field.name,))[-1]


def _named(key: bytes | None, name: str) -> bytes | None:
    """The object that has a value of JSON under a name; None for what is none, or an object."""
    if not key or key.lstrip()[:1] == b"{":
        return None
    try:
        # So that nothing but one value stands under the name.
        json.loads(key.decode())
    except (ValueError, RecursionError):
        return None
    return b"".join((b"{", json.dumps(name).encode(), b":", key, b"}"))


class _FramedKeys:
    """Reads the columns of a row's key from keys that a registry's schemas write, all at once.

    Args:
        choice: The format of the keys.
        fields: Fields of the key.
        may_be_bare: As for `_RecordKeys`.
    """

    reads_all = False

    def __init__(self, choice: FormatChoice, fields: Sequence[Field], *, may_be_bare: bool) -> None:
        steps = [_step(field) for field in fields]
        self._bare_json = steps[0] if may_be_bare and choice.name == _JSON else None
        if may_be_bare and choice.name == _AVRO:
            choice = replace(choice, options=(*choice.options, (AVRO_BARE, steps[0])))
        schema = Schema(
            tuple(
                replace(field, path=(step,), required=True)
                for field, step in zip(fields, steps, strict=True)
            )
        )
        self._decoder = open_decoder(choice, schema)

    def read(self, keys: Sequence[bytes | None], dirty: dict[int, DirtyRow]) -> list[pa.Array]:
        """See `_RecordKeys.read`."""
        if self._bare_json is not None:
            keys = [_named_behind_frame(key, self._bare_json) for key in keys]
        found = self._decoder.decode(keys)
        for row in found.dirty:
            dirty[row.index] = _unreadable(row.index, row.message)
        return _spread(found.rows.columns, found.indices.to_numpy(), len(keys))


def _named_behind_frame(key: bytes | None, name: str) -> bytes | None:
    """A key with its value under a name, where that was bare; else the key as it is."""
    if not key:
        return key
    try:
        begin = confluent_frame(key)[1]
    except DirtyValueError:
        return key
    named = _named(key[begin:], name)
    return key if named is None else key[:begin] + named


class _BareKeys:
    """Reads the one column of a row's key from keys that are nothing but its value.

    Args:
        as_json: A key as it would be in JSON. Raises ValueError for what is no such key.
        fields: The one of the key.
    """

    reads_all = False

    def __init__(self, as_json: Callable[[bytes], str | int], fields: Sequence[Field]) -> None:
        (of,) = fields
        self._as_json = as_json
        self._decoder = JsonDecoder(
            Schema((replace(of, path=(_BARE,), required=True),)), tombstones="dirty"
        )

    def read(self, keys: Sequence[bytes | None], dirty: dict[int, DirtyRow]) -> list[pa.Array]:
        """See `_RecordKeys.read`."""
        payloads: list[bytes | None] = []
        for row, key in enumerate(keys):
            try:
                payloads.append(None if key is None else self._as_object(key))
            except ValueError as error:
                dirty[row] = _unreadable(row, str(error))
                payloads.append(None)
        found = self._decoder.decode(payloads)
        for each in found.dirty:
            dirty.setdefault(each.index, _unreadable(each.index, each.message))
        return _spread(found.rows.columns, found.indices.to_numpy(), len(keys))

    def _as_object(self, key: bytes) -> bytes:
        return json.dumps({_BARE: self._as_json(key)}, ensure_ascii=False).encode()


def _number(key: bytes, *, size: int) -> int:
    if len(key) != size:
        raise ValueError(f"it has {len(key)} bytes, a number as int{8 * size} has {size}")
    return int.from_bytes(key, "big", signed=True)


_AS_JSON: Mapping[KeyForm, Callable[[bytes], str | int]] = {
    KeyForm.TEXT: bytes.decode,
    KeyForm.INT32: partial(_number, size=4),
    KeyForm.INT64: partial(_number, size=8),
}
"""What keys that are the value of one column would be in JSON."""


def _spread(columns: Sequence[pa.Array], rows: NDArray[np.int64], count: int) -> list[pa.Array]:
    """Values for each of so many records; null for records that were not read."""
    if len(rows) == count and (np.diff(rows) > 0).all():
        return list(columns)
    places = np.full(count, -1, np.int64)
    places[rows] = np.arange(len(rows))
    taken = pa.array(places, mask=places < 0)
    return [column.take(taken) for column in columns]


def _unreadable(row: int, why: str) -> DirtyRow:
    message = f"the record's own key does not hold the row's key: {why}"[:300]
    return DirtyRow(row, _STAGE, DirtyReason.KEY_MISMATCH, "", message)
