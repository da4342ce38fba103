"""The share of metrics: arithmetic, and that it sees what is counted."""

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
