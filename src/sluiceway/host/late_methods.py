"""Methods of data classes are compiled at their first call, not while modules are imported.

Before version 3.13, Python compiles six methods of a data class one by one. A short command imports
300 such classes and calls few of their methods: that was a quarter of its CPU.
"""

import dataclasses
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, cast

_PACKAGES = {__name__.partition(".")[0], "pydantic", "annotated_types"}
"""Each command imports these packages, and inspects none of their signatures."""


def compile_methods_late() -> None:
    """Let data classes of `_PACKAGES` that are made from now on compile their methods late.

    Called once, by the process that is ours: a program that imports the package is left as it is.
    """
    library: Any = dataclasses
    at_once = getattr(library, "_create_fn", None)
    if at_once is not None and at_once.__module__ == dataclasses.__name__:
        library._create_fn = _late(at_once)  # noqa: SLF001 - it has no other place for this


def _late(at_once: Callable[..., FunctionType]) -> Callable[..., FunctionType]:
    def create(
        name: str, arguments: Sequence[str], body: Sequence[str], **more: Any
    ) -> FunctionType:
        if str((more.get("globals") or {}).get("__name__", "")).partition(".")[0] not in _PACKAGES:
            return at_once(name, arguments, body, **more)
        compiled: list[FunctionType] = []

        def first_call(self: Any, *values: Any, **named: Any) -> Any:
            if not compiled:
                compiled.append(at_once(name, arguments, body, **more))
                _replace(type(self), cast("FunctionType", first_call), compiled[0])
            return compiled[0](self, *values, **named)

        first_call.__name__ = name
        return cast("FunctionType", first_call)

    return create


def _replace(kind: type, first_call: FunctionType, method: FunctionType) -> None:
    """Let the class that has it call the compiled method directly from now on."""
    for each in kind.__mro__:
        if each.__dict__.get(method.__name__) is first_call:
            method.__qualname__ = first_call.__qualname__
            setattr(each, method.__name__, method)
