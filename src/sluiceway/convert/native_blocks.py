"""The fast path through the native module, where that is installed.

The module reads payloads straight into the table's columns. Like the other fast path it vouches
for a row or leaves it to the slow path; it makes none dirty.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeGuard

import numpy as np
import pyarrow as pa

from sluiceway.convert.exact_numbers import TIME_UNIT_PLACES
from sluiceway.convert.fast_rows import FastPath, FastRows, Rows
from sluiceway.host.native_module import native_module
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.payloads import JoinedPayloads
from sluiceway.types.schema import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    ListType,
    LocalTimestampType,
    MapType,
    Schema,
    StringType,
    StructType,
    TimestampType,
    leaves,
)

# Offsets within a column have 32 bits.
MAX_FETCHED_BYTES = 1 << 29

_Kind = tuple[object, ...]


class _JsonReader(Protocol):
    """`JsonReader` of native/src/decoder.rs."""

    def read(self, payloads: list[bytes], start: int) -> tuple[object, int, bytes]:
        """Read a block: its columns, the number behind its last payload, suspects as int64."""

    def read_fetched(self, fetched: Sequence[Any]) -> tuple[object, bytes, bytes]:
        """Read `Records`: columns, and suspects and rows without bytes as int64."""


class _Columns:
    """Columns that the module hands over, as pyarrow takes them."""

    def __init__(self, schema: pa.Schema, array: object) -> None:
        self._schema = schema
        self._array = array

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._schema.__arrow_c_schema__(), self._array


class NativeReader(FastPath):
    """Reads payloads through the native module. Created once a task, used by one thread.

    Args:
        schema: The table's columns.
        reader: The module's own reader of them.
        records: The module's type of fetched records.
    """

    def __init__(self, schema: Schema, reader: _JsonReader, records: type) -> None:
        self._schema = arrow_schema(schema)
        self._reader = reader
        self._records = records

    @classmethod
    def for_schema(cls, schema: Schema) -> "NativeReader | None":
        """Make the reader for a table. Called once a task.

        Args:
            schema: The columns, units and policies handed on to what lies inside.

        Returns:
            None when the module is not installed, or cannot read such a table.
        """
        module = native_module()
        columns = [_column(field, field.path or (field.name,)) for field in schema.fields]
        if module is None or None in columns:
            return None
        return cls(schema, module.JsonReader(columns), module.Records)

    def read(self, payloads: list[bytes]) -> Iterator[FastRows]:
        """Read payloads; see `FastPath.read`."""
        start = 0
        while start < len(payloads):
            array, end, suspects = self._reader.read(payloads, start)
            batch = pa.record_batch(_Columns(self._schema, array))
            rows = np.arange(start, end)
            doubted = np.frombuffer(suspects, np.int64)
            if len(doubted):
                rows = np.delete(rows, doubted)
            yield FastRows([batch], [rows], doubted + start)
            start = end

    def can_read(self, payloads: Sequence[bytes | None]) -> TypeGuard[JoinedPayloads]:
        """True when the native module has fetched the payloads, and they make one block."""
        if not isinstance(payloads, JoinedPayloads):
            return False
        parts: Sequence[Any] = payloads.parts
        fetched = bool(parts) and all(isinstance(part, self._records) for part in parts)
        return fetched and sum(part.value_bytes for part in parts) < MAX_FETCHED_BYTES

    def read_fetched(self, payloads: JoinedPayloads) -> tuple[FastRows, Rows]:
        """Read payloads where they were fetched to.

        Called once per batch for which `can_read` is true.

        Returns:
            As of `read`, in one batch; and the positions of payloads without bytes.
        """
        array, doubted, without = self._reader.read_fetched(payloads.parts)
        batch = pa.record_batch(_Columns(self._schema, array))
        suspects, empty = np.frombuffer(doubted, np.int64), np.frombuffer(without, np.int64)
        rows = np.arange(len(payloads))
        if len(suspects) or len(empty):
            rows = np.delete(rows, np.concatenate((suspects, empty)))
        return FastRows([batch], [rows], suspects), empty


def _column(field: Field, path: tuple[str, ...]) -> _Kind | None:
    if _is_written_otherwise(field):
        return None
    kind = _kind(field.type, field.time_unit)
    return None if kind is None else (path, field.required, kind)


def _is_written_otherwise(field: Field) -> bool:
    """Whether the module, which knows no policies, would read times another way than is meant.

    All other policies are about values that it leaves to the slow path.
    """
    for leaf, policy in leaves(field.type, field.policy):
        if policy.format is not None or policy.timezone is not None:
            return True
        if isinstance(leaf, DateType) and field.time_unit is not None:
            return True
    return False


def _kind(data_type: DataType, time_unit: str | None) -> _Kind | None:
    match data_type:
        case ListType(element):
            inner = _kind(element, time_unit)
            return None if inner is None else ("list", inner)
        case MapType(StringType() | IntegerType() as key, value):
            inner = _kind(value, time_unit)
            return None if inner is None else ("map", _kind(key, None), inner)
        case StructType(fields):
            return _struct(fields)
        case TimestampType() | LocalTimestampType() if time_unit is not None:
            return ("epoch", TIME_UNIT_PLACES[time_unit])
        case TimestampType() | LocalTimestampType():
            return ("instant",)
        case _:
            return _scalar(data_type)


def _scalar(data_type: DataType) -> _Kind | None:
    match data_type:
        case BooleanType():
            return ("boolean",)
        case IntegerType(bits):
            return ("integer", bits)
        case FloatType(bits):
            return ("float", bits)
        case DecimalType(precision, scale):
            return ("decimal", precision, scale)
        case StringType():
            return ("string",)
        case DateType():
            return ("date",)
        case _:
            return None


def _struct(fields: tuple[Field, ...]) -> _Kind | None:
    names = {field.name for field in fields}
    inner = [(f.name, f.required, _kind(f.type, f.time_unit)) for f in fields]
    if not fields or len(names) < len(fields) or any(kind is None for _, _, kind in inner):
        return None
    return ("struct", inner)
