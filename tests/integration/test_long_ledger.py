"""Long ledgers of the growth benchmark: a driver goes on with them."""

import importlib
from pathlib import Path

import pytest


def test_lengthened_ledger_is_one_that_a_driver_goes_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    driver_cost = importlib.import_module("bench.driver_cost")
    scale = importlib.import_module("bench.scale")
    source = driver_cost.MemorySource(["topic_0"], 2)
    driver_cost.measure(1, 2, tmp_path, 0.0, source)
    fold = scale.lengthen(tmp_path, source, 1_500)
    assert sum(int(state.files) for state in fold.partitions.values()) >= 1_500
    assert fold.snapshot_through > 0
    cost = driver_cost.measure(1, 2, tmp_path, 0.0, source)
    assert cost.absent == 0
    assert cost.start_s > 0
