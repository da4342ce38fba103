"""Give functions that are imported already another code: a wrong one, or one that reports lines.

Nothing is written anywhere, and every name under which a function is known gets the change.
"""

import ast
import copy
import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from mutate.changes import Change, Function
from mutate.rules import SOURCE, Named, Subject

_TOLD = "__mutate_reached__"
Reached = set[tuple[str, int]]


def make_change(subject: Subject, change: Change) -> bool:
    """Make it in this process, for good; False when the function is not in it.

    Raises:
        LookupError: The module has no such function.
    """
    function = _function(subject.named)
    if function is None:
        return False
    with change.made():
        function.__code__ = _compiled(subject.tree, subject.named)
    return True


def watch(subjects: Iterable[Subject]) -> Reached:
    """From now on each line of these functions that is come to is added to what is returned."""
    reached: Reached = set()
    for subject in subjects:
        function = _function(subject.named)
        if function is None:
            continue
        function.__globals__[_TOLD] = reached.add
        tree = copy.deepcopy(subject.tree)
        _tell_lines(_same(tree, subject), subject.named.name)
        function.__code__ = _compiled(tree, subject.named)
    return reached


def _same(tree: ast.Module, subject: Subject) -> Function:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.lineno == subject.node.lineno:
            return node
    raise LookupError(subject.named.name)


def _tell_lines(function: Function, name: str) -> None:
    blocks = [
        (node, field)
        for node in ast.walk(function)
        for field in ("body", "orelse", "finalbody")
        if isinstance(getattr(node, field, None), list) and not isinstance(node, ast.ClassDef)
    ]
    for node, field in blocks:
        told: list[ast.stmt] = []
        if isinstance(node, ast.ExceptHandler):
            told.append(_telling(name, node.lineno))
        for statement in getattr(node, field):
            told += [_telling(name, statement.lineno), statement]
        setattr(node, field, told)


def _telling(name: str, line: int) -> ast.stmt:
    place = ast.Tuple([ast.Constant(name), ast.Constant(line)], ast.Load())
    return ast.Expr(ast.Call(ast.Name(_TOLD, ast.Load()), [place], []))


def _compiled(tree: ast.Module, named: Named) -> CodeType:
    ast.fix_missing_locations(tree)
    whole = compile(tree, str(SOURCE / named.path), "exec")
    found = [code for code in _codes(whole) if code.co_qualname == named.qualified]
    return found[-1]


def _codes(code: CodeType) -> Iterable[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


def _function(named: Named) -> FunctionType | None:
    """The function object; None when its module is not imported here."""
    module = sys.modules.get(named.module)
    if module is None:
        return None
    found: Any = module
    for name in named.qualified.split("."):
        if name not in vars(found):
            raise LookupError(f"{named.module} has no {named.qualified}")
        found = vars(found)[name]
    for wrapper in ("fget", "__func__", "__wrapped__"):
        found = getattr(found, wrapper, None) or found
    if not isinstance(found, FunctionType):
        raise TypeError(f"{named.module}.{named.qualified} is no function")
    return found


def import_all(subjects: Iterable[Subject]) -> None:
    """Import what is to be changed, so that it is there before any change is made."""
    for subject in subjects:
        importlib.import_module(subject.named.module)


def write_shadow(subject: Subject, change: Change, shadow: Path) -> Callable[[], None]:
    """Write the changed file into a copy of the source, for tests that start processes.

    Args:
        subject: What is changed.
        change: In what way.
        shadow: A copy of `src`; never `src` itself.

    Returns:
        What puts the right file back.
    """
    assert not shadow.samefile(SOURCE)
    path = shadow / subject.named.path
    right = path.read_bytes()
    with change.made():
        path.write_text(ast.unparse(ast.fix_missing_locations(subject.tree)), "utf-8")

    def put_back() -> None:
        path.write_bytes(right)

    return put_back
