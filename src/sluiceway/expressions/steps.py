"""A checked expression as steps, and their evaluation over a batch.

A step yields a value and a failure per row. A failure is a reason why there is no exact value. It
is kept in a separate array, so that a failure in a branch that is not taken has no effect.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.types.arrow_types import arrow_type
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.schema import DataType

Codes = npt.NDArray[np.uint8]
"""One code per row: 0, or the position of its reason in `REASONS`."""

REASONS: tuple[DirtyReason | None, ...] = (
    None,
    DirtyReason.OVERFLOW,
    DirtyReason.SCALE,
    DirtyReason.NOT_INTEGRAL,
    DirtyReason.BAD_TEXT,
    DirtyReason.BAD_TIME,
)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Values of a batch.

    Attributes:
        value: One value per row; a scalar stands for equal values in all rows.
        failed: Reasons of rows without an exact value, whose `value` has no meaning; None when
            there are none.
    """

    value: Any
    failed: Codes | None = None


Kernel = Callable[[int, Sequence[Evaluated]], Evaluated]
"""(rows, operands) -> values. At least one operand has an array."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant; `type` is None for a null of no type yet."""

    type: DataType | None
    value: Any
    failure: int = 0


@dataclass(frozen=True, slots=True)
class ColumnStep:
    """A column of the batch, or a field in a struct column."""

    type: DataType
    index: int
    inner: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """A kernel over operands."""

    type: DataType
    kernel: Kernel
    operands: "tuple[Step, ...]"


Step = Constant | ColumnStep | Operation


def evaluate(step: Step, batch: pa.RecordBatch, failures: Mapping[int, Codes]) -> Evaluated:
    """Values of a step for all rows of a batch.

    Called once a batch and expression.

    Args:
        step: Checked against the batch's schema.
        batch: The rows.
        failures: By column: rows whose values could not be evaluated.
    """
    match step:
        case Constant(_, value, 0):
            return Evaluated(value)
        case Constant(_, value, failure):
            rows = batch.num_rows
            return Evaluated(pa.nulls(rows, value.type), np.full(rows, failure, np.uint8))
        case ColumnStep(_, index, inner):
            column = batch.column(index)
            for name in inner:
                column = pc.struct_field(column, name)
            return Evaluated(column, failures.get(index))
        case Operation(_, kernel, operands):
            inputs = [evaluate(operand, batch, failures) for operand in operands]
            return kernel(batch.num_rows, inputs)


def operation(data_type: DataType, kernel: Kernel, *operands: Step) -> Step:
    """A step over others; evaluated at once when no operand depends on the row."""
    step = Operation(data_type, kernel, operands)
    if not all(isinstance(operand, Constant) for operand in operands):
        return step
    inputs = [_as_row(operand) for operand in operands if isinstance(operand, Constant)]
    found = kernel(1, inputs)
    failure = 0 if found.failed is None else int(found.failed[0])
    value = pa.scalar(None, arrow_type(data_type)) if failure else found.value[0]
    return Constant(data_type, value, failure)


def _as_row(constant: Constant) -> Evaluated:
    row = pa.array([constant.value.as_py()], constant.value.type)
    return Evaluated(row, np.array([constant.failure], np.uint8) if constant.failure else None)


def first_failures(operands: Sequence[Evaluated]) -> Codes | None:
    """Per row, the failure of the first operand that has one."""
    failed: Codes | None = None
    for operand in operands:
        failed = either(failed, operand.failed)
    return failed


def either(first: Codes | None, second: Codes | None) -> Codes | None:
    """Per row, the first failure, else the second."""
    if first is None or second is None:
        return second if first is None else first
    return np.where(first != 0, first, second)


def failures_where(mask: pa.Array, reason: DirtyReason) -> Codes | None:
    """`reason` where `mask` is true; None when it is nowhere."""
    if not pc.any(mask).as_py():
        return None
    return flags(mask, rows=len(mask)).astype(np.uint8) * np.uint8(REASONS.index(reason))


def failures_of(operand: Evaluated, mask: npt.NDArray[np.bool_]) -> Codes | None:
    """An operand's failures in the rows that `mask` names."""
    if operand.failed is None:
        return None
    failed: Codes = np.where(mask, operand.failed, np.uint8(0))
    return failed if failed.any() else None


def flags(booleans: Any, *, rows: int) -> npt.NDArray[np.bool_]:
    """Where a boolean value is true; null is not."""
    if isinstance(booleans, pa.Scalar):
        return np.full(rows, booleans.as_py() is True)
    found: npt.NDArray[np.bool_] = booleans.fill_null(False).to_numpy(  # noqa: FBT003
        zero_copy_only=False
    )
    return found


def per_row(function: Callable[..., Any]) -> Kernel:
    """A kernel from an Arrow function that has an exact value for all values and nulls."""

    def kernel(rows: int, operands: Sequence[Evaluated]) -> Evaluated:
        del rows
        return Evaluated(
            function(*(operand.value for operand in operands)), first_failures(operands)
        )

    return kernel
