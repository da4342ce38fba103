"""Fifty tables of one topic by `route_by`, against one table of the same topic.

A lab, a small and a large topic of standard events, whose `app` has one of fifty values. In turn
two jobs read each to its end: one route, and `route_by: app`. A record costs the slope of the CPU
of the whole process tree between the sizes. Bytes are what the broker has sent to its clients, by
the counters of their connections. Each job's rows are compared with the topic: every id once, in
the table of its value. `python -m bench.shared_topic` ends with one JSON line.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from bench.check_output import WrongOutputError
from bench.figures import slope_of
from bench.in_turn import tell
from bench.ours import COMMAND, json_engine
from bench.process_tree import TreeUsage, measure_tree
from bench.standard_events import SHAPES, create_topic, produce_payloads
from bench.tidy_end import end_tidily
from bench.workloads import Workload, workload_events
from sluiceway.lab.lab import Lab, LabEndpoints

VALUES = 50
PARTITIONS = 4
KINDS = ("one", "shared")
WORKLOAD = Workload(values=VALUES)
_SAMPLE_S = 0.2
_SENT = re.compile(r"bytes_acked:(\d+)")
JOB = """\
version: 1
name: {name}
connections:
  broker: {{kafka: {{bootstrap_servers: "{endpoints.bootstrap_servers}"}}}}
  hms: {{metastore: {{uri: "{endpoints.metastore_uri}"}}}}
source: {{connection: broker, topics: [{topic}], start: earliest}}
format: {{json: {{engine: {engine}}}}}
{route_by}
table:
  hive: {{connection: hms, name: "{table}"}}
  columns:
{columns}
  partition_by: [{{name: dt, event_time: "yyyyMMdd"}}, {{name: hr, event_time: "HH"}}]
  meta: [partition, offset]
event_time: {{field: ts, unit: ms, timezone: UTC}}
run: {{interval: 10s, master: "local[2]"}}
"""


@dataclass
class SentBytes:
    """Counts what a broker sends while a job runs, by its connections' own counters.

    Attributes:
        port: Of the broker.
    """

    port: int
    _sent: dict[str, int] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        """Sample until `end`; runs in a thread."""
        while not self._over.wait(_SAMPLE_S):
            self._sample()

    def end(self) -> int:
        """Bytes in all."""
        self._over.set()
        return sum(self._sent.values())

    def _sample(self) -> None:
        command = ["ss", "-tinH", "state", "established", f"( sport = :{self.port} )"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        peer = ""
        for line in lines.splitlines():
            if not line.startswith((" ", "\t")) or line.strip()[:1].isdigit():
                peer = line.split()[-1]
            elif (found := _SENT.search(line)) is not None:
                self._sent[peer] = max(self._sent.get(peer, 0), int(found[1]))


def job_text(kind: str, endpoints: LabEndpoints, topic: str, name: str) -> str:
    """The job file of one run."""
    table = f"{name}_{{value}}" if kind == "shared" else name
    columns = (
        f'    - {{name: {column}, type: "{type_}"}}'
        for column, type_ in SHAPES[WORKLOAD.shape].columns.items()
    )
    return JOB.format(
        name=name.replace("_", "-"),
        endpoints=endpoints,
        topic=topic,
        engine=json_engine(),
        route_by=f"route_by: app\nmax_tables: {VALUES}" if kind == "shared" else "",
        table=f"bench.{table}",
        columns="\n".join(columns),
    )


def check(warehouse: Path, name: str, count: int, tables: int) -> None:
    """Every row once, and in the table of its value.

    Raises:
        WrongOutputError: Not so.
    """
    files = [
        str(path)
        for path in warehouse.glob(f"**/{name}*/dt=*/hr=*/*.parquet")
        if "_sluiceway" not in path.parts
    ]
    with duckdb.connect() as connection:
        read = connection.read_parquet(files, filename=True, hive_partitioning=False)
        where = "parse_path(filename)[-4]"
        found = read.aggregate(
            f"count(*), count(DISTINCT (_partition, _offset)), count(DISTINCT {where}), "
            f"count(DISTINCT ({where}, app)), count(DISTINCT app)"
        ).fetchall()[0]
    wanted = (count, count, tables, VALUES, VALUES)
    if found != wanted:
        raise WrongOutputError(f"{name} has {found} instead of {wanted}")


def run(lab: Lab, endpoints: LabEndpoints, kind: str, count: int) -> tuple[TreeUsage, int]:
    """One run, checked; what it used, and the bytes that the broker has sent."""
    name, folder = f"{kind}_{count}", lab.folder.parent
    job = folder / f"{name}.yaml"
    job.write_text(job_text(kind, endpoints, f"topic-{count}", name))
    sent = SentBytes(int(endpoints.bootstrap_servers.rpartition(":")[2]))
    watcher = threading.Thread(target=sent.watch)
    watcher.start()
    log = job.with_suffix(".log")
    command = [COMMAND, "run", str(job), "--until-caught-up", "--log-level", "info"]
    usage = measure_tree(command, cwd=folder, output=log)
    sent_bytes = sent.end()
    watcher.join()
    if usage.exit_code != 0:
        tail = log.read_text(errors="replace")[-2_000:]
        raise WrongOutputError(f"{name} ended with {usage.exit_code}:\n{tail}")
    check(lab.folder, name, count, VALUES if kind == "shared" else 1)
    tell(f"{name}: {usage.cpu_s:.2f} CPU s, {usage.wall_s:.2f} s, {sent_bytes / 1e6:.0f} MB; exact")
    return usage, sent_bytes


def measure(counts: tuple[int, int], rounds: int) -> dict[str, object]:
    """The figures of the closing line.

    Raises:
        WrongOutputError: A row is missing, doubled or in another table.
    """
    usages: dict[str, list[list[TreeUsage]]] = {kind: [[], []] for kind in KINDS}
    sent: dict[str, int] = {}
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="shared-topic-")))
        for attempt in range(rounds):
            lab = Lab(folder / f"lab-{attempt}")
            cleanup.callback(lab.down, remove_data=True)
            endpoints = lab.up()
            for size, count in enumerate(counts):
                create_topic(endpoints.bootstrap_servers, f"topic-{count}", partitions=PARTITIONS)
                events = workload_events(WORKLOAD, count)
                produce_payloads(endpoints.bootstrap_servers, f"topic-{count}", events)
                for kind in KINDS if attempt % 2 == 0 else reversed(KINDS):
                    usage, sent[kind] = run(lab, endpoints, kind, count)
                    usages[kind][size].append(usage)
            lab.down(remove_data=True)
    slopes = {kind: slope_of(counts, usages[kind]).cpu_us_per_record for kind in KINDS}
    return {
        "records": counts[1],
        "tables": VALUES,
        "cpu_us_one": slopes["one"],
        "cpu_us_shared": slopes["shared"],
        "cpu_ratio": round(slopes["shared"] / slopes["one"], 3),
        "bytes_ratio": round(sent["shared"] / sent["one"], 3),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> int:
    """Read the arguments, measure, print the closing line."""
    end_tidily()
    parser = argparse.ArgumentParser(prog="python -m bench.shared_topic")
    parser.add_argument("--small", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    try:
        print(json.dumps(measure((args.small, args.large), args.rounds)))
    except WrongOutputError as error:
        tell(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
