"""The closing line of the bench of metrics, from runs that are known."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def pair() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[3])
        yield importlib.import_module("bench.metrics_pair")


def _runs(pair: Any, *cpu_s: float) -> list[Any]:
    rest = dict.fromkeys(pair.TreeUsage.__dataclass_fields__, 0)
    return [pair.TreeUsage(**rest | {"cpu_s": each, "wall_s": each}) for each in cpu_s]


def test_ratio_is_that_of_the_slopes_and_noise_that_of_runs_of_one_kind(pair: Any) -> None:
    runs = {
        "with": [_runs(pair, 20.0, 20.0, 29.0), _runs(pair, 30.1, 31.0, 30.1)],
        "without": [_runs(pair, 20.0, 20.0, 20.0), _runs(pair, 30.0, 30.0, 28.5)],
    }
    found = pair.result_of((1_000_000, 2_000_000), runs)
    assert found["cpu_us_per_record_with"] == pytest.approx(10.1)
    assert found["cpu_us_per_record_without"] == pytest.approx(10.0)
    assert found["ratio_per_record"] == pytest.approx(1.01)
    assert found["ratio_of_large_runs"] == pytest.approx(1.003)
    assert found["noise"] == pytest.approx(1.5 / 30, abs=1e-3)
    assert (found["records"], found["rounds"]) == (2_000_000, 3)
