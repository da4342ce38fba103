"""What share of a task's CPU goes into counting for metrics, taken inside of the tasks that count.

Two runs of one job differ by more than metrics cost, so that a ratio of runs decides nothing. Here
one run has both figures: CPU of the process for a whole task, and CPU of the thread within each
call of what counts. `ratio` is the task over the task without those calls; reading from a broker,
the driver and the JVM would be on both sides of it, so it is an upper bound for a job. What the
driver does for an epoch is put on top, for an epoch as long as the task.

No server is needed. `python -m bench.metrics_share` ends with one JSON line: the median of the
rounds, and the least and the greatest of the middle 90 %.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bench.metrics_cost import driver
from bench.worker_cost import run_task
from bench.workloads import WORKLOADS
from sluiceway.host.native_module import native_module
from sluiceway.worker.task_figures import FigureTally

COUNTS = ("count", "happened", "finished")
WORKLOAD = "standard"
# A survey of partitions rests eight thousand times as long as it took.
_SURVEY_SHARE = 1 / 8000
_EPOCH_S = 10.0


class Spent:
    """CPU seconds within the calls that count, of the thread that calls."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, with its time added up."""

        def measured(*given: Any) -> Any:
            began_s = time.thread_time()
            try:
                return call(*given)
            finally:
                self.seconds += time.thread_time() - began_s
                self.calls += 1

        return measured


@contextmanager
def counted() -> Iterator[Spent]:
    """Add up what tasks of the block spend on counting."""
    spent = Spent()
    before = {name: getattr(FigureTally, name) for name in COUNTS}
    for name, call in before.items():
        setattr(FigureTally, name, spent.around(call))
    try:
        yield spent
    finally:
        for name, call in before.items():
            setattr(FigureTally, name, call)


def one_round(records: int) -> tuple[float, float]:
    """CPU seconds of a task, and of counting in it.

    Raises:
        RuntimeError: Nothing was counted.
    """
    with counted() as spent:
        whole_s, _, _ = run_task(WORKLOADS[WORKLOAD], records)
    if spent.calls < len(COUNTS):
        raise RuntimeError("the task has counted nothing")
    return whole_s, spent.seconds


def ratios(rounds: Sequence[tuple[float, float]], epoch_s: float) -> dict[str, float]:
    """The median of the rounds with the middle 90 % of them.

    Args:
        rounds: Of a task and of counting in it, CPU seconds.
        epoch_s: What the driver spends beside each task.
    """
    found = sorted((whole + epoch_s) / (whole - inside) for whole, inside in rounds)
    cut = len(found) // 20
    middle = found[cut : len(found) - cut]
    return {
        "ratio": round(statistics.median(found), 4),
        "ratio_low": round(middle[0], 4),
        "ratio_high": round(middle[-1], 4),
    }


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(prog="python -m bench.metrics_share")
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=40)
    given = parser.parse_args()
    one_round(10_000)
    rounds = [one_round(given.records) for _ in range(given.rounds)]
    seen = driver()
    epoch_s = seen.epoch_ms / 1000 + min(seen.survey_ms / 1000, _EPOCH_S * _SURVEY_SHARE)
    whole = statistics.median(each for each, _ in rounds)
    told = {
        "native": native_module() is not None,
        "records": given.records,
        "rounds": given.rounds,
        "task_us": round(whole / given.records * 1e6, 3),
        "counting_us": round(statistics.median(i for _, i in rounds) / given.records * 1e6, 4),
        **ratios(rounds, 0.0),
        "driver_epoch_ms": round(1000 * epoch_s, 2),
    }
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
