"""Throughput by slots, and the driver's share of a large cluster.

Slots: one topic of a real broker is taken in by jobs of one slot, of two, and of as many as the
machine has cores; a small and a large topic, in turn, so that start-up is not in the slope. Each
table is compared with the rule of its topic. `efficiency` is the throughput of most slots over
that of one, by the slots; `cpu_efficiency` the same of the CPU a record takes, which a busy machine
changes less: 1 when more slots cost nothing. Producers and broker share the cores with the slots.

Driver: the real loop, session and ledger of one route with 10,000 source partitions on 100
simulated executors of one slot, all of which have new rows in each epoch; plans and answers are
made bytes and back as on their way. Brokers, the metastore and Spark's JVM are not in it. Shares
are those of epochs of 10 s: of the driver's one core, and of all 101.

`python -m bench.scaling` ends with one JSON line; 1 is the exit code when a run was wrong or the
efficiency is below 0.85.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.check_output import WrongOutputError
from bench.driver_cost import MemorySource, measure
from bench.figures import slope_of
from bench.ours import JobChoices, check_ours, job_text, json_engine_missing, run_ours
from bench.process_tree import TreeUsage
from bench.standard_events import create_topic
from bench.tidy_end import end_tidily
from bench.workloads import WORKLOADS, Totals, expected_totals, fill_topic
from sluiceway.lab.lab import Lab, LabEndpoints

WANTED = 0.85
EXECUTORS = 100
SOURCE_PARTITIONS = 10_000
INTERVAL_S = 10.0
_WORKLOAD = "standard"
_TOPIC_PARTITIONS = 4
_EPOCHS = 12
_CATALOG_S = 0.003


@dataclass(slots=True)
class _Scaling:
    """What is measured, and the runs so far by slots and size."""

    counts: tuple[int, int]
    endpoints: LabEndpoints
    folder: Path
    expected: tuple[Totals, Totals]
    runs: dict[int, list[list[TreeUsage]]] = field(default_factory=dict)


def slot_counts(cores: int) -> list[int]:
    """One, two, and as many as there are cores."""
    return sorted({1, 2, cores})


def _run(scaling: _Scaling, slots: int, size: int, attempt: int) -> None:
    count = scaling.counts[size]
    name = f"slots-{slots}-{count}-{attempt}"
    folder = scaling.folder / name
    folder.mkdir()
    choices = replace(JobChoices(), master=f"local[{slots}]")
    workload, job, table = WORKLOADS[_WORKLOAD], folder / "job.yaml", folder / "table"
    topic = f"{_WORKLOAD}-{count}"
    job.write_text(
        job_text(workload, scaling.endpoints, choices, topic=topic, name=name, location=table)
    )
    found = run_ours(job, table, choices)
    check_ours(table, workload, scaling.expected[size], count)
    shutil.rmtree(folder)
    scaling.runs.setdefault(slots, [[], []])[size].append(found.usage)
    _tell(f"{name}: {found.usage.cpu_s:.2f} CPU s, {found.usage.wall_s:.2f} s; checked")


def _throughput(counts: tuple[int, int], rounds: int) -> dict[str, Any]:
    """Fill two topics, run all numbers of slots in turn.

    Raises:
        WrongOutputError: A run failed, or its table is not its topic.
    """
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="scaling-")))
        lab = Lab(folder / "lab")
        cleanup.callback(lab.down, remove_data=True)
        endpoints = lab.up()
        for count in counts:
            topic = f"{_WORKLOAD}-{count}"
            create_topic(endpoints.bootstrap_servers, topic, partitions=_TOPIC_PARTITIONS)
            fill_topic(endpoints.bootstrap_servers, topic, _WORKLOAD, count)
        small, large = (expected_totals(WORKLOADS[_WORKLOAD], count) for count in counts)
        scaling = _Scaling(counts, endpoints, folder, (small, large))
        numbers = slot_counts(os.cpu_count() or 1)
        for attempt in range(rounds):
            for size in range(len(counts)):
                for slots in numbers if attempt % 2 == 0 else reversed(numbers):
                    _run(scaling, slots, size, attempt)
    return throughput_of(counts, scaling.runs)


def throughput_of(
    counts: tuple[int, int], runs: dict[int, list[list[TreeUsage]]]
) -> dict[str, Any]:
    """Figures of the closing line, from runs by slots and size."""
    slopes = {slots: slope_of(counts, runs[slots]) for slots in sorted(runs)}
    first, last = slopes[1], slopes[max(slopes)]
    most = max(slopes)
    return {
        "records": list(counts),
        "slots": list(slopes),
        "krps": [round(slope.records_per_s / 1000, 1) for slope in slopes.values()],
        "cpu_us": [round(slope.cpu_us_per_record, 3) for slope in slopes.values()],
        "efficiency": round(last.records_per_s / first.records_per_s / most, 2),
        "cpu_efficiency": round(first.cpu_us_per_record / last.cpu_us_per_record, 2),
    }


def driver_share(executors: int, source_partitions: int, epochs: int) -> dict[str, Any]:
    """What a driver of so many executors takes for itself."""
    with tempfile.TemporaryDirectory(prefix="scaling-driver-") as folder:
        source = MemorySource(["topic_0"], source_partitions)
        cost = measure(1, epochs, Path(folder), _CATALOG_S, source, slots=executors, shipped=True)
    _tell(json.dumps(asdict(cost)))
    epoch_s = cost.driver_cpu_ms / 1000
    return {
        "executors": executors,
        "source_partitions": source_partitions,
        "driver_cpu_ms": cost.driver_cpu_ms,
        "driver_gap_ms": cost.driver_ms,
        "driver_core_share": round(epoch_s / INTERVAL_S, 3),
        "driver_cluster_share": round(epoch_s / (INTERVAL_S * (executors + 1)), 5),
        "threads": cost.threads,
    }


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the closing line."""
    end_tidily()
    parser = argparse.ArgumentParser(prog="python -m bench.scaling")
    parser.add_argument("--small", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    if not 0 < given.small < given.large:
        parser.error("the large topic has to be larger than the small one")
    if json_engine_missing():
        parser.error("the native module is not installed: make native")
    os.environ["SLUICEWAY_NATIVE"] = "1"
    try:
        found = _throughput((given.small, given.large), given.rounds)
    except WrongOutputError as error:
        _tell(f"no measurement: {error}")
        return 1
    found |= driver_share(EXECUTORS, SOURCE_PARTITIONS, _EPOCHS)
    print(json.dumps({**found, "load": round(os.getloadavg()[0], 1)}))
    return int(found["efficiency"] < WANTED)


if __name__ == "__main__":
    sys.exit(main())
