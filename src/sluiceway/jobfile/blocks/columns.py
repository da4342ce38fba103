"""Columns that a job file declares, or changes where a schema gives them, as frozen values."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.values import (
    ColumnName,
    DottedPath,
    ExpressionText,
    Line,
    LossyRule,
    Option,
    PlainValue,
    TimeZone,
    TypeText,
)

TimeUnit = Literal["s", "ms", "us", "ns"]


class ColumnRules(Block):
    """How the values of a column are read, wherever its name and place come from.

    Attributes:
        required: A null or missing value makes the row dirty.
        unit: Unit of a timestamp that is a number; None for texts.
        default: What stands for a missing or null value; None leaves null.
        transient: Is there for expressions, `where`, event time and partitions; not in the table.
        on_overflow: What happens to numbers beyond the type.
        on_lossy: What happens to values that the type has no room for in full.
        non_finite: What happens to NaN and infinities.
        on_impossible_time: What happens to times that no calendar has.
        on_bad_text: What happens to characters that no text holds.
        trim: Blanks around the text of a number or time are no fault.
        format: How times and bytes are written; None goes by the type.
        timezone: Zone of times without an offset, and of days of instants; None allows neither.
        redact: Messages about dirty rows show no value of the column.
    """

    NULL_WORDS = frozenset({"on_overflow", "on_lossy", "non_finite", "on_impossible_time"})
    required: bool = False
    unit: TimeUnit | None = None
    default: PlainValue | None = None
    transient: bool = False
    on_overflow: Literal["dirty", "null", "clamp"] = "dirty"
    on_lossy: LossyRule = "dirty"
    non_finite: Literal["dirty", "null", "keep"] = "dirty"
    on_impossible_time: Literal["dirty", "null"] = "dirty"
    on_bad_text: Literal["dirty", "replace"] = "dirty"
    trim: bool = False
    format: Line | None = None
    timezone: TimeZone | None = None
    redact: bool = False


class ColumnSpec(ColumnRules):
    """A declared column.

    Attributes:
        name: Name of the column in the table.
        type: Hive type of the column, for example `decimal(18,2)`.
        path: Dotted keys to the value in the payload; None is the name of the column.
        constant: One value for all rows; None reads the payload.
        expression: Expression that computes the value; None reads the payload.
        salt: Secret that `sha256(a, salt)` in the expression hashes with, as `${env:NAME}`; None
            allows no such call.
    """

    name: ColumnName
    type: TypeText
    path: DottedPath | None = None
    constant: PlainValue | None = None
    expression: ExpressionText | None = None
    salt: Option | None = None


class FieldOverride(ColumnRules):
    """Differences of a column from its schema's field.

    Attributes:
        name: Name of the column in the table; None is the name of the field.
        type: Hive type as text; None is what the schema says.
    """

    name: ColumnName | None = None
    type: TypeText | None = None

    def column(self, field: str, type_text: str) -> ColumnSpec:
        """The column of a field, with these differences.

        Args:
            field: The field's name, which a column can have unless `name` is given.
            type_text: The schema's type; the job file's type goes first.
        """
        rules = {name: getattr(self, name) for name in ColumnRules.model_fields}
        name = self.name or field
        path = None if name == field else field
        return ColumnSpec(name=name, type=self.type or type_text, path=path, **rules)


class SubjectColumns(Block):
    """Differences of the table's columns from the fields of a registry's schema.

    Attributes:
        left_out: Fields that become no column.
        override: Field name -> what differs in its column.
        add: Columns after those of the fields.
    """

    left_out: tuple[Line, ...] = Field(default=(), alias="except")
    override: Mapping[Line, FieldOverride] = Field(default_factory=dict)
    add: tuple[ColumnSpec, ...] = ()


class ColumnsFrom(Block):
    """The source of the columns, with the differences from it."""

    from_registry: SubjectColumns
