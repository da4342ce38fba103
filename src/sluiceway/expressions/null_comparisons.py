"""Comparisons with a written null, which are null in SQL: no row ever passes them."""

from collections.abc import Iterator

from sluiceway.expressions.syntax import parse_expression
from sluiceway.expressions.tree import Column, Literal, Node, Operator, children

_COMPARED = frozenset(["=", "!=", "<>", "<", "<=", ">", ">=", "between", "in"])
_INSTEAD = {"=": "IS NULL", "!=": "IS NOT NULL", "<>": "IS NOT NULL"}


def comparisons_with_null(text: str) -> tuple[str, ...]:
    """One text for each: what is wrong, and what to write; empty for most expressions.

    Args:
        text: A valid expression.
    """
    return tuple(_found(parse_expression(text)))


def _found(root: Node) -> Iterator[str]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting.extend(reversed(children(node)))
        if not isinstance(node, Operator) or node.name not in _COMPARED:
            continue
        nulls = [isinstance(each, Literal) and each.value is None for each in node.operands]
        if any(nulls):
            others = (each for each, null in zip(node.operands, nulls, strict=True) if not null)
            yield _null_hint(node.name, next(others, None))


def _null_hint(name: str, other: Node | None) -> str:
    what = ".".join(other.path) if isinstance(other, Column) else "the value"
    if name == "in":
        return f"`{what} IN (..., null)` is never false, and `NOT IN` never true: take null out"
    word = {"!=": "<>"}.get(name, name.upper())
    shown = f"`{what} {word} null`" if name != "between" else f"`{what} BETWEEN` a null"
    instead = _INSTEAD.get(name)
    todo = f"write `{what} {instead}`" if instead else "compare with a value"
    return f"{shown} is null for every row, never true: {todo}"
