"""Column types as values; no I/O, no Arrow."""

from dataclasses import dataclass


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
class BinaryType:
    """Bytes."""


@dataclass(frozen=True, slots=True)
class DateType:
    """Day of the proleptic Gregorian calendar."""


@dataclass(frozen=True, slots=True)
class TimestampType:
    """Instant in microseconds since 1970-01-01T00:00:00 UTC."""


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
        name: As in the table.
        type: Its type.
        required: A null or missing value makes the row dirty.
        path: Keys from the payload's top to the value; empty means `(name,)`. Only top-level
            columns have one.
        time_unit: For a timestamp read from a number: `s`, `ms`, `us` or `ns` since the epoch.
            None: numbers are refused, ISO 8601 text with an explicit offset or `Z` is read.
    """

    name: str
    type: "DataType"
    required: bool = False
    path: tuple[str, ...] = ()
    time_unit: str | None = None


DataType = (
    BooleanType
    | IntegerType
    | FloatType
    | DecimalType
    | StringType
    | BinaryType
    | DateType
    | TimestampType
    | ListType
    | MapType
    | StructType
)


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns of a table in order, without its partition columns."""

    fields: tuple[Field, ...]
