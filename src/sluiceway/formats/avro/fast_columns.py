"""The fast path for Avro: payloads of one schema -> columns, keeping what it vouches for.

It supports records of plain values, each of them null or not, and columns of the same kind as the
value. Anything else is left to the slow path, and so is every row with a fault or a value without
room in its column. The rows that it keeps agree with the slow path.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluiceway.convert.typed_values import MAX_DAY, MIN_DAY
from sluiceway.formats.avro.column_scan import Ints, Scan
from sluiceway.formats.avro.schema import AvroRecord, Enum, Fixed, Logical, Node, Primitive, Union
from sluiceway.formats.connect_times import CONNECT_TIMES
from sluiceway.types.arrow_types import arrow_schema, arrow_type
from sluiceway.types.iso_time import MAX_TIME_US, MIN_TIME_US
from sluiceway.types.policy import Policy
from sluiceway.types.schema import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    LocalTimestampType,
    Schema,
    StringType,
    TimestampType,
)

_INT32_END = 1 << 31
_MAX_OFFSET = (1 << 31) - 1
_US_PER_UNIT = {"s": 1_000_000, "ms": 1000, "us": 1}
_US_PER_STAMP = {"timestamp-millis": 1000, "timestamp-micros": 1}
_CONNECT_DAY = "io.debezium.time.Date"
_US_PER_CONNECT_TIME = {"io.debezium.time.Timestamp": 1000, "io.debezium.time.MicroTimestamp": 1}
_UTC = Policy(timezone="UTC")
_DOUBLE_BITS = 64
_MAX_FACTOR_DIGITS = 18
_LONG_END = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Found:
    """The values that were found for one field.

    Attributes:
        rows: Payloads that have a value; the others have null.
        values: One value for each of `rows`; for text, where it begins.
        sizes: Length of texts in bytes; None for other values.
    """

    rows: Ints
    values: Any
    sizes: Any = None


Step = Callable[[Scan, Ints, dict[int, Found]], None]
"""Reads a field of some payloads and stores the values under the field's number."""
Build = Callable[[Scan, Found, int], pa.Array]
"""Values -> a column; doubts rows that do not fit."""


class FastColumns:
    """Reads payloads of one schema into columns. Created once a schema and task.

    Args:
        steps: Reads a record.
        columns: For each column the number of its field, its builder, and whether it is required.
        schema: Schema of the columns.
    """

    def __init__(
        self, steps: Step, columns: Sequence[tuple[int, Build, bool]], schema: pa.Schema
    ) -> None:
        self._steps = steps
        self._columns = columns
        self._schema = schema

    @classmethod
    def for_schemas(cls, node: Node, schema: Schema) -> "FastColumns | None":
        """Make the reader, or None where the fast path cannot read such records or columns."""
        compiler = _Compiler()
        steps = compiler.record(node) if isinstance(node, AvroRecord) else None
        if steps is None:
            return None
        columns = []
        for field in schema.fields:
            number, of = compiler.numbers.get(field.path or (field.name,), (-1, None))
            build = None if of is None else _builder(of, field)
            if build is None:
                return None
            columns.append((number, build, field.required))
        return cls(steps, columns, arrow_schema(schema))

    def read(
        self, payloads: Sequence[bytes], begins: Sequence[int]
    ) -> tuple[pa.RecordBatch, Ints, Ints]:
        """Read payloads.

        Returns:
            Columns of the vouched rows, their positions, and the positions of all others.
        """
        count = len(payloads)
        scan = Scan(payloads, np.asarray(begins, np.int64))
        found: dict[int, Found] = {}
        self._steps(scan, np.arange(count), found)
        scan.finish()
        arrays = []
        for number, build, required in self._columns:
            one = found[number]
            if required and len(one.rows) < count:
                there = np.zeros(count, bool)
                there[one.rows] = True
                scan.doubted |= ~there
            arrays.append(build(scan, one, count))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        kept, left = np.flatnonzero(~scan.doubted), np.flatnonzero(scan.doubted)
        if len(left):
            batch = batch.take(pa.array(kept))
        return batch, kept, left


class _Compiler:
    """Compiles the reading of records; numbers their plain fields by path."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, ...], tuple[int, Node]] = {}
        self._above: list[AvroRecord] = []

    def record(self, node: AvroRecord, path: tuple[str, ...] = ()) -> Step | None:
        if node in self._above:
            return None
        self._above.append(node)
        steps = [self._field(of, (*path, name)) for name, of in node.fields]
        self._above.pop()
        if None in steps:
            return None

        def read(scan: Scan, rows: Ints, found: dict[int, Found]) -> None:
            for step in steps:
                if step is not None:
                    step(scan, rows, found)

        return read

    def _field(self, node: Node, path: tuple[str, ...]) -> Step | None:
        if isinstance(node, AvroRecord):
            return self.record(node, path)
        if isinstance(node, Union):
            inner = self._record_or_null(node, path)
            if inner is not None:
                return inner
        plain: Node = node
        null_at = -1
        if isinstance(node, Union):
            nulls = [place for place, one in enumerate(node.branches) if one == Primitive("null")]
            if len(node.branches) != 2 or len(nulls) != 1:  # noqa: PLR2004 - null and another
                return None
            null_at = nulls[0]
            plain = node.branches[1 - null_at]
        read = _reader(plain)
        if read is None:
            return None
        number = len(self.numbers)
        self.numbers[path] = (number, plain)

        def step(scan: Scan, rows: Ints, found: dict[int, Found]) -> None:
            if null_at >= 0:
                branch = scan.longs(rows)
                scan.doubt(rows, (branch != null_at) & (branch != 1 - null_at))
                rows = rows[branch == 1 - null_at]
            found[number] = read(scan, rows)

        return step

    def _record_or_null(self, node: Union, path: tuple[str, ...]) -> Step | None:
        """A record or null: with null every field is null."""
        records = [place for place, one in enumerate(node.branches) if isinstance(one, AvroRecord)]
        null = Primitive("null")
        if len(node.branches) != 2 or len(records) != 1 or null not in node.branches:  # noqa: PLR2004
            return None
        (place,) = records
        held = node.branches[place]
        read = self.record(held, path) if isinstance(held, AvroRecord) else None
        if read is None:
            return None

        def step(scan: Scan, rows: Ints, found: dict[int, Found]) -> None:
            branch = scan.longs(rows)
            scan.doubt(rows, (branch != place) & (branch != 1 - place))
            read(scan, rows[branch == place], found)

        return step


def _reader(node: Node) -> Callable[[Scan, Ints], Found] | None:
    match node:
        case Primitive("bytes", Logical("decimal")):
            return lambda scan, rows: Found(rows, scan.unscaled(rows))
        case Primitive(name):
            return _PRIMITIVES.get(name)
        case Fixed(size):
            return lambda scan, rows: Found(rows, *scan.read(rows, size))
        case Enum(symbols):
            return lambda scan, rows: _enums(scan, rows, len(symbols))
        case _:
            return None


def _booleans(scan: Scan, rows: Ints) -> Found:
    begins, _ = scan.read(rows, 1)
    values = scan.data[begins]
    scan.doubt(rows, values > 1)
    return Found(rows, values == 1)


def _ints(scan: Scan, rows: Ints) -> Found:
    values = scan.longs(rows)
    scan.doubt(rows, (values < -_INT32_END) | (values >= _INT32_END))
    return Found(rows, values)


def _longs(scan: Scan, rows: Ints) -> Found:
    return Found(rows, scan.longs(rows))


def _sized(scan: Scan, rows: Ints) -> Found:
    return Found(rows, *scan.read(rows, scan.longs(rows)))


_PRIMITIVES: dict[str, Callable[[Scan, Ints], Found]] = {
    "boolean": _booleans,
    "int": _ints,
    "long": _longs,
    "float": lambda scan, rows: Found(rows, scan.words(rows, 4, "<f4")),
    "double": lambda scan, rows: Found(rows, scan.words(rows, 8, "<f8")),
    "string": _sized,
    "bytes": _sized,
}


def _enums(scan: Scan, rows: Ints, count: int) -> Found:
    values = scan.longs(rows)
    scan.doubt(rows, (values < 0) | (values >= count))
    return Found(rows, np.clip(values, 0, max(count - 1, 0)))


def _builder(node: Node, field: Field) -> Build | None:
    """Builder of a column from values of the same kind."""
    kind = field.type
    match node:
        case Primitive("boolean") if isinstance(kind, BooleanType):
            return lambda scan, found, count: _spread(found, found.values, count, pa.bool_())
        case Primitive("int" | "long", None):
            return _of_numbers(kind, field.time_unit)
        case Primitive("int" | "long", Logical(name)):
            return _of_times(name, field)
        case Primitive("float" | "double" as name):
            wide = isinstance(kind, FloatType) and (name == "float" or kind.bits == _DOUBLE_BITS)
            return _of_floats(arrow_type(kind)) if wide else None
        case Primitive("bytes", Logical("decimal", scale)) if isinstance(kind, DecimalType):
            return _of_decimals(kind, scale)
        case Primitive("string") if isinstance(kind, StringType):
            return _texts
        case Enum(symbols) if isinstance(kind, StringType) and symbols:
            return _of_symbols(symbols)
        case _:
            return None


def _of_numbers(kind: DataType, unit: str | None) -> Build | None:
    if isinstance(kind, IntegerType):
        end = 1 << (kind.bits - 1)
        return _bounded((-end, end - 1), 1, arrow_type(kind))
    if isinstance(kind, TimestampType | LocalTimestampType) and unit in _US_PER_UNIT:
        return _of_instants(_US_PER_UNIT[unit])
    return None


def _of_times(name: str, field: Field) -> Build | None:
    kind = field.type
    if name in CONNECT_TIMES:
        return _of_connect_times(name, field)
    if name == "date" and isinstance(kind, DateType):
        return _bounded((MIN_DAY, MAX_DAY), 1, pa.date32())
    if name in _US_PER_STAMP and isinstance(kind, TimestampType | LocalTimestampType):
        return _of_instants(_US_PER_STAMP[name])
    return None


def _of_connect_times(name: str, field: Field) -> Build | None:
    """Builder for numbers that are times: numbers or times, as the column needs."""
    kind, unit = field.type, field.time_unit
    if isinstance(kind, IntegerType) or unit is not None:
        return _of_numbers(kind, unit)
    if isinstance(kind, DateType):
        return _bounded((MIN_DAY, MAX_DAY), 1, pa.date32()) if name == _CONNECT_DAY else None
    instants = isinstance(kind, TimestampType | LocalTimestampType) and field.policy == _UTC
    factor = _US_PER_CONNECT_TIME.get(name)
    return _of_instants(factor) if instants and factor is not None else None


def _of_instants(factor: int) -> Build:
    return _bounded((-(-MIN_TIME_US // factor), MAX_TIME_US // factor), factor, pa.timestamp("us"))


def _bounded(ends: tuple[int, int], factor: int, target: pa.DataType) -> Build:
    storage = {8: pa.int8(), 16: pa.int16(), 32: pa.int32()}.get(target.bit_width, pa.int64())

    def build(scan: Scan, found: Found, count: int) -> pa.Array:
        outside = (found.values < ends[0]) | (found.values > ends[1])
        scan.doubt(found.rows, outside)
        values = np.where(outside, 0, found.values) * factor
        return _spread(found, values, count, storage).view(target)

    return build


def _of_floats(target: pa.DataType) -> Build:
    def build(scan: Scan, found: Found, count: int) -> pa.Array:
        scan.doubt(found.rows, ~np.isfinite(found.values))
        return _spread(found, found.values, count, target)

    return build


def _of_decimals(kind: DecimalType, scale: int) -> Build | None:
    digits = kind.scale - scale
    if not 0 <= digits <= _MAX_FACTOR_DIGITS:
        return None
    factor = 10**digits
    end = min((10**kind.precision - 1) // factor, _LONG_END // factor)

    def build(scan: Scan, found: Found, count: int) -> pa.Array:
        outside = (found.values < -end) | (found.values > end)
        scan.doubt(found.rows, outside)
        words = np.zeros((count, 2), np.int64)
        words[found.rows, 0] = np.where(outside, 0, found.values) * factor
        words[:, 1] = words[:, 0] >> 63
        there = np.zeros(count, bool)
        there[found.rows] = True
        bitmap = pa.py_buffer(np.packbits(there, bitorder="little").tobytes())
        buffers = [bitmap, pa.py_buffer(words.tobytes())]
        return pa.Array.from_buffers(arrow_type(kind), count, buffers)

    return build


def _of_symbols(symbols: tuple[str, ...]) -> Build | None:
    if any("\0" in symbol or not symbol.isascii() for symbol in symbols):
        return None
    texts = pa.array(symbols, pa.string())

    def build(scan: Scan, found: Found, count: int) -> pa.Array:
        del scan
        return texts.take(_spread(found, found.values, count, pa.int64()))

    return build


def _texts(scan: Scan, found: Found, count: int) -> pa.Array:
    """Text unchanged; a NUL, or text that is no UTF-8, is doubted."""
    data, offsets = scan.gather(found.values, found.sizes)
    if offsets[-1] > _MAX_OFFSET:
        scan.doubted[:] = True
        return pa.nulls(count, pa.string())
    if len(data) and not data.min():
        parts = np.searchsorted(offsets, np.flatnonzero(data == 0), side="right") - 1
        scan.doubted[found.rows[parts]] = True
    content = data.tobytes()
    if not content.isascii():
        _doubt_bad_text(scan, found, content)
        if scan.doubted.all():
            return pa.nulls(count, pa.string())
    sizes = np.zeros(count + 1, np.int64)
    sizes[found.rows + 1] = found.sizes
    there = np.zeros(count, bool)
    there[found.rows] = True
    bitmap = pa.py_buffer(np.packbits(there, bitorder="little").tobytes())
    starts = pa.py_buffer(np.cumsum(sizes).astype(np.int32).tobytes())
    return pa.StringArray.from_buffers(count, starts, pa.py_buffer(content), bitmap)


def _doubt_bad_text(scan: Scan, found: Found, content: bytes) -> None:
    # When all of it is UTF-8, a text is too, unless it begins within a character.
    inside: npt.NDArray[np.bool_] = (scan.data[found.values] & 0xC0) == 0x80  # noqa: PLR2004
    scan.doubt(found.rows, inside & (found.sizes > 0))
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        scan.doubted[:] = True


def _spread(found: Found, values: Any, count: int, target: pa.DataType) -> pa.Array:
    """One value a payload, null where there is none."""
    if len(found.rows) == count:
        return pa.array(values.astype(target.to_pandas_dtype()), target)
    full = np.zeros(count, target.to_pandas_dtype())
    full[found.rows] = values
    mask = np.ones(count, bool)
    mask[found.rows] = False
    return pa.array(full, target, mask=mask)
