"""Ours and Flink on the same topic of the same broker in one run; Spark on the same events.

For each workload a small and a large topic are filled. In every round each engine takes in both,
one after the other, into new tables, while nothing else of the benchmark runs. CPU and wall are
those of the engine's whole process tree (`process_tree`), as the slope between the medians of the
small and of the large runs: start-up is reported apart. A run counts only when its table was
compared with the workload's rule: rows, ids, sums, partitions (`check_output`).

`python -m bench.compare` prints a line a run on standard error, adds a line a workload to
`--results`, and ends with the line of the first workload.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.check_output import WrongOutputError, check_output
from bench.figures import ratio, slope_of
from bench.flink import fetch_flink, flink_messages, run_flink, statements
from bench.kept_line import kept_line
from bench.ours import (
    COMMAND,
    JobChoices,
    OurRun,
    check_ours,
    job_text,
    json_engine_missing,
    native_asked,
    run_ours,
)
from bench.process_tree import TreeUsage, measure_tree
from bench.standard_events import SHAPES, create_topic
from bench.tidy_end import end_tidily
from bench.workloads import (
    WORKLOADS,
    Totals,
    Workload,
    expected_totals,
    fill_topic,
    workload_events,
)
from sluiceway.errors import AllRowsDirtyError
from sluiceway.lab.jars import default_cache_folder
from sluiceway.lab.lab import Lab, LabEndpoints

TOPIC_PARTITIONS = 4
ENGINES = ("ours", "flink", "spark")
# What the dirty rows become in Flink is another question: NULLs, and rows left out.
WITHOUT_FLINK = ("dirty_1pct", "dirty_all")
WITH_SPARK = ("standard",)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run.

    Attributes:
        counts: Records of the small and of the large topic, before a workload's divisor.
        rounds: Runs of each.
        workloads: Their names.
        engines: Of `ENGINES`.
        floor_records: For the bare parts.
        choices: Of our job.
    """

    counts: tuple[int, int]
    rounds: int
    workloads: tuple[str, ...]
    engines: tuple[str, ...]
    floor_records: int
    choices: JobChoices = field(default_factory=JobChoices)


@dataclass(frozen=True, slots=True)
class _Topic:
    """One size of a workload, filled."""

    name: str
    count: int
    expected: Totals
    files: Path


@dataclass(slots=True)
class _Bench:
    """One workload being measured."""

    plan: Plan
    name: str
    workload: Workload
    endpoints: LabEndpoints
    folder: Path
    class_path: str
    ours: list[list[OurRun]] = field(default_factory=lambda: [[], []])
    others: dict[str, list[list[TreeUsage]]] = field(default_factory=dict)
    floors: list[dict[str, float]] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)

    @property
    def counts(self) -> tuple[int, int]:
        small, large = (count // self.workload.divisor for count in self.plan.counts)
        return small, large

    def runs_of(self, engine: str) -> list[list[TreeUsage]]:
        if engine == "ours":
            return [[run.usage for run in of_size] for of_size in self.ours]
        return self.others.get(engine, [[], []])

    def engines(self) -> list[str]:
        left_out = set()
        if self.name in WITHOUT_FLINK:
            left_out.add("flink")
        if self.name not in WITH_SPARK:
            left_out.add("spark")
        return [engine for engine in self.plan.engines if engine not in left_out]


def measure_workload(bench: _Bench) -> None:
    """Fill the topics of one workload and run all rounds.

    Raises:
        WrongOutputError: A run failed, or its output is not its input.
    """
    topics = [_fill(bench, count) for count in bench.counts]
    runs: dict[str, Callable[[int, _Topic, str], TreeUsage]] = {
        "ours": lambda size, topic, name: _run_ours(bench, size, topic, name),
        "flink": lambda size, topic, name: _run_flink(bench, size, topic, name),
        "spark": lambda size, topic, name: _run_spark(bench, size, topic, name),
    }
    for attempt in range(bench.plan.rounds):
        bench.floors.append(_measure_floor(bench, topics[1]))
        for size, topic in enumerate(topics):
            for engine in bench.engines():
                name = f"{engine}-{bench.name.replace('_', '-')}-{topic.count}-{attempt}"
                usage = runs[engine](size, topic, name)
                shutil.rmtree(bench.folder / name)
                bench.loads.append(os.getloadavg()[0])
                _tell(
                    f"{name}: {usage.cpu_s:.2f} CPU s, {usage.wall_s:.2f} s, "
                    f"{usage.peak_rss_bytes >> 20} MiB; checked"
                )
    shutil.rmtree(bench.folder / "events", ignore_errors=True)


def _fill(bench: _Bench, count: int) -> _Topic:
    name = f"{bench.name}-{count}"
    servers = bench.endpoints.bootstrap_servers
    create_topic(servers, name, partitions=TOPIC_PARTITIONS)
    took = fill_topic(servers, name, bench.name, count)
    files = bench.folder / "events" / name
    if "spark" in bench.engines():
        _write_files(bench.workload, count, files)
    _tell(f"{name}: produced in {took:.1f} s")
    return _Topic(name, count, expected_totals(bench.workload, count), files)


def _write_files(workload: Workload, count: int, folder: Path) -> None:
    """The topic's events as lines, a file for each of its partitions."""
    folder.mkdir(parents=True)
    for number in range(TOPIC_PARTITIONS):
        with (folder / f"{number}.jsonl").open("wb") as lines:
            share = (number, TOPIC_PARTITIONS)
            for _, payload in workload_events(workload, count, share=share):
                lines.write(payload + b"\n")


def _run_ours(bench: _Bench, size: int, topic: _Topic, name: str) -> TreeUsage:
    job = _write_job(bench, topic, name)
    table = job.parent / "table"
    # A run of limited length says that no row was clean.
    code = AllRowsDirtyError.exit_code if bench.workload.dirty_one_in == 1 else 0
    run = run_ours(job, table, bench.plan.choices, exit_code=code)
    check_ours(table, bench.workload, topic.expected, topic.count)
    bench.ours[size].append(run)
    return run.usage


def _write_job(bench: _Bench, topic: _Topic, name: str) -> Path:
    folder = bench.folder / name
    folder.mkdir(parents=True)
    job = folder / "job.yaml"
    job.write_text(
        job_text(
            bench.workload,
            bench.endpoints,
            bench.plan.choices,
            topic=topic.name,
            name=name,
            location=folder / "table",
        )
    )
    return job


def _run_flink(bench: _Bench, size: int, topic: _Topic, name: str) -> TreeUsage:
    folder = bench.folder / name
    sql = statements(
        bench.workload,
        bootstrap_servers=bench.endpoints.bootstrap_servers,
        topic=topic.name,
        folder=folder / "table",
    )
    cores = os.cpu_count() or 1
    class_path = bench.class_path
    if bench.workload.format == "protobuf":
        classes = flink_messages(bench.workload.shape, bench.folder / "classes")
        class_path = f"{class_path}:{classes}"
    usage = run_flink(class_path, sql, folder, parallelism=cores)
    return _kept(bench, "flink", size, topic, usage, folder / "table")


def _run_spark(bench: _Bench, size: int, topic: _Topic, name: str) -> TreeUsage:
    folder = bench.folder / name
    folder.mkdir(parents=True)
    columns = SHAPES[bench.workload.shape].columns
    schema = ", ".join(f"`{column}` {kind}" for column, kind in columns.items())
    arguments = [str(topic.files), str(folder / "table"), schema]
    script = str(Path(__file__).with_name("spark_files.py"))
    log = folder / "spark.log"
    usage = measure_tree([sys.executable, script, *arguments], cwd=folder, output=log)
    if usage.exit_code != 0:
        tail = log.read_text(errors="replace")[-2_000:]
        raise WrongOutputError(f"Spark ended with {usage.exit_code}:\n{tail}")
    return _kept(bench, "spark", size, topic, usage, folder / "table")


def _kept(
    bench: _Bench, engine: str, size: int, topic: _Topic, usage: TreeUsage, table: Path
) -> TreeUsage:
    check_output(table, bench.workload, topic.expected)
    bench.others.setdefault(engine, [[], []])[size].append(usage)
    return usage


def _measure_floor(bench: _Bench, topic: _Topic) -> dict[str, float]:
    job = _write_job(bench, topic, "floor")
    records = bench.plan.floor_records // bench.workload.divisor
    command = [sys.executable, "-m", "bench.floor", str(job), "--records", str(records)]
    done = subprocess.run(
        command,
        cwd=Path(__file__).parents[1],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        raise WrongOutputError(f"the floor ended with {done.returncode}")
    shutil.rmtree(job.parent)
    _tell(f"floor: {done.stdout.strip()}")
    floor: dict[str, float] = json.loads(done.stdout)
    return floor


def result_of(bench: _Bench) -> dict[str, Any]:
    """The figures of a workload, those of the closing line first."""
    slopes = {
        engine: slope_of(bench.counts, bench.runs_of(engine))
        for engine in ENGINES
        if all(bench.runs_of(engine))
    }
    ours, flink = slopes["ours"], slopes.get("flink")
    floor = {name: statistics.median(one[name] for one in bench.floors) for name in bench.floors[0]}
    answered = [run for of_size in bench.ours for run in of_size]
    tasks = sum(run.tasks for run in answered)
    reused = sum(run.consumers_reused for run in answered)
    krps = {engine: round(slope.records_per_s / 1000, 1) for engine, slope in slopes.items()}
    peaks = [[run.usage.peak_rss_bytes for run in of_size] for of_size in bench.ours]
    return {
        "shape": bench.name,
        "ours_cpu_us": ours.cpu_us_per_record,
        "flink_cpu_us": flink.cpu_us_per_record if flink else None,
        "cpu_ratio": ratio(flink.cpu_us_per_record, ours.cpu_us_per_record) if flink else None,
        "ours_krps": krps["ours"],
        "flink_krps": krps.get("flink"),
        "wall_ratio": ratio(ours.records_per_s, flink.records_per_s) if flink else None,
        "floor_cpu_us": round(floor["cpu_us"], 3),
        "over_floor": ratio(ours.cpu_us_per_record, floor["cpu_us"]),
        # A run that was not checked, or was found wrong, never comes here.
        "verified": True,
        "ours_krps_a_core": round(1000 / ours.cpu_us_per_record, 1),
        "records": list(bench.counts),
        "rounds": bench.plan.rounds,
        "native": native_asked(),
        "floor": floor,
        "startup": {name: [s.startup_cpu_s, s.startup_wall_s] for name, s in slopes.items()},
        "spark_files_cpu_us": slopes["spark"].cpu_us_per_record if "spark" in slopes else None,
        "spark_files_krps": krps.get("spark"),
        "parts_us": _parts_us(bench),
        "peak_mib": [max(of_size) >> 20 for of_size in peaks],
        "consumer_reuse": round(reused / tasks, 3) if tasks else None,
        "load": round(statistics.median(bench.loads), 1),
    }


def _parts_us(bench: _Bench) -> dict[str, float]:
    """Slope of each part of our run: stages in seconds of the tasks' wall, processes in CPU."""
    small, large = bench.counts
    found = {}
    for name in bench.ours[0][0].parts_s:
        less, more = (
            statistics.median(run.parts_s[name] for run in of_size) for of_size in bench.ours
        )
        found[name] = round((more - less) / (large - small) * 1e6, 3)
    return found


def recorded(bench: _Bench, result: dict[str, Any]) -> str:
    """A line for the results: the figures, when and where, and every run."""
    runs = [
        {"engine": engine, "records": count, **asdict(usage)}
        for engine in ENGINES
        for count, of_size in zip(bench.counts, bench.runs_of(engine), strict=True)
        for usage in of_size
    ]
    return kept_line(result, runs=runs)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(plan: Plan, results: Path | None) -> list[dict[str, Any]]:
    """Start a lab in a folder that goes away, measure all workloads."""
    found = []
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="compare-")))
        class_path = ""
        if "flink" in plan.engines:
            _tell("Flink's jars: in the cache, or downloaded now (170 MB, once)")
            class_path = fetch_flink(default_cache_folder(os.environ))
        for name in plan.workloads:
            # A broker of its own for each: its topics go away with it.
            with ExitStack() as servers:
                lab = Lab(folder / f"lab-{name}")
                servers.callback(lab.down, remove_data=True)
                workload = WORKLOADS[name]
                bench = _Bench(plan, name, workload, lab.up(), folder / name, class_path)
                measure_workload(bench)
            result = result_of(bench)
            _tell(json.dumps(result))
            if results is not None:
                with results.open("a") as lines:
                    lines.write(recorded(bench, result))
            found.append(result)
    return found


def read_plan(arguments: Sequence[str] | None = None) -> tuple[Plan, Path | None]:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare")
    parser.add_argument("--small", type=int, default=4_000_000)
    parser.add_argument("--large", type=int, default=12_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workloads", default="standard", help=f"of {','.join(WORKLOADS)}; or all")
    parser.add_argument("--engines", default="ours,flink", help=f"of {','.join(ENGINES)}")
    parser.add_argument("--floor-records", type=int, default=400_000)
    parser.add_argument("--interval", default="10s")
    parser.add_argument("--master", default="local")
    parser.add_argument("--command", default=COMMAND)
    parser.add_argument("--results", type=Path, help="add a line a workload to this file")
    given = parser.parse_args(arguments)
    of_json = [name for name, of in WORKLOADS.items() if of.format == "json"]
    names = tuple(of_json if given.workloads == "all" else given.workloads.split(","))
    engines = tuple(given.engines.split(","))
    if not 0 < given.small < given.large:
        parser.error("the large topic has to be larger than the small one")
    if unknown := {*names} - {*WORKLOADS} or {*engines} - {*ENGINES}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if "ours" not in engines:
        parser.error("engines: ours is what the others are compared with")
    if native_asked() and json_engine_missing():
        parser.error("the native module is not installed: make native")
    choices = replace(JobChoices(), interval=given.interval, master=given.master)
    choices = replace(choices, command=given.command)
    counts = (given.small, given.large)
    return Plan(counts, given.rounds, names, engines, given.floor_records, choices), given.results


def main() -> int:
    """Measure, print the closing line."""
    end_tidily()
    plan, results = read_plan()
    began = time.monotonic()
    try:
        found = run(plan, results)
    except WrongOutputError as error:
        _tell(f"no measurement: {error}")
        return 1
    _tell(f"took {time.monotonic() - began:.0f} s")
    print(json.dumps(found[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
