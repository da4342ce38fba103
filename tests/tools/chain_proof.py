"""`make proofs NAME=chain-faults`: a chain of three tables under kills, compaction and corrections.

A writer fills a table of hours as a driver would: rows, late rows, announcements, merged files. A
route refines it, and another one computes hours of the refined table. Both drivers are killed
again and again, hours of the refined table are backfilled and compacted meanwhile, and a reader
looks at the computed hours all the time. DuckDB runs the SQL in place of Spark, in the driver's
process, so that a kill costs no start of a JVM.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from matrix.drivers import DriverServer, LocalDriver, driver_server
from sluiceway.audit.open_table import find_ledger, read_ledger
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.loader import load_job
from sluiceway.ledger.partition_records import ReadyRecord, SwapRecord
from sluiceway.ledger.records import Body
from sluiceway.sinks.hive.folder_catalog import FolderCatalog
from sluiceway.storage.access import NO_STORES
from tools.rows_on_disk import RowsOnDisk
from tools.table_on_disk import table_on_disk
from tools.units_on_disk import SQL, add_table

HOURS = 8
STEPS = 200
_KILL_S = 2.5
FIRST_MS, HOUR_MS = 1_795_132_800_000, 3_600_000
_PATIENCE_S = 900.0
_TIMES = "[{name: dt, event_time: yyyyMMdd}, {name: hr, event_time: HH}]"


def hour_name(hour: int) -> str:
    """Prefix of an hour."""
    return f"dt=20261120/hr={hour:02d}"


class RawTable(RowsOnDisk):
    """As `RowsOnDisk`, with an event time `at` of the row's hour, in ms."""

    def _write(self, final: str, numbers: range | list[int], app: str) -> None:
        path = self.root / final
        path.parent.mkdir(parents=True, exist_ok=True)
        begin = FIRST_MS + int(app[-2:]) * HOUR_MS
        columns = {
            "ts": pa.array(numbers, pa.int64()),
            "app": pa.array([app] * len(numbers)),
            "at": pa.array([begin + number % HOUR_MS for number in numbers], pa.int64()),
        }
        half = path.with_suffix(".half")
        pq.write_table(pa.table(columns), half)
        half.rename(path)


class RawWriter:
    """Fills the first table in a thread.

    Args:
        table: The table.
        rows: Rows in all.
        pause_s: Between two of `STEPS` commits.
        chosen: Of all choices.

    Attributes:
        late: Rows of announced hours.
        merges: Partitions whose files were merged.
    """

    def __init__(self, table: RawTable, rows: int, pause_s: float, chosen: random.Random) -> None:
        self._table = table
        self._rows = rows
        self._pause_s = pause_s
        self._random = chosen
        self._closed: list[int] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.late = self.merges = 0
        self.failure: BaseException | None = None
        self.stop = threading.Event()
        self._thread.start()

    def join(self) -> None:
        """Wait until all rows are written, or `stop` is set; raises what the thread has met."""
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            for step in range(STEPS):
                if self.stop.wait(self._pause_s):
                    return
                self._step(step * HOURS // STEPS, self._rows // STEPS)
            self._announce(HOURS)
        except BaseException as error:  # noqa: BLE001 - `join` raises it
            self.failure = error

    def _step(self, hour: int, rows: int) -> None:
        hours = {hour}
        if self._closed and self._random.random() < 0.2:
            hours.add(self._random.choice(self._closed))
            self.late += rows // len(hours)
        self._table.add(*(hour_name(each) for each in sorted(hours)), rows=rows // len(hours))
        self._announce(hour)
        if self._random.random() < 0.2:
            name = hour_name(self._random.choice([*self._closed, hour]))
            self._table.merge(name, self._random.randint(rows, 10 * rows))
            self.merges += 1

    def _announce(self, until: int) -> None:
        """Announce hours before one, again where rows have come since."""
        table = self._table.table
        new = [hour for hour in range(until) if hour not in self._closed]
        if new:
            table.rows(closed=tuple(map(hour_name, new)))
            self._closed += new
        for hour in self._closed:
            with suppress(AssertionError):
                # It has no new rows.
                self._table.announce(hour_name(hour))


@dataclass(frozen=True, slots=True)
class Read:
    """What a reader has found in an hour: the rows that its values count."""

    prefix: str
    rows: int


class HourReader:
    """Reads the computed hours as Spark would: a location of the catalog, and its files."""

    def __init__(self, folder: Path) -> None:
        self._catalog = FolderCatalog(str(folder), NO_STORES)
        self.found: set[Read] = set()
        self.reads = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            for prefix, rows in self.look().items():
                self.found.add(Read(prefix, rows))
                self.reads += 1

    def look(self) -> dict[str, int]:
        """Hour -> rows that its values count."""
        if self._catalog.get_table("dm", "hourly") is None:
            return {}
        names = self._catalog.list_partition_names("dm", "hourly")
        shown = self._catalog.get_partitions("dm", "hourly", names)
        return {
            f"dt={values[0]}/hr={values[1]}": counted_rows(Path(each.layout.location))
            for values, each in shown.items()
        }


def counted_rows(folder: Path) -> int:
    """Sum of `n` in the files of a folder."""
    paths = sorted(map(str, folder.glob("*.parquet")))
    if not paths:
        return 0
    with duckdb.connect() as base:
        found = base.execute("SELECT sum(n) FROM read_parquet(?)", [paths]).fetchone()
    return 0 if found is None or found[0] is None else int(found[0])


class ChainProof:
    """One run.

    Args:
        folder: For all tables.
        seed: Of all choices.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self._random = random.Random(seed)  # noqa: S311 - a reproducible order
        self.raw = RawTable(table_on_disk(folder))
        add_table(folder, self.raw.root, "ods.orders", at="bigint")
        catalog = f"{{disk: {{folder: {{path: {folder}}}}}}}"
        self.refined = self._job(
            "refined",
            f"""\
connections: {catalog}
source: {{table: ods.orders}}
table:
  hive: {{connection: disk, name: ods.refined}}
  columns: [{{name: ts, type: bigint}}, {{name: at, type: bigint}}, {{name: app, type: string}}]
  partition_by: {_TIMES}
event_time: {{field: at, unit: ms, out_of_orderness: 0s, late: reopen, reopen_every: 1m}}
ready: {{visible: on_commit}}
""",
        )
        self.hourly = self._job(
            "hourly",
            f"""\
connections: {catalog}
source: {{table: ods.refined, mode: recompute, unit: [dt, hr]}}
transform:
  sql: {SQL}
table: {{hive: {{connection: disk, name: dm.hourly}}}}
""",
        )
        self.backfills = self.compactions = 0

    def _job(self, name: str, blocks: str) -> Path:
        path = self.folder / f"{name}.yaml"
        run = 'run: {interval: 0.5s, master: "local[2]"}\n'
        path.write_text(f"version: 1\nname: {name}\n{blocks}{run}")
        return path

    def run(self, rows: int, kills: int, backfills: int) -> RawWriter:
        """Fill, kill, correct; then let all come to its end."""
        writer = RawWriter(self.raw, rows, kills * _KILL_S / STEPS, self._random)
        try:
            with driver_server() as server:
                drivers = {job: self._start(server, job) for job in (self.refined, self.hourly)}
                try:
                    for number in range(kills):
                        time.sleep(self._random.uniform(0.2, 2.5))
                        job = (self.refined, self.hourly)[number % 2]
                        with suppress(ProcessLookupError):
                            os.kill(drivers[job].pid, signal.SIGKILL)
                        drivers[job].wait(60.0)
                        drivers[job].end()
                        drivers[job] = self._start(server, job)
                        if self.backfills < backfills * (number + 1) // kills:
                            self._backfill()
                        if number % 5 == 0:
                            self._command("compact", self.refined, self._some_hour())
                            self.compactions += 1
                        sys.stderr.write(f"kill {number + 1} of {kills}\n")
                    writer.join()
                    self._settle(server, drivers)
                finally:
                    for driver in drivers.values():
                        driver.end()
        finally:
            writer.stop.set()
        return writer

    def _start(self, server: DriverServer, job: Path) -> LocalDriver:
        log = self.folder / f"{job.stem}.log"
        return server.start(job, self.folder, log, dict(os.environ), until_caught_up=False)

    def _some_hour(self) -> str:
        return hour_name(self._random.randrange(HOURS))

    def _backfill(self) -> None:
        """Have an announced hour of the refined table read again."""
        ready = {each.prefix for each in self.bodies(self.refined) if isinstance(each, ReadyRecord)}
        if ready:
            prefix = self._random.choice(sorted(ready))
            self._command("backfill", self.refined, prefix, "--from", "ledger")
            self.backfills += 1

    def _command(self, verb: str, job: Path, *more: str) -> None:
        """Ask a driver that may be killed at any moment; it is not waited for."""
        subprocess.Popen(
            [sys.executable, "-m", "sluiceway", verb, str(job), *more],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "commands.log").open("ab"),
        )

    def _settle(self, server: DriverServer, drivers: dict[Path, LocalDriver]) -> None:
        """Wait until each announcement has reached the computed table."""
        until = time.monotonic() + _PATIENCE_S
        while why := self.behind():
            assert time.monotonic() < until, why
            sys.stderr.write(f"waits: {why}\n")
            for job, driver in drivers.items():
                if driver.ended():
                    drivers[job] = self._start(server, job)
            time.sleep(1.0)

    def behind(self) -> str:
        """What has not reached the end of the chain; empty when all has."""
        raw, refined, hourly = (
            newest(self.raw_bodies()),
            newest(self.bodies(self.refined)),
            newest(self.bodies(self.hourly)),
        )
        counts = self.rows_by_hour()
        for prefix, ready in raw.items():
            if prefix not in refined or refined[prefix].rows != counts[prefix]:
                return f"{prefix} of the refined table is announced with other rows than it has"
            if refined[prefix].rows != ready.rows:
                return f"{prefix} of the refined table lacks rows"
            if prefix not in hourly or hourly[prefix].because is None:
                return f"{prefix} is not computed"
            because = hourly[prefix].because
            if because is not None and because.version != refined[prefix].version:
                return f"{prefix} is computed from version {because.version}"
        return ""

    def raw_bodies(self) -> list[Body]:
        """Records of the first table."""
        return [record.body for record, _ in self.raw.table.log.records()]

    def bodies(self, job: Path) -> list[Body]:
        """Records of a route's table; none before it has a ledger."""
        try:
            log = read_ledger(find_ledger(compile_route(load_job(job).spec.routes[0]))).log
            return [record.body for record, _ in log.records()]
        except Exception:  # noqa: BLE001 - its driver has not begun
            return []

    def rows_by_hour(self) -> Counter[str]:
        """Rows of the refined table, as its ledger counts them."""
        fold = read_ledger(find_ledger(compile_route(load_job(self.refined).spec.routes[0]))).fold
        return Counter({state.folder: state.rows for state in fold.partitions.values()})

    def refined_rows(self) -> Counter[int]:
        """Numbers of the rows that readers of the refined table find."""
        catalog = FolderCatalog(str(self.folder), NO_STORES)
        names = catalog.list_partition_names("ods", "refined")
        shown = catalog.get_partitions("ods", "refined", names).values()
        found: Counter[int] = Counter()
        for each in shown:
            for path in Path(each.layout.location).glob("*.parquet"):
                found.update(pq.read_table(path, columns=["ts"])["ts"].to_pylist())
        return found

    def verdict(self, reader: HourReader) -> dict[str, int]:
        """The figures that have to be zero."""
        found = self.refined_rows()
        swaps = swaps_of(self.bodies(self.hourly))
        ready = {
            (each.prefix, each.version): int(each.rows)
            for each in self.bodies(self.refined)
            if isinstance(each, ReadyRecord)
        }
        announced = [each for each in self.bodies(self.hourly) if isinstance(each, ReadyRecord)]
        computed = {(each.prefix, int(each.counts.read)) for each in swaps}
        now = reader.look()
        return {
            "lost": sum(1 for number in range(self.raw.written) if number not in found),
            "doubled": sum(count - 1 for count in found.values()),
            "stale_units": sum(
                now.get(prefix) != rows for prefix, rows in self.rows_by_hour().items()
            ),
            "early_ready": sum(
                each.because is None or (each.prefix, each.because.version) not in ready
                for each in announced
            )
            + sum(
                ready.get((each.prefix, each.inputs[0].version)) != int(each.counts.read)
                for each in swaps
            ),
            "mixed_reads": sum(
                1 for each in reader.found if each.rows and (each.prefix, each.rows) not in computed
            ),
        }


def swaps_of(bodies: list[Body]) -> list[SwapRecord]:
    """The SWAPs among records."""
    return [each for each in bodies if isinstance(each, SwapRecord)]


def newest(bodies: list[Body]) -> dict[str, ReadyRecord]:
    """The newest announcement of each hour."""
    return {each.prefix: each for each in bodies if isinstance(each, ReadyRecord)}


def main() -> None:
    """Run it; the last line is JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--backfills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        proof = ChainProof(Path(folder), asked.seed)
        reader = HourReader(Path(folder))
        try:
            writer = proof.run(asked.rows, asked.kills, asked.backfills)
        finally:
            reader.close()
        found = proof.verdict(reader)
        told = {
            "rows": proof.raw.written,
            "late_rows": writer.late,
            "merges": writer.merges,
            "compactions": proof.compactions,
            "backfills": proof.backfills,
            "computed": len(swaps_of(proof.bodies(proof.hourly))),
            "corrected": len(swaps_of(proof.bodies(proof.refined))),
            "reads": reader.reads,
        }
    print(json.dumps(told))
    print(json.dumps({**found, "kills": asked.kills}))
    sys.exit(int(any(found.values())))


if __name__ == "__main__":
    main()
