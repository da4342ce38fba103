"""Masks of personal values: hashes with a secret salt, texts of which little is shown."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.expressions.steps import Evaluated
from sluiceway.expressions.tree import (
    Call,
    Cast,
    Column,
    ExpressionError,
    Like,
    Literal,
    Node,
    Operator,
)

SALT = "salt"
"""How an expression names the secret that stands next to it in the job file."""

_COVER = "*"
_PAIR = 2


def desugared(node: Node, salt: str | None) -> Node:
    """A tree with the salt where it is named, and `null_if` as what it means.

    Called once per expression. The tree's depth is bounded by the parser.

    Args:
        node: As parsed.
        salt: Salt of the column; None without one.

    Raises:
        ExpressionError: A hash has no salt, or the salt is written out.
    """
    match node:
        case Call(name="sha256") if len(node.arguments) == _PAIR:
            value, named = node.arguments
            return replace(node, arguments=(desugared(value, salt), _salt(named, salt)))
        case Call(at=at, name="null_if") if len(node.arguments) == _PAIR:
            value, other = (desugared(each, salt) for each in node.arguments)
            same = Operator(at, "=", (value, other))
            return Call(at, "if", (same, Literal(at, None), value))
        case Call():
            return replace(node, arguments=_all(node.arguments, salt))
        case Operator():
            return replace(node, operands=_all(node.operands, salt))
        case Like() | Cast():
            return replace(node, operand=desugared(node.operand, salt))
        case _:
            return node


def _all(nodes: Sequence[Node], salt: str | None) -> tuple[Node, ...]:
    return tuple(desugared(each, salt) for each in nodes)


def _salt(node: Node, salt: str | None) -> Node:
    if not isinstance(node, Column) or tuple(map(str.lower, node.path)) != (SALT,):
        text = "sha256 takes `salt` as argument 2: a secret is never written into an expression"
        raise ExpressionError(text, node.at)
    if not salt:
        text = "sha256 needs the key `salt` next to the expression, as `salt: ${env:NAME}`"
        raise ExpressionError(text, node.at)
    return Literal(node.at, salt)


def hash_text(salt: str, rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """SHA-256 of the salt and the text after it, as 64 hex digits. A kernel once it has a salt."""
    del rows
    coded = operands[0].value.dictionary_encode()
    begun = hashlib.sha256(salt.encode())
    found = []
    for text in coded.dictionary.to_pylist():
        each = begun.copy()
        each.update(text.encode())
        found.append(each.hexdigest())
    return Evaluated(pa.array(found, pa.string()).take(coded.indices), operands[0].failed)


def cover_text(keep: int, rows: int, operands: Sequence[Evaluated]) -> Evaluated:
    """`*` for each character but the last ones. A kernel once `keep` is given."""
    del rows
    texts: Any = operands[0].value
    lengths = pc.utf8_length(texts).cast(pa.int64())
    # A text that would be shown whole is covered whole.
    long_enough = pc.greater(lengths, keep)
    covered = pc.if_else(long_enough, pc.subtract(lengths, keep), lengths)
    stars = pc.binary_repeat(pa.scalar(_COVER), covered)
    shown = pc.utf8_slice_codeunits(texts, -keep) if keep else pa.array([""] * len(texts))
    shown = pc.if_else(long_enough, shown, "")
    return Evaluated(pc.binary_join_element_wise(stars, shown, ""), operands[0].failed)
