"""Loaded by each Python of a run of `bench.metrics_pair`; without metrics when it is told so.

The product has no switch for them. Here what counts in tasks and in the driver does nothing, and
each process that would have counted leaves a file with its id, so that the bench sees it.
"""

import os
from pathlib import Path
from typing import Any

from sluiceway.route.route_figures import RouteFigures
from sluiceway.worker.plan import NO_FIGURES
from sluiceway.worker.task_figures import FigureTally

MARKS = os.environ.get("SLUICEWAY_BENCH_WITHOUT_METRICS", "")
_TASK = ("take", "happened")
_DRIVER = (
    *("planning", "finishing", "committed", "failed", "died", "thrown_away", "put_repeated"),
    *("recovered", "looked", "applied"),
)


def _nothing(*_: Any, **__: Any) -> None:
    """Stands for each thing that counts."""


def _marked(*_: Any, **__: Any) -> Any:
    (Path(MARKS) / f"task-{os.getpid()}").touch()
    return NO_FIGURES


def _unmeasured(_: RouteFigures, given: Any) -> Any:
    (Path(MARKS) / f"driver-{os.getpid()}").touch()
    return given


if MARKS:
    for name in _TASK:
        setattr(FigureTally, name, _nothing)
    for name in ("finished", "lost"):
        setattr(FigureTally, name, _marked)
    for name in _DRIVER:
        setattr(RouteFigures, name, _nothing)
    for name in ("watching", "measured"):
        setattr(RouteFigures, name, _unmeasured)
