"""The same job with and without metrics, in turn, on one topic: what they cost of its CPU.

In every round both take in a small and a large topic, the order changing from round to round.
CPU is that of the whole process tree; a record costs the slope between the medians, as in
`bench.compare`. A job cannot be told to go without metrics: `metrics_off/sitecustomize.py`, which
both sides load, puts what does nothing in place of what counts. Each table is compared with the
workload's rule. `python -m bench.metrics_pair` ends with one JSON line, which has what
`bench.metrics_cost` measures of the parts too; `noise` is how far runs of one kind are apart.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.check_output import WrongOutputError
from bench.figures import slope_of
from bench.in_turn import Setting, Turns, run_in_turn, tell
from bench.ours import JobChoices, command_that_loads
from bench.process_tree import TreeUsage
from bench.tidy_end import end_tidily

TOPIC_PARTITIONS = 4
SIDES = ("with", "without")
HERE = Path(__file__).parent
# A driver and a worker at the least.
_LEAST_MARKS = 2


def _choices(setting: Setting, side: str) -> JobChoices:
    """The product's program with what both sides load; `without` is told where to leave marks."""
    marks = setting.folder / "marks"
    marks.mkdir(exist_ok=True)
    command = command_that_loads(
        setting.folder / f"sluiceway-{side}",
        HERE / "metrics_off",
        "SLUICEWAY_BENCH_WITHOUT_METRICS",
        str(marks) if side == "without" else "",
    )
    return replace(JobChoices(), command=command)


def _check(setting: Setting, side: str, name: str) -> None:
    marks = len(list((setting.folder / "marks").iterdir()))
    if (side == "without") != (marks >= _LEAST_MARKS):
        raise WrongOutputError(f"{name}: {marks} processes went without metrics")
    shutil.rmtree(setting.folder / "marks")


def measure(counts: tuple[int, int], rounds: int) -> dict[str, Any]:
    """Run both sides in turn; raises as `run_in_turn`, also when metrics were not left out."""
    runs = run_in_turn(Turns(SIDES, _choices, TOPIC_PARTITIONS, _check), counts, rounds)
    return result_of(counts, {side: [[r.usage for r in of] for of in runs[side]] for side in SIDES})


def result_of(counts: tuple[int, int], runs: dict[str, list[list[TreeUsage]]]) -> dict[str, Any]:
    """The figures of the closing line, from runs by side and size."""
    slopes = {side: slope_of(counts, runs[side]) for side in SIDES}
    whole = {side: [run.cpu_s for run in runs[side][1]] for side in SIDES}
    middle = {side: statistics.median(whole[side]) for side in SIDES}
    each = {side: slopes[side].cpu_us_per_record for side in SIDES}
    noise = max((max(of) - min(of)) / middle[side] for side, of in whole.items())
    return {
        "records": counts[1],
        "rounds": len(whole["with"]),
        "cpu_us_per_record_with": each["with"],
        "cpu_us_per_record_without": each["without"],
        "ratio_per_record": round(each["with"] / each["without"], 3) if each["without"] else None,
        "cpu_s_with": round(middle["with"], 2),
        "cpu_s_without": round(middle["without"], 2),
        "ratio_of_large_runs": round(middle["with"] / middle["without"], 3),
        "noise": round(noise, 3),
        "load": round(os.getloadavg()[0], 1),
    }


def _parts() -> dict[str, float]:
    """What `bench.metrics_cost` says."""
    command = [sys.executable, "-m", "bench.metrics_cost"]
    done = subprocess.run(command, cwd=HERE.parent, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the closing line."""
    end_tidily()
    parser = argparse.ArgumentParser(prog="python -m bench.metrics_pair")
    parser.add_argument("--small", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args(arguments)
    if not 0 < given.small < given.large:
        parser.error("the large topic has to be larger than the small one")
    try:
        found = measure((given.small, given.large), given.rounds)
    except WrongOutputError as error:
        tell(f"no measurement: {error}")
        return 1
    print(json.dumps(found | _parts()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
