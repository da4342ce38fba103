"""The simulation's demands on fenced drivers: what a command may take that was one for a while."""

from types import SimpleNamespace
from typing import Any

import pytest

from sim.monitor import Monitor
from sim.outside import Outside
from sim.places import ViolationError
from sim.scheduler import Process

_SYSTEM = "/w/db/orders/_sluiceway/orders"
_ANSWER = f"{_SYSTEM}/requests/{'0' * 32}.answer.json"


def _removed_long_after_a_fence(name: str, path: str) -> None:
    """A process that was fenced 20 s ago removes a file."""
    process = Process(name, "host", 7, began=0.0)
    outside = Outside(lambda: 20.0, _SYSTEM, "/w/db/orders", {process: 1}, [0.0, 0.0])
    monitor: Any = SimpleNamespace(acting=lambda: process, outside=outside)
    if not Monitor._is_answer_taken(monitor, path):
        Monitor._from_outside(monitor, path, "is removed")


def test_command_that_was_a_driver_for_a_while_takes_its_answer() -> None:
    _removed_long_after_a_fence("compact1", _ANSWER)
    with pytest.raises(ViolationError, match="compact1, fenced 20"):
        _removed_long_after_a_fence("compact1", _ANSWER.replace(".answer", ""))


def test_driver_that_was_fenced_leaves_answers_alone() -> None:
    with pytest.raises(ViolationError, match="driver1, fenced 20"):
        _removed_long_after_a_fence("driver1", _ANSWER)
