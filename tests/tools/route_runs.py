"""Runs a job on real servers, with tasks in threads instead of Spark."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import duckdb

from sluiceway.audit.open_table import OpenTable, open_table
from sluiceway.audit.pick_route import job_routes, pick_route
from sluiceway.audit.run_verify import verify_route
from sluiceway.audit.verify import VerifyReport
from sluiceway.driver.run import Observers, RunExtra, run_routes
from sluiceway.driver.status_board import StatusBoard
from sluiceway.driver.stop import StopSignal
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import Record
from sluiceway.observe.log import stderr_log
from sluiceway.observe.progress import Progress
from sluiceway.observe.steps import Observer, ignore_step
from sluiceway.schedule.unit_sql import UnitSql
from sluiceway.upkeep.record_queue import BeginWork
from tools.inline_runner import InlineRunner
from tools.job_files import JobFile
from tools.waiting import PATIENCE_S


@dataclass(frozen=True, slots=True)
class RouteRun:
    """A job, and what can be asked of one of its tables.

    Attributes:
        route: Which one; None is the only one.
    """

    job: JobFile
    route: str | None = None

    def of(self, route: str) -> "RouteRun":
        """The same job, seen from another of its routes."""
        return RouteRun(self.job, route)

    def catch_up(
        self,
        *,
        observe: Observer = ignore_step,
        stop: StopSignal | None = None,
        background: tuple[BeginWork, ...] = (),
        units: UnitSql | None = None,
    ) -> None:
        """Run the job to the log ends read at its start."""
        eyes = Observers(stderr_log(level="warning"), Progress())
        extra = RunExtra(background=background)
        stop = stop or StopSignal()
        self._run(observe, stop, eyes, extra, until_caught_up=True, units=units)

    def run_until(
        self,
        stop: StopSignal,
        *,
        observe: Observer = ignore_step,
        board: StatusBoard | None = None,
        background: tuple[BeginWork, ...] = (),
    ) -> None:
        """Run the job until `stop`; `board` shows its routes meanwhile."""
        eyes = Observers(stderr_log(level="warning"), Progress(), board or StatusBoard())
        self._run(observe, stop, eyes, RunExtra(background=background), until_caught_up=False)

    def _run(
        self,
        observe: Observer,
        stop: StopSignal,
        eyes: Observers,
        extra: RunExtra,
        *,
        until_caught_up: bool,
        units: UnitSql | None = None,
    ) -> None:
        runner = self.runner(units)
        try:
            run_routes(
                compile_routes(self.job.spec),
                runner,
                stop,
                eyes,
                bounded=until_caught_up,
                extra=extra,
                observe=observe,
            )
        finally:
            runner.close()

    def runner(self, units: UnitSql | None = None) -> InlineRunner:
        """What runs the tasks, and the SQL of units."""
        return InlineRunner(units=units)

    def root(self) -> Path:
        """Folder of the table."""
        table = self._open()
        table.close()
        return Path(table.layout.table_root)

    def records(self) -> list[Record]:
        """All records of the ledger."""
        table = self._open()
        table.close()
        return [record for record, _ in LedgerLog(table.storage, table.layout).records()]

    def log(self) -> LedgerLog:
        """The ledger's log."""
        table = self._open()
        table.close()
        return LedgerLog(table.storage, table.layout)

    def rows(self, columns: str = "_partition, _offset") -> list[tuple[object, ...]]:
        """Rows of the metastore's partitions (or of the unpartitioned table), in order."""
        globs = [f"{folder}/*.parquet" for folder in self._folders()]
        if not any(list(Path(each).parent.glob("*.parquet")) for each in globs):
            return []
        found = "read_parquet(?, hive_partitioning=false, union_by_name=true)"
        query = f"SELECT {columns} FROM {found} ORDER BY ALL"  # noqa: S608
        return list(duckdb.execute(query, [globs]).fetchall())

    def partitions(self) -> dict[str, str]:
        """Partition name -> location path, as the metastore has them."""
        table = self._open()
        found = table.table.other_partitions(())
        table.close()
        return {"/".join(each): urlsplit(shown.location).path for each, shown in found.items()}

    def dirty(self, columns: str = 'partition, "offset", reason') -> list[tuple[object, ...]]:
        """Published dirty rows, in order."""
        glob = f"{self.root()}/_sluiceway/*/dirty/*.parquet"
        if not list(self.root().glob("_sluiceway/*/dirty/*.parquet")):
            return []
        query = f"SELECT {columns} FROM read_parquet(?) ORDER BY ALL"  # noqa: S608
        return list(duckdb.execute(query, [glob]).fetchall())

    def assert_verified(self) -> None:
        """`sluiceway verify --deep` finds nothing."""
        self.verified()

    def verified(self) -> VerifyReport:
        """What `sluiceway verify --deep` says of a table in which it finds nothing wrong."""
        report = verify_route(self.config(), deep=True)
        found = [str(each) for each in report.problems]
        assert found == [], found
        return report

    def _folders(self) -> list[str]:
        if not self.config().partitions:
            return [str(self.root())]
        return list(self.partitions().values())

    def config(self) -> RouteConfig:
        """The route as the job file has it now."""
        routes = job_routes(self.job.spec, stderr_log(level="warning"))
        return pick_route(routes, self.route)

    def _open(self) -> OpenTable:
        return open_table(self.config())


MakeRun = Callable[..., RouteRun]


@contextmanager
def running(run: RouteRun) -> Iterator[list[BaseException]]:
    """The job runs while the block does; what ended it, if anything, is in the list afterwards."""
    stop, ended = StopSignal(), list[BaseException]()

    def drive() -> None:
        try:
            run.run_until(stop)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            ended.append(error)

    driver = threading.Thread(target=drive)
    driver.start()
    try:
        yield ended
    finally:
        stop.ask()
        driver.join(PATIENCE_S)
        assert not driver.is_alive()
