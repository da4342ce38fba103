"""Efficiencies of the bench of scaling, from runs that are known, and what holds it on a core."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluiceway.host.process import identity_of
from sluiceway.lab.state import LabState, save_state

COUNTS = (1_000_000, 2_000_000)


@pytest.fixture(scope="module")
def scaling() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[3])
        yield importlib.import_module("bench.scaling")


def _runs(wall_s: float) -> list[list[Any]]:
    """Of a small topic, and of one that is a million records larger and takes longer."""
    usage = importlib.import_module("bench.process_tree").TreeUsage
    rest = dict.fromkeys(usage.__dataclass_fields__, 0)
    return [[usage(**rest | {"cpu_s": 1.0 + of, "wall_s": 1.0 + of})] for of in (0.0, wall_s)]


def test_efficiency_is_to_the_slots_and_to_the_cores(scaling: Any) -> None:
    found = scaling.throughput_of(COUNTS, {1: _runs(1.0), 2: _runs(0.8)}, _runs(1.52), 2)
    assert found["krps"] == [1000.0, 1250.0]
    assert found["efficiency"] == 0.62
    assert (found["cores"], found["one_core_krps"]) == (2, 657.9)
    assert found["core_efficiency"] == 0.95


def test_a_large_topic_that_took_no_longer_is_no_measurement(scaling: Any) -> None:
    with pytest.raises(scaling.WrongOutputError, match="take larger ones"):
        scaling.throughput_of(COUNTS, {1: _runs(1.0), 2: _runs(0.8)}, _runs(0.0), 2)


def test_servers_of_the_lab_and_what_is_started_are_held_on_the_cores(
    scaling: Any, tmp_path: Path
) -> None:
    ours = os.sched_getaffinity(0)
    with subprocess.Popen(["sleep", "60"]) as server:
        try:
            identity = identity_of(server.pid)
            assert identity is not None
            save_state(tmp_path, LabState(servers={"kafka": identity}))
            scaling.hold_on([min(ours)], tmp_path)
            asked = [sys.executable, "-c", "import os; print(list(os.sched_getaffinity(0)))"]
            started = subprocess.run(asked, check=True, capture_output=True, text=True)
            assert json.loads(started.stdout) == [min(ours)]
            assert os.sched_getaffinity(server.pid) == {min(ours)}
            scaling.hold_on(ours, tmp_path)
            assert os.sched_getaffinity(server.pid) == os.sched_getaffinity(0) == ours
        finally:
            os.sched_setaffinity(0, ours)
            server.kill()
