"""From append to readable row: a steady load, the job at two intervals, a reader that waits.

The time of a row runs from the producer's clock just before it was sent to the moment a reader
lists its file under its final name, in a folder that the metastore names (`freshness_reader`). Rows
of the first seconds, with the start in them, are left out. Every event that was sent has to be in
the table once, or there is no figure.

`python -m bench.freshness [--rate 20000] [--seconds 60] [--interval 2]` ends with one JSON line.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import numpy as np

from bench.check_output import WrongOutputError
from bench.freshness_reader import Folders, Reader
from bench.ours import COMMAND, JobChoices, job_text
from bench.process_tree import TreeUsage
from bench.standard_events import FIRST_ID, create_topic
from bench.steady_load import begin_load, end_load, start_load
from bench.tidy_end import end_tidily
from bench.workloads import Workload
from sluiceway.lab.lab import Lab, LabEndpoints

ROOT = Path(__file__).parents[1]
TOPIC_PARTITIONS = 4
INTERVALS_S = (2.0, 0.5)
WARM_UP_S = 10.0
START_PATIENCE_S = 180.0
END_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Freshness:
    """What was measured at one interval.

    Attributes:
        krps: Events sent a second, in thousands.
        rows: That were timed.
        peak_mib: Of the whole process tree.
        growth_mib_min: Of its memory, after the first third of its life.
        cpu_share: Of one core, over the job's life.
    """

    interval_s: float
    krps: float
    rows: int
    p50_s: float
    p99_s: float
    worst_s: float
    peak_mib: int
    growth_mib_min: float
    cpu_share: float


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A table that lies on no folder of this machine.

    Attributes:
        name: Of the store.
        location: Of the table.
        connections: What the job file says of the store.
        folders: By which the reader finds files there.
        files: Copies the table's files to this machine, and gives their folder.
    """

    name: str
    location: str
    connections: str
    folders: Folders
    files: Callable[[], Path]


def chained(text: str, topic: str, table: str, folder: Path) -> str:
    """The same job with a second route, which reads the table of the first into `<table>_refined`.

    Args:
        text: A job file of one route.
        topic: Of that route.
        table: Its name, without the database.
        folder: Where both tables lie, by their names.
    """
    own = (
        f"topics: [{topic}], ",
        f"    name: bench.{table}\n",
        f'    location: "{folder / table}"\n',
    )
    for part in own:
        if text.count(part) != 1:
            raise ValueError(f"the job file has no {part!r}")
        text = text.replace(part, "")
    place = '{{hive: {{name: bench.{name}, location: "{folder}"}}}}'
    first = place.format(name=table, folder=folder / table)
    refined = place.format(name=f"{table}_refined", folder=folder / f"{table}_refined")
    return f"""\
{text}
routes:
- {{topics: [{topic}], table: {first}}}
- {{source: {{table: bench.{table}}}, table: {refined}}}
"""


def measure(  # noqa: PLR0913 - what one figure is of
    endpoints: LabEndpoints,
    folder: Path,
    *,
    interval_s: float,
    rate: int,
    seconds: float,
    elsewhere: Elsewhere | None = None,
    chain: bool = False,
) -> Freshness:
    """Run the job under load at one interval; `chain` times the rows of a second table.

    Raises:
        WrongOutputError: The job failed, or rows are missing, doubled or other ones.
    """
    name = f"fresh-{int(interval_s * 1000)}" + (f"-{elsewhere.name}" if elsewhere else "")
    local = folder / name / "table"
    local.parent.mkdir(parents=True)
    create_topic(endpoints.bootstrap_servers, name, partitions=TOPIC_PARTITIONS)
    choices = JobChoices(
        interval=f"{int(interval_s * 1000)}ms",
        connections=elsewhere.connections if elsewhere else "",
    )
    table = name.replace("-", "_")
    if chain:
        local = folder / name / f"{table}_refined"
    location = str(folder / name / table) if chain else str(local)
    if elsewhere:
        location = elsewhere.location
    job = folder / name / "job.yaml"
    text = job_text(Workload(), endpoints, choices, topic=name, name=name, location=location)
    job.write_text(chained(text, name, table, folder / name) if chain else text)
    folders = elsewhere.folders if elsewhere else None
    reader = Reader(
        endpoints.metastore_uri, "bench", f"{table}_refined" if chain else table, folders
    )
    with ExitStack() as running:
        load = start_load(running, endpoints.bootstrap_servers, name, rate)
        measurer, report = _start_job(running, job)
        reader.start()
        running.callback(reader.end)
        _wait_for_first(reader, measurer, job)
        begin_s = begin_load(load) + WARM_UP_S
        _sleep_until(begin_s + seconds)
        told = end_load(load, END_PATIENCE_S)
        sent, krps = told["sent"], round(told["steady"] / told["seconds"] / 1000, 1)
        _wait_for_rows(reader, sent)
        measurer.send_signal(signal.SIGTERM)
        measurer.wait(END_PATIENCE_S)
    usage = TreeUsage(**json.loads(report.read_text()))
    if usage.exit_code != 0:
        raise WrongOutputError(f"{name} ended with {usage.exit_code}: {_tail(job)}")
    check_rows(elsewhere.files() if elsewhere else local, sent)
    delays = reader.delays_s(begin_s, begin_s + seconds)
    p50_s, p99_s, worst_s = np.quantile(delays, (0.5, 0.99, 1.0), method="inverted_cdf").tolist()
    return Freshness(
        interval_s=interval_s,
        krps=krps,
        rows=len(delays),
        p50_s=round(p50_s, 3),
        p99_s=round(p99_s, 3),
        worst_s=round(worst_s, 3),
        peak_mib=usage.peak_rss_bytes >> 20,
        growth_mib_min=usage.rss_mib_per_min,
        cpu_share=round(usage.cpu_s / usage.wall_s, 2),
    )


def check_rows(table: Path, sent: int) -> None:
    """Refuse a table that does not hold every event once.

    Raises:
        WrongOutputError: Says what it holds.
    """
    files = [str(path) for path in table.glob("dt=*/hr=*/[!_.]*")]
    with duckdb.connect() as connection:
        relation = connection.read_parquet(files, hive_partitioning=False)
        found = relation.aggregate("count(*), count(DISTINCT id), min(id), max(id)").fetchall()[0]
    expected = (sent, sent, FIRST_ID, FIRST_ID + sent - 1)
    if found != expected:
        raise WrongOutputError(f"rows, ids, least, greatest: {found} instead of {expected}")


def _start_job(running: ExitStack, job: Path) -> tuple[subprocess.Popen[bytes], Path]:
    report = job.with_suffix(".usage")
    script = str(Path(__file__).with_name("process_tree.py"))
    command = [sys.executable, script, "--report", str(report), "--", COMMAND, "run", str(job)]
    log = running.enter_context(job.with_suffix(".log").open("wb"))
    measurer = subprocess.Popen(command, cwd=job.parent, stdout=log, stderr=log)
    running.enter_context(measurer)
    running.callback(measurer.terminate)
    return measurer, report


def _wait_for_first(reader: Reader, measurer: subprocess.Popen[bytes], job: Path) -> None:
    deadline = time.monotonic() + START_PATIENCE_S
    while not reader.sights():
        if measurer.poll() is not None or time.monotonic() > deadline:
            raise WrongOutputError(f"no row became readable: {_tail(job)}")
        time.sleep(0.1)


def _sleep_until(at_s: float) -> None:
    time.sleep(max(0.0, at_s - time.time()))


def _wait_for_rows(reader: Reader, sent: int) -> None:
    """Wait until as many rows are visible as were sent; what they are is checked later."""
    deadline = time.monotonic() + END_PATIENCE_S
    rows: dict[str, int] = {}
    while sum(rows.values()) < sent and time.monotonic() < deadline:
        for sight in reader.sights():
            if sight.path not in rows:
                rows[sight.path] = reader.rows(sight)
        time.sleep(0.1)


def _tail(job: Path) -> str:
    return job.with_suffix(".log").read_text(errors="replace")[-1_500:]


def _of_half(one: Freshness) -> dict[str, float]:
    return {"p50_half_s": one.p50_s, "p99_half_s": one.p99_s}


def main() -> int:
    """Measure both intervals, print the closing line."""
    parser = argparse.ArgumentParser(prog="python -m bench.freshness")
    parser.add_argument("--rate", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=60.0, help="timed at each interval")
    parser.add_argument("--interval", type=float, help="of the epochs, s; the default is 2 and 0.5")
    parser.add_argument("--chain", action="store_true", help="time a table that is filled from it")
    parser.add_argument("--results", type=Path, help="add the line to this file")
    given = parser.parse_args()
    end_tidily()
    found = []
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="fresh-")))
        lab = Lab(folder / "lab")
        cleanup.callback(lab.down)
        endpoints = lab.up()
        for interval_s in INTERVALS_S if given.interval is None else (given.interval,):
            try:
                one = measure(
                    endpoints,
                    folder,
                    interval_s=interval_s,
                    rate=given.rate,
                    seconds=given.seconds,
                    chain=given.chain,
                )
            except WrongOutputError as error:
                print(f"no measurement: {error}", file=sys.stderr)
                return 1
            print(json.dumps(asdict(one)), file=sys.stderr, flush=True)
            found.append(one)
    line = {
        "krps": found[0].krps,
        "interval_s": found[0].interval_s,
        "p50_s": found[0].p50_s,
        "p99_s": found[0].p99_s,
        **{key: value for one in found[1:] for key, value in _of_half(one).items()},
        "seconds": given.seconds,
        "growth_mib_min": [one.growth_mib_min for one in found],
        "peak_mib": [one.peak_mib for one in found],
        "cpu_share": [one.cpu_share for one in found],
        "rows": [one.rows for one in found],
        "load": round(os.getloadavg()[0], 1),
    }
    if given.results:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        with given.results.open("a") as lines:
            lines.write(json.dumps({"at": at, **line}) + "\n")
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
