"""The fast path through the native module, where that is installed.

The module reads payloads straight into the table's columns. Like the other fast path it vouches
for a row or leaves it to the slow path; it makes none dirty.
"""

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Protocol

import numpy as np
import pyarrow as pa

from sluiceway.formats.json.fast_rows import FastPath, FastRows
from sluiceway.formats.json.number_text import TIME_UNIT_PLACES
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.schema import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    Schema,
    StringType,
    StructType,
    TimestampType,
)

MODULE = "sluiceway_native"
# What this version of the package calls; see `INTERFACE` in native/src/lib.rs.
INTERFACE = 1

_Kind = tuple[object, ...]


class _JsonReader(Protocol):
    """`JsonReader` of native/src/decoder.rs."""

    def read(self, payloads: list[bytes], start: int) -> tuple[object, int, bytes]:
        """Read a block: its columns, the number behind its last payload, suspects as int64."""


def native_module() -> ModuleType | None:
    """The native module, when there is one that this version can call.

    Called once per decoder; cheap after the first time.
    """
    if find_spec(MODULE) is None:
        return None
    module = import_module(MODULE)
    return module if module.INTERFACE == INTERFACE else None


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
    """

    def __init__(self, schema: Schema, reader: _JsonReader) -> None:
        self._schema = arrow_schema(schema)
        self._reader = reader

    @classmethod
    def for_schema(cls, schema: Schema) -> "NativeReader | None":
        """Make the reader for a table. Called once a task.

        Returns:
            None when the module is not installed, or cannot read such a table.
        """
        module = native_module()
        columns = [_column(field, field.path or (field.name,)) for field in schema.fields]
        if module is None or None in columns:
            return None
        return cls(schema, module.JsonReader(columns))

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


def _column(field: Field, path: tuple[str, ...]) -> _Kind | None:
    kind = _kind(field.type, field.time_unit)
    return None if kind is None else (path, field.required, kind)


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
        case TimestampType() if time_unit is not None:
            return ("epoch", TIME_UNIT_PLACES[time_unit])
        case TimestampType():
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
