"""Whether a wrong variant of the product still applies to it. Where it does not, nothing is caught.

A variant that takes the place of nothing, is never called, or breaks by itself says nothing
of the proof: whoever looks for it sees a right product, or an error that is its own.
"""

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

Patch = tuple[Any, str, Any]
"""Owner, name, and the replacement."""

_TESTS = Path(__file__).resolve().parents[1]
_PROOFS = ("sim", "lake_sim", "chain_sim", "shared_sim", "readiness_oracle")
_CALLERS = (_TESTS.parent / "src/sluiceway", *(_TESTS / name for name in _PROOFS))
_BY_ITSELF = (TypeError, AttributeError, NameError)
_BROKEN_BY_ITSELF = (*(error.__name__ for error in _BY_ITSELF), "AssertionError")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class MisfitError(AssertionError):
    """A mutant does not apply to the product as it is."""

    def __init__(self, mutant: str, why: str) -> None:
        super().__init__(f"mutant {mutant} does not fit: {why}")


@contextmanager
def held(mutant: str, patches: Sequence[Patch]) -> Iterator[None]:
    """The product is the mutant inside the block.

    Raises:
        MisfitError: A patch does not apply, or broke by itself in the block.
    """
    wrong = misfits(patches)
    if wrong:
        raise MisfitError(mutant, "; ".join(wrong))
    broken: list[str] = []
    kept = [(owner, name, inspect.getattr_static(owner, name)) for owner, name, _ in patches]
    try:
        for owner, name, variant in patches:
            setattr(owner, name, _guarded(variant, broken))
        yield
    finally:
        for owner, name, right in kept:
            setattr(owner, name, right)
    if broken:
        raise MisfitError(mutant, broken[0])


def misfits(patches: Sequence[Patch]) -> list[str]:
    """Why patches do not apply; empty when all do."""
    found = []
    for owner, name, variant in patches:
        where = f"{getattr(owner, '__qualname__', owner.__name__)}.{name}"
        right = inspect.getattr_static(owner, name, None)
        if right is None:
            found.append(f"there is no {where}")
        elif isinstance(owner, ModuleType) and not _is_called(owner, name):
            found.append(f"{where} is not called by that name")
        elif isinstance(right, property) is not isinstance(variant, property):
            found.append(f"{where} is a property, or its variant is")
        else:
            why = _other_arguments(right, variant, is_method=inspect.isclass(owner))
            found += [f"{where}: {why}"] if why else []
    return found


def refuse_outdated(mutant: str, violation: str) -> None:
    """Pass when a promise was broken, and not the mutant itself.

    Raises:
        MisfitError: The mutant does not fit the product any more.
    """
    if any(error in violation for error in _BROKEN_BY_ITSELF):
        raise MisfitError(mutant, violation)


def _guarded(variant: Any, broken: list[str]) -> Any:
    """The variant; it notes in `broken` when it breaks by itself, whoever catches the error."""
    if not isinstance(variant, FunctionType) or inspect.isgeneratorfunction(variant):
        return variant

    @wraps(variant)
    def run(*arguments: Any, **named: Any) -> Any:
        try:
            return variant(*arguments, **named)
        except _BY_ITSELF as error:
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            raised = trace.tb_frame.f_code.co_filename if trace is not None else ""
            if raised in {variant.__code__.co_filename, __file__}:
                broken.append(f"{type(error).__name__}: {error}")
            raise

    return run


def _other_arguments(right: Any, variant: Any, *, is_method: bool) -> str:
    """Why a variant cannot be called as the right function is; empty when it can."""
    if not (isinstance(right, FunctionType) and isinstance(variant, FunctionType)):
        return ""
    wanted = inspect.signature(right).parameters.values()
    taken = inspect.signature(variant)
    by_place = [each.name for each in wanted if each.kind in _POSITIONAL]
    by_name = {each.name: None for each in wanted if each.kind is inspect.Parameter.KEYWORD_ONLY}
    try:
        taken.bind(*by_place, **by_name)
    except TypeError as error:
        return str(error)
    places = [each.name for each in taken.parameters.values() if each.kind in _POSITIONAL]
    for one, other in list(zip(by_place, places, strict=False))[is_method:]:
        if one != other and not other.startswith("_"):
            return f"takes {other} where {one} is given"
    return ""


@cache
def _is_called(module: ModuleType, name: str) -> bool:
    """Whether anybody looks the name up in that module: there, or as `module.name` elsewhere.

    A name that others have imported from it goes on being the right one for them.
    """
    tree = ast.parse(inspect.getsource(module))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            return True
    # What is no module of ours may have any name in ours.
    path = Path(inspect.getfile(module))
    ours = any(path.is_relative_to(folder) for folder in (_TESTS, *_CALLERS))
    short = re.escape(path.stem) if ours else r"\w+"
    called = re.compile(rf"\b{short}\.{re.escape(name)}\b")
    return called.search(_callers_text()) is not None


@cache
def _callers_text() -> str:
    files = (file for folder in _CALLERS for file in folder.rglob("*.py"))
    return "\n".join(file.read_text("utf-8") for file in files if not file.stem.endswith("mutants"))
