"""What of a record's cost each stage and each process has."""

import statistics
from collections.abc import Sequence

from bench.ours import OurRun


def parts_us(counts: tuple[int, int], runs: Sequence[Sequence[OurRun]]) -> dict[str, float]:
    """Microseconds a record by stage and process: the slope between medians.

    Args:
        counts: Records of the small and the large topic.
        runs: Those of the small topic, those of the large one; at least one of each.
    """
    names = runs[1][0].parts_s
    medians = [
        {name: statistics.median(run.parts_s.get(name, 0.0) for run in of) for name in names}
        for of in runs
    ]
    records = counts[1] - counts[0]
    return {n: round((medians[1][n] - medians[0][n]) / records * 1e6, 3) for n in names}
