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
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.check_output import WrongOutputError
from bench.figures import slope_of
from bench.ours import JobChoices, check_ours, command_that_loads, job_text, run_ours
from bench.process_tree import TreeUsage
from bench.standard_events import create_topic
from bench.tidy_end import end_tidily
from bench.workloads import WORKLOADS, Totals, expected_totals, fill_topic
from sluiceway.lab.lab import Lab, LabEndpoints

WORKLOAD = "standard"
TOPIC_PARTITIONS = 4
SIDES = ("with", "without")
HERE = Path(__file__).parent
# A driver and a worker at the least.
_LEAST_MARKS = 2


@dataclass(slots=True)
class _Pair:
    """What is measured, and the runs so far by side and size."""

    counts: tuple[int, int]
    endpoints: LabEndpoints
    folder: Path
    expected: tuple[Totals, Totals]
    runs: dict[str, list[list[TreeUsage]]] = field(
        default_factory=lambda: {side: [[], []] for side in SIDES}
    )


def _command(pair: _Pair, side: str) -> str:
    """The product's program with what both sides load; `without` is told where to leave marks."""
    marks = pair.folder / "marks"
    marks.mkdir(exist_ok=True)
    return command_that_loads(
        pair.folder / f"sluiceway-{side}",
        HERE / "metrics_off",
        "SLUICEWAY_BENCH_WITHOUT_METRICS",
        str(marks) if side == "without" else "",
    )


def _run(pair: _Pair, side: str, size: int, attempt: int) -> None:
    count = pair.counts[size]
    name = f"{side}-{count}-{attempt}"
    folder = pair.folder / name
    folder.mkdir()
    choices = replace(JobChoices(), command=_command(pair, side))
    workload, job, table = WORKLOADS[WORKLOAD], folder / "job.yaml", folder / "table"
    topic = f"{WORKLOAD}-{count}"
    job.write_text(
        job_text(workload, pair.endpoints, choices, topic=topic, name=name, location=table)
    )
    found = run_ours(job, table, choices)
    check_ours(table, workload, pair.expected[size], count)
    marks = len(list((pair.folder / "marks").iterdir()))
    if (side == "without") != (marks >= _LEAST_MARKS):
        raise WrongOutputError(f"{name}: {marks} processes went without metrics")
    shutil.rmtree(pair.folder / "marks")
    shutil.rmtree(folder)
    pair.runs[side][size].append(found.usage)
    _tell(f"{name}: {found.usage.cpu_s:.2f} CPU s, {found.usage.wall_s:.2f} s; checked")


def measure(counts: tuple[int, int], rounds: int) -> dict[str, Any]:
    """Start a lab, fill two topics, run both sides in turn.

    Raises:
        WrongOutputError: A run failed, its table is not its topic, or metrics were not left out.
    """
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="metrics-")))
        lab = Lab(folder / "lab")
        cleanup.callback(lab.down, remove_data=True)
        endpoints, workload = lab.up(), WORKLOADS[WORKLOAD]
        for count in counts:
            topic = f"{WORKLOAD}-{count}"
            create_topic(endpoints.bootstrap_servers, topic, partitions=TOPIC_PARTITIONS)
            fill_topic(endpoints.bootstrap_servers, topic, WORKLOAD, count)
        small, large = (expected_totals(workload, count) for count in counts)
        pair = _Pair(counts, endpoints, folder, (small, large))
        for attempt in range(rounds):
            for size in range(len(counts)):
                for side in SIDES if attempt % 2 == 0 else reversed(SIDES):
                    _run(pair, side, size, attempt)
    return result_of(counts, pair.runs)


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


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


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
        _tell(f"no measurement: {error}")
        return 1
    print(json.dumps(found | _parts()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
