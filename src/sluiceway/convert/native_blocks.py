"""The fast path through the native module, where that is installed.

The module reads payloads straight into the table's columns. Like the other fast path it vouches for
a row or leaves it to the slow path; it makes no row dirty.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeGuard

import numpy as np
import pyarrow as pa

from sluiceway.convert.exact_numbers import TIME_UNIT_PLACES
from sluiceway.convert.fast_rows import FastPath, FastRows, Rows
from sluiceway.host.native_module import native_module
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.payloads import JoinedPayloads
from sluiceway.types.policy import NO_POLICY, Policy
from sluiceway.types.schema import (
    BinaryType,
    BooleanType,
    CharType,
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
    VarcharType,
)

# Offsets within a column have 32 bits.
MAX_FETCHED_BYTES = 1 << 29

NativeKind = tuple[object, ...]
"""A type for the module: its name, then its parameters."""
NativeColumn = tuple[tuple[str, ...], bool, NativeKind]
"""Path, whether it is required, and its kind."""


class _JsonReader(Protocol):
    """`JsonReader` of native/src/decoder.rs."""

    def read(self, payloads: list[bytes], start: int) -> tuple[object, int, bytes]:
        """Read a block: its columns, the number after its last payload, suspects as int64."""

    def read_fetched(self, fetched: Sequence[Any]) -> tuple[object, bytes, bytes]:
        """Read `Records`: columns, and suspects and rows without bytes as int64."""

    def doubts(self) -> bytes:
        """`FastRows.doubts` of the last read."""


class NativeColumns:
    """Columns from the module, in a form that pyarrow imports."""

    def __init__(self, schema: pa.Schema, array: object) -> None:
        self._schema = schema
        self._array = array

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._schema.__arrow_c_schema__(), self._array


def are_fetched(
    payloads: Sequence[bytes | None], records: type, most_bytes: int
) -> TypeGuard[JoinedPayloads]:
    """Whether the native module has fetched the payloads, and they make one block.

    Args:
        payloads: Payloads of one batch.
        records: The module's type of fetched records.
        most_bytes: Size of a block.
    """
    if not isinstance(payloads, JoinedPayloads):
        return False
    parts: Sequence[Any] = payloads.parts
    fetched = bool(parts) and all(isinstance(part, records) for part in parts)
    return fetched and sum(part.value_bytes for part in parts) < most_bytes


class FetchedPath(FastPath):
    """Also reads payloads that the native module has fetched, without a copy.

    Args:
        records: The module's type of fetched records.
    """

    def __init__(self, records: type) -> None:
        self._records = records

    def can_read(self, payloads: Sequence[bytes | None]) -> TypeGuard[JoinedPayloads]:
        """True when the native module has fetched the payloads, and they make one block."""
        return are_fetched(payloads, self._records, MAX_FETCHED_BYTES)

    @abstractmethod
    def read_fetched(self, payloads: JoinedPayloads) -> tuple[FastRows, Rows]:
        """Read fetched payloads in place.

        Called once per batch for which `can_read` is true.

        Returns:
            As `read`, in one block; and the positions of payloads without bytes.
        """


class NativeReader(FetchedPath):
    """Reads payloads through the native module. Created once a task, used by one thread.

    Args:
        schema: The table's columns.
        reader: The module's own reader of them.
        records: The module's type of fetched records.
    """

    def __init__(self, schema: Schema, reader: _JsonReader, records: type) -> None:
        super().__init__(records)
        self._schema = arrow_schema(schema)
        self._reader = reader

    @classmethod
    def for_schema(cls, schema: Schema) -> "NativeReader | None":
        """Make the reader for a table. Called once a task.

        Args:
            schema: The columns, with units and policies passed on to inner fields.

        Returns:
            None when the module is not installed, or cannot read such a table.
        """
        module = native_module()
        columns = [native_column(field, field.path or (field.name,)) for field in schema.fields]
        if module is None or None in columns:
            return None
        return cls(schema, module.JsonReader(columns), module.Records)

    def read(self, payloads: list[bytes]) -> Iterator[FastRows]:
        """Read payloads; see `FastPath.read`."""
        start = 0
        while start < len(payloads):
            array, end, suspects = self._reader.read(payloads, start)
            batch = pa.record_batch(NativeColumns(self._schema, array))
            rows = np.arange(start, end)
            doubted = np.frombuffer(suspects, np.int64)
            if len(doubted):
                rows = np.delete(rows, doubted)
            yield FastRows([batch], [rows], doubted + start, self._doubts())
            start = end

    def read_fetched(self, payloads: JoinedPayloads) -> tuple[FastRows, Rows]:
        """Read payloads where they were fetched to; see `FetchedPath.read_fetched`."""
        array, doubted, without = self._reader.read_fetched(payloads.parts)
        batch = pa.record_batch(NativeColumns(self._schema, array))
        suspects, empty = np.frombuffer(doubted, np.int64), np.frombuffer(without, np.int64)
        rows = np.arange(len(payloads))
        if len(suspects) or len(empty):
            rows = np.delete(rows, np.concatenate((suspects, empty)))
        return FastRows([batch], [rows], suspects, self._doubts()), empty

    def _doubts(self) -> Rows:
        return np.frombuffer(self._reader.doubts(), np.int64).reshape(-1, 3)


def native_column(
    field: Field, path: tuple[str, ...], kind: NativeKind | None = None
) -> NativeColumn | None:
    """A column for the module; None where it cannot read such a column.

    Args:
        field: The column.
        path: Where it is read.
        kind: Type for the module; None asks `native_kind`.
    """
    kind = kind or native_kind(field.type, field.time_unit, field.policy)
    return None if kind is None else (path, field.required, kind)


def native_kind(data_type: DataType, time_unit: str | None, policy: Policy) -> NativeKind | None:
    """The module's type for reading values from JSON; None where it cannot read them.

    The module knows no policies except those about how values are written. It leaves values that
    other policies decide about to the slow path.

    Args:
        data_type: Type of a column, or of an inner field.
        time_unit: Unit of times; None without one.
        policy: Policy of the column or field.
    """
    match data_type:
        case ListType(element):
            inner = native_kind(element, time_unit, policy)
            return None if inner is None else ("list", inner)
        case MapType(StringType() | IntegerType() as key, value):
            inner = native_kind(value, time_unit, policy)
            return None if inner is None else ("map", native_kind(key, None, NO_POLICY), inner)
        case StructType(fields):
            of = {field.name: native_kind(*inner_place(field, policy)) for field in fields}
            return native_struct(fields, of)
        case BinaryType():
            return ("bytes",) if policy.format == "base64" else None
        case TimestampType() | LocalTimestampType() if time_unit is not None:
            return ("epoch", TIME_UNIT_PLACES[time_unit])
        case _ if policy.format is not None or policy.timezone is not None:
            return None
        case DateType() if time_unit is not None:
            return None
        case _:
            return _scalar(data_type)


def inner_place(field: Field, above: Policy) -> tuple[DataType, str | None, Policy]:
    """Type, unit and policy of a struct's field; without a policy it takes the one above."""
    own = above if field.policy == NO_POLICY else field.policy
    return field.type, field.time_unit, own


def native_struct(
    fields: tuple[Field, ...], kinds: Mapping[str, NativeKind | None]
) -> NativeKind | None:
    """A struct for the module; None where it cannot read one of its fields."""
    inner = [(field.name, field.required, kinds[field.name]) for field in fields]
    if not fields or len(kinds) < len(fields) or None in kinds.values():
        return None
    return ("struct", inner)


def _scalar(data_type: DataType) -> NativeKind | None:  # noqa: PLR0911 - a case a type
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
        case VarcharType(length):
            return ("bounded", length, False)
        case CharType(length):
            return ("bounded", length, True)
        case DateType():
            return ("date",)
        case TimestampType() | LocalTimestampType():
            return ("instant",)
        case _:
            return None
