"""Texts: LIKE, and exact conversions from and to text, vectorised."""

import re
from collections.abc import Callable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.expressions.exact_numbers import fit_integer
from sluiceway.expressions.steps import REASONS, Codes, Evaluated, either, first_failures
from sluiceway.types.arrow_types import arrow_type
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.iso_time import (
    parse_iso_date,
    parse_iso_timestamp,
    read_iso_dates,
    read_iso_timestamps,
)
from sluiceway.types.schema import BooleanType, DateType, DecimalType, IntegerType, TimestampType

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_PLAIN_INTEGER = r"^-?[0-9]{1,18}$"
_BOOLEANS = {"true": True, "false": False}
_ESCAPABLE = "%_\\"


class _InexactError(Exception):
    """A text that is no value of the type; never leaves this module."""

    def __init__(self, reason: DirtyReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


def like_regex(pattern: str) -> str:
    """The regular expression for a LIKE pattern.

    Called once per expression.

    Args:
        pattern: % stands for any text, _ for one character; after a backslash %, _ and the
            backslash stand for themselves.

    Raises:
        ValueError: Another character, or nothing, follows a backslash.
    """
    pieces, characters = [], iter(pattern)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            if not escaped or escaped not in _ESCAPABLE:
                raise ValueError("a backslash in a pattern stands before %, _ or a backslash")
            pieces.append(_exactly(escaped))
        else:
            pieces.append({"%": ".*", "_": "."}.get(character) or _exactly(character))
    return rf"(?s)\A{''.join(pieces)}\z"


def _exactly(character: str) -> str:
    return rf"\x{{{ord(character):x}}}"


def match_like(regex: str, rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """Whether texts match. A kernel once `regex` is given."""
    found = pc.match_substring_regex(operands[0].value, regex)
    return Evaluated(found, operands[0].failed)


def concatenate(rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """Texts one after the other; null when one is null. A kernel."""
    joined = pc.binary_join_element_wise(*(operand.value for operand in operands), "")
    return Evaluated(joined, first_failures(operands))


def to_text(rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """Integers, decimals, booleans and days as text. A kernel."""
    values = operands[0].value
    if pa.types.is_decimal(values.type):
        # Arrow writes small ones with an exponent.
        coded = values.dictionary_encode()
        texts = [format(value, "f") for value in coded.dictionary.to_pylist()]
        return Evaluated(pa.array(texts, pa.string()).take(coded.indices), operands[0].failed)
    return Evaluated(values.cast(pa.string()), operands[0].failed)


TextTarget = BooleanType | IntegerType | DecimalType | DateType | TimestampType


def from_text(kind: TextTarget, rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """Texts as values of a type, read as a payload's texts are. A kernel once `kind` is given."""
    texts, failed = operands[0].value, operands[0].failed
    match kind:
        case IntegerType(bits):
            found = _integers(texts, bits)
        case DateType():
            values, odd = read_iso_dates(texts)
            found = _with_odd(texts, values, odd, kind)
        case TimestampType():
            times_us, odd = read_iso_timestamps(texts)
            found = _with_odd(texts, times_us.cast(pa.timestamp("us")), odd, kind)
        case _:
            found = _one_by_one(texts, kind)
    return Evaluated(found.value, either(failed, found.failed))


def _integers(texts: pa.Array, bits: int) -> Evaluated:
    plain = pc.match_substring_regex(texts, _PLAIN_INTEGER)
    odd = pc.indices_nonzero(pc.invert(plain))
    values = pc.if_else(plain, texts, None).cast(pa.int64())
    found = fit_integer(values, bits)
    filled = _with_odd(texts, found.value, odd, IntegerType(bits))
    return Evaluated(filled.value, either(found.failed, filled.failed))


def _with_odd(texts: pa.Array, values: pa.Array, odd: pa.Array, kind: TextTarget) -> Evaluated:
    """Insert the values that the fast path has not read."""
    if len(odd) == 0:
        return Evaluated(values)
    read = _one_by_one(texts.take(odd), kind)
    mask = np.zeros(len(texts), dtype=np.bool_)
    mask[odd.to_numpy()] = True
    merged = pc.replace_with_mask(values, pa.array(mask), read.value)
    if read.failed is None:
        return Evaluated(merged)
    failed = np.zeros(len(texts), np.uint8)
    failed[mask] = read.failed
    return Evaluated(merged, failed)


def _one_by_one(texts: pa.Array, kind: TextTarget) -> Evaluated:
    """Read distinct texts, then spread them over the rows."""
    coded = texts.dictionary_encode()
    values: list[object] = []
    codes: list[int] = []
    for text in coded.dictionary.to_pylist():
        try:
            values.append(_read(text, kind))
            codes.append(0)
        except _InexactError as error:
            values.append(None)
            codes.append(REASONS.index(error.reason))
    found = pa.array(values, arrow_type(kind)).take(coded.indices)
    return Evaluated(found, _spread(codes, coded.indices) if any(codes) else None)


def _spread(codes: list[int], indices: pa.Array) -> Codes:
    # A last entry stands for nulls, which are no failure.
    places = indices.fill_null(len(codes)).to_numpy(zero_copy_only=False)
    spread: Codes = np.array([*codes, 0], np.uint8)[places]
    return spread


def _read(text: str, kind: TextTarget) -> object:
    match kind:
        case BooleanType():
            if text not in _BOOLEANS:
                raise _InexactError(DirtyReason.BAD_TEXT)
            return _BOOLEANS[text]
        case IntegerType(bits):
            value = int(_read_number(text, 60, 0, DirtyReason.NOT_INTEGRAL))
            if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
                raise _InexactError(DirtyReason.OVERFLOW)
            return value
        case DecimalType(precision, scale):
            return _read_number(text, precision, scale, DirtyReason.SCALE)
        case DateType():
            return _read_time(parse_iso_date, text)
        case TimestampType():
            return _read_time(parse_iso_timestamp, text)


def _read_time(parse: Callable[[str], int], text: str) -> int:
    try:
        return parse(text)
    except ValueError as error:
        raise _InexactError(DirtyReason.BAD_TIME) from error


def _read_number(text: str, precision: int, scale: int, inexact: DirtyReason) -> Decimal:
    if not _NUMBER.fullmatch(text):
        raise _InexactError(DirtyReason.BAD_TEXT)
    context = Context(
        prec=max(precision, 1), Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[Inexact, InvalidOperation]
    )
    try:
        return Decimal(text).quantize(Decimal((0, (1,), -scale)), context=context)
    except Inexact as error:
        raise _InexactError(inexact) from error
    except InvalidOperation as error:
        raise _InexactError(DirtyReason.OVERFLOW) from error


def replace_text(search: str, by: str, rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """Texts with every `search` replaced. A kernel once the first two are given."""
    found = pc.replace_substring(operands[0].value, search, by)
    return Evaluated(found, operands[0].failed)


def cut_text(start: int, count: int, rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """A part of texts, by characters. A kernel once the first two are given."""
    found: Any = pc.utf8_slice_codeunits(operands[0].value, start, start + count)
    return Evaluated(found, operands[0].failed)
