"""The fast path's conversions: a parsed Arrow column -> the table's column, and suspect rows.

Every conversion either vouches for a value, which then equals the slow path's, or marks its row as
suspect. The values of a suspect row do not matter.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_numbers import FLOAT_EXACT_LIMIT, TIME_UNIT_PLACES
from sluiceway.convert.exact_values import compile_value
from sluiceway.types.arrow_types import arrow_type
from sluiceway.types.iso_time import MAX_TIME_US, MIN_TIME_US, read_iso_dates, read_iso_timestamps
from sluiceway.types.policy import Policy
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
    StringType,
    StructType,
    TimestampType,
    VarcharType,
)

Positions = npt.NDArray[np.int64]
ConvertColumn = Callable[[pa.Array, "RecheckPositions"], pa.Array]


class RecheckPositions(Protocol):
    """Takes positions in an array that must be checked again."""

    def suspect(self, positions: Positions) -> None:
        """The values at these positions are not vouched for."""

    def zero(self, positions: Positions) -> None:
        """The floats at these positions are zero: fine unless the text was none."""


class RecheckRows:
    """Marks on the rows of a block."""

    def __init__(self) -> None:
        self._suspects: list[Positions] = []
        self._zeros: list[Positions] = []

    def suspect(self, positions: Positions) -> None:
        """Mark rows; see `RecheckPositions`."""
        self._suspects.append(positions)

    def zero(self, positions: Positions) -> None:
        """Mark rows; see `RecheckPositions`."""
        self._zeros.append(positions)

    def suspects(self) -> Positions:
        """Rows marked as suspect, rising, each once."""
        return _joined(self._suspects)

    def zeros(self) -> Positions:
        """Rows with a float that is zero, rising, each once."""
        return _joined(self._zeros)


class _ItemMarks:
    """Marks on the items of a list column, handed on to the lists that hold them."""

    def __init__(self, holder: RecheckPositions, offsets: pa.Array) -> None:
        self._holder = holder
        self._offsets = offsets.to_numpy()

    def suspect(self, positions: Positions) -> None:
        self._holder.suspect(self._lists_of(positions))

    def zero(self, positions: Positions) -> None:
        self._holder.zero(self._lists_of(positions))

    def _lists_of(self, positions: Positions) -> Positions:
        found = np.searchsorted(self._offsets, positions, side="right") - 1
        return found.astype(np.int64)


def compile_column(field: Field) -> Callable[[pa.Table, RecheckPositions], pa.Array]:
    """Compile the conversion of one column of a parsed block. Called once a column and task.

    Args:
        field: The column; `parse_schema` must have a form for its type.

    Returns:
        A function from the parsed table, one chunk a column, to the column's array.
    """
    convert = _compile(field.type, field.time_unit, field.policy)
    first, *further = field.path or (field.name,)

    def read(table: pa.Table, marks: RecheckPositions) -> pa.Array:
        column = _only_chunk(table.column(first))
        for key in further:
            column = _child(column, key)
        if field.required and column.null_count:
            marks.suspect(_positions(column.is_null()))
        return convert(column, marks)

    return read


def _compile(data_type: DataType, time_unit: str | None, policy: Policy) -> ConvertColumn:
    match data_type:
        case ListType(element):
            return _compile_list(_compile(element, time_unit, policy))
        case StructType(fields):
            return _compile_struct(fields, arrow_type(data_type))
        case BinaryType():
            return _by_slow_path(data_type, policy)
        case DateType() if policy.format is not None:
            return _by_slow_path(data_type, policy)
        case TimestampType() | LocalTimestampType():
            return _compile_time(data_type, time_unit, policy)
        case _:
            return _compile_scalar(data_type)


def _compile_time(
    data_type: TimestampType | LocalTimestampType, time_unit: str | None, policy: Policy
) -> ConvertColumn:
    if time_unit is not None:
        places = TIME_UNIT_PLACES[time_unit]
        return lambda array, marks: _numeric_times(array, places, marks)
    if policy.format is not None or policy.timezone is not None:
        return _by_slow_path(data_type, policy)
    return _text_times


def _compile_scalar(data_type: DataType) -> ConvertColumn:
    match data_type:
        case IntegerType():
            target = arrow_type(data_type)
            return lambda array, marks: _integers(array, target, marks)
        case DecimalType(precision, scale):
            return lambda array, marks: _decimals(array, (precision, scale), marks)
        case FloatType(bits):
            return lambda array, marks: _floats(array, bits, marks)
        case StringType():
            return _strings
        case VarcharType(length):
            return lambda array, marks: _bounded_texts(array, length, marks)
        case CharType(length):
            return lambda array, marks: _padded_texts(array, length, marks)
        case DateType():
            return _dates
        case _:
            return lambda array, _: array


def _by_slow_path(data_type: DataType, policy: Policy) -> ConvertColumn:
    """Read each distinct text as the slow path does; only rows of dirty texts go there."""
    convert = compile_value(data_type, None, policy)
    target = arrow_type(data_type)

    def read(array: pa.Array, marks: RecheckPositions) -> pa.Array:
        coded = array.dictionary_encode()
        values: list[object] = []
        odd: list[int] = []
        for place, text in enumerate(coded.dictionary.to_pylist()):
            try:
                values.append(convert(text))
            except DirtyValueError:
                values.append(None)
            if values[-1] is None:
                odd.append(place)
        if odd:
            marks.suspect(_positions(pc.is_in(coded.indices, pa.array(odd, coded.indices.type))))
        return pa.array(values, target).take(coded.indices)

    return read


def _compile_list(convert: ConvertColumn) -> ConvertColumn:
    def read(array: pa.Array, marks: RecheckPositions) -> pa.Array:
        items = array.values
        converted = convert(items, _ItemMarks(marks, array.offsets))
        if converted is items:
            return array
        return pa.ListArray.from_arrays(array.offsets, converted, mask=_null_mask(array))

    return read


def _compile_struct(fields: tuple[Field, ...], target: pa.StructType) -> ConvertColumn:
    parts = [
        (field.name, field.required, _compile(field.type, field.time_unit, field.policy))
        for field in fields
    ]

    def read(array: pa.Array, marks: RecheckPositions) -> pa.Array:
        children = []
        for name, required, convert in parts:
            child = _child(array, name)
            if required and child.null_count:
                marks.suspect(_positions(pc.and_(child.is_null(), array.is_valid())))
            children.append(convert(child, marks))
        return pa.StructArray.from_arrays(children, fields=list(target), mask=_null_mask(array))

    return read


def _integers(array: pa.Array, target: pa.DataType, marks: RecheckPositions) -> pa.Array:
    if array.type == target:
        return array
    low = -(1 << (target.bit_width - 1))
    return _whole_numbers(array, (low, -low - 1), marks).cast(target)


def _whole_numbers(array: pa.Array, bounds: tuple[int, int], marks: RecheckPositions) -> pa.Array:
    """Turn whole decimals within bounds into int64; mark the others, which become null."""
    low, high = bounds
    held = _only_where(_within(array, Decimal(low), Decimal(high)), array, marks)
    return _only_where(pc.equal(pc.floor(held), held), held, marks).cast(pa.int64())


def _decimals(array: pa.Array, digits: tuple[int, int], marks: RecheckPositions) -> pa.Array:
    precision, scale = digits
    target = pa.decimal128(precision, scale)
    least, greatest = (Decimal((sign, (9,) * precision, -scale)) for sign in (1, 0))
    if array.type == target:
        # Arrow accepts 1234 as decimal(5,2): it counts digits before it adds the scale.
        bounds = pc.min_max(array)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low is None or (least <= low and high <= greatest):
            return array
    held = _only_where(_within(array, least, greatest), array, marks)
    if array.type.scale > scale:
        held = _only_where(pc.equal(pc.round(held, ndigits=scale), held), held, marks)
    return held.cast(target)


def _floats(array: pa.Array, bits: int, marks: RecheckPositions) -> pa.Array:
    filled = pc.fill_null(array, 1.0) if array.null_count else array
    # As floats: the least whole number of 64 bits has no positive one.
    values = np.abs(np.asarray(filled), dtype=np.float64)
    # NaN has no order, so it fails as infinity does.
    large = np.flatnonzero(~(values < FLOAT_EXACT_LIMIT[bits]))
    if len(large):
        marks.suspect(large)
    zeros = np.flatnonzero(values == 0)
    if len(zeros):
        marks.zero(zeros)
    return array


def _strings(array: pa.Array, marks: RecheckPositions) -> pa.Array:
    # Most blocks hold no NUL, and one search over the column's bytes finds out.
    data = array.buffers()[2]
    if data is not None and b"\0" in data.to_pybytes():
        marks.suspect(_positions(pc.match_substring(array, "\0")))
    return array


def _bounded_texts(array: pa.Array, length: int, marks: RecheckPositions) -> pa.Array:
    _mark_longer(array, length, marks)
    return _strings(array, marks)


def _padded_texts(array: pa.Array, length: int, marks: RecheckPositions) -> pa.Array:
    blank = _positions(pc.ends_with(array, " "))
    if len(blank):
        marks.suspect(blank)
    return _bounded_texts(array, length, marks)


def _mark_longer(array: pa.Array, length: int, marks: RecheckPositions) -> None:
    # No text has more characters than bytes, and most columns hold none so long.
    longest = pc.max(pc.binary_length(array)).as_py()
    if longest is not None and longest > length:
        marks.suspect(_positions(pc.greater(pc.utf8_length(array), length)))


def _dates(array: pa.Array, marks: RecheckPositions) -> pa.Array:
    days, odd = read_iso_dates(array)
    if len(odd):
        marks.suspect(odd.to_numpy().astype(np.int64))
    return days


def _text_times(array: pa.Array, marks: RecheckPositions) -> pa.Array:
    times_us, odd = read_iso_timestamps(array)
    if len(odd):
        marks.suspect(odd.to_numpy().astype(np.int64))
    return times_us.view(pa.timestamp("us"))


def _numeric_times(array: pa.Array, places: int, marks: RecheckPositions) -> pa.Array:
    if not pa.types.is_integer(array.type):
        scaled = pa.Array.from_buffers(
            pa.decimal256(array.type.precision, array.type.scale - places),
            len(array),
            array.buffers(),
            offset=array.offset,
        )
        return _whole_numbers(scaled, (MIN_TIME_US, MAX_TIME_US), marks).view(pa.timestamp("us"))
    factor = 10 ** abs(places)
    if places < 0:
        times = pc.divide(array, factor)
        fits = pc.and_(pc.equal(pc.multiply(times, factor), array), _between(array, 1, factor))
    else:
        times = pc.multiply(array, factor)
        fits = _between(array, factor, 1)
    return _only_where(fits, times, marks).view(pa.timestamp("us"))


def _between(array: pa.Array, divisor: int, factor: int) -> pa.Array:
    """True where a number of units lies in the years 0001 to 9999."""
    low, high = -(-MIN_TIME_US * factor // divisor), (MAX_TIME_US * factor) // divisor
    return pc.and_(
        pc.greater_equal(array, max(low, -(2**63))), pc.less_equal(array, min(high, 2**63 - 1))
    )


def _within(array: pa.Array, low: Decimal, high: Decimal) -> pa.Array:
    return pc.and_(
        pc.greater_equal(array, pa.scalar(low, array.type)),
        pc.less_equal(array, pa.scalar(high, array.type)),
    )


def _only_where(fits: pa.Array, array: pa.Array, marks: RecheckPositions) -> pa.Array:
    """Mark the positions that do not fit and make them null."""
    if fits.true_count + fits.null_count == len(array):
        return array
    marks.suspect(_positions(pc.invert(fits)))
    return pc.if_else(fits, array, pa.scalar(None, array.type))


def _child(array: pa.Array, name: str) -> pa.Array:
    """The field of a struct, null where the struct is."""
    return pc.struct_field(array, name) if array.null_count else array.field(name)


def _only_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _positions(mask: pa.Array) -> Positions:
    found: Positions = pc.indices_nonzero(mask).to_numpy().astype(np.int64)
    return found


def _joined(parts: list[Positions]) -> Positions:
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
