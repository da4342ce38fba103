"""How long a user waits: for the answer of a command, and for the first commit of a run.

Kafka and the metastore are real processes. The job fills a Hive table of some hours first. Each
round then runs `status`, `validate`, `partitions why` and `ledger show` on it once, appends rows,
and starts `sluiceway run`; the time is from the start of the process to the line of the log that
says `committed`. The last run of a round does the same with a topic and a table that are new.

`wall` is the median of the rounds. `cpu` is user and system time of the command's whole tree of
processes, for a run up to the line; on a busy machine it is the figure to compare.

`python -m bench.start [--rounds 5]` reports each round on standard error and ends with one JSON
line. `--lab` takes the folder of a lab that is up, `--runs 0` leaves the runs out.
"""

import argparse
import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.cluster_load import make_topic, tell
from bench.process_tree import TICKS_PER_S
from bench.tidy_end import end_tidily
from sluiceway.lab.lab import Lab, LabEndpoints
from tools.driver_process import DriverProcess
from tools.job_files import JobFile, event, write_job
from tools.topic_writer import TopicWriter

HOURS = 48
HOUR_MS = 3_600_000
START_MS = 1_795_161_600_000
ROWS = 4_800
PARTITION = "dt=20261120/hr=08"
COMMANDS = {
    "status": ("status",),
    "validate": ("validate",),
    "why": ("partitions", "why"),
    "ledger_show": ("ledger", "show"),
}
# Of /proc/<pid>/stat after the command's name: user and system time, its own and of waited ones.
_TIMES = slice(11, 15)

Figures = dict[str, tuple[float, float]]
"""What was measured: wall and CPU seconds."""


def command_times(job: JobFile, verb: Sequence[str]) -> tuple[float, float]:
    """Wall and CPU seconds of one command that must end well."""
    more = (PARTITION,) if verb[-1] == "why" else ()
    began, before = time.monotonic(), os.times()
    done = subprocess.run(
        [sys.executable, "-m", "sluiceway", *verb, str(job.path), *more],
        capture_output=True,
        text=True,
        check=False,
    )
    wall_s, after = time.monotonic() - began, os.times()
    if done.returncode:
        raise AssertionError(f"{' '.join(verb)} ended with {done.returncode}:\n{done.stderr}")
    used = (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )
    return wall_s, used


def first_commit_times(job: JobFile, folder: Path) -> tuple[float, float]:
    """Wall and CPU seconds of a run up to its first commit; ended in order afterwards."""
    began = time.monotonic()
    with DriverProcess(job, folder) as driver:
        driver.wait_for_event("committed")
        wall_s, cpu_s = time.monotonic() - began, _tree_cpu_s(driver)
        driver.send(signal.SIGTERM)
        ended = driver.wait()
    if ended.exit_code:
        raise AssertionError(f"a run ended with {ended.exit_code}:\n{ended.stderr}")
    return wall_s, cpu_s


def _tree_cpu_s(driver: DriverProcess) -> float:
    ticks = 0
    for pid in (driver.pid, *driver.family()):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            # Its parent has waited for it, and has its time.
            continue
        ticks += sum(map(int, stat.rpartition(")")[2].split()[_TIMES]))
    return ticks / TICKS_PER_S


class Jobs:
    """The jobs of a benchmark: one with a filled table, and new ones."""

    def __init__(self, endpoints: LabEndpoints, folder: Path) -> None:
        self._endpoints, self._folder = endpoints, folder
        self._writer = TopicWriter(endpoints.bootstrap_servers)
        self._written = 0
        self.filled = self.new()
        command_times(self.filled, ("run", "--until-caught-up"))

    def new(self) -> JobFile:
        """A job whose topic has rows and whose table does not exist."""
        topic = f"start_{secrets.token_hex(3)}"
        make_topic(self._endpoints.bootstrap_servers, topic, 1)
        self.append(topic)
        return write_job(
            self._folder,
            bootstrap_servers=self._endpoints.bootstrap_servers,
            metastore_uri=self._endpoints.metastore_uri,
            topic=topic,
            interval="1s",
            ready="{success_file: true}",
        )

    def append(self, topic: str) -> None:
        """Rows of all hours."""
        numbers = range(self._written, self._written + ROWS)
        rows = (event(n, ts_ms=START_MS + n % HOURS * HOUR_MS - n * 1000) for n in numbers)
        self._writer.write(topic, rows)
        self._written += ROWS

    def round(self, *, runs: bool) -> Figures:
        """Each command once, and two runs."""
        found = {name: command_times(self.filled, verb) for name, verb in COMMANDS.items()}
        if runs:
            self.append(self.filled.path.stem)
            found["first_commit"] = first_commit_times(self.filled, self._folder)
            found["new_table"] = first_commit_times(self.new(), self._folder)
        return found


def closing_line(rounds: Sequence[Mapping[str, tuple[float, float]]]) -> str:
    """Medians of all rounds as one line of JSON."""

    def median(name: str, which: int) -> float:
        return round(statistics.median(each[name][which] for each in rounds if name in each), 2)

    names = list(rounds[0])
    wall = {f"{name}_s": median(name, 0) for name in names}
    return json.dumps({**wall, "cpu": {name: median(name, 1) for name in names}})


@contextmanager
def _servers(folder: Path | None, scratch: Path) -> Iterator[LabEndpoints]:
    lab = Lab(folder or scratch / "lab")
    if folder is None:
        tell("starting Kafka and metastore")
    endpoints = lab.up()
    try:
        yield endpoints
    finally:
        if folder is None:
            lab.down()


def main() -> int:
    """Measure, print the closing line."""
    end_tidily()
    parser = argparse.ArgumentParser(prog="python -m bench.start")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3, help="rounds that start runs too")
    parser.add_argument("--lab", type=Path, help="a lab that is up; unset starts one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluiceway-start-") as name:
        folder = Path(name)
        with _servers(given.lab, folder) as endpoints:
            jobs, found = Jobs(endpoints, folder), []
            for number in range(given.rounds):
                found.append(jobs.round(runs=number < given.runs))
                tell(f"{number + 1}: {json.dumps(found[-1])}, load {os.getloadavg()[0]:.0f}")
    print(closing_line(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
