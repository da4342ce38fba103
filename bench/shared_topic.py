"""Fifty tables of one topic by `route_by`, against one table of the same topic.

A lab, a small and a large topic of standard events, whose `app` has one of fifty values. In turn
two jobs read each to its end: one route, and `route_by: app`. A record costs the slope of the CPU
of the whole process tree between the sizes. Bytes are what the broker has sent to its clients, by
the counters of their connections. Each job's rows are compared with the topic: every id once, in
the table of its value. `python -m bench.shared_topic` ends with one JSON line.

With `--troubled RECORDS` the fifty tables are filled in four runs, a third of the topic at a time.
In the second run one table has another format, so its route halts. In the third that table is
mended, so its route lags, and another one's route halts. In the fourth both are mended. After each
run every table has the rows that it has to have, each once. It needs `PYTHONPATH=tests`.
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
from itertools import islice
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from bench.check_output import WrongOutputError
from bench.figures import slope_of
from bench.in_turn import tell
from bench.ours import COMMAND, json_engine
from bench.process_tree import TreeUsage, measure_tree
from bench.standard_events import FIRST_ID, SHAPES, create_topic, produce_payloads
from bench.tidy_end import end_tidily
from bench.workloads import Workload, workload_events
from sluiceway.lab.lab import Lab, LabEndpoints
from tools.raw_metastore import raw_client

VALUES = 50
PARTITIONS = 4
KINDS = ("one", "shared")
WORKLOAD = Workload(values=VALUES)
# In each run: the value whose table is mended before it, and the one whose route halts in it.
TROUBLES = ((None, None), (None, 7), (7, 11), (11, None))
OTHER_INPUT = "org.apache.hadoop.mapred.TextInputFormat"
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
    files = _files(warehouse, name)
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


def _files(warehouse: Path, name: str) -> list[str]:
    return [
        str(path)
        for path in warehouse.glob(f"**/{name}*/dt=*/hr=*/*.parquet")
        if "_sluiceway" not in path.parts
    ]


def check_tables(warehouse: Path, name: str, filled: NDArray[np.int64]) -> None:
    """Every table has the rows of its value, each once.

    Args:
        warehouse: Folder of the tables.
        name: Begins the tables' names.
        filled: For each value, how many events of the topic its table has read.

    Raises:
        WrongOutputError: Not so.
    """
    with duckdb.connect() as connection:
        read = connection.read_parquet(
            _files(warehouse, name), filename=True, hive_partitioning=False
        )
        found = read.aggregate(
            "app, parse_path(filename)[-4], count(*), count(DISTINCT (_partition, _offset)), "
            "sum(id)::HUGEINT"
        ).fetchall()
    wanted = []
    for value, count in enumerate(filled.tolist()):
        numbers = np.arange(count, dtype=np.int64)
        ids = FIRST_ID + numbers[numbers * 7_919 % VALUES == value]
        table = f"{name}_app_{value:05}"
        wanted.append((f"app-{value:05}", table, len(ids), len(ids), int(ids.sum())))
    if sorted(found) != sorted(wanted):
        wrong = sorted({*found} ^ {*wanted})[:6]
        raise WrongOutputError(f"{name}: found and wanted differ: {wrong}")


def run(lab: Lab, endpoints: LabEndpoints, kind: str, count: int) -> tuple[TreeUsage, int]:
    """One run, checked; what it used, and the bytes that the broker has sent."""
    name = f"{kind}_{count}"
    usage, sent_bytes = drive(lab, endpoints, kind, f"topic-{count}", name)
    check(lab.folder, name, count, VALUES if kind == "shared" else 1)
    tell(f"{name}: {usage.cpu_s:.2f} CPU s, {usage.wall_s:.2f} s, {sent_bytes / 1e6:.0f} MB; exact")
    return usage, sent_bytes


def drive(
    lab: Lab, endpoints: LabEndpoints, kind: str, topic: str, name: str, *, halts: bool = False
) -> tuple[TreeUsage, int]:
    """Run a job to the topic's end; what it used, and the bytes that the broker has sent.

    Raises:
        WrongOutputError: It failed, or no route halted where one has to.
    """
    folder = lab.folder.parent
    job = folder / f"{name}.yaml"
    job.write_text(job_text(kind, endpoints, topic, name))
    sent = SentBytes(int(endpoints.bootstrap_servers.rpartition(":")[2]))
    watcher = threading.Thread(target=sent.watch)
    watcher.start()
    log = job.with_suffix(".log")
    command = [COMMAND, "run", str(job), "--until-caught-up", "--log-level", "info"]
    usage = measure_tree(command, cwd=folder, output=log)
    sent_bytes = sent.end()
    watcher.join()
    text = log.read_text(errors="replace")
    if (usage.exit_code != 0) != halts or ('"route_halted"' in text) != halts:
        raise WrongOutputError(f"{name} ended with {usage.exit_code}:\n{text[-2_000:]}")
    return usage, sent_bytes


def set_input(endpoints: LabEndpoints, table: str, input_format: str) -> str:
    """Change a table's input format, as another program may; the one before."""
    with raw_client(endpoints.metastore_uri) as client:
        found = client.get_table("bench", table)
        before: str = found.sd.inputFormat
        found.sd.inputFormat = input_format
        client.alter_table("bench", table, found)
    return before


def troubled(count: int) -> dict[str, object]:
    """Fill the tables while one route halts and one lags.

    Args:
        count: Events of the topic.

    Raises:
        WrongOutputError: A row is missing, doubled or in another table.
    """
    name, topic, third = "troubled", "topic-troubled", count // 3
    filled, sent_mb, sound = np.zeros(VALUES, np.int64), [], ""
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="shared-topic-")))
        lab = Lab(folder / "lab")
        cleanup.callback(lab.down, remove_data=True)
        endpoints = lab.up()
        create_topic(endpoints.bootstrap_servers, topic, partitions=PARTITIONS)
        events = workload_events(WORKLOAD, third * 3)
        for number, (mended, halted) in enumerate(TROUBLES):
            produce_payloads(endpoints.bootstrap_servers, topic, islice(events, third))
            if mended is not None:
                set_input(endpoints, f"{name}_app_{mended:05}", sound)
            if halted is not None:
                sound = set_input(endpoints, f"{name}_app_{halted:05}", OTHER_INPUT)
            usage, sent = drive(lab, endpoints, "shared", topic, name, halts=halted is not None)
            produced = min(number + 1, 3) * third
            filled = np.where(np.arange(VALUES) == halted, filled, produced)
            check_tables(lab.folder, name, filled)
            tell(f"mended {mended}, halted {halted}: {usage.cpu_s:.2f} CPU s; exact")
            sent_mb.append(round(sent / 1e6, 1))
    return {
        "records": third * 3,
        "tables": VALUES,
        "troubles": TROUBLES,
        "exact": True,
        "mb": sent_mb,
    }


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
    parser.add_argument("--troubled", type=int, help="this many events, routes halt and lag")
    args = parser.parse_args()
    try:
        found = (
            troubled(args.troubled)
            if args.troubled
            else measure((args.small, args.large), args.rounds)
        )
        print(json.dumps(found))
    except WrongOutputError as error:
        tell(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
