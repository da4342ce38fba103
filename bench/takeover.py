"""How long a table stands still when its driver does, with a standby beside it.

Kafka and metastore are real processes, and each driver is `sluiceway run` with a Spark of its own.
Time and again the driver that has the table is stopped as a machine that hangs (SIGSTOP: its
process is there, its lease stands still), right after rows were written. The time until the
standby's commit of these rows is measured; then the stopped one wakes up, has to end as a driver
that was replaced, and another standby is started. At the end every record is looked for.

`python -m bench.takeover [--takeovers 20]` tells what it does on standard error and ends with one
JSON line; 1 is the exit code when p95 is above 15 s or anything is wrong.
"""

import argparse
import json
import os
import secrets
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.cluster_load import make_topic, tell
from bench.tidy_end import end_tidily
from sluiceway.lab.lab import Lab, LabEndpoints
from tools.driver_process import DriverProcess
from tools.job_files import JobFile, event, write_job
from tools.table_proofs import assert_verified, read_independently
from tools.topic_writer import TopicWriter

BOUND_S = 15.0
_ROWS = 10
_REPLACED = 7


def percentile(values: list[float], share: float) -> float:
    """The smallest of the values that at least this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(-(-int(share * 100) * len(ordered) // 100), 1) - 1]


@dataclass(frozen=True, slots=True)
class Takeover:
    """Seconds of one takeover.

    Attributes:
        fence_s: From the driver's stop to the new one's fence.
        begin_s: From there until the tasks of its first epoch with rows begin.
        tasks_s: These.
        commit_s: The commit.
        whole_s: From the stop to the end of the commit.
    """

    fence_s: float
    begin_s: float
    tasks_s: float
    commit_s: float
    whole_s: float


class _Takeovers:
    """A table, the driver that has it, and one that waits."""

    def __init__(self, endpoints: LabEndpoints, folder: Path, stack: ExitStack) -> None:
        topic = f"takeover_{secrets.token_hex(3)}"
        make_topic(endpoints.bootstrap_servers, topic, 1)
        self._writer = TopicWriter(endpoints.bootstrap_servers)
        self._topic, self._folder, self._stack = topic, folder, stack
        self.job: JobFile = write_job(
            folder,
            bootstrap_servers=endpoints.bootstrap_servers,
            metastore_uri=endpoints.metastore_uri,
            topic=topic,
            interval="1s",
        )
        self.written = 0
        self._driver = self._begin()
        self._write()
        self._driver.wait_for_event("committed")

    def once(self) -> Takeover:
        """Stop the driver, and see the standby commit."""
        standby = self._begin("--standby")
        standby.wait_for_event("route_waits")
        old, self._driver = self._driver, standby
        self._write()
        old.send(signal.SIGSTOP)
        stopped = time.monotonic()
        standby.wait_for_event("fenced")
        fenced = time.monotonic()
        standby.wait_for_event("committed")
        committed = time.monotonic()
        old.send(signal.SIGCONT)
        code = old.wait().exit_code
        old.close()
        if code != _REPLACED:
            raise AssertionError(f"a driver that was replaced ended with {code}")
        line = standby.events("committed")[0]
        tasks_s, commit_s = line["run_ms"] / 1000, line["commit_ms"] / 1000
        begin_s = max(committed - fenced - tasks_s - commit_s, 0.0)
        return Takeover(fenced - stopped, begin_s, tasks_s, commit_s, committed - stopped)

    def end(self) -> None:
        """Stop the last one in order."""
        self._driver.send(signal.SIGTERM)
        self._driver.wait()

    def _begin(self, *options: str) -> DriverProcess:
        return self._stack.enter_context(DriverProcess(self.job, self._folder, *options))

    def _write(self) -> None:
        numbers = range(self.written, self.written + _ROWS)
        self._writer.write(self._topic, [event(n) for n in numbers], partition=0)
        self.written += _ROWS


def _run(count: int, folder: Path) -> dict[str, object]:
    lab = Lab(folder / "lab")
    tell("starting Kafka and metastore")
    endpoints = lab.up()
    try:
        with ExitStack() as stack:
            runs = _Takeovers(endpoints, folder, stack)
            seen = []
            for number in range(count):
                seen.append(runs.once())
                told = {name: round(value, 1) for name, value in asdict(seen[-1]).items()}
                tell(f"{number + 1}: {json.dumps(told)}, load {os.getloadavg()[0]:.0f}")
            runs.end()
        found = read_independently(endpoints, runs.job)
        assert_verified(runs.job)
    finally:
        lab.down()
    commits = [each.whole_s for each in seen]
    parts = {
        f"{name}_p50_s": round(percentile([getattr(each, f"{name}_s") for each in seen], 0.5), 1)
        for name in ("fence", "begin", "tasks", "commit")
    }
    return {
        "takeovers": count,
        **parts,
        "p50_s": round(percentile(commits, 0.5), 1),
        "p95_s": round(percentile(commits, 0.95), 1),
        "max_s": round(max(commits), 1),
        "rows": runs.written,
        "lost": runs.written - found["written"],
    }


def main() -> int:
    """Run it; the exit code."""
    end_tidily()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--takeovers", type=int, default=20)
    count: int = parser.parse_args().takeovers
    with tempfile.TemporaryDirectory(prefix="sluiceway-takeover-") as folder:
        found = _run(count, Path(folder))
    print(json.dumps(found))
    return int(float(str(found["p95_s"])) > BOUND_S or found["lost"] != 0)


if __name__ == "__main__":
    sys.exit(main())
