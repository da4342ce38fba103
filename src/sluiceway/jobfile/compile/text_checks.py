"""Checks of expressions and plain values, by the workers' own readers.

Apart from `config/choices.py`, which imports this only when needed: it loads Arrow.
"""

import json
from collections.abc import Callable, Set
from functools import partial

from sluiceway.expressions.evaluate import compile_condition, compile_expression
from sluiceway.expressions.syntax import parse_expression
from sluiceway.expressions.tree import Column, ExpressionError, Node, children
from sluiceway.types.schema import Field, FloatType, Schema
from sluiceway.worker.row_choices import read_plain_value
from sluiceway.worker.row_rules import RowColumn


def expression_problem(column: RowColumn, payload: Schema, unread: Set[str] | None) -> str | None:
    """Why a column's text is no expression of its type; None when it is.

    Args:
        column: With an expression.
        payload: Columns that it may refer to.
        unread: Names, in lower case, of further columns with unknown types: only the syntax of an
            expression with one of them is checked. None when not all names are known.
    """
    text = column.expression or ""
    compiled = partial(compile_expression, text, payload, column.field.type, salt=column.salt)
    return _why_not(partial(_check, text, unread, compiled))


def condition_problem(text: str, columns: Schema, unread: Set[str] | None) -> str | None:
    """Why a text is no condition over columns; None when it is. Args as `expression_problem`."""
    return _why_not(partial(_check, text, unread, partial(compile_condition, text, columns)))


def syntax_problem(text: str) -> str | None:
    """Why a text is no expression, whatever the columns are; None when it is."""
    return _why_not(partial(parse_expression, text))


def value_problem(field: Field, value: object) -> str | None:
    """Why a constant or default does not fit its column; None when it does."""
    if isinstance(value, float) and not isinstance(field.type, FloatType):
        # The reader of the job file has it as a float; the digits that were written are gone.
        return "put the number into quotes, so that it stays exact"
    return _why_not(partial(read_plain_value, field, json.dumps(value)))


def _why_not(check: Callable[[], object]) -> str | None:
    try:
        check()
    except (ExpressionError, ValueError) as error:
        return str(error)
    return None


def _check(text: str, unread: Set[str] | None, check: Callable[[], object]) -> None:
    tree = parse_expression(text)
    if unread is not None and not _names(tree) & unread:
        check()


def _names(root: Node) -> set[str]:
    """Columns that an expression refers to, in lower case."""
    waiting, names = [root], set[str]()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Column):
            names.add(node.path[0].lower())
        waiting.extend(children(node))
    return names
