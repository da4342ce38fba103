"""Rows of a table -> typed columns: a value of the same type passes, all others are converted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.convert.column_rows import ColumnRows
from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_values import compile_field
from sluiceway.convert.typed_values import NS_PER_US, Day, Float32, Instant
from sluiceway.formats.collected_rows import CollectedRows, check_columns
from sluiceway.formats.contract import Decoded, RowDecoder
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.formats.options import known_options
from sluiceway.types.arrow_types import arrow_schema, arrow_type
from sluiceway.types.payloads import JoinedPayloads
from sluiceway.types.policy import NO_POLICY
from sluiceway.types.schema import (
    BinaryType,
    CharType,
    DataType,
    Field,
    ListType,
    MapType,
    Schema,
    StructType,
    VarcharType,
    inner_settings,
)

_US = pa.timestamp("us")
_Errors = dict[int, DirtyValueError]


class TableDecoder(RowDecoder):
    """Reads rows of another table. Created once per task, used by one thread.

    Rows of a replay come as the JSON that their dirty file keeps, and are read as such.

    Args:
        schema: The table's columns; `Field.path` says which column of the other table each is.
        options: None.

    Raises:
        ValueError: There is no column, two have the same name, or there is an option.
    """

    takes_any_sequence = True

    def __init__(self, schema: Schema, options: Mapping[str, str]) -> None:
        known_options("table", options, {})
        check_columns(schema)
        self._fields = schema.fields
        self._schema = arrow_schema(schema)
        self._columns = [_Column(inner_settings(field)) for field in schema.fields]
        self._json: JsonDecoder | None = None

    @property
    def arrow_schema(self) -> pa.Schema:
        """Columns of `Decoded.rows`, in the order of the schema it was made for."""
        return self._schema

    def decode(self, payloads: Sequence[bytes | None]) -> Decoded:
        """Convert the columns of some rows; see `RowDecoder.decode`."""
        parts = payloads.parts if isinstance(payloads, JoinedPayloads) else [payloads]
        collected = CollectedRows(self._schema)
        begin = 0
        for part in parts:
            if isinstance(part, ColumnRows):
                self._convert(part.columns, begin, collected)
            else:
                self._read_texts(part, begin, collected)
            begin += len(part)
        return collected.decoded()

    def _convert(self, rows: pa.RecordBatch, begin: int, collected: CollectedRows) -> None:
        places = {name.lower(): place for place, name in enumerate(rows.schema.names)}
        errors: _Errors = {}
        arrays = []
        for column in self._columns:
            place = places.get(column.source.lower())
            array = pa.nulls(rows.num_rows) if place is None else rows.column(place)
            converted, wrong = column.read(array)
            arrays.append(converted)
            # Of several values of a row that do not fit, the first column's counts.
            errors = {**wrong, **errors}
        collected.dirty += [error.row(begin + at) for at, error in errors.items()]
        clean = np.ones(rows.num_rows, np.bool_)
        clean[list(errors)] = False
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        at = np.flatnonzero(clean)
        collected.add(batch if len(at) == len(clean) else batch.take(pa.array(at)), at + begin)

    def _read_texts(
        self, payloads: Sequence[bytes | None], begin: int, collected: CollectedRows
    ) -> None:
        if self._json is None:
            self._json = JsonDecoder(Schema(tuple(map(_of_text, self._fields))))
        found = self._json.decode(list(payloads))
        collected.add(found.rows, found.indices.to_numpy() + begin)
        collected.dirty += [replace(row, index=row.index + begin) for row in found.dirty]


class _Column:
    """One column: how its values come from those of the other table."""

    def __init__(self, field: Field) -> None:
        self.source, *self._inner = field.path or (field.name,)
        self._field = field
        self._target = arrow_type(field.type)
        self._exact = compile_field(field, (self.source, *self._inner))

    def read(self, array: pa.Array) -> tuple[pa.Array, _Errors]:
        """Values for the table, and the positions of values that do not fit, which are null."""
        if pa.types.is_null(array.type) and not self._field.required:
            return pa.nulls(len(array), self._target), {}
        whole = array
        for name in self._inner:
            if not pa.types.is_struct(array.type) or array.type.get_field_index(name) < 0:
                return self._one_by_one(whole)
            array = pc.struct_field(array, name)
        passed = self._passed(array)
        if passed is None:
            return self._one_by_one(whole)
        if not (self._field.required and passed.null_count):
            return passed, {}
        missing = pc.indices_nonzero(passed.is_null()).to_pylist()
        return passed, self._errors_of(whole, missing)

    def _passed(self, array: pa.Array) -> pa.Array | None:
        """The values as they are, where each of them is one of the column's type; else None."""
        if self._field.policy != NO_POLICY or self._field.time_unit is not None:
            return None
        if isinstance(self._field.type, VarcharType | CharType) or _has_required(self._field.type):
            return None
        held, wanted = array.type, self._target
        if held == wanted:
            return array
        if pa.types.is_timestamp(held) and wanted == _US:
            # With a zone or without, files have times of UTC.
            return _cast(array, pa.timestamp(held.unit), wanted)
        if pa.types.is_large_string(held) or pa.types.is_dictionary(held):
            return _cast(array, pa.string()) if wanted == pa.string() else None
        widened = pa.types.is_signed_integer(held) and pa.types.is_signed_integer(wanted)
        if widened and held.bit_width < wanted.bit_width:
            return array.cast(wanted)
        return None

    def _one_by_one(self, array: pa.Array) -> tuple[pa.Array, _Errors]:
        values: list[object] = []
        errors: _Errors = {}
        typed = _typed(array.type)
        for at, value in enumerate(_plain(array).to_pylist()):
            try:
                read = self._exact({self.source: None if value is None else typed(value)})
            except DirtyValueError as error:
                errors[at], read = error, None
            values.append(read)
        return pa.array(values, self._target), errors

    def _errors_of(self, array: pa.Array, positions: list[int]) -> _Errors:
        taken = array.take(pa.array(positions, pa.int64()))
        _, errors = self._one_by_one(taken)
        return {positions[at]: error for at, error in errors.items()}


def _cast(array: pa.Array, *types: pa.DataType) -> pa.Array | None:
    """Cast on and on; None where a value would change."""
    try:
        for of in types:
            array = array.cast(of)
    except pa.ArrowInvalid:
        return None
    return array


def _has_required(of: DataType) -> bool:
    """Whether something inside must not be null: each value is looked at then."""
    match of:
        case ListType(element):
            return _has_required(element)
        case MapType(key, value):
            return _has_required(key) or _has_required(value)
        case StructType(fields):
            return any(field.required or _has_required(field.type) for field in fields)
        case _:
            return isinstance(of, VarcharType | CharType)


def _plain(array: pa.Array) -> pa.Array:
    """Times as numbers: Python has none finer than a microsecond, nor outside of its calendar."""
    if pa.types.is_date(array.type):
        return array.cast(pa.date32()).view(pa.int32())
    if pa.types.is_timestamp(array.type):
        return array.view(pa.int64())
    return array


_PER_UNIT = {"s": 1_000_000_000, "ms": 1_000_000, "us": NS_PER_US, "ns": 1}


def _typed(of: pa.DataType) -> Callable[[Any], object]:
    """From the values of `_plain(array).to_pylist()` to those of `convert.typed_values`."""
    if pa.types.is_date(of):
        return Day
    if pa.types.is_timestamp(of):
        per_unit = _PER_UNIT[of.unit]
        return lambda value: Instant(value * per_unit)
    if pa.types.is_float32(of):
        return Float32
    if pa.types.is_list(of) or pa.types.is_struct(of) or pa.types.is_map(of):
        return _inner_value
    return lambda value: value


def _inner_value(value: Any) -> object:
    """A value inside of another: Python's dates and times, pairs of a map."""
    match value:
        case dict():
            return {name: _inner_value(each) for name, each in value.items()}
        case [*items] if items and all(isinstance(each, tuple) for each in items):
            return {str(key): _inner_value(each) for key, each in items}
        case list():
            return [_inner_value(each) for each in value]
        case _ if hasattr(value, "isoformat"):
            # Naive, and of UTC.
            return value.isoformat() + ("Z" if hasattr(value, "hour") else "")
        case _:
            return value


def _of_text(field: Field) -> Field:
    """The column as it reads what a dirty file keeps: bytes are base64 there."""
    if isinstance(field.type, BinaryType) and field.policy.format is None:
        return replace(field, policy=replace(field.policy, format="base64"))
    return field
