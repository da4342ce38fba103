"""Column types as values; no I/O, no Arrow."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sluiceway.types.policy import NO_POLICY, Policy


@dataclass(frozen=True, slots=True)
class BooleanType:
    """true or false."""


@dataclass(frozen=True, slots=True)
class IntegerType:
    """Signed integer of 8, 16, 32 or 64 bits."""

    bits: int


@dataclass(frozen=True, slots=True)
class FloatType:
    """IEEE 754 number of 32 or 64 bits."""

    bits: int


@dataclass(frozen=True, slots=True)
class DecimalType:
    """Exact number of at most `precision` (1..38) digits, `scale` of them after the point."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class StringType:
    """Unicode text."""


@dataclass(frozen=True, slots=True)
class VarcharType:
    """Unicode text of at most `length` (1..65535) characters."""

    length: int


@dataclass(frozen=True, slots=True)
class CharType:
    """Unicode text of `length` (1..255) characters; shorter ones are read as padded with blanks.

    Values are held without blanks at their end, as Hive's files do.
    """

    length: int


@dataclass(frozen=True, slots=True)
class BinaryType:
    """Bytes."""


@dataclass(frozen=True, slots=True)
class DateType:
    """Day of the proleptic Gregorian calendar."""


@dataclass(frozen=True, slots=True)
class TimestampType:
    """Instant in microseconds since 1970-01-01T00:00:00 UTC."""


@dataclass(frozen=True, slots=True)
class LocalTimestampType:
    """The same instant as `TimestampType`, which readers show in their own zone."""


@dataclass(frozen=True, slots=True)
class ListType:
    """Ordered values of one type; each may be null."""

    element: "DataType"


@dataclass(frozen=True, slots=True)
class MapType:
    """Key-value pairs; keys are never null, values may be."""

    key: "DataType"
    value: "DataType"


@dataclass(frozen=True, slots=True)
class StructType:
    """Named fields in order."""

    fields: tuple["Field", ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A column or a field of a struct.

    Attributes:
        name: Name as in the table.
        type: Its type.
        required: A null or missing value makes the row dirty.
        path: Keys from the payload's top to the value; empty means `(name,)`. Only top-level
            columns have one.
        time_unit: For a timestamp read from a number: `s`, `ms`, `us` or `ns` since the epoch.
            None: numbers are refused, ISO 8601 text with an explicit offset or `Z` is read.
        policy: What happens to values that do not fit, here and in all values inside.
    """

    name: str
    type: "DataType"
    required: bool = False
    path: tuple[str, ...] = ()
    time_unit: str | None = None
    policy: Policy = NO_POLICY


def inner_settings(field: "Field") -> "Field":
    """Hand a column's unit and policy on to the structs' fields inside that have none.

    Called where a decoder is made; doing it again changes nothing.

    Args:
        field: A column or a field of a struct.
    """
    return replace(field, type=_handed_on(field.type, field))


def leaves(data_type: "DataType", policy: Policy) -> Iterator[tuple["DataType", Policy]]:
    """The plain types inside a type, or itself, each with the policy that holds for it.

    Called where columns are checked and decoders made; keys of maps are not among them.

    Args:
        data_type: Type of a column or field.
        policy: Policy of that column or field.
    """
    match data_type:
        case ListType(element):
            yield from leaves(element, policy)
        case MapType(_, value):
            yield from leaves(value, policy)
        case StructType(fields):
            for field in fields:
                own = policy if field.policy == NO_POLICY else field.policy
                yield from leaves(field.type, own)
        case _:
            yield data_type, policy


def _handed_on(data_type: "DataType", holder: "Field") -> "DataType":
    match data_type:
        case ListType(element):
            return ListType(_handed_on(element, holder))
        case MapType(key, value):
            return MapType(key, _handed_on(value, holder))
        case StructType(fields):
            return StructType(
                tuple(
                    inner_settings(
                        replace(
                            field,
                            time_unit=field.time_unit or holder.time_unit,
                            policy=holder.policy if field.policy == NO_POLICY else field.policy,
                        )
                    )
                    for field in fields
                )
            )
        case _:
            return data_type


DataType = (
    BooleanType
    | IntegerType
    | FloatType
    | DecimalType
    | StringType
    | VarcharType
    | CharType
    | BinaryType
    | DateType
    | TimestampType
    | LocalTimestampType
    | ListType
    | MapType
    | StructType
)


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns of a table in order, without its partition columns."""

    fields: tuple[Field, ...]
