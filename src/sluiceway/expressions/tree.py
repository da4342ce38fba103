"""Parsed nodes, which know their positions and not yet their types, and the error of a text."""

from dataclasses import dataclass
from decimal import Decimal

from sluiceway.errors import JobFileError
from sluiceway.types.schema import DataType


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal value; None is null."""

    at: int
    value: int | Decimal | str | bool | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field in a struct column."""

    at: int
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator over its operands, left to right.

    Attributes:
        name: `and`, `or` (two operands and more), `not`, `negate`, `is null`, `between`, `in` (the
            value, then the values that it is compared with), `+`, `-`, `*` or a comparison.
    """

    at: int
    name: str
    operands: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Like:
    """A text against a pattern with % and _."""

    at: int
    operand: "Node"
    pattern: str


@dataclass(frozen=True, slots=True)
class Cast:
    """An exact conversion to a plain type."""

    at: int
    operand: "Node"
    type: DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A function by its name in lower case."""

    at: int
    name: str
    arguments: "tuple[Node, ...]"


Node = Literal | Column | Operator | Like | Cast | Call


def children(node: Node) -> "tuple[Node, ...]":
    """Nodes right below `node`."""
    match node:
        case Operator():
            return node.operands
        case Call():
            return node.arguments
        case Like() | Cast():
            return (node.operand,)
        case _:
            return ()


class ExpressionError(JobFileError):
    """The text is not an expression of this language, or its types do not fit.

    Args:
        message: What was expected and what came.
        at: Position in the text, from 0.
    """

    def __init__(self, message: str, at: int) -> None:
        super().__init__(f"character {at + 1}: {message}")
        self.reason = message
        self.at = at

    def __reduce__(self) -> tuple[object, ...]:
        return (ExpressionError, (self.reason, self.at))
