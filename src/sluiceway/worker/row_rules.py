"""What the rows of a table are made of, as values: no Arrow here, checks of job files read it."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sluiceway.types.schema import Field


@dataclass(frozen=True, slots=True)
class RowColumn:
    """A column of the rows and where its values come from: the payload, if nothing else is said.

    Attributes:
        field: Name, type, and the place in the payload.
        constant: JSON of the one value that all rows have.
        default: JSON of the value that stands for a missing one.
        expression: What it is computed from.
        written: False for a column that is only there for others to be made from.
        salt: Secret that the expression hashes with; never shown.
    """

    field: Field
    constant: str | None = None
    default: str | None = None
    expression: str | None = None
    written: bool = True
    salt: str | None = dataclasses.field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class RowChoices:
    """Which columns and rows are made of decoded rows.

    Attributes:
        columns: All columns in their order; none means the payload's as they are.
        where: Condition that a row has to meet to be written.
    """

    columns: tuple[RowColumn, ...] = ()
    where: str | None = None


NO_CHOICES = RowChoices()
"""Rows are as the payload has them."""

VALUE_COLUMN = "_route_by"
VALUE_IN_NAME = "{value}"
REST = "unrouted"
"""Stands for the value in the name of the table that no row goes to: its ledger has the values."""


def payload_fields(columns: Sequence[RowColumn]) -> tuple[Field, ...]:
    """The columns that are decoded; a default takes the place of a null, which is no fault then."""
    return tuple(
        replace(column.field, required=column.field.required and column.default is None)
        for column in columns
        if column.expression is None and column.constant is None
    )
