"""A declared column as a frozen value."""

from typing import Literal

from sluiceway.spec.block import Block
from sluiceway.spec.values import (
    ColumnName,
    DottedPath,
    ExpressionText,
    Line,
    LossyRule,
    PlainValue,
    TimeZone,
    TypeText,
)

TimeUnit = Literal["s", "ms", "us", "ns"]


class ColumnSpec(Block):
    """A declared column.

    Attributes:
        name: In the table.
        type: Hive type as text; parsed where the table's types are known.
        path: Dotted keys to the value; None means the name.
        required: A null or missing value makes the row dirty.
        unit: For a timestamp read from a number.
        constant: The one value of all rows.
        default: What stands for a missing or null value.
        expression: What it is computed from, instead of being in the payload.
        transient: Is there for expressions, `where`, event time and partitions; not in the table.
        on_overflow: What happens to numbers beyond the type.
        on_lossy: What happens to values that the type has no room for in full.
        non_finite: What happens to NaN and infinities.
        on_bad_text: What happens to characters that no text holds.
        trim: Blanks around the text of a number or time are no fault.
        format: How times and bytes are written.
        timezone: Zone of times without an offset, and of days of instants.
        redact: Messages about dirty rows show no value of the column.
    """

    NULL_WORDS = frozenset({"on_overflow", "on_lossy", "non_finite"})
    name: ColumnName
    type: TypeText
    path: DottedPath | None = None
    required: bool = False
    unit: TimeUnit | None = None
    constant: PlainValue | None = None
    default: PlainValue | None = None
    expression: ExpressionText | None = None
    transient: bool = False
    on_overflow: Literal["dirty", "null", "clamp"] = "dirty"
    on_lossy: LossyRule = "dirty"
    non_finite: Literal["dirty", "null", "keep"] = "dirty"
    on_bad_text: Literal["dirty", "replace"] = "dirty"
    trim: bool = False
    format: Line | None = None
    timezone: TimeZone | None = None
    redact: bool = False
