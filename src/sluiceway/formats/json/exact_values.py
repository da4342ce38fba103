"""The slow path's conversions: one JSON value -> one Python value for Arrow, or the reason.

A type is compiled once into a function; the functions are then called for each value. JSON
numbers arrive as `NumberText`, so that no digit is lost before the type is known.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from sluiceway.formats.json.dirty_value import DirtyValueError
from sluiceway.formats.json.number_text import (
    is_number_text,
    to_decimal,
    to_float,
    to_integer,
    to_time_us,
)
from sluiceway.types.dirty import DirtyReason, shown
from sluiceway.types.iso_time import parse_iso_date, parse_iso_timestamp
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
    StringType,
    StructType,
    TimestampType,
)

Convert = Callable[[object], object]


class NumberText(str):
    """The text of a JSON number."""

    __slots__ = ()


class NonFiniteText(str):
    """NaN or an infinity written without quotes: no JSON, but common."""

    __slots__ = ()


class JsonObject(dict[str, object]):
    """A JSON object in which some keys came more than once.

    Attributes:
        doubled: Those keys; the value kept is the last one.
    """

    __slots__ = ("doubled",)

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.doubled = frozenset(key for key, count in counts.items() if count > 1)


class _Missing:
    """The mark for a key that is not there; null is another thing."""


_MISSING = _Missing()


def object_of_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build an object that remembers doubled keys. Called by the JSON parser, once an object."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else JsonObject(pairs)


def compile_value(data_type: DataType, time_unit: str | None) -> Convert:
    """Make the conversion for values of one type. Called once a column, when a task starts.

    Args:
        data_type: What values become. No binary, which JSON does not have.
        time_unit: Of timestamps inside; see `Field.time_unit`.

    Returns:
        A function from a JSON value that is not null to what `pa.array` takes for the type;
        it raises DirtyValueError.

    Raises:
        ValueError: JSON cannot carry the type.
    """
    match data_type:
        case ListType(element):
            return _compile_list(compile_value(element, time_unit))
        case MapType(key, value):
            return _compile_map(key, compile_value(value, time_unit))
        case StructType(fields):
            return _compile_struct(fields)
        case TimestampType() if time_unit is not None:
            unit = time_unit
            return lambda value: to_time_us(_number_text(value), unit)
        case TimestampType():
            return _instant
        case _:
            return _compile_scalar(data_type)


def compile_field(field: Field, keys: tuple[str, ...]) -> Callable[[Mapping[str, object]], object]:
    """Make the reading of one field from the object that holds it.

    Called once a field, when a task starts.

    Args:
        field: The column or the struct's field.
        keys: From the holding object to the value.

    Returns:
        A function from the object to the converted value or None; it raises DirtyValueError.

    Raises:
        ValueError: JSON cannot carry the type.
    """
    convert = compile_value(field.type, field.time_unit)
    required = field.required
    *above, last = keys

    def read(holder: Mapping[str, object]) -> object:
        found = (
            _walk(holder, keys)
            if above or type(holder) is JsonObject
            else holder.get(last, _MISSING)
        )
        if found is None or found is _MISSING:
            if required:
                raise _absent(found).under(*keys)
            return None
        try:
            return convert(found)
        except DirtyValueError as error:
            raise error.under(*keys) from None

    return read


def _walk(holder: Mapping[str, object], keys: tuple[str, ...]) -> object:
    found: object = holder
    for depth, key in enumerate(keys):
        if found is None or found is _MISSING:
            return found
        if not isinstance(found, dict):
            raise _wrong_kind(found, "an object").under(*keys[:depth])
        if type(found) is JsonObject and key in found.doubled:
            message = f"the key {shown(key)} came more than once"
            raise DirtyValueError(DirtyReason.DUPLICATE_KEY, message).under(*keys[: depth + 1])
        found = found.get(key, _MISSING)
    return found


def _compile_scalar(data_type: DataType) -> Convert:
    match data_type:
        case BooleanType():
            return _boolean
        case IntegerType(bits):
            return lambda value: to_integer(_number_text(value), bits)
        case FloatType(bits):
            return lambda value: to_float(_number_text(value), bits)
        case DecimalType(precision, scale):
            return lambda value: to_decimal(_number_text(value), precision, scale)
        case StringType():
            return _text
        case DateType():
            return _day
        case _:
            raise ValueError("JSON has no bytes: a binary column cannot be read from it")


def _compile_list(convert: Convert) -> Convert:
    def read(value: object) -> object:
        if not isinstance(value, list):
            raise _wrong_kind(value, "an array")
        items: list[object] = []
        for position, item in enumerate(value):
            try:
                items.append(None if item is None else convert(item))
            except DirtyValueError as error:
                raise error.under(position) from None
        return items

    return read


def _compile_struct(fields: tuple[Field, ...]) -> Convert:
    readers = [(field.name, compile_field(field, (field.name,))) for field in fields]

    def read(value: object) -> object:
        if not isinstance(value, dict):
            raise _wrong_kind(value, "an object")
        return {name: read_field(value) for name, read_field in readers}

    return read


def _compile_map(key_type: DataType, convert: Convert) -> Convert:
    match key_type:
        case StringType() | IntegerType():
            convert_key = _compile_scalar(key_type)
        case _:
            raise ValueError("the keys of a JSON object are text: a map has string or integer keys")

    def read(value: object) -> object:
        if not isinstance(value, dict):
            raise _wrong_kind(value, "an object")
        entries: dict[object, object] = {}
        for name, item in value.items():
            try:
                key = convert_key(name)
                entries[key] = None if item is None else convert(item)
            except DirtyValueError as error:
                raise error.under(name) from None
        if type(value) is JsonObject or len(entries) != len(value):
            raise DirtyValueError(DirtyReason.DUPLICATE_KEY, "a key of the map came twice")
        return list(entries.items())

    return read


def _number_text(value: object) -> str:
    if type(value) is NumberText:
        return value
    if type(value) is str:
        if is_number_text(value):
            return value
        raise DirtyValueError(DirtyReason.BAD_TEXT, f"{shown(value)} is not a number")
    raise _wrong_kind(value, "a number")


def _boolean(value: object) -> object:
    if value is True or value is False:
        return value
    raise _wrong_kind(value, "true or false")


def _text(value: object) -> str:
    if type(value) is not str:
        raise _wrong_kind(value, "a string")
    if "\0" in value:
        raise DirtyValueError(DirtyReason.ENCODING, "the string holds a NUL character")
    return value


def _day(value: object) -> int:
    try:
        return parse_iso_date(_text(value))
    except ValueError as error:
        raise _bad_time(value, error) from error


def _instant(value: object) -> int:
    if type(value) is NumberText:
        text = f"the number {shown(str(value))} is a time only where the column has a `unit`"
        raise DirtyValueError(DirtyReason.WRONG_TYPE, text)
    try:
        return parse_iso_timestamp(_text(value))
    except ValueError as error:
        raise _bad_time(value, error) from error


def _bad_time(value: object, error: ValueError) -> DirtyValueError:
    return DirtyValueError(DirtyReason.BAD_TIME, f"{shown(value)}: {error}")


def _absent(value: object) -> DirtyValueError:
    if value is None:
        return DirtyValueError(DirtyReason.NULL, "a required field is null")
    return DirtyValueError(DirtyReason.MISSING, "a required field is missing")


def _wrong_kind(value: object, wanted: str) -> DirtyValueError:
    return DirtyValueError(DirtyReason.WRONG_TYPE, f"{wanted} is expected, not {_kind(value)}")


def _kind(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case NumberText() | NonFiniteText():
            return f"the number {shown(str(value))}"
        case str():
            return f"the string {shown(value)}"
        case list():
            return "an array"
        case dict():
            return "an object"
        case _:
            return "null"
