"""The partition of each row, vectorised."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sluiceway.eventtime.partition_time import TimeKind, TimePattern
from sluiceway.partitioners.contract import PartitionTexts
from sluiceway.partitioners.registry import CheckedPartitioner
from sluiceway.types.dirty import MESSAGE_LIMIT_CHARS, DirtyReason, DirtyRow

Codes = NDArray[np.int64]
_FORM = re.compile(r"(year|month|day|hour|bucket|truncate)(?:\[([0-9]+)\])?")
_HOUR_US = 3_600_000_000
_DAY_US = 24 * _HOUR_US
_TIMES = frozenset({"year", "month", "day", "hour"})
_FORMS = {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d"}
_HASH_MASK = 0x7FFFFFFF
# Decimals of a table have up to 38 digits, Python's own context rounds to 28.
_EXACT = Context(prec=76)
_LONG_BITS = 64


class LakeTransform:
    """One transform of one column. Created once a task, used by one thread.

    Args:
        transform: Transform as Iceberg writes it, for example `hour` or `bucket[16]`.
        column: Name of the column in the rows.
        schema: Schema of the rows.

    Raises:
        ValueError: The column is missing, or the transform does not take its type.
    """

    def __init__(self, transform: str, column: str, schema: pa.Schema) -> None:
        found = _FORM.fullmatch(transform)
        names = [name.lower() for name in schema.names]
        if found is None or column.lower() not in names:
            raise ValueError(f"{transform}({column}): there is no such transform or column")
        self._name, self._width = found[1], int(found[2] or 0)
        self._place = names.index(column.lower())
        kind = schema.field(self._place).type
        if not self._takes(kind):
            raise ValueError(f"{transform} does not take the column {column}, of type {kind}")
        self._hash = _hash_of(kind)
        wide = pa.types.is_integer(kind) and kind.bit_width == _LONG_BITS
        self._half = 1 << (63 if wide else 31)
        self._wraps = self._name == "truncate" and pa.types.is_integer(kind)

    def encode(self, rows: pa.RecordBatch) -> tuple[Codes, list[str | None]]:
        """Codes from 0 into texts, in the form that Iceberg shows.

        Args:
            rows: A batch of the schema.
        """
        encoded = rows.column(self._place).dictionary_encode()
        texts = self._texts(encoded.dictionary)
        codes = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
        if encoded.indices.null_count:
            texts.append(None)
        return codes.astype(np.int64), texts

    def problem(self, text: str) -> str | None:
        """Why readers would not find rows of a value, or None. Called once a distinct value.

        Args:
            text: A text from `encode`.
        """
        if not self._wraps or int(text) % self._width == 0:
            return None
        return (
            f"truncate[{self._width}] of it lies below the least number of its type: readers go on "
            "at the greatest one, and would miss the row"
        )

    def _takes(self, kind: pa.DataType) -> bool:
        is_time = pa.types.is_timestamp(kind)
        if self._name in _TIMES:
            return is_time or (pa.types.is_date32(kind) and self._name != "hour")
        whole = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
        if self._name == "truncate":
            return bool(whole or pa.types.is_string(kind))
        return bool(
            whole
            or is_time
            or pa.types.is_date32(kind)
            or pa.types.is_string(kind)
            or pa.types.is_binary(kind)
        )

    def _texts(self, values: pa.Array) -> list[str | None]:
        if self._name in _TIMES:
            return self._times(values)
        if self._name == "bucket":
            stored = _stored_values(values)
            return [str((self._hash(value) & _HASH_MASK) % self._width) for value in stored]
        return [self._truncated(value) for value in values.to_pylist()]

    def _times(self, values: pa.Array) -> list[str | None]:
        if pa.types.is_date32(values.type):
            days = values.cast(pa.int32()).to_numpy(zero_copy_only=False).astype(np.int64)
            hours = np.zeros(len(days), np.int64)
        else:
            micros = values.cast(pa.timestamp("us", tz=values.type.tz)).view(pa.int64())
            numbers = micros.to_numpy(zero_copy_only=False)
            days = np.floor_divide(numbers, _DAY_US)
            hours = np.floor_divide(numbers - days * _DAY_US, _HOUR_US)
        dates = pa.array(days.astype(np.int32), pa.int32()).cast(pa.date32())
        form = _FORMS.get(self._name, _FORMS["day"])
        texts: list[str | None] = pc.strftime(dates.cast(pa.timestamp("s")), form).to_pylist()
        if self._name != "hour":
            return texts
        return [f"{text}-{hour:02d}" for text, hour in zip(texts, hours.tolist(), strict=True)]

    def _truncated(self, value: Any) -> str:
        if isinstance(value, str):
            return value[: self._width]
        if isinstance(value, Decimal):
            unscaled = _unscaled(value)
            cut = unscaled - unscaled % self._width
            return format(Decimal(cut).scaleb(int(value.as_tuple().exponent), _EXACT), "f")
        # Below the least number of the type it continues at the greatest, as in Java.
        return str((value - value % self._width + self._half) % (2 * self._half) - self._half)


def _stored_values(values: pa.Array) -> list[Any]:
    """Values in the form that Iceberg hashes: times and dates as whole numbers."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", tz=values.type.tz)).view(pa.int64())
    elif pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    found: list[Any] = values.to_pylist()
    return found


def _hash_of(kind: pa.DataType) -> Callable[[Any], int]:
    if pa.types.is_string(kind):
        return lambda value: murmur3_32(value.encode())
    if pa.types.is_binary(kind):
        return murmur3_32
    if pa.types.is_decimal(kind):
        return lambda value: murmur3_32(_decimal_bytes(value))
    return lambda value: murmur3_32(int(value).to_bytes(8, "little", signed=True))


def _unscaled(value: Decimal) -> int:
    return int(value.scaleb(-int(value.as_tuple().exponent), _EXACT))


def _decimal_bytes(value: Decimal) -> bytes:
    """The unscaled number in the fewest bytes of two's complement, big-endian."""
    unscaled = _unscaled(value)
    bits = unscaled if unscaled >= 0 else ~unscaled
    return unscaled.to_bytes(bits.bit_length() // 8 + 1, "big", signed=True)


def murmur3_32(data: bytes) -> int:
    """Murmur3 with 32 bits and seed 0, unsigned."""
    value, mask = 0, 0xFFFFFFFF
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        value ^= _scrambled(int.from_bytes(data[start : start + 4], "little"))
        value = ((value << 13) | (value >> 19)) & mask
        value = (value * 5 + 0xE6546B64) & mask
    if len(data) > whole:
        value ^= _scrambled(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    value = ((value ^ (value >> 16)) * 0x85EBCA6B) & mask
    value = ((value ^ (value >> 13)) * 0xC2B2AE35) & mask
    return value ^ (value >> 16)


def _scrambled(block: int) -> int:
    mask = 0xFFFFFFFF
    block = (block * 0xCC9E2D51) & mask
    block = ((block << 15) | (block >> 17)) & mask
    return (block * 0x1B873593) & mask


Values = tuple[str | None, ...]
ValueProblem = Callable[[str, str | None], str | None]
"""(partition column, value) -> why the value cannot be a folder, or None."""

_TEXT_TYPES = (
    pa.types.is_string,
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_date32,
    pa.types.is_decimal,
)


@dataclass(frozen=True, slots=True)
class PartitionAssignment:
    """Partitions of a batch.

    Attributes:
        values: Distinct partition values, in the order of the partition columns; None is null.
        codes: int32, one a row: its place in `values`; -1 for dirty rows.
        dirty: Rows whose values cannot be a folder; `index` is the position in the batch.
    """

    values: list[Values]
    codes: np.ndarray[tuple[int], np.dtype[np.int32]]
    dirty: tuple[DirtyRow, ...]


@dataclass(frozen=True, slots=True)
class RowTimes:
    """Times of a batch.

    Attributes:
        event: int64 microseconds since the epoch, UTC, one a row, without nulls; None without event
            times.
        record: Likewise, the records' own times; None without them.
        processing_us: When the batch is read, by the task's clock; microseconds since the epoch.
    """

    event: pa.Array | None = None
    record: pa.Array | None = None
    processing_us: int = 0


NO_TIMES = RowTimes()


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """A partition column by a time of the row."""

    name: str
    pattern: TimePattern
    kind: TimeKind = TimeKind.EVENT


@dataclass(frozen=True, slots=True)
class ValueColumn:
    """A partition column by a column of the row."""

    name: str
    column: str


@dataclass(frozen=True, slots=True)
class TransformColumn:
    """A partition field of a lake table, by a transform of a column of the row."""

    name: str
    column: str
    transform: str


@dataclass(frozen=True, slots=True)
class ConstantColumn:
    """A partition column with one value for all rows."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class PluginColumn:
    """A partition column by a partitioner, which may fill other columns of the same rows too.

    Attributes:
        partitioner: The same object for all its columns; called once a batch.
        place: Position of the column among its columns.
    """

    name: str
    partitioner: CheckedPartitioner
    place: int


PartitionColumn = TimeColumn | ValueColumn | TransformColumn | ConstantColumn | PluginColumn


class PartitionAssigner:
    """Assigns rows to partitions. Created once per task, used by one thread.

    Args:
        columns: The partition columns, in path order; none puts all rows into one partition.
        schema: Schema of the decoded rows.
        problem: Returns why a value cannot be a folder of the table. None for lake tables, whose
            metadata hold the values, so that no folder has to.

    Raises:
        ValueError: A column is missing, or of a type whose text differs between engines.
    """

    def __init__(
        self,
        columns: Sequence[PartitionColumn],
        schema: pa.Schema,
        problem: ValueProblem | None,
    ) -> None:
        self._columns = tuple(columns)
        self._problem = problem
        self._places = {
            column.column: _place(column, schema)
            for column in columns
            if isinstance(column, ValueColumn)
        }
        self._transforms = {
            column.name: LakeTransform(column.transform, column.column, schema)
            for column in columns
            if isinstance(column, TransformColumn)
        }

    def assign(self, rows: pa.RecordBatch, times: RowTimes) -> PartitionAssignment:
        """Partitions of a batch.

        Args:
            rows: Decoded rows.
            times: Times of the rows that the columns need.

        Raises:
            SluicewayError: A partitioner raises it, or violates its contract.
        """
        if not self._columns or rows.num_rows == 0:
            return PartitionAssignment([()], np.zeros(rows.num_rows, dtype=np.int32), ())
        answers = self._ask_partitioners(rows)
        encoded = [self._encode(column, rows, times, answers) for column in self._columns]
        values: list[Values] = [()]
        combined = np.zeros(rows.num_rows, dtype=np.int64)
        for codes, texts in encoded:
            # Distinct after each column, so that no product of their numbers overflows.
            mixed = combined * len(texts) + codes
            distinct, combined = np.unique(mixed, return_inverse=True)
            pairs = (divmod(number, len(texts)) for number in distinct.tolist())
            values = [(*values[above], texts[code]) for above, code in pairs]
        found = self._without_problems(values, combined.astype(np.int32))
        return _without_refused(found, [*answers.values()])

    def _ask_partitioners(self, rows: pa.RecordBatch) -> "_Answers":
        asked: _Answers = {}
        for column in self._columns:
            if isinstance(column, PluginColumn) and column.partitioner not in asked:
                asked[column.partitioner] = column.partitioner.assign(rows)
        return asked

    def moved(self, values: Values, at_us: int) -> Values | None:
        """The partition of a row by another event time; None where that has no text.

        Called for late rows. Columns that are no event times keep their values.
        """
        found = tuple(
            column.pattern.format_one(at_us) if _is_by_event(column) else value
            for column, value in zip(self._columns, values, strict=True)
        )
        return None if self._judge(found) else found

    def _encode(
        self, column: PartitionColumn, rows: pa.RecordBatch, times: RowTimes, answers: "_Answers"
    ) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], list[str | None]]:
        """Codes from 0 into distinct texts."""
        if isinstance(column, ConstantColumn):
            return np.zeros(rows.num_rows, dtype=np.int64), [column.value]
        if isinstance(column, TimeColumn):
            if column.kind is TimeKind.PROCESSING:
                text = column.pattern.format_one(times.processing_us)
                return np.zeros(rows.num_rows, dtype=np.int64), [text]
            micros = times.event if column.kind is TimeKind.EVENT else times.record
            if micros is None:
                raise ValueError(f"partition column {column.name} needs {column.kind} times")
            encoded = column.pattern.format(micros)
        elif isinstance(column, TransformColumn):
            return _merged(*self._transforms[column.name].encode(rows))
        elif isinstance(column, PluginColumn):
            encoded = answers[column.partitioner].values[column.place].dictionary_encode()
        else:
            encoded = rows.column(self._places[column.column]).dictionary_encode()
        texts = _texts(encoded.dictionary)
        codes = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
        if encoded.indices.null_count:
            texts.append(None)
        return _merged(codes.astype(np.int64), texts)

    def _without_problems(
        self, values: list[Values], codes: np.ndarray[tuple[int], np.dtype[np.int32]]
    ) -> PartitionAssignment:
        problems = {
            code: found for code, value in enumerate(values) if (found := self._judge(value))
        }
        if not problems:
            return PartitionAssignment(values, codes, ())
        dirty = []
        for row in np.flatnonzero(np.isin(codes, list(problems))):
            name, message = problems[int(codes[row])]
            reason = DirtyReason.BAD_PARTITION_VALUE
            dirty.append(
                DirtyRow(int(row), "partition", reason, name, message[:MESSAGE_LIMIT_CHARS])
            )
            codes[row] = -1
        return PartitionAssignment(values, codes, tuple(dirty))

    def _judge(self, values: Values) -> tuple[str, str] | None:
        for column, value in zip(self._columns, values, strict=True):
            if value is None and isinstance(column, TimeColumn):
                return column.name, "the zone has no such time between the years 1 and 9999"
            if isinstance(column, TransformColumn) and value is not None:
                message = self._transforms[column.name].problem(value)
                if message is not None:
                    return column.name, message
            if self._problem is None:
                if value is not None and "\x00" in value:
                    return column.name, "a text with a NUL character is none of a table"
                continue
            if value == "":
                # Hive's folder for it is that of null, so it would silently come back as null.
                return column.name, "an empty text would read back as null from its folder"
            message = self._problem(column.name, value)
            if message is not None:
                return column.name, message
        return None


_Answers = dict[CheckedPartitioner, PartitionTexts]


def _without_refused(
    found: PartitionAssignment, answers: Sequence[PartitionTexts]
) -> PartitionAssignment:
    """The assignment, where rows that a partitioner refused are dirty with its reason."""
    refused = {row: why for answer in answers for row, why in answer.refused.items()}
    if not refused:
        return found
    reason = DirtyReason.BAD_PARTITION_VALUE
    dirty = {row.index: row for row in found.dirty}
    for index, why in refused.items():
        dirty[index] = DirtyRow(index, "partition", reason, "", why[:MESSAGE_LIMIT_CHARS])
        found.codes[index] = -1
    ordered = tuple(dirty[index] for index in sorted(dirty))
    return PartitionAssignment(found.values, found.codes, ordered)


def _is_by_event(column: PartitionColumn) -> TypeGuard[TimeColumn]:
    return isinstance(column, TimeColumn) and column.kind is TimeKind.EVENT


def _place(column: ValueColumn, schema: pa.Schema) -> int:
    names = [name.lower() for name in schema.names]
    if column.column.lower() not in names:
        raise ValueError(f"partition column {column.name}: there is no column {column.column}")
    place = names.index(column.column.lower())
    kind = schema.field(place).type
    if not any(fits(kind) for fits in _TEXT_TYPES):
        raise ValueError(
            f"partition column {column.name} cannot be of type {kind}; "
            "string, integer, decimal, boolean and date can"
        )
    return place


def _texts(values: pa.Array) -> list[str | None]:
    """Values as Hive and Spark write them in a folder's name."""
    if pa.types.is_decimal(values.type):
        return [format(value, "f") for value in values.to_pylist()]
    texts: list[str | None] = values.cast(pa.string()).to_pylist()
    return texts


def _merged(
    codes: np.ndarray[tuple[int], np.dtype[np.int64]], texts: list[str | None]
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], list[str | None]]:
    """Give equal texts one code, so that a partition has one file."""
    distinct = list(dict.fromkeys(texts))
    if len(distinct) == len(texts):
        return codes, texts
    numbers = {text: number for number, text in enumerate(distinct)}
    places = np.array([numbers[text] for text in texts], dtype=np.int64)
    return places[codes], distinct
