"""The slow path's conversions: one JSON value -> one Python value for Arrow, or the dirty reason.

A type is compiled once into a function; the function is then called for each value. JSON numbers
arrive as `NumberText`, so that no digit is lost before the type is known. The conversion matrix
(`types.matrix`) says which kinds of values a type accepts.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sluiceway.convert.dirty_value import DirtyValueError, ImpossibleValueError
from sluiceway.convert.exact_numbers import (
    is_number_text,
    to_decimal,
    to_float,
    to_integer,
    to_time_us,
)
from sluiceway.convert.json_values import KINDS, DoubledKeyError, JsonObject, json_text, map_entry
from sluiceway.convert.number_policy import (
    changes_numbers,
    decimal_by_policy,
    float_by_policy,
    integer_by_policy,
    time_by_policy,
)
from sluiceway.convert.text_values import BLANKS, compile_boolean, compile_bytes, compile_text
from sluiceway.convert.time_values import (
    compile_day_of_instant,
    compile_day_text,
    compile_instant_text,
)
from sluiceway.convert.typed_readers import typed_readers
from sluiceway.convert.typed_values import (
    Instant,
    LocalTime,
    MeantRecord,
    TimedNumber,
    TypedTime,
    WallText,
)
from sluiceway.types.dirty import DirtyReason, shown
from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.matrix import JsonKind, accepted_kinds, kind_of_type
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
    StringType,
    StructType,
    TimestampType,
    VarcharType,
)

Convert = Callable[[Any], object]
Readers = dict[JsonKind, Convert]

_NESTED = (ListType, MapType, StructType)
_TIMES = (DateType, TimestampType, LocalTimestampType)
_NO_ZONE = "it is the time of a clock on a wall: give the column a `timezone`"
_NON_FINITE = {
    f"{sign}{word}": float(f"{sign}{word}")
    for word in ("NaN", "Inf", "Infinity")
    for sign in ("", "+", "-")
}


class _Missing:
    """The mark for a missing key, which differs from null."""


_MISSING = _Missing()


def compile_value(
    data_type: DataType, time_unit: str | None, policy: Policy = NO_POLICY
) -> Convert:
    """Compile the conversion of values to one type. Called once a column, when a task starts.

    Args:
        data_type: Type of the result.
        time_unit: Unit of numbers that become times; see `Field.time_unit`; None without one.
        policy: Handles values that do not fit.

    Returns:
        A function from a JSON value that is not null to a value that `pa.array` takes for the type;
        it raises DirtyValueError.

    Raises:
        ValueError: JSON cannot carry the type.
    """
    by_type, target = _typed_readers(data_type, time_unit, policy)

    def convert(value: object) -> object:
        read = by_type.get(type(value))
        if read is None:
            raise _wrong_kind(data_type, value, target)
        try:
            return read(value)
        except DirtyValueError as error:
            raise error.of(value, target) from None

    return convert


def _typed_readers(
    data_type: DataType, time_unit: str | None, policy: Policy
) -> tuple[dict[type, Convert], str]:
    """Readers by the values' Python types, and the type's name in messages."""
    readers = _readers(data_type, time_unit, policy)
    accepted = accepted_kinds(kind_of_type(data_type), policy, time_unit)
    nested = isinstance(data_type, _NESTED)
    target = kind_of_type(data_type).value if nested else format_hive_type(data_type)
    json = {kind: readers[kind] for kind in accepted}
    by_type = {of: json[kind] for of, kind in KINDS.items() if kind in accepted}
    by_type |= typed_readers(data_type, policy, json)
    if isinstance(data_type, _TIMES) and time_unit is None:
        by_type[TimedNumber] = _timed_reader(by_type, data_type)
    elif int in by_type:
        by_type[TimedNumber] = by_type[int]
    if str in by_type:
        of_walls = isinstance(data_type, _TIMES) and time_unit is None
        needs_zone = not isinstance(data_type, DateType)
        read_text = by_type[str]
        by_type[WallText] = (
            _wall_reader(read_text, policy, needs_zone=needs_zone) if of_walls else read_text
        )
    if policy.on_impossible_time == "null" and isinstance(data_type, _TIMES):
        by_type = {of: _null_where_impossible(read) for of, read in by_type.items()}
    as_record = isinstance(data_type, MapType | StructType)
    by_type[MeantRecord] = by_type[dict] if as_record else _meant_reader(by_type, data_type, target)
    return by_type, target


def _meant_reader(by_type: Mapping[type, Convert], data_type: DataType, target: str) -> Convert:
    """Reader of a record that its schema means as one value."""

    def read(record: MeantRecord) -> object:
        value = record.meant
        read_value = by_type.get(type(value))
        if read_value is None:
            raise _wrong_kind(data_type, value, target)
        try:
            return read_value(value)
        except DirtyValueError as error:
            raise error.of(value, target) from None

    return read


def _null_where_impossible(read: Convert) -> Convert:
    def read_or_null(value: object) -> object:
        try:
            return read(value)
        except ImpossibleValueError:
            return None

    return read_or_null


def _wall_reader(read: Convert, policy: Policy, *, needs_zone: bool) -> Convert:
    """Reader of a text that is local time by its schema."""

    def read_wall(text: WallText) -> object:
        if policy.format not in (None, "iso8601"):
            return read(text)
        if needs_zone and policy.timezone is None:
            raise DirtyValueError(DirtyReason.WRONG_TYPE, _NO_ZONE)
        return read(text.wall)

    return read_wall


def _timed_reader(by_type: Mapping[type, Convert], data_type: DataType) -> Convert:
    """Reader of a number that its schema means as a time."""

    def read(value: TimedNumber) -> object:
        time = value.time
        read_time = by_type.get(type(time))
        if read_time is None:
            raise DirtyValueError(DirtyReason.WRONG_TYPE, _expected(data_type, time))
        return read_time(time)

    return read


def _wrong_kind(data_type: DataType, value: object, target: str) -> DirtyValueError:
    return DirtyValueError(DirtyReason.WRONG_TYPE, _expected(data_type, value)).of(value, target)


def _readers(data_type: DataType, time_unit: str | None, policy: Policy) -> Readers:
    """Readers of all kinds of values that some policy accepts."""
    match data_type:
        case ListType(element):
            return {JsonKind.ARRAY: _compile_list(compile_value(element, time_unit, policy))}
        case MapType(key, value):
            convert = compile_value(value, time_unit, policy)
            read_entries = _compile_entries(key, convert)
            read_object = _compile_map(key, convert, redact=policy.redact)
            return {JsonKind.OBJECT: read_object, JsonKind.ARRAY: read_entries}
        case StructType(fields):
            return {JsonKind.OBJECT: _compile_struct(fields)}
        case StringType() | VarcharType() | CharType():
            return _text_readers(data_type, policy)
        case BinaryType():
            return {} if policy.format is None else {JsonKind.STRING: compile_bytes(policy)}
        case DateType() | TimestampType() | LocalTimestampType():
            return _time_readers(data_type, time_unit, policy)
        case BooleanType():
            return {JsonKind.BOOLEAN: lambda value: value, JsonKind.STRING: compile_boolean(policy)}
        case _:
            return _number_readers(data_type, policy)


def compile_field(field: Field, keys: tuple[str, ...]) -> Callable[[Mapping[str, object]], object]:
    """Compile the reading of one field from the object that holds it.

    Called once a field, when a task starts.

    Args:
        field: The column or the struct's field.
        keys: Keys from the holding object to the value.

    Returns:
        A function from the object to the converted value or None; it raises DirtyValueError.

    Raises:
        ValueError: JSON cannot carry the type.
    """
    by_type, target = _typed_readers(field.type, field.time_unit, field.policy)
    required, redact = field.required, field.policy.redact
    *above, last = keys

    # One call per value fewer than through `compile_value`, with the same result.
    def read(holder: Mapping[str, object]) -> object:
        found = (
            _walk(holder, keys)
            if above or type(holder) is JsonObject
            else holder.get(last, _MISSING)
        )
        read_value = by_type.get(type(found))
        if read_value is None:
            if found is not None and found is not _MISSING:
                error = _wrong_kind(field.type, found, target)
                raise (error.redacted() if redact else error).under(*keys)
            if required:
                raise _absent(found).under(*keys)
            return None
        try:
            value = read_value(found)
        except DirtyValueError as error:
            error.of(found, target)
            raise (error.redacted() if redact else error).under(*keys) from None
        if value is None and required:
            raise _absent(value).under(*keys)
        return value

    return read


def _walk(holder: Mapping[str, object], keys: tuple[str, ...]) -> object:
    found: object = holder
    for depth, key in enumerate(keys):
        if found is None or found is _MISSING:
            return found
        if not isinstance(found, dict):
            wrong = DirtyValueError(DirtyReason.WRONG_TYPE, "an object is expected on the way")
            raise wrong.under(*keys[:depth])
        if type(found) is JsonObject and key in found.doubled:
            message = f"the key {shown(key)} came more than once"
            raise DirtyValueError(DirtyReason.DUPLICATE_KEY, message).under(*keys[: depth + 1])
        found = found.get(key, _MISSING)
    return found


def _number_readers(data_type: DataType, policy: Policy) -> Readers:
    read = _number_reader(data_type, policy)
    read_text = _number_in_quotes(read, trim=policy.trim)
    readers: Readers = {JsonKind.NUMBER: read, JsonKind.STRING: read_text}
    if isinstance(data_type, FloatType) and policy.non_finite != "dirty":
        keep, trim = policy.non_finite == "keep", policy.trim

        def read_non_finite(text: str) -> object:
            return _NON_FINITE[text] if keep else None

        def read_any_text(text: str) -> object:
            number = text.strip(BLANKS) if trim else text
            return read_non_finite(number) if number in _NON_FINITE else read_text(text)

        readers[JsonKind.NON_FINITE] = read_non_finite
        readers[JsonKind.STRING] = read_any_text
    return readers


def _number_in_quotes(read: Callable[[str], object], *, trim: bool) -> Callable[[str], object]:
    def read_text(text: str) -> object:
        number = text.strip(BLANKS) if trim else text
        if is_number_text(number):
            return read(number)
        raise DirtyValueError(DirtyReason.BAD_TEXT, "it is not a number")

    return read_text


def _number_reader(data_type: DataType, policy: Policy) -> Callable[[str], object]:
    by_policy = changes_numbers(policy)
    match data_type:
        case IntegerType(bits):
            return integer_by_policy(policy, bits) if by_policy else _integer_reader(bits)
        case FloatType(bits):
            return float_by_policy(policy, bits) if by_policy else lambda text: to_float(text, bits)
        case DecimalType(precision, scale):
            if by_policy:
                return decimal_by_policy(policy, precision, scale)
            return lambda text: to_decimal(text, precision, scale)
        case _:
            raise ValueError(f"JSON cannot carry {format_hive_type(data_type)}")


def _integer_reader(bits: int) -> Callable[[str], int]:
    # So few digits always fit.
    few = len(str(1 << (bits - 1))) - 1

    def read(text: str) -> int:
        return int(text) if len(text) <= few and text.isdigit() else to_integer(text, bits)

    return read


def _text_readers(data_type: StringType | VarcharType | CharType, policy: Policy) -> Readers:
    read = compile_text(data_type, policy)

    def read_nested(value: object) -> str | None:
        try:
            text = json_text(value)
        except DoubledKeyError as error:
            message = f"the key {shown(str(error))} came more than once"
            raise DirtyValueError(DirtyReason.DUPLICATE_KEY, message) from error
        if text is None:
            message = "something is in it that JSON has no text for"
            raise DirtyValueError(DirtyReason.WRONG_TYPE, message)
        return read(text)

    return {
        JsonKind.STRING: read,
        JsonKind.NUMBER: lambda value: read(str(value)),
        JsonKind.BOOLEAN: lambda value: read("true" if value else "false"),
        JsonKind.ARRAY: read_nested,
        JsonKind.OBJECT: read_nested,
    }


def _time_readers(
    data_type: DateType | TimestampType | LocalTimestampType, unit: str | None, policy: Policy
) -> Readers:
    is_day = isinstance(data_type, DateType)
    if unit is None:
        read = compile_day_text(policy) if is_day else compile_instant_text(policy)
        trim = policy.trim
        return {JsonKind.STRING: lambda text: read(text.strip(BLANKS) if trim else text)}
    by_policy = changes_numbers(policy)
    read_us = time_by_policy(policy, unit) if by_policy else lambda text: to_time_us(text, unit)
    read_number = compile_day_of_instant(policy, read_us) if is_day else read_us
    read_text = _number_in_quotes(read_number, trim=policy.trim)
    return {JsonKind.NUMBER: read_number, JsonKind.STRING: read_text}


def _compile_list(convert: Convert) -> Convert:
    def read(value: list[object]) -> object:
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

    def read(value: Mapping[str, object]) -> object:
        return {name: read_field(value) for name, read_field in readers}

    return read


def _compile_key(key_type: DataType) -> Convert:
    match key_type:
        case ListType() | MapType() | StructType() | FloatType() | BinaryType():
            found = format_hive_type(key_type)
            raise ValueError(f"no format carries a map with keys of type {found}")
        case _:
            return compile_value(key_type, None)


def _compile_entries(key_type: DataType, convert: Convert) -> Convert:
    """Reader of a map that came as an array of its entries."""
    convert_key = _compile_key(key_type)

    def read(value: list[object]) -> object:
        entries: dict[object, object] = {}
        for position, one in enumerate(value):
            key, item = map_entry(one) or (None, None)
            if key is None:
                message = "an entry of a map is a key, which is not null, and a value"
                raise DirtyValueError(DirtyReason.WRONG_TYPE, message).under(position)
            try:
                read_key = convert_key(key)
                entries[read_key] = None if item is None else convert(item)
            except DirtyValueError as error:
                raise error.under(position) from None
        if len(entries) != len(value):
            raise DirtyValueError(DirtyReason.DUPLICATE_KEY, "a key of the map came twice")
        return list(entries.items())

    return read


def _compile_map(key_type: DataType, convert: Convert, *, redact: bool) -> Convert:
    convert_key = _compile_key(key_type)

    def read(value: Mapping[str, object]) -> object:
        entries: dict[object, object] = {}
        for name, item in value.items():
            try:
                key = convert_key(name)
                entries[key] = None if item is None else convert(item)
            except DirtyValueError as error:
                raise error.under("*" if redact else name) from None
        if type(value) is JsonObject or len(entries) != len(value):
            raise DirtyValueError(DirtyReason.DUPLICATE_KEY, "a key of the map came twice")
        return list(entries.items())

    return read


def _absent(value: object) -> DirtyValueError:
    if value is None:
        return DirtyValueError(DirtyReason.NULL, "a required field is null")
    return DirtyValueError(DirtyReason.MISSING, "a required field is missing")


def _expected(data_type: DataType, value: object) -> str:
    if isinstance(value, TypedTime):
        return _expected_time(data_type, value)
    if isinstance(data_type, _TIMES) and KINDS.get(type(value)) is JsonKind.NUMBER:
        return "a number is a time only where the column has a `unit`"
    match data_type:
        case IntegerType() | FloatType() | DecimalType():
            return "a number is expected"
        case BooleanType():
            return "true or false is expected, or the word for one"
        case ListType():
            return "an array is expected"
        case MapType():
            return "an object is expected, or an array of keys with their values"
        case StructType():
            return "an object is expected"
        case _:
            as_bytes = isinstance(data_type, BinaryType)
            text = "bytes are expected, or a string where the column has a `format`"
            return text if as_bytes else "a string is expected"


def _expected_time(data_type: DataType, value: TypedTime) -> str:
    match data_type:
        case TimestampType() | LocalTimestampType() if isinstance(value, LocalTime):
            return "it says no offset: the column needs a `timezone`"
        case DateType() if isinstance(value, Instant):
            return "its day is one of a zone: the column needs a `timezone`"
        case StringType() | VarcharType() | CharType():
            return "a time is text only where the column has `on_lossy: text`"
        case _ if isinstance(data_type, _TIMES):
            return "it is another kind of time"
        case _:
            return f"a time is no {kind_of_type(data_type).value}"
