"""Throughput by slots, and the driver's share of a large cluster.

Slots: one topic of a real broker is taken in by jobs of one slot, of two, and of as many as the
machine has cores; a small and a large topic, in turn, so that start-up is not in the slope. Each
table is compared with the rule of its topic. `efficiency` is the throughput of most slots over
that of one, by the slots; `cpu_efficiency` the same of the CPU a record takes, which a busy machine
changes less: 1 when more slots cost nothing. Broker, metastore and Spark's JVM share the cores with
the slots: one slot has the other cores for these, all slots have none to spare. So one slot is also
run with all of this held on one core, servers included; `core_efficiency` is the throughput of most
slots on all cores over that, by the cores. `machine_efficiency` is the same of work that shares
nothing (`machine_cores`): two cores that are halves of a physical one give far less than twice one,
whatever runs. `core_efficiency_of_machine` is what is left for the engine: one over the other.

Driver: the real loop, session and ledger of one route with 10,000 source partitions on 100
simulated executors of one slot, all of which have new rows in each epoch; plans and answers are
made bytes and back as on their way. Brokers, the metastore and Spark's JVM are not in it. Shares
are those of epochs of 10 s: of the driver's one core, and of all 101.

`python -m bench.scaling` ends with one JSON line; 1 is the exit code when a run was wrong or the
efficiency to what the machine's cores give is below 0.85.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bench.check_output import WrongOutputError
from bench.driver_cost import MemorySource, measure
from bench.figures import ratio, slope_of
from bench.in_turn import Setting, Turns, run_in_turn, tell
from bench.machine_cores import machine_efficiency
from bench.ours import JobChoices, json_engine_missing
from bench.process_tree import TreeUsage
from bench.tidy_end import end_tidily
from sluiceway.lab.state import load_state

WANTED = 0.85
EXECUTORS = 100
SOURCE_PARTITIONS = 10_000
INTERVAL_S = 10.0
_TOPIC_PARTITIONS = 4
_EPOCHS = 12
_CATALOG_S = 0.003
_ONE_CORE = "one-core"


def slot_counts(cores: int) -> list[int]:
    """One, two, and as many as there are cores."""
    return sorted({1, 2, cores})


def hold_on(cores: Iterable[int], folder: Path) -> None:
    """Let the servers of a lab, this process and all that it starts from now on run on some cores.

    Args:
        cores: By their numbers, out of those that this process may use.
        folder: Of the lab.
    """
    wanted = set(cores)
    os.sched_setaffinity(0, wanted)
    state = load_state(folder)
    for server in state.servers.values() if state else ():
        for thread in Path(f"/proc/{server.pid}/task").iterdir():
            with suppress(ProcessLookupError):  # it ended while we looked
                os.sched_setaffinity(int(thread.name), wanted)


def _throughput(counts: tuple[int, int], rounds: int) -> dict[str, Any]:
    """Run all numbers of slots in turn; raises as `run_in_turn`."""
    cores = sorted(os.sched_getaffinity(0))
    slots_of = {_ONE_CORE: 1} | {f"slots-{slots}": slots for slots in slot_counts(len(cores))}

    def choices(setting: Setting, kind: str) -> JobChoices:
        hold_on(cores[:1] if kind == _ONE_CORE else cores, setting.folder / "lab")
        return replace(JobChoices(), master=f"local[{slots_of[kind]}]")

    try:
        found = run_in_turn(Turns(tuple(slots_of), choices, _TOPIC_PARTITIONS), counts, rounds)
    finally:
        os.sched_setaffinity(0, cores)
    usages = {kind: [[run.usage for run in of] for of in runs] for kind, runs in found.items()}
    one_core = usages.pop(_ONE_CORE)
    of_slots = {slots_of[kind]: runs for kind, runs in usages.items()}
    return throughput_of(counts, of_slots, one_core, len(cores))


def throughput_of(
    counts: tuple[int, int],
    runs: dict[int, list[list[TreeUsage]]],
    one_core: list[list[TreeUsage]],
    cores: int,
) -> dict[str, Any]:
    """Figures of the closing line, from runs by size: of each number of slots, and on one core.

    Raises:
        WrongOutputError: There is no slope between the sizes.
    """
    slopes = {slots: slope_of(counts, runs[slots]) for slots in sorted(runs)}
    held = slope_of(counts, one_core)
    if min(slope.records_per_s for slope in (held, *slopes.values())) <= 0:
        raise WrongOutputError(
            "the large topic took no longer than the small one: take larger ones"
        )
    most = max(slopes)
    first, last = slopes[1], slopes[most]
    return {
        "records": list(counts),
        "slots": list(slopes),
        "krps": [round(slope.records_per_s / 1000, 1) for slope in slopes.values()],
        "cpu_us": [round(slope.cpu_us_per_record, 3) for slope in slopes.values()],
        "efficiency": round(last.records_per_s / first.records_per_s / most, 2),
        "cpu_efficiency": ratio(first.cpu_us_per_record, last.cpu_us_per_record),
        "cores": cores,
        "one_core_krps": round(held.records_per_s / 1000, 1),
        "core_efficiency": round(last.records_per_s / held.records_per_s / cores, 2),
    }


def driver_share(executors: int, source_partitions: int, epochs: int) -> dict[str, Any]:
    """What a driver of so many executors takes for itself."""
    with tempfile.TemporaryDirectory(prefix="scaling-driver-") as folder:
        source = MemorySource(["topic_0"], source_partitions)
        cost = measure(1, epochs, Path(folder), _CATALOG_S, source, slots=executors, shipped=True)
    tell(json.dumps(asdict(cost)))
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
        machine = machine_efficiency(sorted(os.sched_getaffinity(0)))
        found = _throughput((given.small, given.large), given.rounds)
    except WrongOutputError as error:
        tell(f"no measurement: {error}")
        return 1
    found["machine_efficiency"] = machine
    found["core_efficiency_of_machine"] = round(found["core_efficiency"] / machine, 2)
    found |= driver_share(EXECUTORS, SOURCE_PARTITIONS, _EPOCHS)
    print(json.dumps({**found, "load": round(os.getloadavg()[0], 1)}))
    return int(found["core_efficiency_of_machine"] < WANTED)


if __name__ == "__main__":
    sys.exit(main())
