"""Column types from values of JSON: of one value, and in common for several values."""

import re
from collections.abc import Iterable

from sluiceway.convert.json_values import NonFiniteText, NumberText
from sluiceway.types.hive_types import MAX_PRECISION
from sluiceway.types.schema import (
    BinaryType,
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

_INTEGER = re.compile(r"-?\d+")
_NAME = re.compile(r"[A-Za-z_]\w{0,127}", re.ASCII)
_BIGINT = range(-(2**63), 2**63)
_BIG = DecimalType(MAX_PRECISION, 0)
_LONG = DecimalType(19, 0)
"""Digits of all whole numbers of 64 bits."""
_NUMBER = IntegerType | DecimalType | FloatType


class UntypedError(ValueError):
    """Values have no common type, or a type that no column has; holds the reason."""


def is_field_name(key: str) -> bool:
    """Whether a key can be the name of a column or of a field of a struct."""
    return _NAME.fullmatch(key) is not None


def type_of(value: object) -> DataType | None:
    """The narrowest type of a value, for columns to add or propose; numbers as `NumberText`.

    Args:
        value: A JSON value.

    Returns:
        None when the value shows no type: null, an empty list or object, or one of nulls.

    Raises:
        UntypedError: No column type fits.
    """
    match value:
        case None:
            return None
        case bool():
            return BooleanType()
        case NumberText():
            return _number_type(value)
        case NonFiniteText():
            raise UntypedError("NaN or an infinity is no JSON")
        case str():
            return StringType()
        case list():
            element = common_type(type_of(item) for item in value)
            return None if element is None else ListType(element)
        case dict():
            return _struct_type(value)
        case _:
            raise UntypedError(f"a {type(value).__name__} is no value of JSON")


def common_type(found: Iterable[DataType | None]) -> DataType | None:
    """The narrowest type that accepts values of all these types; None when all are None.

    Raises:
        UntypedError: There is none.
    """
    common: DataType | None = None
    for each in found:
        common = each if common is None else common if each is None else _merged(common, each)
    return common


def _number_type(text: str) -> DataType:
    if not _INTEGER.fullmatch(text):
        return FloatType(64)
    if len(text) <= MAX_PRECISION and int(text) in _BIGINT:
        return IntegerType(64)
    if len(text.lstrip("-")) <= MAX_PRECISION:
        return _BIG
    raise UntypedError(f"a number of more than {MAX_PRECISION} digits")


def _struct_type(value: dict[str, object]) -> StructType | None:
    fields, names = [], set[str]()
    for key, inner in value.items():
        found = type_of(inner)
        if found is None:
            continue
        if not is_field_name(key):
            raise UntypedError(f"the key {key[:40]!a} is no name of a field")
        if key.lower() in names:
            raise UntypedError(f"the key {key!a} comes in two spellings")
        names.add(key.lower())
        fields.append(Field(key, found))
    return StructType(tuple(fields)) if fields else None


def _merged(one: DataType, other: DataType) -> DataType:
    if one == other:
        return one
    if isinstance(one, ListType) and isinstance(other, ListType):
        return ListType(_merged(one.element, other.element))
    if isinstance(one, StructType) and isinstance(other, StructType):
        return _merged_structs(one.fields, other.fields)
    if isinstance(one, MapType) and isinstance(other, MapType) and one.key == other.key:
        return MapType(one.key, _merged(one.value, other.value))
    if isinstance(one, _NUMBER) and isinstance(other, _NUMBER):
        return _merged_numbers(one, other)
    raise UntypedError(f"values are {_kind(one)} and {_kind(other)}")


def _merged_numbers(one: DataType, other: DataType) -> DataType:
    """A type for the values of both, as far as a decimal has room for the digits of both."""
    if isinstance(one, FloatType) or isinstance(other, FloatType):
        return FloatType(64)
    both = [each if isinstance(each, DecimalType) else _LONG for each in (one, other)]
    scale = max(each.scale for each in both)
    whole = max(each.precision - each.scale for each in both)
    return DecimalType(min(whole + scale, MAX_PRECISION), scale)


def _merged_structs(one: tuple[Field, ...], other: tuple[Field, ...]) -> StructType:
    fields = {field.name: field for field in one}
    spelt = {name.lower(): name for name in fields}
    for field in other:
        known = spelt.setdefault(field.name.lower(), field.name)
        if known != field.name:
            raise UntypedError(f"the key {field.name!a} comes in two spellings")
        held = fields.get(field.name)
        merged = field.type if held is None else _merged(held.type, field.type)
        fields[field.name] = Field(field.name, merged)
    return StructType(tuple(fields.values()))


def _kind(of: DataType) -> str:
    match of:
        case StructType() | MapType():
            return "objects"
        case ListType():
            return "arrays"
        case StringType():
            return "strings"
        case BooleanType():
            return "booleans"
        case DateType():
            return "days"
        case TimestampType():
            return "times"
        case BinaryType():
            return "bytes"
        case _:
            return "numbers"
