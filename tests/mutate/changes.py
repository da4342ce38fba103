"""Small wrong changes of a function, each made on its syntax tree and taken back.

A condition is taken for true and for false: each half dies only to a test that has the other
outcome, while a plain negation dies to any test at all. What a person reads only is left alone:
log lines, texts and hints of errors.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeGuard

Function = ast.FunctionDef | ast.AsyncFunctionDef

_MOST_TEXT = 72
_WIDER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_TOLD = frozenset({"observe", "reach", "print_lines", "log_rows", "log_epoch", "_log_published"})
# Figures for whoever asks how it goes; nothing is decided by them.
_FIGURES = frozenset({"meter", "seconds", "lag_records"})
_JUMPS = (ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node hangs: a field of its parent, or an entry of one that is a list."""

    parent: ast.AST
    field: str
    at: int | None = None

    def put(self, node: object) -> None:
        """Hang another node there."""
        if self.at is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.at] = node


@dataclass(frozen=True, slots=True)
class Change:
    """One wrong change.

    Attributes:
        name: What is changed into what; no two of a function have the same.
        line: Of the innermost statement around it.
    """

    name: str
    line: int
    place: Place
    right: object
    wrong: object

    @contextmanager
    def made(self) -> Iterator[None]:
        """The tree is the wrong one inside the block."""
        self.place.put(self.wrong)
        try:
            yield
        finally:
            self.place.put(self.right)


def changes_of(function: Function) -> list[Change]:
    """All changes of a function, those of functions inside it too."""
    finder = _Finder(function.name == "__init__")
    finder.block(function, "body")
    if not finder.found:
        finder.answers(function)
    seen: Counter[str] = Counter()
    named = []
    for change in finder.found:
        seen[change.name] += 1
        again = f" ({seen[change.name]})" if seen[change.name] > 1 else ""
        named.append(
            Change(change.name + again, change.line, change.place, change.right, change.wrong)
        )
    return named


class _Finder:
    def __init__(self, is_init: bool) -> None:  # noqa: FBT001 - of this file only
        self.found: list[Change] = []
        self._is_init = is_init
        self._line = 0

    def _add(self, place: Place, right: object, wrong: object, what: str = "") -> None:
        name = what or f"{_text(right)} -> {_text(wrong)}"
        self.found.append(Change(name, self._line, place, right, wrong))

    def answers(self, function: Function) -> None:
        """For a function without anything else to change: it answers None."""
        for node in ast.walk(function):
            if isinstance(node, ast.Return) and node.value is not None:
                self._line = node.lineno
                self._add(Place(node, "value"), node.value, ast.Constant(None))

    # Statements

    def block(self, parent: ast.AST, field: str) -> None:
        """Statements one after another."""
        body: list[ast.stmt] = getattr(parent, field)
        alone = len(body) == 1 and isinstance(parent, ast.If)
        for at, statement in enumerate(body):
            self._statement(Place(parent, field, at), statement, alone=alone)
        for at, (first, second) in enumerate(pairwise(body)):
            if _is_step(first) and _is_step(second):
                self._line = first.lineno
                wrong = [*body[:at], second, first, *body[at + 2 :]]
                what = f"{_text(second)} before {_text(first)}"
                self._add(Place(parent, field), body, wrong, what)

    def _statement(self, place: Place, node: ast.stmt, *, alone: bool) -> None:
        self._line = node.lineno
        if _is_for_people(node) or _is_told(node):
            return
        if isinstance(node, _JUMPS):
            if not alone:
                self._add(place, node, ast.Pass(), f"{_text(node)} removed")
            return
        if self._is_effect(node):
            self._add(place, node, ast.Pass(), f"{_text(node)} removed")
        for field in ("body", "orelse", "finalbody"):
            if getattr(node, field, None):
                self.block(node, field)
        for handler in getattr(node, "handlers", ()):
            self._handler(handler)
        self._line = node.lineno
        self._children(node)

    def _is_effect(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.Expr):
            # A `require` that is gone always holds.
            return isinstance(node.value, ast.Call) and _called(node.value) != "require"
        if isinstance(node, ast.Assign):
            kept = isinstance(node.targets[0], ast.Attribute | ast.Subscript)
            return kept and not self._is_init
        if isinstance(node, ast.Delete):
            # A name that goes only says that it is not used.
            return not all(isinstance(target, ast.Name) for target in node.targets)
        return isinstance(node, ast.AugAssign)

    def _handler(self, handler: ast.ExceptHandler) -> None:
        self._line = handler.lineno
        if not isinstance(handler.body[0], ast.Raise):
            caught = _text(handler.type) if handler.type is not None else "anything"
            wrong: list[ast.stmt] = [ast.Raise(None, None)]
            self._add(Place(handler, "body"), handler.body, wrong, f"{caught} is not caught")
        self.block(handler, "body")

    # Expressions

    def _children(self, node: ast.AST) -> None:
        for field, value in ast.iter_fields(node):
            if field in {"annotation", "returns", "decorator_list", "args"} and not isinstance(
                node, ast.Call
            ):
                continue
            if isinstance(value, ast.expr):
                self._child(Place(node, field), value, is_test=field == "test")
            elif isinstance(value, list):
                for at, each in enumerate(value):
                    if isinstance(each, ast.expr | ast.keyword | ast.comprehension | ast.withitem):
                        self._child(Place(node, field, at), each, is_test=field == "ifs")

    def _child(self, place: Place, node: ast.AST, *, is_test: bool) -> None:
        if is_test or _is_boolean(node):
            never_ends = isinstance(place.parent, ast.While)
            self._condition(place, node, never_ends=never_ends)
        else:
            self._expression(place, node)

    def _condition(self, place: Place, node: ast.AST, *, never_ends: bool = False) -> None:
        if isinstance(node, ast.Constant):
            return
        for outcome in (True, False):
            if not (outcome and never_ends):
                self._add(place, node, ast.Constant(outcome))
        self._inside_condition(place, node)

    def _inside_condition(self, place: Place, node: ast.AST) -> None:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._inside_condition(Place(node, "operand"), node.operand)
        elif isinstance(node, ast.BoolOp):
            self._operands(place, node)
            for at, operand in enumerate(node.values):
                self._inside_condition(Place(node, "values", at), operand)
        else:
            self._expression(place, node)

    def _operands(self, place: Place, node: ast.BoolOp) -> None:
        for left_out in node.values:
            rest = [each for each in node.values if each is not left_out]
            wrong = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
            self._add(place, node, wrong, f"{_text(left_out)} not asked in: {_text(node)}")

    def _expression(self, place: Place, node: ast.AST) -> None:
        match node:
            case ast.Call():
                self._call(place, node)
            case ast.JoinedStr():
                self._name(node)
            case ast.Subscript():
                self._expression(Place(node, "value"), node.value)
            case ast.BoolOp():
                self._operands(place, node)
                self._children(node)
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.BitAnd() | ast.BitOr()):
                self._add(place, node, node.left)
                self._children(node)
            case ast.Compare():
                self._comparison(node)
                self._children(node)
            case _:
                self._children(node)

    def _name(self, node: ast.JoinedStr) -> None:
        """Leave a part out of a name or a path; a sentence is for people."""
        if " " in "".join(str(each.value) for each in node.values if _is_text(each)):
            return
        for at, part in enumerate(node.values):
            if isinstance(part, ast.FormattedValue):
                what = f"{_text(part.value)} left out of {_text(node)}"
                self._add(Place(node, "values", at), part, ast.Constant(""), what)

    def _comparison(self, node: ast.Compare) -> None:
        for at, operator in enumerate(node.ops):
            wider = _WIDER.get(type(operator))
            if wider is not None:
                what = f"{_sign(operator)} -> {_sign(wider())} in: {_text(node)}"
                self._add(Place(node, "ops", at), operator, wider(), what)

    def _call(self, place: Place, node: ast.Call) -> None:
        called = _called(node)
        if called.endswith("Error") or called in {"cast", "print"}:
            return
        if called == "require":
            self._condition(Place(node, "args", 0), node.args[0])
            return
        if called in {"min", "max"} and len(node.args) > 1:
            for argument in node.args:
                self._add(place, node, argument)
        if called in {"any", "all"}:
            other = "all" if called == "any" else "any"
            wrong = ast.Call(ast.Name(other, ast.Load()), node.args, node.keywords)
            self._add(place, node, wrong)
        if called == "replace" and len(node.args) == 1:
            for keyword in node.keywords:
                rest = [each for each in node.keywords if each is not keyword]
                wrong = ast.Call(node.func, node.args, rest)
                self._add(place, node, wrong, f"{keyword.arg} not replaced in: {_text(node)}")
        self._children(node)


def _is_text(node: ast.expr) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_boolean(node: ast.AST) -> bool:
    if isinstance(node, ast.BoolOp):
        return all(_is_boolean(each) for each in node.values)
    return isinstance(node, ast.Compare) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )


def _is_told(node: ast.stmt) -> bool:
    """A point at which tests look or crash, a line of a report, or a figure."""
    called = node.value if isinstance(node, ast.Expr) else None
    place: ast.AST | None = getattr(called, "func", None)
    if isinstance(node, ast.Assign | ast.AugAssign):
        place = node.targets[0] if isinstance(node, ast.Assign) else node.target
    names = (
        {part.attr for part in ast.walk(place) if isinstance(part, ast.Attribute)}
        if place
        else set()
    )
    is_told = isinstance(called, ast.Call) and _called(called) in _TOLD
    return is_told or bool(names & _FIGURES)


def _is_step(node: ast.stmt) -> bool:
    """A call for its effect, whose place among others may matter; not one that only reports."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    return not _is_for_people(node) and not _is_told(node) and _called(node.value) != "require"


def _is_for_people(node: ast.stmt) -> bool:
    """A docstring, or a line of the log."""
    if not isinstance(node, ast.Expr):
        return False
    if isinstance(node.value, ast.Constant):
        return True
    function = node.value.func if isinstance(node.value, ast.Call) else None
    if not isinstance(function, ast.Attribute):
        return False
    owner = function.value
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    told = {"info", "warning", "error", "debug"}
    return name.lstrip("_") in {"log", "logger", "events"} and function.attr in told


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _sign(operator: ast.cmpop) -> str:
    return ast.unparse(ast.Compare(ast.Name("a"), [operator], [ast.Name("b")]))[2:-2]


def _text(node: object) -> str:
    if not isinstance(node, ast.AST):
        return str(node)
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 3]}..."
