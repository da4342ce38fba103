"""Three-valued logic and choices between values, as kernels."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.expressions.steps import (
    Evaluated,
    Kernel,
    either,
    failures_of,
    first_failures,
    flags,
)


def all_true(rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """AND, left to right: failures after a false do not count."""
    value, failed = operands[0].value, operands[0].failed
    for operand in operands[1:]:
        if operand.failed is not None:
            undecided = ~flags(pc.invert(value), rows=rows)
            failed = either(failed, failures_of(operand, undecided))
        value = pc.and_kleene(value, operand.value)
    return Evaluated(value, failed)


def any_true(rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """OR, left to right: failures after a true do not count."""
    value, failed = operands[0].value, operands[0].failed
    for operand in operands[1:]:
        if operand.failed is not None:
            undecided = ~flags(value, rows=rows)
            failed = either(failed, failures_of(operand, undecided))
        value = pc.or_kleene(value, operand.value)
    return Evaluated(value, failed)


def any_equal(kernels: Sequence[Kernel], rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """IN: the first operand equals one of the others. A kernel once `kernels` is given.

    Args:
        kernels: Compare the first operand with each of the others.
        rows: Number of rows of the batch.
        operands: The value, then the values that it is compared with.
    """
    first, *others = operands
    value = pa.scalar(False)  # noqa: FBT003
    for kernel, other in zip(kernels, others, strict=True):
        value = pc.or_kleene(value, kernel(rows, (first, other)).value)
    return Evaluated(value, first_failures(operands))


def between(kernels: Sequence[Kernel], rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """BETWEEN: both comparisons with the first operand hold. A kernel once `kernels` is given."""
    first, *others = operands
    value = pa.scalar(True)  # noqa: FBT003
    for kernel, other in zip(kernels, others, strict=True):
        value = pc.and_kleene(value, kernel(rows, (first, other)).value)
    return Evaluated(value, first_failures(operands))


def first_not_null(rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """COALESCE: failures after a value do not count."""
    value, failed = operands[0].value, operands[0].failed
    for operand in operands[1:]:
        if operand.failed is not None:
            missing = flags(pc.is_null(value), rows=rows)
            failed = either(failed, failures_of(operand, missing))
        value = pc.coalesce(value, operand.value)
    return Evaluated(value, failed)


def choose(rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """IF: the second operand where the first is true, else the third."""
    condition, then, other = operands
    taken = flags(condition.value, rows=rows)
    chosen = either(failures_of(then, taken), failures_of(other, ~taken))
    value = pc.if_else(pa.array(taken), then.value, other.value)
    return Evaluated(value, either(condition.failed, chosen))
