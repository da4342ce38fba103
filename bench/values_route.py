"""Very many partition values in one epoch of a real job, then the merging of those that are small.

Starts a lab, fills a topic with standard events spread evenly over the values, and lets `sluiceway
run` take all of them in with one epoch: Kafka, metastore, Spark, two tasks. DuckDB, which the
product does not use, compares the table with the rule that made the topic. Then one more epoch
brings rows for some of the values, which so have more files than two, and `sluiceway compact` is
asked for all; the rows are compared again.

Peak RSS is that of the largest Python worker, with all pages that it shares with others.
"""

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.check_output import WrongOutputError, totals_of
from bench.ours import COMMAND, JobChoices, job_text
from bench.standard_events import create_topic, produce_payloads
from bench.workloads import Workload, expected_totals, workload_events
from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.loader import load_job
from sluiceway.lab.demo import process_tree
from sluiceway.lab.lab import Lab

TOPIC = "many_values"
LOGS = 2
_SAMPLE_S = 0.2
_WORKERS = b"pyspark.worker"
_TAIL_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class RouteRun:
    """What is run.

    Attributes:
        values: Of the partition column.
        records: Of the first epoch.
        memory_mib: What a task may hold.
        again: So many values get rows in the second epoch.
    """

    values: int
    records: int
    memory_mib: int
    again: int


def run_route(run: RouteRun) -> dict[str, float]:
    """Run the job, check its table, compact it, check it again.

    Returns:
        What was written, held and merged.

    Raises:
        RuntimeError: A command failed, or the epochs were not as planned.
        WrongOutputError: A row is missing, doubled or another one.
    """
    with tempfile.TemporaryDirectory(prefix="values-route-") as name:
        folder = Path(name)
        lab = Lab(folder / "lab")
        try:
            return _Stage(run, lab, folder).play()
        finally:
            lab.down()


class _Stage:
    """One run in a lab of its own."""

    def __init__(self, run: RouteRun, lab: Lab, folder: Path) -> None:
        self._run = run
        self._lab = lab
        self._folder = folder
        self._table = folder / "table"
        self._job = folder / "job.yaml"
        self._workload = Workload(values=run.values, mixed_hours=True)
        self._records = 0

    def play(self) -> dict[str, float]:
        endpoints = self._lab.up()
        choices = JobChoices(interval="10m", master=f"local[{LOGS}]")
        text = job_text(
            self._workload,
            endpoints,
            choices,
            topic=TOPIC,
            name="many-values",
            location=self._table,
        )
        memory = f"run: {{memory_per_task: {self._run.memory_mib}MiB, "
        self._job.write_text(text.replace("run: {", memory))
        create_topic(endpoints.bootstrap_servers, TOPIC, partitions=LOGS)
        first = self._epoch(self._run.records)
        files = Counter(path.parent for path in self._files())
        found = {
            "values": len(files),
            "rows": self._records,
            "files": files.total(),
            "most_files_of_a_value": max(files.values()),
            **first,
        }
        self._epoch(self._run.again)
        return found | self._compact()

    def _epoch(self, records: int) -> dict[str, float]:
        """Bring the next rows, have them taken in by one epoch, compare the whole table."""
        known, self._records = self._records, self._records + records
        events = islice(workload_events(self._workload, self._records), known, None)
        produce_payloads(self._lab.endpoints().bootstrap_servers, TOPIC, events)
        log = self._folder / "run.log"
        began = time.monotonic()
        with log.open("wb") as stream:
            command = [COMMAND, "run", str(self._job), "--until-caught-up", "--log-level", "info"]
            process = subprocess.Popen(
                command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
            )
            peaks = _Peaks(process.pid)
            try:
                code = process.wait()
            finally:
                # Also when this run is interrupted: nothing is left behind.
                peaks.end()
                end_tree(process)
        said = log.read_text(errors="replace")
        if code != 0:
            raise RuntimeError(f"it ended with {code}:\n{said[-_TAIL_CHARACTERS:]}")
        events_of = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        commits = [event for event in events_of if event["event"] == "committed"]
        if [event["read"] for event in commits] != [records]:
            raise RuntimeError(f"{len(commits)} epochs instead of one:\n{said[-_TAIL_CHARACTERS:]}")
        self._check()
        return {
            "tasks": commits[0]["tasks"],
            "worker_rss_peak_mib": round(peaks.most_kib / 1024, 1),
            "wall_s": round(time.monotonic() - began, 1),
        }

    def _compact(self) -> dict[str, float]:
        """Ask for all values; those of few files are left alone."""
        before = self._files()
        names = sorted({path.parent.name for path in before})
        began = time.monotonic()
        done = subprocess.run(
            [COMMAND, "compact", str(self._job), *names, "-o", "json"],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"it ended with {done.returncode}: {done.stderr[-2000:]}")
        (route,) = json.loads(done.stdout)["routes"]
        answers: list[dict[str, Any]] = route["partitions"]
        outcomes = Counter(each["outcome"] for each in answers)
        self._check()
        after = len(self._files())
        if after != sum(each["files_after"] for each in answers):
            raise RuntimeError(f"{after} files are shown, and other ones were told: {outcomes}")
        return {
            "files_before_compaction": len(before),
            "files_after_compaction": after,
            "compacted": outcomes["compacted"],
            "left": outcomes["left"],
            "ideal_files": len(names),
            "over_ideal": round(after / len(names), 3),
            "compaction_s": round(time.monotonic() - began, 1),
        }

    def _check(self) -> None:
        """Compare what readers of the metastore see with the rule of the topic."""
        found = totals_of(self._files(), self._workload.summed)
        expected = expected_totals(self._workload, self._records)
        if found != expected:
            raise WrongOutputError(f"the table has {found} instead of {expected}")

    def _files(self) -> list[Path]:
        """All files in the folders that the metastore knows."""
        (route,) = load_job(self._job).spec.routes
        hive = compile_route(route).table
        metastore = MetastoreClient(hive.metastore, hive.timeout_s)
        try:
            names = metastore.list_partition_names(hive.database, hive.table)
            shown = metastore.get_partitions(hive.database, hive.table, names)
        finally:
            metastore.close()
        places = [Path(urlsplit(each.layout.location).path) for each in shown.values()]
        return [path for place in places for path in sorted(place.glob("[!_.]*"))]


def end_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that runs on, and all that it has started. Safe to repeat."""
    if process.poll() is None:
        for pid in [*process_tree(process.pid), process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


class _Peaks:
    """The largest Python worker below a process, looked at again and again."""

    def __init__(self, pid: int) -> None:
        self.most_kib = 0
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_SAMPLE_S):
            for pid in process_tree(self._pid):
                self.most_kib = max(self.most_kib, _peak_kib(pid))


def _peak_kib(pid: int) -> int:
    """Of a Python worker, since it began; 0 for any other process."""
    with suppress(OSError):
        if _WORKERS in Path(f"/proc/{pid}/cmdline").read_bytes():
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1])
    return 0
