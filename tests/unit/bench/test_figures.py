"""Arithmetic of the benchmarks."""

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def figures() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[3])
        yield importlib.import_module("bench.figures")


def _usage(figures: Any, *, cpu_s: float, wall_s: float) -> Any:
    return figures.TreeUsage(
        exit_code=0,
        wall_s=wall_s,
        cpu_s=cpu_s,
        reaped_cpu_s=cpu_s,
        sampled_cpu_s=0.0,
        peak_rss_bytes=1,
        rss_mib_per_min=0.0,
        processes=1,
        ended=0,
    )


def test_slope_of_runs_leaves_the_start_up_out(figures: Any) -> None:
    small = [_usage(figures, cpu_s=cpu_s, wall_s=15.0) for cpu_s in (99.0, 24.0, 23.0)]
    large = [_usage(figures, cpu_s=36.0, wall_s=21.0)]
    found = figures.slope_of((1_000_000, 4_000_000), [small, large])
    assert found.cpu_us_per_record == pytest.approx(4.0)
    assert found.records_per_s == 500_000
    assert found.startup_cpu_s == pytest.approx(20.0)
    assert found.startup_wall_s == pytest.approx(13.0)


def test_slope_of_runs_faster_on_more_records_has_no_rate(figures: Any) -> None:
    small = [_usage(figures, cpu_s=10.0, wall_s=30.0)]
    large = [_usage(figures, cpu_s=11.0, wall_s=20.0)]
    assert figures.slope_of((1, 2), [small, large]).records_per_s == 0


@pytest.mark.parametrize(("power", "factor"), [(0.0, 7.0), (1.0, 0.3), (2.0, 1.0)])
def test_growth_exponent_is_the_power(figures: Any, power: float, factor: float) -> None:
    sizes = [4, 40, 400, 10_000]
    found = figures.growth_exponent(sizes, [factor * size**power for size in sizes])
    assert found == pytest.approx(power, abs=1e-3)


def test_ratio_without_meaning_is_none(figures: Any) -> None:
    assert figures.ratio(10.0, 4.0) == 2.5
    assert figures.ratio(10.0, 0.0) is None
    assert figures.ratio(0, 4.0) is None


def test_picture_has_a_bar_a_figure_of_the_latest_lines(figures: Any) -> None:
    assert figures is not None
    plot = importlib.import_module("bench.plot")
    line = {"shape": "standard", "native": False, "ours_cpu_us": 5.5, "flink_cpu_us": 11}
    older = {**line, "ours_cpu_us": 99.5}
    native = {**line, "native": True, "ours_cpu_us": 2.5, "flink_cpu_us": None}
    found = plot.latest(json.dumps(one) for one in (older, line, native))
    assert [one["ours_cpu_us"] for one in found] == [5.5, 2.5]
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", plot.draw(found))
    assert [text for text in texts if text in {"5.5", "11", "2.5", "99.5"}] == ["5.5", "11", "2.5"]
    assert "standard (native)" in texts
