"""Arithmetic of the benchmarks: medians, slopes, growth. No I/O."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.process_tree import TreeUsage


@dataclass(frozen=True, slots=True)
class Slope:
    """What one more record costs, and what the start does."""

    cpu_us_per_record: float
    records_per_s: float
    startup_cpu_s: float
    startup_wall_s: float


def slope_of(counts: tuple[int, int], runs: Sequence[Sequence[TreeUsage]]) -> Slope:
    """Slope and start-up, from the medians of the runs of a small and of a large topic.

    Args:
        counts: Records of the small and the large topic.
        runs: Those of the small topic, those of the large one; at least one of each.
    """
    cpu = [statistics.median(run.cpu_s for run in of_size) for of_size in runs]
    wall = [statistics.median(run.wall_s for run in of_size) for of_size in runs]
    records = counts[1] - counts[0]
    cpu_s, wall_s = (cpu[1] - cpu[0]) / records, (wall[1] - wall[0]) / records
    return Slope(
        cpu_us_per_record=round(cpu_s * 1e6, 3),
        records_per_s=round(1 / wall_s) if wall_s > 0 else 0,
        startup_cpu_s=round(cpu[0] - cpu_s * counts[0], 2),
        startup_wall_s=round(wall[0] - wall_s * counts[0], 2),
    )


def ratio(above: float, below: float) -> float | None:
    """A quotient with three digits; None when it has no meaning."""
    return round(above / below, 3) if above > 0 and below > 0 else None


def growth_exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Power of the size with which a cost grows: 0 is constant, 1 linear.

    The slope of the line of least squares through the logarithms.

    Args:
        sizes: At least two different ones, above 0.
        costs: Of each, above 0.
    """
    fit = statistics.linear_regression([math.log(s) for s in sizes], [math.log(c) for c in costs])
    return round(fit.slope, 3)
