"""Our lake tables, Flink's Iceberg sink and Kafka Connect's, on the same topics, in the same run.

A small and a large topic of the standard events are filled. Each engine takes in both, one after
the other, into new tables of one REST catalog, partitioned by day and hour: ours with the native
module, ours by the library's path, a Flink SQL job, and a worker of Kafka Connect (`lake_connect`;
where it cannot be had or fails, the closing line says so and the others go on). Epochs and
checkpoints are 10 s, and so is the time from one snapshot to the next. CPU and wall are those of
the engine's whole process tree (`process_tree`), as the slope between the small and the large run;
the catalog's server is outside of both. A run counts only when its table was read back and compared
with the topic's rule. Then our job runs under a steady load at `publish_interval: 2s`, and a reader
polls the catalog.

`python -m bench.lake_compare [--small 300000] [--large 1500000]` ends with one JSON line.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyiceberg.catalog import load_catalog

from bench.check_output import WrongOutputError
from bench.figures import ratio, slope_of
from bench.kept_line import kept_line
from bench.lake_connect import CONNECT, ConnectSide
from bench.lake_freshness import measure_freshness
from bench.lake_runs import (
    ENGINES,
    FLINK,
    LIBRARY,
    NATIVE,
    LakeRun,
    Servers,
    checked,
    lake_servers,
    run_flink_sink,
    run_ours,
)
from bench.ours import json_engine_missing
from bench.standard_events import create_topic
from bench.tidy_end import end_tidily
from bench.workloads import WORKLOADS, expected_totals, fill_topic
from sluiceway.lab.jars import default_cache_folder

TOPIC_PARTITIONS = 4
WORKLOAD = "standard"
_HOUR_S = 3_600


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All runs in a lab of their own; the closing figures, and every run.

    Raises:
        WrongOutputError: A run failed, or its table is not its topic.
    """
    with lake_servers(folder) as asked:
        counts = (given.small, given.large)
        runs: dict[str, list[LakeRun]] = {engine: [] for engine in ENGINES}
        connect = ConnectSide(default_cache_folder(os.environ))
        for count in counts:
            topic = f"lake-{count}"
            create_topic(asked.broker, topic, partitions=TOPIC_PARTITIONS)
            took_s = fill_topic(asked.broker, topic, WORKLOAD, count)
            _tell(f"{topic}: produced in {took_s:.1f} s")
            for engine in ENGINES:
                runs[engine].append(_run(asked, folder, engine, count))
            _run_connect(connect, asked, folder, count)
        fresh = measure_freshness(
            asked, folder / "fresh", rate=given.rate, seconds=given.fresh_seconds
        )
        _tell(f"freshness: {fresh}")
    every = {**runs, CONNECT: connect.runs}
    return {
        **closing(counts, runs, connect),
        "fresh_rows": fresh.rows,
        "append_to_readable_p50_s": fresh.p50_s,
        "append_to_readable_p99_s": fresh.p99_s,
        "load": round(os.getloadavg()[0], 1),
        "runs": {name: [asdict(each) for each in of_size] for name, of_size in every.items()},
    }


def _run(servers: Servers, folder: Path, engine: str, count: int) -> LakeRun:
    topic, table = f"lake-{count}", f"{engine}_{count}"
    if engine == FLINK:
        usage = run_flink_sink(servers, topic, table, folder / table)
    else:
        usage = run_ours(servers, topic, table, engine, folder / table)
    catalog = load_catalog("lake", type="rest", uri=servers.catalog)
    run = checked(catalog, table, expected_totals(WORKLOADS[WORKLOAD], count), usage)
    _tell_run(table, run)
    return run


def _run_connect(connect: ConnectSide, servers: Servers, folder: Path, count: int) -> None:
    topic, table = f"lake-{count}", f"{CONNECT}_{count}"
    expected = expected_totals(WORKLOADS[WORKLOAD], count)
    run = connect.take_in(servers, topic, table, expected, folder / table)
    if run is not None:
        _tell_run(table, run)


def _tell_run(table: str, run: LakeRun) -> None:
    _tell(
        f"{table}: {run.usage.cpu_s:.2f} CPU s, {run.usage.wall_s:.2f} s, {run.snapshots} "
        f"snapshots, {run.files} files; checked"
    )


def closing(
    counts: tuple[int, int], runs: dict[str, list[LakeRun]], connect: ConnectSide
) -> dict[str, Any]:
    """The figures of the closing line.

    Args:
        counts: Records of the small and of the large topic.
        runs: Of each engine, the small one and the large one.
        connect: Those of Kafka Connect, or why there are none.
    """
    if not connect.not_measured:
        runs = {**runs, CONNECT: connect.runs}
    slopes = {
        engine: slope_of(counts, [[each.usage] for each in of_size])
        for engine, of_size in runs.items()
    }
    large = {engine: of_size[1] for engine, of_size in runs.items()}
    flink_us = slopes[FLINK].cpu_us_per_record
    return {
        "records": list(counts),
        "cpu_us": {engine: slope.cpu_us_per_record for engine, slope in slopes.items()},
        "krps": {engine: round(slope.records_per_s / 1000, 1) for engine, slope in slopes.items()},
        "cpu_ratio_native": ratio(flink_us, slopes[NATIVE].cpu_us_per_record),
        "cpu_ratio_library": ratio(flink_us, slopes[LIBRARY].cpu_us_per_record),
        "wall_s": {
            engine: [round(each.usage.wall_s, 1) for each in of_size]
            for engine, of_size in runs.items()
        },
        "snapshots_an_hour": {engine: _an_hour(run, "snapshots") for engine, run in large.items()},
        "files_an_hour": {engine: _an_hour(run, "files") for engine, run in large.items()},
        "files": {engine: run.files for engine, run in large.items()},
        **connect.figures(slopes),
        # A run that was found wrong never comes here.
        "verified": True,
    }


def _an_hour(run: LakeRun, what: str) -> int:
    """At the pace of a run, its start included."""
    return round(getattr(run, what) / run.usage.wall_s * _HOUR_S)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Measure, keep a line in the results, print the closing one."""
    end_tidily()
    parser = argparse.ArgumentParser(prog="python -m bench.lake_compare")
    parser.add_argument("--small", type=int, default=300_000)
    parser.add_argument("--large", type=int, default=1_500_000)
    parser.add_argument("--rate", type=int, default=5_000, help="rows a second, for freshness")
    parser.add_argument("--fresh-seconds", type=float, default=30.0)
    parser.add_argument("--results", type=Path, help="add a line to this file")
    given = parser.parse_args()
    if not 0 < given.small < given.large:
        parser.error("the large topic has to be larger than the small one")
    if json_engine_missing():
        parser.error("the native module is not installed: make native")
    began_s = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="lake-compare-") as folder:
            found = measure(given, Path(folder))
    except WrongOutputError as error:
        _tell(f"no measurement: {error}")
        return 1
    _tell(f"took {time.monotonic() - began_s:.0f} s")
    if given.results is not None:
        with given.results.open("a") as lines:
            lines.write(kept_line(found))
    del found["runs"]
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
