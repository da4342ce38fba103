"""Compiled expressions: from a text and a schema to values of batches."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from sluiceway.expressions.masks import desugared
from sluiceway.expressions.steps import REASONS, Codes, Evaluated, Step, evaluate
from sluiceway.expressions.syntax import parse_expression
from sluiceway.expressions.tree import ExpressionError
from sluiceway.expressions.type_check import check_types
from sluiceway.expressions.widening import widened
from sluiceway.types.dirty import MESSAGE_LIMIT_CHARS, DirtyReason, DirtyRow
from sluiceway.types.schema import BooleanType, DataType, Schema

__all__ = [
    "Codes",
    "Evaluated",
    "Expression",
    "compile_condition",
    "compile_expression",
    "dirty_row",
]

_MEANINGS: dict[DirtyReason, str] = {
    DirtyReason.OVERFLOW: "a number has too many digits for its type",
    DirtyReason.SCALE: "a number has places that its type has not",
    DirtyReason.NOT_INTEGRAL: "a number that should be whole is not",
    DirtyReason.BAD_TEXT: "a text is no value of the type that it is cast to",
    DirtyReason.BAD_TIME: "a text or time is outside of the calendar, or is no time",
}


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was checked against a schema. Used by one thread.

    Attributes:
        text: As written.
        type: Type of its values.
    """

    text: str
    type: DataType
    step: Step

    def evaluate(
        self, batch: pa.RecordBatch, failures: Mapping[int, Codes] | None = None
    ) -> Evaluated:
        """Values for all rows of a batch.

        Called once a batch.

        Args:
            batch: Batch with the columns of the checked schema, in their order.
            failures: By column: a code per row, 0 where the value is valid.

        Returns:
            An array of `type`, and which rows have no exact value and why.
        """
        found = evaluate(self.step, batch, failures or {})
        if isinstance(found.value, pa.Scalar):
            return Evaluated(pa.repeat(found.value, batch.num_rows), found.failed)
        if found.failed is None or not found.failed.any():
            return Evaluated(found.value)
        return found


def dirty_row(index: int, code: int, path: str) -> DirtyRow:
    """The dirty row of a row without an exact value. Called for dirty rows only.

    Args:
        index: Position of the row.
        code: Its entry in `Evaluated.failed`, not 0.
        path: Name of the column, or `where`.
    """
    reason = REASONS[code] or DirtyReason.BAD_TEXT
    message = f"the expression has no exact value: {_MEANINGS[reason]}"
    return DirtyRow(index, "convert", reason, path, message[:MESSAGE_LIMIT_CHARS])


def compile_expression(
    text: str, schema: Schema, expected: DataType | None = None, *, salt: str | None = None
) -> Expression:
    """Parse an expression and check it against a schema.

    Called on the driver for checks, and in each task once per expression.

    Args:
        text: The expression.
        schema: Columns that it may refer to: those of the batches, in their order.
        expected: Required type of its values; None takes the expression's own.
        salt: What `sha256` hashes before a text; no error shows it.

    Raises:
        ExpressionError: The text is no expression, or its types do not fit; says where.
    """
    node = desugared(parse_expression(text), salt)
    step = check_types(node, schema)
    if expected is not None:
        step = widened(step, expected, node.at)
    if step.type is None:
        raise ExpressionError("expected a value with a type, got null", node.at)
    return Expression(text, step.type, step)


def compile_condition(text: str, schema: Schema) -> Expression:
    """Parse a condition: an expression that is true or not. As `compile_expression`."""
    return compile_expression(text, schema, BooleanType())
