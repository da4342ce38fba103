"""The bench of metrics: its share, that it sees what is counted, and its closing line."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluiceway.worker.task_figures import FigureTally


@pytest.fixture(scope="module")
def share() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[3])
        yield importlib.import_module("bench.metrics_share")


def test_ratio_is_the_task_over_the_task_without_counting(share: Any) -> None:
    found = share.ratios([(1.0, 0.02)] * 3, 0.0)
    assert found == {"ratio": 1.0204, "ratio_low": 1.0204, "ratio_high": 1.0204}
    assert share.ratios([(1.0, 0.0)], 0.05)["ratio"] == 1.05


def test_middle_of_the_rounds_is_told(share: Any) -> None:
    found = share.ratios([(1.0, 0.0), *[(1.0, 0.01)] * 38, (1.0, 0.5)], 0.0)
    assert (found["ratio"], found["ratio_low"], found["ratio_high"]) == (1.0101, 1.0101, 1.0101)


def test_counting_of_a_task_is_seen_and_left_as_it_was(share: Any) -> None:
    before = FigureTally.count
    whole_s, inside_s = share.one_round(10_000)
    assert 0 < inside_s < whole_s
    assert FigureTally.count is before


def test_task_that_counts_nothing_is_an_error(share: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "run_task", lambda *_: (1.0, 1, 1))
    with pytest.raises(RuntimeError, match="counted nothing"):
        share.one_round(1)


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
