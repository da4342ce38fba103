"""Rows through the native module's readers, and how values of typed formats become columns.

The module follows a plan that says how the bytes of each value become a column's. Rows with a
fault, and values without room in a column, are left to the slow path, with which the kept rows
agree.
"""

from collections.abc import Sequence
from math import gcd
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluiceway.convert.native_blocks import (
    NativeColumns,
    NativeKind,
    are_fetched,
    inner_place,
    native_kind,
)
from sluiceway.convert.typed_values import NS_PER_US
from sluiceway.host.native_module import native_module
from sluiceway.types.arrow_types import arrow_schema
from sluiceway.types.matrix import JsonKind, accepted_kinds, kind_of_type
from sluiceway.types.payloads import JoinedPayloads
from sluiceway.types.policy import NO_POLICY, Policy
from sluiceway.types.schema import (
    BinaryType,
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

Rows = npt.NDArray[np.int64]
Place = tuple[DataType, str | None, Policy]
"""Target of values: type, unit and policy."""
How = tuple[object, ...]
"""How the bytes of a value become a column's: a name, then what that needs."""
NEVER: How = ("never",)
"""The slow path decides all values."""
NUMBERS = IntegerType | FloatType | DecimalType
MOMENTS = TimestampType | LocalTimestampType
TEXTS = StringType | VarcharType | CharType
NS_PER = {"millis": 1_000_000, "micros": 1000, "nanos": 1, "ms": 1_000_000, "us": 1000, "ns": 1,
          "s": 1_000_000_000}  # fmt: skip

LIST_BYTES = 16 * 1024 * 1024
"""A larger payload is left to the slow path."""
_FETCHED_BYTES = 64 * 1024 * 1024


class NativeRowReader:
    """Reads payloads of one schema into columns. Created once a schema and task.

    Args:
        schema: Schema of the columns.
        reader: The module's own reader.
    """

    def __init__(self, schema: Schema, reader: Any) -> None:
        self._schema = arrow_schema(schema)
        self._reader = reader

    def read(
        self, payloads: Sequence[bytes], begins: Sequence[int]
    ) -> tuple[pa.RecordBatch, Rows, Rows]:
        """Read payloads.

        Args:
            payloads: At least one.
            begins: Where the content of each begins; empty where that is the first byte.

        Returns:
            Rows that are vouched for, their positions, and the positions of the others.
        """
        if len(payloads[0]) > LIST_BYTES:
            nothing = pa.RecordBatch.from_pylist([], schema=self._schema)
            return nothing, np.arange(0), np.arange(len(payloads))
        array, suspects = self._reader.read(list(payloads), list(begins))
        return self._kept(array, len(payloads), np.frombuffer(suspects, np.int64))

    def read_fetched(
        self, payloads: JoinedPayloads, prefix: bytes
    ) -> tuple[pa.RecordBatch, Rows, Rows, Rows]:
        """Read fetched payloads that begin with a prefix, in place.

        Called where `fetched_by_module` is true.

        Returns:
            As `read`, the others without payloads of no byte; and the positions of these.
        """
        array, doubted, without = self._reader.read_fetched(payloads.parts, prefix)
        suspects, empty = np.frombuffer(doubted, np.int64), np.frombuffer(without, np.int64)
        left = np.concatenate((suspects, empty)) if len(empty) else suspects
        batch, kept, _ = self._kept(array, len(payloads), left)
        return batch, kept, suspects, empty

    def _kept(self, array: object, count: int, left: Rows) -> tuple[pa.RecordBatch, Rows, Rows]:
        batch = pa.record_batch(NativeColumns(self._schema, array))
        kept = np.arange(count)
        return batch, np.delete(kept, left) if len(left) else kept, left


def fetched_by_module(payloads: Sequence[bytes | None]) -> TypeGuard[JoinedPayloads]:
    """Whether `NativeRowReader.read_fetched` can read the payloads of a batch."""
    module = native_module()
    return module is not None and are_fetched(payloads, module.Records, _FETCHED_BYTES)


def column_place(field: Field) -> Place:
    """The place of a column's own values."""
    return field.type, field.time_unit, field.policy


def column_kind(place: Place) -> NativeKind | None:
    """Type of the column that the module builds; the plan says how to read it."""
    data_type, unit, policy = place
    match data_type:
        case ListType(element):
            inner = column_kind((element, unit, policy))
            return None if inner is None else ("list", inner)
        case MapType(StringType() | IntegerType() as key, value):
            inner, keys = column_kind((value, unit, policy)), native_kind(key, None, NO_POLICY)
            return None if inner is None or keys is None else ("map", keys, inner)
        case StructType(fields):
            kinds = [(f.name, False, column_kind(inner_place(f, policy))) for f in fields]
            names = {field.name for field in fields}
            fits = fields and len(names) == len(fields) and all(kind for _, _, kind in kinds)
            return ("struct", kinds) if fits else None
        case MapType():
            return None
        case BinaryType():
            return ("bytes",)
        case DateType():
            return ("date",)
        case _:
            return native_kind(data_type, unit, NO_POLICY)


def takes_text(place: Place) -> bool:
    """Whether the column reads texts as JSON's are read."""
    data_type = place[0]
    nested = isinstance(data_type, ListType | MapType | StructType | BinaryType)
    return not nested and native_kind(*place) is not None


def takes_kind(place: Place, kind: JsonKind) -> bool:
    """Whether a column of texts takes values of a kind, as text."""
    data_type, unit, policy = place
    is_text = isinstance(data_type, TEXTS)
    return is_text and kind in accepted_kinds(kind_of_type(data_type), policy, unit)


def whole(name: str, place: Place) -> How | None:
    """How to read whole numbers: a number or text; None for times, and where nothing fits."""
    fits = isinstance(place[0], NUMBERS) or takes_kind(place, JsonKind.NUMBER)
    return (name,) if fits else None


def unit_of(ns: int) -> tuple[int, int]:
    """Of numbers that count so many nanoseconds: what makes microseconds, times and divided by."""
    common = gcd(ns, NS_PER_US)
    return ns // common, NS_PER_US // common
