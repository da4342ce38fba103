"""What a JSON payload has to become, column by column: the reader's own rules.

Written from the product's documentation, with none of its code: a value is converted exactly or
the payload is broken.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import pyarrow as pa

UNITS_PER_S = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EXACT = Context(prec=80)
NUMBER_TEXT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
MAX_DEPTH = 100
MAX_DIGITS = 40
MAX_EXACT_DOUBLE = 2.0**53
MAX_EXACT_SINGLE = 2.0**24
MAX_SINGLE = (2.0 - 2.0**-23) * 2.0**127
MAX_SINGLE_DIGITS = 60
LOCAL_TIMESTAMP = "timestamp with local time zone"
INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "integer": 32, "bigint": 64}


class BrokenPayloadError(Exception):
    """The payload cannot become a row of the table."""


Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A Hive type as Arrow has it, and the conversion of a JSON value that is not null."""

    arrow: pa.DataType
    convert: Convert


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BrokenPayloadError("duplicate key")
    return found


def _refuse_constant(text: str) -> None:
    raise BrokenPayloadError(f"{text} is not JSON")


_JSON = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_float=Decimal,
    # int() refuses texts of thousands of digits; Decimal does not.
    parse_int=lambda text: int(text) if len(text) < MAX_DIGITS else Decimal(text),
    parse_constant=_refuse_constant,
)


def parse_object(payload: bytes) -> dict[str, Any]:
    """Parse strictly: UTF-8, one JSON object, no key twice, no half of a surrogate pair."""
    try:
        text = payload.decode("utf-8")
        found = _JSON.decode(text)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise BrokenPayloadError(str(error)) from error
    if not isinstance(found, dict):
        raise BrokenPayloadError("not an object")
    if payload.count(b"[") + payload.count(b"{") > MAX_DEPTH:
        _check_depth(found, MAX_DEPTH)
    if ESCAPED_SURROGATE.search(text):
        _check_texts(found)
    return found


def _check_depth(value: Any, left: int) -> None:
    if isinstance(value, dict | list):
        if left == 0:
            raise BrokenPayloadError("too deep")
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, left - 1)


def _check_texts(value: Any) -> None:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise BrokenPayloadError("half of a surrogate pair") from error
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_texts(key)
            _check_texts(item)
    elif isinstance(value, list):
        for item in value:
            _check_texts(item)


def _as_number(value: Any) -> Decimal:
    kind = type(value)
    if kind is Decimal:
        return value  # type: ignore[no-any-return]
    if kind is int or (kind is str and NUMBER_TEXT.fullmatch(value)):
        try:
            return Decimal(value)
        except InvalidOperation as error:
            raise BrokenPayloadError("exponent out of reach") from error
    raise BrokenPayloadError(f"{value!r} is not a number")


def as_int(value: Any) -> int:
    """Read a number, or the text of one, that is whole."""
    if type(value) is int:
        return value
    number = _as_number(value)
    if number and number.adjusted() > MAX_DIGITS:
        raise BrokenPayloadError("overflow")
    whole = int(number)
    if whole != number:
        raise BrokenPayloadError(f"{value} is not integral")
    return whole


def _integer(bits: int) -> Convert:
    limit = 1 << (bits - 1)

    def convert(value: Any) -> int:
        whole = as_int(value)
        if not -limit <= whole < limit:
            raise BrokenPayloadError("overflow")
        return whole

    return convert


def _decimal(precision: int, scale: int) -> Convert:
    limit = Decimal(10) ** (precision - scale)
    unit = Decimal(1).scaleb(-scale)

    def convert(value: Any) -> Decimal:
        number = _as_number(value)
        if number.copy_abs() >= limit:
            raise BrokenPayloadError("overflow")
        exact = number.quantize(unit, context=EXACT)
        if exact != number:
            raise BrokenPayloadError("scale")
        return exact

    return convert


def _double(value: Any) -> float:
    number = _as_number(value)
    nearest = float(number)
    if nearest in (float("inf"), float("-inf")) or (nearest == 0 and number):
        raise BrokenPayloadError("beyond a double")
    # From here on doubles are further apart than whole numbers: those would change.
    if abs(nearest) >= MAX_EXACT_DOUBLE and Decimal(repr(nearest)) != number:
        raise BrokenPayloadError("a double would be another number")
    return nearest


def _float(value: Any) -> float:
    number = _as_number(value)
    if number.adjusted() > MAX_DIGITS or (number and number.adjusted() < -MAX_SINGLE_DIGITS):
        raise BrokenPayloadError("beyond a float")
    # DuckDB and Arrow would come through a double, which rounds twice; here it is one rounding.
    nearest = _nearest_single(Fraction(number))
    if nearest > MAX_SINGLE or (nearest == 0 and number):
        raise BrokenPayloadError("beyond a float")
    if nearest >= MAX_EXACT_SINGLE and abs(Fraction(number)) != Fraction(_shortest(nearest)):
        raise BrokenPayloadError("a float would be another number")
    return math.copysign(nearest, -1.0 if number.is_signed() else 1.0)


def _shortest(nearest: float) -> Decimal:
    """The fewest digits that lead to this float and to no other."""
    texts = (Decimal(f"{nearest:.{digits}e}") for digits in range(9))
    return next(text for text in texts if _nearest_single(Fraction(text)) == nearest)


def _nearest_single(number: Fraction) -> float:
    """The nearest multiple of the float's step, ties to even; without the sign."""
    size = abs(number)
    if not size:
        return 0.0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    step = Fraction(2) ** max(exponent - 23, -149)
    return float(round(size / step) * step)


def _boolean(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise BrokenPayloadError(f"{value!r} is not a boolean")


def _text(value: Any) -> str:
    if type(value) is not str or "\0" in value:
        raise BrokenPayloadError("not a text, or one with NUL")
    return value


def _bounded(length: int, *, padded: bool) -> Convert:
    def convert(value: Any) -> str:
        text = _text(value)
        kept = text.rstrip(" ") if padded else text
        if len(text) > length or (len(kept) < len(text) < length):
            raise BrokenPayloadError("too long, or blanks that would be lost")
        return kept

    return convert


def _day(value: Any) -> date:
    try:
        return datetime.strptime(_text(value), "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError as error:
        raise BrokenPayloadError(str(error)) from error


def _timestamp_us(unit: str | None) -> Convert:
    def from_number(value: Any) -> int:
        return as_int(as_int(value) * Decimal(1_000_000) / UNITS_PER_S[str(unit)])

    def from_text(value: Any) -> int:
        try:
            moment = datetime.fromisoformat(_text(value))
        except ValueError as error:
            raise BrokenPayloadError(str(error)) from error
        if moment.tzinfo is None:
            raise BrokenPayloadError("no offset")
        return (moment - EPOCH) // timedelta(microseconds=1)

    return from_text if unit is None else from_number


def _array(element: ColumnType) -> ColumnType:
    def convert(value: Any) -> list[Any]:
        if type(value) is not list:
            raise BrokenPayloadError("not a list")
        return [None if item is None else element.convert(item) for item in value]

    return ColumnType(pa.list_(element.arrow), convert)


def _struct(fields: Mapping[str, ColumnType]) -> ColumnType:
    parts = [(name, kind.convert) for name, kind in fields.items()]

    def convert(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise BrokenPayloadError("not an object")
        get = value.get
        return {n: None if (v := get(n)) is None else c(v) for n, c in parts}

    return ColumnType(pa.struct([(n, kind.arrow) for n, kind in fields.items()]), convert)


def _map(value_type: ColumnType) -> ColumnType:
    def convert(value: Any) -> list[tuple[str, Any]]:
        if type(value) is not dict:
            raise BrokenPayloadError("not an object")
        return [(_text(k), None if v is None else value_type.convert(v)) for k, v in value.items()]

    return ColumnType(pa.map_(pa.string(), value_type.arrow), convert)


def _split_top(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]


def column_type(hive: str, unit: str | None = None) -> ColumnType:
    """Understand a Hive type, nested to any depth."""
    hive = hive.strip()
    kind, _, rest = hive.partition("<")
    inner = rest[:-1].strip()
    scalars: dict[str, ColumnType] = {
        "string": ColumnType(pa.string(), _text),
        "boolean": ColumnType(pa.bool_(), _boolean),
        "double": ColumnType(pa.float64(), _double),
        "float": ColumnType(pa.float32(), _float),
        "date": ColumnType(pa.date32(), _day),
        "timestamp": ColumnType(pa.timestamp("us"), _timestamp_us(unit)),
        LOCAL_TIMESTAMP: ColumnType(pa.timestamp("us"), _timestamp_us(unit)),
    }
    if kind in scalars:
        return scalars[kind]
    if kind in INTEGER_BITS:
        bits = INTEGER_BITS[kind]
        arrow = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]
        return ColumnType(arrow, _integer(bits))
    if found := re.fullmatch(r"decimal\((\d+),(\d+)\)", hive):
        precision, scale = int(found[1]), int(found[2])
        return ColumnType(pa.decimal128(precision, scale), _decimal(precision, scale))
    if found := re.fullmatch(r"(varchar|char)\((\d+)\)", hive):
        return ColumnType(pa.string(), _bounded(int(found[2]), padded=found[1] == "char"))
    if kind == "array":
        return _array(column_type(inner))
    if kind == "map" and inner.startswith("string,"):
        return _map(column_type(inner.removeprefix("string,")))
    if kind == "struct":
        pairs = (part.split(":", 1) for part in _split_top(inner))
        return _struct({name.strip(): column_type(of) for name, of in pairs})
    raise ValueError(f"this reader does not know the Hive type {hive}")
