"""The same job from RocketMQ and from Kafka, in turn, in one run: CPU of a record.

A third side reads RocketMQ without the native module's part in pulls, message by message
(`pulls_singly/sitecustomize.py`, which all sides load): what that part is worth.

Both systems have the same events in eight logs: Kafka on one broker, RocketMQ on two, with the
settings of the lab. In every round all sides take in a small and a large topic, the order changing
from round to round. CPU is that of the whole process tree of the job, servers not counted; a record
costs the slope between the medians, as in `bench.compare`. Each table is compared with the
workload's rule.

`python -m bench.rocketmq_pair` ends with one JSON line, and adds it to the results when it is
told so. The profiles of the large runs are in it: seconds by stage of all tasks.
"""

import argparse
import datetime
import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from bench.check_output import WrongOutputError
from bench.figures import ratio, slope_of
from bench.in_turn import WORKLOAD, Setting, Turns, run_in_turn, tell
from bench.ours import JobChoices, OurRun, command_that_loads
from bench.parts import parts_us
from bench.tidy_end import end_tidily
from bench.workloads import WORKLOADS, workload_events
from sluiceway.host.native_module import native_module
from sluiceway.lab.lab import LabEndpoints, StoreServer
from sluiceway.lab.rocketmq import RocketMqEndpoint

# The producer belongs to the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from tools.rocketmq_writer import RocketMqWriter

SIDES = ("kafka", "rocketmq", "singly")
HERE = Path(__file__).parent
LOGS = 8
RESULTS = HERE / "results" / "rocketmq.jsonl"
MOST_TIMES = 2.0
_BATCH = 1_000


def _queue_system(endpoints: LabEndpoints) -> RocketMqEndpoint:
    if endpoints.rocketmq is None:
        raise RuntimeError("the lab has no RocketMQ")
    return endpoints.rocketmq


def _fill_rocketmq(endpoints: LabEndpoints, topic: str, count: int) -> None:
    endpoint = _queue_system(endpoints)
    writer = RocketMqWriter(endpoint.name_server)
    addresses = sorted(endpoint.brokers.values())
    queues = LOGS // len(addresses)
    writer.create_topic(topic, dict.fromkeys(addresses, queues))
    places = [(address, queue) for queue in range(queues) for address in addresses]
    events = (payload for _, payload in workload_events(WORKLOADS[WORKLOAD], count))
    for number, batch in enumerate(iter(lambda: list(islice(events, _BATCH)), [])):
        address, queue = places[number % len(places)]
        writer.send_many(address, topic, queue, batch)
    writer.close()


def _choices(setting: Setting, side: str) -> JobChoices:
    """The product's program with what all sides load; `singly` is told where to leave marks."""
    marks = setting.folder / "marks"
    marks.mkdir(exist_ok=True)
    command = command_that_loads(
        setting.folder / f"sluiceway-{side}",
        HERE / "pulls_singly",
        "SLUICEWAY_BENCH_PULLS_SINGLY",
        str(marks) if side == "singly" else "",
    )
    return replace(JobChoices(), source=_source(setting.endpoints, side), command=command)


def _source(endpoints: LabEndpoints, side: str) -> str:
    if side == "kafka":
        return ""
    return f'rocketmq: {{name_servers: ["{_queue_system(endpoints).name_server}"]}}'


def _check(setting: Setting, side: str, name: str) -> None:
    marked = any((setting.folder / "marks").iterdir())
    if marked != (side == "singly"):
        raise WrongOutputError(f"{name}: its tasks did not read as they should")
    shutil.rmtree(setting.folder / "marks")


def measure(counts: tuple[int, int], rounds: int) -> dict[str, Any]:
    """Run all sides in turn; raises as `run_in_turn`."""
    turns = Turns(SIDES, _choices, LOGS, _check, (StoreServer.ROCKETMQ,), _fill_rocketmq)
    return result_of(counts, run_in_turn(turns, counts, rounds))


def result_of(counts: tuple[int, int], runs: dict[str, list[list[OurRun]]]) -> dict[str, Any]:
    """The figures of the closing line, from runs by side and size."""
    usages = {side: [[run.usage for run in of] for of in runs[side]] for side in SIDES}
    slopes = {side: slope_of(counts, usages[side]) for side in SIDES}
    each = {side: slopes[side].cpu_us_per_record for side in SIDES}
    return {
        "records": list(counts),
        "rounds": len(runs["kafka"][1]),
        "kafka_cpu_us": each["kafka"],
        "rocketmq_cpu_us": each["rocketmq"],
        "singly_cpu_us": each["singly"],
        "cpu_ratio": ratio(each["rocketmq"], each["kafka"]),
        "cpu_ratio_singly": ratio(each["singly"], each["kafka"]),
        "kafka_krps": round(slopes["kafka"].records_per_s / 1000, 1),
        "rocketmq_krps": round(slopes["rocketmq"].records_per_s / 1000, 1),
        "cpu_s": {side: [[u.cpu_s for u in of] for of in usages[side]] for side in SIDES},
        "parts_us": {side: parts_us(counts, runs[side]) for side in SIDES},
        "verified": True,
        "load": round(os.getloadavg()[0], 1),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the closing line; 1 when RocketMQ costs more than twice of Kafka."""
    end_tidily()
    parser = argparse.ArgumentParser(prog="python -m bench.rocketmq_pair")
    parser.add_argument("--small", type=int, default=500_000)
    parser.add_argument("--large", type=int, default=2_500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="add the line to bench/results/")
    given = parser.parse_args(arguments)
    if not 0 < given.small < given.large:
        parser.error("the large topic has to be larger than the small one")
    if native_module() is None:
        parser.error("it compares what the native module does; `make native` builds it")
    try:
        found = measure((given.small, given.large), given.rounds)
    except WrongOutputError as error:
        tell(f"no measurement: {error}")
        return 1
    if given.keep:
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        with RESULTS.open("a") as results:
            results.write(json.dumps({"at": at, **found}) + "\n")
    print(json.dumps(found))
    return int(found["cpu_ratio"] is None or found["cpu_ratio"] > MOST_TIMES)


if __name__ == "__main__":
    sys.exit(main())
