"""What the machine's cores give together: work that shares nothing, on one core and on all at once.

A process a core decodes standard events in its own memory with the native module, for some seconds
from the same moment on. No broker, no file, no lock: where all cores together give less than so
many times one, they share what no program can part, such as the units of one physical core or the
way to memory. An engine's own efficiency is to be read against this figure.

`python -m bench.machine_cores` prints one JSON line.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from bench.standard_events import SHAPES, bench_events
from sluiceway.formats.json.decoder import JsonDecoder
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema

BATCH = 10_000
SECONDS = 3.0
ROUNDS = 3
_COMMAND = (sys.executable, "-m", "bench.machine_cores", "--core")
_START_S = 4.0
"""From a process's start until it decodes: all are to be there by then."""


def decoded_per_s(core: int, begin_s: float, seconds: float) -> float:
    """Records a second that one core decodes; called in a process of its own.

    Args:
        core: By its number.
        begin_s: Moment of the monotonic clock, which all processes share.
        seconds: For how long.

    Raises:
        RuntimeError: The process was not there at that moment.
    """
    os.sched_setaffinity(0, {core})
    kinds = SHAPES["standard"].columns.items()
    schema = Schema(tuple(Field(name, parse_hive_type(hive)) for name, hive in kinds))
    decoder = JsonDecoder(schema, engine="native")
    events = list(bench_events(BATCH))
    decoder.decode(events)
    if time.monotonic() > begin_s:
        raise RuntimeError("the process began too late to be compared with the others")
    time.sleep(begin_s - time.monotonic())
    rows, began_s = 0, time.monotonic()
    while (spent_s := time.monotonic() - began_s) < seconds:
        rows += decoder.decode(events).rows.num_rows
    return rows / spent_s


def machine_efficiency(cores: list[int], rounds: int = ROUNDS, seconds: float = SECONDS) -> float:
    """Throughput of all cores at once over that of one, by the cores; medians of rounds in turn.

    Args:
        cores: By their numbers.
        rounds: Of one core, then all.
        seconds: Of each.

    Raises:
        subprocess.CalledProcessError: A process failed.
    """
    one: list[float] = []
    all_at_once: list[float] = []
    for _ in range(rounds):
        one.append(_together(cores[:1], seconds))
        all_at_once.append(_together(cores, seconds))
    return round(statistics.median(all_at_once) / statistics.median(one) / len(cores), 2)


def _together(cores: list[int], seconds: float) -> float:
    begin_s = time.monotonic() + _START_S
    started = [
        subprocess.Popen(
            [*_COMMAND, str(core), "--begin", str(begin_s), "--seconds", str(seconds)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for core in cores
    ]
    told = [(process, process.communicate()[0]) for process in started]
    for process, _ in told:
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, process.args)
    return sum(json.loads(text)["records_per_s"] for _, text in told)


def main(arguments: list[str] | None = None) -> int:
    """Measure all cores, or be one of the processes; print one JSON line."""
    parser = argparse.ArgumentParser(prog="python -m bench.machine_cores")
    parser.add_argument("--core", type=int)
    parser.add_argument("--begin", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    given = parser.parse_args(arguments)
    if given.core is not None:
        found = decoded_per_s(given.core, given.begin, given.seconds)
        print(json.dumps({"records_per_s": round(found)}))
        return 0
    cores = sorted(os.sched_getaffinity(0))
    efficiency = machine_efficiency(cores, seconds=given.seconds)
    print(json.dumps({"cores": len(cores), "machine_efficiency": efficiency}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
