"""The efficiency of the machine itself: processes on cores of their own, from the same moment."""

import importlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sluiceway_native")


@pytest.fixture(scope="module")
def machine_cores() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[3])
        yield importlib.import_module("bench.machine_cores")


def test_efficiency_is_that_of_all_cores_to_so_many_times_one(
    machine_cores: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = iter([100.0, 150.0, 300.0, 50.0, 110.0, 160.0])
    monkeypatch.setattr(machine_cores, "_together", lambda cores, seconds: next(rates))
    assert machine_cores.machine_efficiency([0, 1], rounds=3) == 0.68


def test_process_that_was_not_there_at_the_moment_is_not_compared(machine_cores: Any) -> None:
    ours = os.sched_getaffinity(0)
    try:
        with pytest.raises(RuntimeError, match="began too late"):
            machine_cores.decoded_per_s(min(ours), time.monotonic() - 1.0, 0.1)
    finally:
        os.sched_setaffinity(0, ours)
