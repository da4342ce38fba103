"""Columns of texts -> typed columns, and suspect rows: the fast half of exact conversions.

A conversion vouches for values in a plain form that Arrow reads exactly. All others are marked, and
decided by the conversions of JSON strings.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.convert.arrow_columns import RecheckPositions, compile_column
from sluiceway.types.arrow_types import arrow_type
from sluiceway.types.schema import (
    BooleanType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    LocalTimestampType,
    TimestampType,
)

ConvertTexts = Callable[[pa.Array, RecheckPositions], pa.Array]

# So many digits always fit into 64 bits, and into a float without an error in the power of ten.
_INTEGER = r"^-?[0-9]{1,18}$"
_FLOAT = r"^-?[0-9]{1,15}(?:\.[0-9]{1,15})?$"
_COLUMN = "v"


def compile_texts(field: Field) -> ConvertTexts:
    """Compile the conversion of one column from texts. Called once a column and task.

    Args:
        field: The column; its type is no list, map or struct.

    Returns:
        A function from texts to values; values that it marks are suspects.
    """
    match field.type:
        case BooleanType():
            return _booleans if field.policy.format is None else _nothing(field)
        case IntegerType() | FloatType() | DecimalType():
            pattern, read = _pattern(field), arrow_type(field.type)
        case TimestampType() | LocalTimestampType() if field.time_unit is not None:
            pattern, read = _INTEGER, pa.int64()
        case _ if field.time_unit is not None:
            return _nothing(field)
        case _:
            return _as_parsed(field)
    finish = _as_parsed(field)

    def convert(texts: pa.Array, marks: RecheckPositions) -> pa.Array:
        plain = pc.match_substring_regex(texts, pattern)
        numbers = _cast(_only(texts, plain, marks), read, marks)
        return finish(numbers, marks)

    return convert


def _pattern(field: Field) -> str:
    match field.type:
        case DecimalType(precision, scale):
            whole = f"[0-9]{{1,{precision - scale}}}" if precision > scale else "0"
            places = f"(?:\\.[0-9]{{1,{scale}}})?" if scale else ""
            return f"^-?{whole}{places}$"
        case FloatType():
            return _FLOAT
        case _:
            return _INTEGER


def _cast(texts: pa.Array, target: pa.DataType, marks: RecheckPositions) -> pa.Array:
    try:
        return texts.cast(target)
    except pa.ArrowInvalid:
        # The wider type finds numbers beyond the column's type.
        wide = texts.cast(pa.int64())
        low = -(1 << (target.bit_width - 1))
        fits = pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, -low - 1))
        return _only(wide, fits, marks).cast(target)


def _booleans(texts: pa.Array, marks: RecheckPositions) -> pa.Array:
    yes = pc.equal(texts, "true")
    return _only(yes, pc.or_(yes, pc.equal(texts, "false")), marks)


def _nothing(field: Field) -> ConvertTexts:
    """Vouch for nothing but nulls."""
    target = arrow_type(field.type)

    def convert(texts: pa.Array, marks: RecheckPositions) -> pa.Array:
        marks.suspect(_positions(texts.is_valid()))
        return pa.nulls(len(texts), target)

    return convert


def _as_parsed(field: Field) -> ConvertTexts:
    """The conversion of a column from the values that JSON's parser would give."""
    read = compile_column(replace(field, name=_COLUMN, path=(), required=False))

    def convert(values: pa.Array, marks: RecheckPositions) -> pa.Array:
        return read(pa.table({_COLUMN: values}), marks)

    return convert


def _only(values: pa.Array, fits: pa.Array, marks: RecheckPositions) -> pa.Array:
    """Mark the positions that do not fit and make them null."""
    if fits.true_count + fits.null_count == len(values):
        return values
    marks.suspect(_positions(pc.invert(fits)))
    return pc.if_else(fits, values, pa.scalar(None, values.type))


def _positions(mask: pa.Array) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = pc.indices_nonzero(mask).to_numpy().astype(np.int64)
    return found
