"""Tokens -> tree: a parser by binding powers, bounded in depth and size."""

from decimal import Decimal

from sluiceway.expressions.tokens import Token, tokenize
from sluiceway.expressions.tree import (
    Call,
    Cast,
    Column,
    ExpressionError,
    Like,
    Literal,
    Node,
    Operator,
    children,
)
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import DataType

MAX_DEPTH = 50
MAX_NODES = 200
_MAX_DIGITS = 38

_OR, _AND, _NOT, _COMPARE, _CONCAT, _ADD, _MULTIPLY, _NEGATE = range(1, 9)
_COMPARISONS = frozenset(["=", "!=", "<", "<=", ">", ">=", "is", "in", "between", "like", "not"])
_POWERS: dict[str, int] = {
    "or": _OR,
    "and": _AND,
    **dict.fromkeys(_COMPARISONS, _COMPARE),
    "||": _CONCAT,
    "+": _ADD,
    "-": _ADD,
    "*": _MULTIPLY,
}


def parse_expression(text: str) -> Node:
    """Parse an expression.

    Called once per expression, on the driver for checks and in each task.

    Args:
        text: Text of at most 4 KiB in UTF-8.

    Returns:
        A tree of at most 200 nodes and 50 levels.

    Raises:
        ExpressionError: The text is no expression, or it is too large; says where.
    """
    parser = _Parser(tokenize(text))
    node = parser.expression(0)
    parser.expect_end()
    _check_size(node)
    return node


def _check_size(root: Node) -> None:
    # Without recursion: a long sum is a deep tree.
    waiting, count = [(root, 1)], 0
    while waiting:
        node, depth = waiting.pop()
        count += 1
        if depth > MAX_DEPTH:
            raise ExpressionError(f"nested deeper than {MAX_DEPTH} levels", node.at)
        if count > MAX_NODES:
            raise ExpressionError(f"more than {MAX_NODES} values and operators", 0)
        waiting.extend((child, depth + 1) for child in children(node))


class _Parser:
    """Reads the tokens of one expression."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    def expression(self, floor: int) -> Node:
        """Read what binds tighter than `floor`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError(f"nested deeper than {MAX_DEPTH} levels", self._peek().at)
        left, compared = self._prefix(), False
        while (power := self._power()) > floor:
            token = self._read_token()
            if power == _COMPARE and compared:
                raise ExpressionError("comparisons do not chain; use AND, or parentheses", token.at)
            compared = power == _COMPARE
            left = self._comparison(left, token) if compared else self._infix(left, token, power)
        self._depth -= 1
        return left

    def expect_end(self) -> None:
        """Refuse tokens after the end."""
        token = self._peek()
        if token.kind != "end":
            raise ExpressionError(f"expected an operator or the end, got {token.shown()}", token.at)

    def _power(self) -> int:
        token = self._peek()
        return _POWERS.get(token.text, 0) if token.kind in ("symbol", "keyword") else 0

    def _infix(self, left: Node, token: Token, power: int) -> Node:
        right = self.expression(power)
        if token.text == "||":
            # One call for a chain, so that its length does not count as depth.
            joined = left.arguments if isinstance(left, Call) and left.name == "||" else (left,)
            return Call(token.at, "||", (*joined, right))
        same = isinstance(left, Operator) and left.name == token.text
        if same and isinstance(left, Operator) and power in (_AND, _OR):
            return Operator(left.at, token.text, (*left.operands, right))
        return Operator(token.at, token.text, (left, right))

    def _comparison(self, left: Node, token: Token) -> Node:
        if token.text == "is":
            negated = self._skip("not")
            self._expect("null")
            return _negated(Operator(token.at, "is null", (left,)), negated=negated)
        if token.text == "not":
            return _negated(self._membership(left, self._read_token()), negated=True)
        if token.text in ("in", "between", "like"):
            return self._membership(left, token)
        return Operator(token.at, token.text, (left, self.expression(_COMPARE)))

    def _membership(self, left: Node, token: Token) -> Node:
        match token.text if token.kind == "keyword" else "":
            case "in":
                return Operator(token.at, "in", (left, *self._choices()))
            case "between":
                low = self.expression(_COMPARE)
                self._expect("and")
                return Operator(token.at, "between", (left, low, self.expression(_COMPARE)))
            case "like":
                pattern = self._read_token()
                if pattern.kind != "text":
                    raise ExpressionError("expected a pattern such as 'a%' after LIKE", pattern.at)
                return Like(token.at, left, pattern.text)
            case _:
                text = f"expected IN, BETWEEN or LIKE after NOT, got {token.shown()}"
                raise ExpressionError(text, token.at)

    def _choices(self) -> list[Node]:
        self._expect("(")
        choices = [self._choice()]
        while self._skip(","):
            choices.append(self._choice())
        self._expect(")")
        return choices

    def _choice(self) -> Node:
        node = self.expression(_COMPARE)
        if not isinstance(node, Literal | Cast):
            raise ExpressionError("expected literals in the list of IN", node.at)
        return node

    def _prefix(self) -> Node:
        token = self._read_token()
        match token.kind:
            case "number":
                return Literal(token.at, _number(token))
            case "text":
                return Literal(token.at, token.text)
            case "word" if self._peek().text == "(" and self._peek().kind == "symbol":
                return Call(token.at, token.text.lower(), tuple(self._arguments()))
            case "word" | "quoted":
                return self._column(token)
            case "keyword":
                return self._keyword(token)
            case _:
                return self._symbol(token)

    def _keyword(self, token: Token) -> Node:
        match token.text:
            case "null":
                return Literal(token.at, None)
            case "true" | "false":
                return Literal(token.at, token.text == "true")
            case "not":
                return Operator(token.at, "not", (self.expression(_NOT),))
            case "cast":
                return self._cast(token)
            case _:
                raise ExpressionError(f"expected a value, got {token.shown()}", token.at)

    def _symbol(self, token: Token) -> Node:
        if token.text == "(" and token.kind == "symbol":
            node = self.expression(0)
            self._expect(")")
            return node
        if token.text == "-" and token.kind == "symbol":
            operand = self.expression(_NEGATE)
            number = _minus(operand.value) if isinstance(operand, Literal) else None
            if number is not None:
                return Literal(token.at, number)
            return Operator(token.at, "negate", (operand,))
        raise ExpressionError(f"expected a value, got {token.shown()}", token.at)

    def _arguments(self) -> list[Node]:
        self._expect("(")
        if self._skip(")"):
            return []
        arguments = [self.expression(0)]
        while self._skip(","):
            arguments.append(self.expression(0))
        self._expect(")")
        return arguments

    def _column(self, first: Token) -> Node:
        path = [first.text]
        while self._skip("."):
            token = self._read_token()
            if token.kind not in ("word", "quoted", "keyword"):
                raise ExpressionError(f"expected a field's name, got {token.shown()}", token.at)
            path.append(token.text)
        return Column(first.at, tuple(path))

    def _cast(self, token: Token) -> Node:
        self._expect("(")
        operand = self.expression(0)
        self._expect("as")
        kind = self._type()
        self._expect(")")
        return Cast(token.at, operand, kind)

    def _type(self) -> DataType:
        first = self._read_token()
        text = first.text
        if self._skip("("):
            numbers = [self._digits()]
            while self._skip(","):
                numbers.append(self._digits())
            self._expect(")")
            text += f"({','.join(numbers)})"
        if first.kind != "word":
            raise ExpressionError(f"expected a type's name, got {first.shown()}", first.at)
        try:
            return parse_hive_type(text)
        except ValueError as error:
            raise ExpressionError(f"expected a type to cast to: {error}", first.at) from error

    def _digits(self) -> str:
        token = self._read_token()
        if token.kind != "number" or not token.text.isdigit():
            raise ExpressionError(f"expected a whole number, got {token.shown()}", token.at)
        return token.text

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _read_token(self) -> Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _skip(self, text: str) -> bool:
        token = self._peek()
        found = token.kind in ("symbol", "keyword") and token.text == text
        self._next += found
        return found

    def _expect(self, text: str) -> None:
        token = self._peek()
        if not self._skip(text):
            raise ExpressionError(f"expected {text.upper()}, got {token.shown()}", token.at)


def _negated(node: Node, *, negated: bool) -> Node:
    return Operator(node.at, "not", (node,)) if negated else node


def _number(token: Token) -> int | Decimal:
    # int() refuses thousands of digits, and is slow for them.
    if "." in token.text or len(token.text) > _MAX_DIGITS:
        return Decimal(token.text)
    return int(token.text)


def _minus(value: object) -> int | Decimal | None:
    """The negative of a number; None for anything else."""
    if isinstance(value, Decimal):
        return value.copy_negate()
    return -value if isinstance(value, int) and not isinstance(value, bool) else None
