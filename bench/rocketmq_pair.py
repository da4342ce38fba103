"""The same job from RocketMQ and from Kafka, in turn, in one run: CPU of a record.

Both have the same events in eight logs: Kafka on one broker, RocketMQ on two, with the settings of
the lab. In every round both take in a small and a large topic, the order changing from round to
round. CPU is that of the whole process tree of the job, servers not counted; a record costs the
slope between the medians, as in `bench.compare`. Each table is compared with the workload's rule.

`python -m bench.rocketmq_pair` ends with one JSON line, and adds it to the results when it is
told so. The profiles of the large runs are in it: seconds by stage of all tasks.
"""

import argparse
import datetime
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from bench.figures import ratio, slope_of
from bench.ours import JobChoices, OurRun, check_ours, job_text, run_ours
from bench.standard_events import create_topic
from bench.tidy_end import end_tidily
from bench.workloads import WORKLOADS, Totals, expected_totals, fill_topic, workload_events
from sluiceway.host.native_module import native_module
from sluiceway.lab.lab import Lab, LabEndpoints, StoreServer
from sluiceway.lab.rocketmq import RocketMqEndpoint

# The producer belongs to the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from tools.rocketmq_writer import RocketMqWriter

WORKLOAD = "standard"
SIDES = ("kafka", "rocketmq")
LOGS = 8
RESULTS = Path(__file__).with_name("results") / "rocketmq.jsonl"
MOST_TIMES = 2.0
_BATCH = 1_000


@dataclass(slots=True)
class _Pair:
    """What is measured, and the runs so far by side and size."""

    counts: tuple[int, int]
    endpoints: LabEndpoints
    folder: Path
    expected: tuple[Totals, Totals]
    runs: dict[str, list[list[OurRun]]] = field(
        default_factory=lambda: {side: [[], []] for side in SIDES}
    )


def _queue_system(endpoints: LabEndpoints) -> RocketMqEndpoint:
    if endpoints.rocketmq is None:
        raise RuntimeError("the lab has no RocketMQ")
    return endpoints.rocketmq


def _fill_rocketmq(endpoint: RocketMqEndpoint, topic: str, count: int) -> None:
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


def _source(pair: _Pair, side: str) -> str:
    if side == "kafka":
        return ""
    return f'rocketmq: {{name_servers: ["{_queue_system(pair.endpoints).name_server}"]}}'


def _run(pair: _Pair, side: str, size: int, attempt: int) -> None:
    count = pair.counts[size]
    name = f"{side}-{count}-{attempt}"
    folder = pair.folder / name
    folder.mkdir()
    choices = replace(JobChoices(), source=_source(pair, side))
    workload, job, table = WORKLOADS[WORKLOAD], folder / "job.yaml", folder / "table"
    topic = f"{WORKLOAD}-{count}"
    job.write_text(
        job_text(workload, pair.endpoints, choices, topic=topic, name=name, location=table)
    )
    found = run_ours(job, table, choices)
    check_ours(table, workload, pair.expected[size], count)
    shutil.rmtree(folder)
    pair.runs[side][size].append(found)
    usage = found.usage
    _tell(f"{name}: {usage.cpu_s:.2f} CPU s, {usage.wall_s:.2f} s; checked")


def measure(counts: tuple[int, int], rounds: int) -> dict[str, Any]:
    """Start a lab, fill two topics of both systems, run both sides in turn.

    Raises:
        WrongOutputError: A run failed, or its table is not its topic.
    """
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="mq-pair-")))
        lab = Lab(folder / "lab", stores=[StoreServer.ROCKETMQ])
        cleanup.callback(lab.down, remove_data=True)
        endpoints, workload = lab.up(), WORKLOADS[WORKLOAD]
        for count in counts:
            topic = f"{WORKLOAD}-{count}"
            create_topic(endpoints.bootstrap_servers, topic, partitions=LOGS)
            fill_topic(endpoints.bootstrap_servers, topic, WORKLOAD, count)
            _fill_rocketmq(_queue_system(endpoints), topic, count)
            _tell(f"{topic}: filled")
        small, large = (expected_totals(workload, count) for count in counts)
        pair = _Pair(counts, endpoints, folder, (small, large))
        for attempt in range(rounds):
            for size in range(len(counts)):
                for side in SIDES if attempt % 2 == 0 else reversed(SIDES):
                    _run(pair, side, size, attempt)
    return result_of(counts, pair.runs)


def result_of(counts: tuple[int, int], runs: dict[str, list[list[OurRun]]]) -> dict[str, Any]:
    """The figures of the closing line, from runs by side and size."""
    usages = {side: [[run.usage for run in of] for of in runs[side]] for side in SIDES}
    slopes = {side: slope_of(counts, usages[side]) for side in SIDES}
    each = {side: slopes[side].cpu_us_per_record for side in SIDES}
    return {
        "records": list(counts),
        "rounds": len(runs["kafka"][1]),
        "native": native_module() is not None,
        "kafka_cpu_us": each["kafka"],
        "rocketmq_cpu_us": each["rocketmq"],
        "cpu_ratio": ratio(each["rocketmq"], each["kafka"]),
        "kafka_krps": round(slopes["kafka"].records_per_s / 1000, 1),
        "rocketmq_krps": round(slopes["rocketmq"].records_per_s / 1000, 1),
        "cpu_s": {side: [[u.cpu_s for u in of] for of in usages[side]] for side in SIDES},
        "parts_us": {side: _parts_us(counts, runs[side]) for side in SIDES},
        "verified": True,
        "load": round(os.getloadavg()[0], 1),
    }


def _parts_us(counts: tuple[int, int], runs: Sequence[Sequence[OurRun]]) -> dict[str, float]:
    """Microseconds a record by stage and process: the slope between medians."""
    names = runs[1][0].parts_s
    medians = [
        {name: statistics.median(run.parts_s.get(name, 0.0) for run in of) for name in names}
        for of in runs
    ]
    records = counts[1] - counts[0]
    return {n: round((medians[1][n] - medians[0][n]) / records * 1e6, 3) for n in names}


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the closing line; 1 when RocketMQ costs more than twice of Kafka."""
    end_tidily()
    parser = argparse.ArgumentParser(prog="python -m bench.rocketmq_pair")
    parser.add_argument("--small", type=int, default=500_000)
    parser.add_argument("--large", type=int, default=2_500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="add the line to bench/results/")
    parser.add_argument("--what", default="", help="a word for the results: what was measured")
    given = parser.parse_args(arguments)
    if not 0 < given.small < given.large:
        parser.error("the large topic has to be larger than the small one")
    found = measure((given.small, given.large), given.rounds)
    if given.keep:
        at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        with RESULTS.open("a") as results:
            results.write(json.dumps({"at": at, "what": given.what, **found}) + "\n")
    print(json.dumps(found))
    return int(found["cpu_ratio"] is None or found["cpu_ratio"] > MOST_TIMES)


if __name__ == "__main__":
    sys.exit(main())
