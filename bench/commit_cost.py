"""What a commit costs the driver at few and at many files an epoch, on a real metastore.

A topic of standard events that are spread evenly over the values of a column, and a job with
bounded epochs: each writes one file a task and value. `commit_ms` of the log is what lies between
the answers of an epoch's tasks and the end of what the driver does for it: record, publishing,
bookkeeping. Partitions are made in the metastore by a thread of its own, all in the first epoch:
`shown_ms` is how long after that epoch's line in the log the metastore knew the last of them. The
table is compared with the rule of its topic, as for every other figure.

`python -m bench.commit_cost [--values 4,250] [--epochs 15]` ends with one JSON line.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import Self

from bench.check_output import WrongOutputError
from bench.ours import JobChoices, check_ours, job_text, run_ours
from bench.standard_events import create_topic, produce_payloads
from bench.tidy_end import end_tidily
from bench.workloads import Workload, expected_totals, workload_events
from sluiceway.catalog.metastore import MetastoreClient
from sluiceway.errors import SluicewayError
from sluiceway.lab.lab import Lab, LabEndpoints

TASKS = 2
INTERVAL_S = 2
RECORDS_AN_EPOCH = 60_000
LEAST_EPOCHS = 5
POLL_S = 0.02
TIMEOUT_S = 10.0


class Watch:
    """Asks the metastore again and again how many partitions a table has, in a `with` block."""

    def __init__(self, uri: str, table: str, partitions: int) -> None:
        self._client = MetastoreClient(uri, TIMEOUT_S)
        self._table = table
        self._partitions = partitions
        self._shown_s: float | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._client.close()

    def shown_after_ms(self, at: datetime) -> int:
        """How long after a moment all were there; 0 when they were before.

        Raises:
            WrongOutputError: They never were.
        """
        if self._shown_s is None:
            raise WrongOutputError(f"{self._table} never had {self._partitions} partitions")
        return max(0, int((self._shown_s - at.timestamp()) * 1000))

    def _run(self) -> None:
        while self._shown_s is None and not self._over.wait(POLL_S):
            # No table yet.
            with suppress(SluicewayError):
                names = self._client.list_partition_names("bench", self._table)
                if len(names) == self._partitions:
                    self._shown_s = time.time()


def measure(endpoints: LabEndpoints, folder: Path, values: int, epochs: int) -> dict[str, float]:
    """One job of `epochs` epochs, checked.

    Raises:
        WrongOutputError: It failed, its table is wrong, or its epochs were others than planned.
    """
    name = f"commits-{values}"
    workload = Workload(values=values)
    count = RECORDS_AN_EPOCH * epochs
    create_topic(endpoints.bootstrap_servers, name, partitions=TASKS)
    produce_payloads(endpoints.bootstrap_servers, name, workload_events(workload, count))
    table, job = folder / name, folder / f"{name}.yaml"
    choices = JobChoices(interval=f"{INTERVAL_S}s", master=f"local[{TASKS}]")
    text = job_text(workload, endpoints, choices, topic=name, name=name, location=table)
    rate = f"run: {{max_rate: {RECORDS_AN_EPOCH // INTERVAL_S}/s, "
    job.write_text(text.replace("run: {", rate))
    with Watch(endpoints.metastore_uri, name.replace("-", "_"), values) as watch:
        commits = run_ours(job, table, choices).commits
    check_ours(table, workload, expected_totals(workload, count), count)
    steady = [each for each in commits[1:] if each["files"] == values * TASKS]
    if len(steady) < LEAST_EPOCHS:
        told = [each["files"] for each in commits]
        raise WrongOutputError(f"epochs of {told} files instead of {values * TASKS}")
    return {
        "values": values,
        "files": values * TASKS,
        "epochs": len(steady),
        "first_commit_ms": commits[0]["commit_ms"],
        "shown_ms": watch.shown_after_ms(datetime.fromisoformat(commits[0]["at"])),
        "commit_ms": statistics.median(each["commit_ms"] for each in steady),
        "worst_commit_ms": max(each["commit_ms"] for each in steady),
        "run_ms": statistics.median(each["run_ms"] for each in steady),
    }


def main() -> int:
    """Measure each number of values, print the closing line."""
    parser = argparse.ArgumentParser(prog="python -m bench.commit_cost")
    parser.add_argument("--values", default="4,250", help="of the partition column, by commas")
    parser.add_argument("--epochs", type=int, default=15)
    given = parser.parse_args()
    end_tidily()
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="commits-")))
        lab = Lab(folder / "lab")
        cleanup.callback(lab.down)
        endpoints = lab.up()
        try:
            found = [
                measure(endpoints, folder, int(values), given.epochs)
                for values in given.values.split(",")
            ]
        except WrongOutputError as error:
            print(f"no measurement: {error}", file=sys.stderr)
            return 1
    line = {"commits": found, "load": round(os.getloadavg()[0], 1), "verified": True}
    print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
