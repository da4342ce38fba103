"""CPU per record and records per second of `sluiceway run`, as the slope between two topics.

Starts a lab, fills a small and a large topic with the standard event, and runs
`sluiceway run JOB --until-caught-up` on each, several rounds interleaved, every time into a new
table. CPU is that of the whole process tree (see `process_tree`); the servers are not part of it.
A run counts only when the table's files hold every event once. The slope leaves the start-up
out: (large - small) / (records of large - records of small), of the medians.

`python -m bench.ingest_slope [--small 1000000] [--large 4000000] [--rounds 3]` tells what it does
on standard error and ends with one JSON line.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import duckdb

from bench.process_tree import TreeUsage, measure_tree
from bench.standard_events import SHAPES, create_topic, expected_id_sum, produce_events
from sluiceway.lab.lab import Lab, LabEndpoints

JOB = """\
version: 1
name: {name}
connections:
  broker: {{kafka: {{bootstrap_servers: "{bootstrap_servers}"}}}}
  hms: {{metastore: {{uri: "{metastore_uri}"}}}}
source: {{connection: broker, topics: [{topic}], start: earliest}}
format: {{json: {{extra: ignore}}}}
table:
  hive:
    connection: hms
    name: bench.{table}
    create: if_missing
    location: "{location}"
    file_format: parquet
    compression: zstd
  columns:
{columns}
  partition_by:
    - {{name: dt, event_time: "yyyyMMdd"}}
    - {{name: hr, event_time: "HH"}}
  meta: [topic, partition, offset, timestamp]
event_time: {{field: ts, unit: ms, timezone: UTC}}
run: {{interval: {interval}, master: "{master}"}}
"""


class WrongOutputError(Exception):
    """The table does not hold what the topic has; the run is no measurement."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run.

    Attributes:
        counts: Records of the small and the large topic.
        rounds: Runs of each.
        partitions: Of each topic.
        hours: Hours of event time in each topic, and so partitions of each table.
        shape: Kind of event.
        interval: The job's epoch length.
        master: The job's Spark master.
        command: The product's program.
    """

    counts: tuple[int, int]
    rounds: int
    partitions: int
    hours: int
    shape: str
    interval: str
    master: str
    command: str


@dataclass(frozen=True, slots=True)
class Slope:
    """The closing figures."""

    cpu_us_per_record: float
    records_per_s: float
    startup_cpu_s: float
    startup_wall_s: float


def job_text(plan: Plan, endpoints: LabEndpoints, *, topic: str, name: str, location: Path) -> str:
    """The job file of one run."""
    columns = SHAPES[plan.shape].columns
    return JOB.format(
        name=name,
        bootstrap_servers=endpoints.bootstrap_servers,
        metastore_uri=endpoints.metastore_uri,
        topic=topic,
        table=name.replace("-", "_"),
        location=location,
        columns="\n".join(
            f'    - {{name: {column}, type: "{kind}", required: {_yaml(column in ("id", "ts"))}}}'
            for column, kind in columns.items()
        ),
        interval=plan.interval,
        master=plan.master,
    )


def _yaml(flag: bool) -> str:  # noqa: FBT001 - it is the value
    return "true" if flag else "false"


def check_table(location: Path, *, count: int, hours: int) -> None:
    """Count the rows in the files of a table.

    Args:
        location: The table's folder, with folders `dt=.../hr=...`.
        count: Events that have to be there.
        hours: Partitions that have to be there.

    Raises:
        WrongOutputError: Rows or partitions are missing, doubled or other ones.
    """
    files = [str(path) for path in location.glob("dt=*/hr=*/[!_.]*")]
    if not files:
        raise WrongOutputError(f"no file in {location}")
    with duckdb.connect() as connection:
        relation = connection.read_parquet(files, hive_partitioning=True)
        found = relation.aggregate(
            "count(*), count(DISTINCT id), sum(id)::HUGEINT, count(DISTINCT (dt, hr))"
        ).fetchall()[0]
    expected = (count, count, expected_id_sum(count), hours)
    if found != expected:
        raise WrongOutputError(f"rows, ids, their sum, partitions: {found} instead of {expected}")


def slope_of(counts: tuple[int, int], runs: Sequence[Sequence[TreeUsage]]) -> Slope:
    """Slope and start-up from the runs of the small and of the large topic."""
    cpu = [statistics.median(run.cpu_s for run in of_size) for of_size in runs]
    wall = [statistics.median(run.wall_s for run in of_size) for of_size in runs]
    records = counts[1] - counts[0]
    cpu_s, wall_s = (cpu[1] - cpu[0]) / records, (wall[1] - wall[0]) / records
    return Slope(
        cpu_us_per_record=round(cpu_s * 1e6, 3),
        records_per_s=round(1 / wall_s) if wall_s > 0 else 0,
        startup_cpu_s=round(cpu[0] - cpu_s * counts[0], 2),
        startup_wall_s=round(wall[0] - wall_s * counts[0], 2),
    )


def run_once(
    plan: Plan, endpoints: LabEndpoints, *, count: int, attempt: int, folder: Path
) -> TreeUsage:
    """Ingest one topic into a new table and check it.

    Raises:
        WrongOutputError: The command failed or the table is wrong.
    """
    name = f"slope-{count}-{attempt}"
    location = folder / name / "table"
    job = folder / f"{name}.yaml"
    job.write_text(job_text(plan, endpoints, topic=_topic(count), name=name, location=location))
    usage = measure_tree([plan.command, "run", str(job), "--until-caught-up"], cwd=folder)
    if usage.exit_code != 0:
        raise WrongOutputError(f"{name} ended with {usage.exit_code}")
    check_table(location, count=count, hours=plan.hours)
    return usage


def _topic(count: int) -> str:
    return f"events-{count}"


def measure(plan: Plan, endpoints: LabEndpoints, folder: Path) -> list[list[TreeUsage]]:
    """Fill the topics and do all runs, small and large in turn."""
    for count in plan.counts:
        create_topic(endpoints.bootstrap_servers, _topic(count), partitions=plan.partitions)
        took = produce_events(
            endpoints.bootstrap_servers,
            _topic(count),
            count=count,
            shape=plan.shape,
            hours=plan.hours,
        )
        _tell(f"produced {count} events in {took:.1f} s")
    runs: list[list[TreeUsage]] = [[], []]
    for attempt in range(plan.rounds):
        for index, count in enumerate(plan.counts):
            usage = run_once(plan, endpoints, count=count, attempt=attempt, folder=folder)
            runs[index].append(usage)
            _tell(f"{count} events: {usage.cpu_s:.2f} CPU s, {usage.wall_s:.2f} s")
    return runs


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def result_line(plan: Plan, runs: Sequence[Sequence[TreeUsage]]) -> str:
    """The closing line: slope, plan, machine and every run."""
    return json.dumps(
        {
            "bench": "ingest_slope",
            **asdict(slope_of(plan.counts, runs)),
            "plan": asdict(plan) | {"command": Path(plan.command).name},
            "machine": {
                "cpus": os.cpu_count(),
                "python": platform.python_version(),
                "sluiceway": version("sluiceway"),
            },
            "runs": [
                {"records": count, **asdict(usage)}
                for count, of_size in zip(plan.counts, runs, strict=True)
                for usage in of_size
            ],
        }
    )


def read_plan(arguments: Sequence[str] | None = None) -> Plan:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.ingest_slope")
    parser.add_argument("--small", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="standard")
    parser.add_argument("--interval", default="10s")
    parser.add_argument("--master", default="local")
    parser.add_argument("--command", default=str(Path(sys.executable).with_name("sluiceway")))
    given = parser.parse_args(arguments)
    if not 0 < given.small < given.large:
        parser.error("the large topic has to be larger than the small one")
    values = vars(given)
    return Plan(counts=(values.pop("small"), values.pop("large")), **values)


def main() -> int:
    """Start a lab in a folder that goes away, measure, print the closing line."""
    plan = read_plan()
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="slope-")))
        lab = Lab(folder / "lab")
        cleanup.callback(lab.down)
        endpoints = lab.up()
        try:
            runs = measure(plan, endpoints, folder)
        except WrongOutputError as error:
            _tell(f"no measurement: {error}")
            return 1
    print(result_line(plan, runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
