"""What a function `process_...` gives is there once in each process, also in simulated ones."""

import sys
from collections.abc import Callable
from types import FunctionType

from sim.scheduler import Process


def part_processes(acting: Callable[[], Process]) -> None:
    """Give each simulated process objects of its own. Called once, with the product imported.

    Args:
        acting: The process whose turn it is.
    """
    product = [module for name, module in sys.modules.items() if name.startswith("sluiceway.")]
    for module in product:
        for name, found in list(vars(module).items()):
            is_one = isinstance(found, FunctionType) and not found.__code__.co_argcount
            if is_one and name.startswith("process_"):
                setattr(module, name, _one_a_process(found, acting))


def _one_a_process(
    function: Callable[[], object], acting: Callable[[], Process]
) -> Callable[[], object]:
    kind = type(function())

    def own() -> object:
        process = acting()
        if kind not in process.own:
            process.own[kind] = kind()
        return process.own[kind]

    return own
