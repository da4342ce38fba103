"""From append to a row that a reader of the lake table finds, at one publish interval.

The time of a row runs from the producer's clock just before it was sent, which is its `ts`, to the
moment a client that polls the catalog has the snapshot with its file. Rows of the first seconds
are left out. Every event that was sent has to be in the table once, or there is no figure.
"""

import signal
import subprocess
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError

from bench.check_output import WrongOutputError
from bench.lake_runs import NAMESPACE, Servers, environment_of, job_text
from bench.ours import COMMAND
from bench.standard_events import FIRST_ID, create_topic
from bench.steady_load import begin_load, end_load, start_load

TOPIC_PARTITIONS = 4
WARM_UP_S = 10.0
POLL_S = 0.05
PATIENCE_S = 240.0


@dataclass(frozen=True, slots=True)
class LakeFreshness:
    """What was measured."""

    rows: int
    p50_s: float
    p99_s: float
    worst_s: float


class SnapshotReader:
    """Polls a table; notes when each data file was there for the first time."""

    def __init__(self, catalog: Catalog, table: str) -> None:
        self._catalog = catalog
        self._table = table
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self.sights: dict[str, float] = {}
        self.rows = 0

    def __enter__(self) -> "SnapshotReader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(PATIENCE_S)

    def _poll(self) -> None:
        seen = ""
        while not self._ended.wait(POLL_S):
            try:
                table = self._catalog.load_table(f"{NAMESPACE}.{self._table}")
            except NoSuchTableError:
                continue
            if table.metadata_location == seen:
                continue
            files = [task.file for task in table.scan().plan_files()]
            now_s, seen = time.time(), table.metadata_location
            for file in files:
                self.sights.setdefault(file.file_path, now_s)
            self.rows = sum(file.record_count for file in files)


def measure_freshness(
    servers: Servers, folder: Path, *, rate: int, seconds: float
) -> LakeFreshness:
    """Run our job under a steady load, an epoch a second, a snapshot every two.

    Raises:
        WrongOutputError: The job failed, or rows are missing or doubled.
    """
    table = "fresh"
    topic = "lake-fresh"
    create_topic(servers.broker, topic, partitions=TOPIC_PARTITIONS)
    folder.mkdir(parents=True)
    job, log = folder / "job.yaml", folder / "job.log"
    job.write_text(job_text(servers, topic, table, "native", interval="1s", publish="2s"))
    catalog = load_catalog("lake", type="rest", uri=servers.catalog)
    with ExitStack() as running:
        load = start_load(running, servers.broker, topic, rate)
        driver = running.enter_context(
            subprocess.Popen(
                [COMMAND, "run", str(job), "--log-level", "info"],
                cwd=folder,
                env=environment_of("native"),
                stdin=subprocess.DEVNULL,
                stdout=running.enter_context(log.open("wb")),
                stderr=subprocess.STDOUT,
            )
        )
        running.callback(driver.kill)
        reader = running.enter_context(SnapshotReader(catalog, table))
        _wait_for(reader, 1, driver, log)
        begin_s = begin_load(load) + WARM_UP_S
        time.sleep(max(0.0, begin_s + seconds - time.time()))
        sent = int(end_load(load, PATIENCE_S)["sent"])
        _wait_for(reader, sent, driver, log)
        driver.send_signal(signal.SIGTERM)
        if driver.wait(PATIENCE_S) != 0:
            raise WrongOutputError(f"the job ended so: {log.read_text()[-2000:]}")
    _check(catalog, table, sent)
    found = _delays_s(reader, begin_s, begin_s + seconds)
    p50_s, p99_s, worst_s = np.quantile(found, (0.5, 0.99, 1.0), method="inverted_cdf").tolist()
    return LakeFreshness(len(found), round(p50_s, 3), round(p99_s, 3), round(worst_s, 3))


def _wait_for(
    reader: SnapshotReader, rows: int, driver: subprocess.Popen[bytes], log: Path
) -> None:
    began_s = time.monotonic()
    while reader.rows < rows:
        if driver.poll() is not None or time.monotonic() - began_s > PATIENCE_S:
            raise WrongOutputError(
                f"{reader.rows} rows instead of {rows}: {log.read_text()[-2000:]}"
            )
        time.sleep(POLL_S)


def _check(catalog: Catalog, table: str, sent: int) -> None:
    ids = catalog.load_table(f"{NAMESPACE}.{table}").scan(selected_fields=("id",)).to_arrow()["id"]
    found = np.sort(ids.to_numpy())
    if not np.array_equal(found, np.arange(FIRST_ID, FIRST_ID + sent)):
        raise WrongOutputError(f"{len(found)} rows of {sent}, or others than were sent")


def _delays_s(reader: SnapshotReader, begin_s: float, end_s: float) -> list[float]:
    """Of all rows that were sent in a span of time."""
    found: list[float] = []
    for path, seen_s in reader.sights.items():
        times: pa.Table = pq.read_table(path.removeprefix("file://"), columns=["ts"])
        sent_s = times["ts"].to_numpy() / 1000
        inside = sent_s[(sent_s >= begin_s) & (sent_s < end_s)]
        found.extend((seen_s - inside).tolist())
    return found
