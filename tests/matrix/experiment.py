"""One cell: a driver meets its fault, another one goes on, the independent reader judges."""

import os
import shutil
import signal
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from matrix.cells import Cell
from matrix.drivers import Driver, DriverServer, HungError, LocalDriver, wait_until_stopped
from matrix.rules import Fault, Scene, State
from matrix.stage import Stage
from sluiceway.observe.failpoint_names import POINTS, FailpointSide
from sluiceway.observe.failpoints import HIT, VARIABLE
from tools.driver_process import DriverProcess
from tools.independent_reader import Report
from tools.job_files import JobFile

_PATIENCE_S = 600.0
_POLL_S = 0.2
_FAILED = 1
_FENCED = _HALTED = 7


def lawful_exit_codes(cell: Cell) -> tuple[int, ...]:
    """How the driver that meets the fault may end."""
    match cell.fault:
        case Fault.KILL_DRIVER:
            return (-signal.SIGKILL,)
        case Fault.ZOMBIE:
            # It may have had nothing left to commit when it woke up.
            return (0, _FENCED)
        case Fault.RAISE if POINTS[cell.point] is FailpointSide.CODE:
            # A bug halts the route or ends the process.
            return (0, _FAILED, _HALTED)
        case _:
            # No call that fails and no worker that dies ends a driver.
            return (0,)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a cell.

    Attributes:
        hit: The failpoint was met.
        wrong: What was not as it must be; empty for a green cell.
        exit_code: Of the driver that met the fault.
    """

    cell: Cell
    hit: bool
    wrong: str
    seconds: float
    exit_code: int | None = None
    report: Report = field(default_factory=Report)

    @property
    def green(self) -> bool:
        """Met, and nothing wrong."""
        return self.hit and not self.wrong


class Experiment:
    """Runs one cell; made for it."""

    def __init__(self, cell: Cell, stage: Stage, server: DriverServer, root: Path) -> None:
        self._cell = cell
        self._stage = stage
        self._server = server
        # Another run of the same cell gets another table.
        self._name = f"c{zlib.crc32(f'{cell.name}{time.monotonic_ns()}'.encode()):08x}"
        self._root = root / self._name
        self._marks = self._root / "marks"
        self._started: list[LocalDriver] = []
        self._spark: DriverProcess | None = None
        self._exit_code: int | None = None

    def run(self) -> Outcome:
        """Set up, disturb, recover, judge, clear away."""
        began = time.monotonic()
        self._marks.mkdir(parents=True)
        report = Report()
        try:
            job = self._disturb()
            report = self._stage.judge(self._name, self._cell.visit.scene, job)
            wrong = "" if report.ok else f"{report.line()} {'; '.join(report.details)}"
        except (HungError, AssertionError) as error:
            wrong = f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001 - a cell that breaks is red, the others go on
            wrong = f"{type(error).__name__}: {error}"
        finally:
            self._end_all()
        outcome = Outcome(
            self._cell, self._met(), wrong, time.monotonic() - began, self._exit_code, report
        )
        if outcome.green:
            _wipe(self._root)
        return outcome

    def _disturb(self) -> Path:
        """The driver with its fault, and those after it; the job file of the last one."""
        home = self._home("first")
        job = self._stage.write_job(home, self._name, self._cell.visit.scene, both=False)
        if self._cell.visit.scene in (Scene.LANE, Scene.HOURS):
            self._run_before()
        self._stage.prepare(job, self._name, self._cell.visit.scene)
        first = self._first(job, home)
        zombie = self._cell.fault is Fault.ZOMBIE
        if zombie and wait_until_stopped(first, _PATIENCE_S):
            self._go_on("second")
            os.kill(first.pid, signal.SIGCONT)
        self._exit_code = self._end_of(first, job, both=False)
        if self._met():
            self._judge_end()
        if self._cell.state is State.REMOVED:
            _wipe(home)
        return self._go_on("third" if zombie else "second")

    def _run_before(self) -> None:
        """A driver leaves what the scene needs: dirty rows, or open hours of several files."""
        home = self._home("before")
        scene = self._cell.visit.scene
        job = self._stage.write_job(home, self._name, scene, both=False, strict=True)
        driver = self._local(job, home, {}, until_caught_up=True)
        code = driver.wait(_PATIENCE_S)
        assert code == 0, f"the driver before ended with {code}: {driver.words()}"

    def _end_of(self, driver: Driver, job: Path, *, both: bool) -> int:
        """Its exit code. One that tells others is stopped when all is told."""
        if self._cell.visit.scene is Scene.HOURS:
            hours = self._stage.hours(self._name, job)
            until = time.monotonic() + _PATIENCE_S
            # All may be told when it begins; it has to be there to be stopped as asked.
            while not driver.ended() and not (driver.words() and hours.are_told(both=both)):
                if time.monotonic() > until:
                    raise HungError(f"tells nobody: {driver.words()}")
                time.sleep(_POLL_S)
            with suppress(ProcessLookupError):
                os.kill(driver.pid, signal.SIGTERM)
        return driver.wait(_PATIENCE_S)

    def _first(self, job: Path, home: Path) -> Driver:
        environment = {VARIABLE: self._cell.spec(self._marks).text()}
        if self._cell.spark:
            # It ends by itself should this process be killed.
            limits = ("--until-caught-up", "--for", f"{_PATIENCE_S:.0f}s")
            self._spark = DriverProcess(
                JobFile(job, f"{self._name}.t"), home, *limits, environment=environment
            )
            return _SparkDriver(self._spark)
        return self._local(job, home, environment)

    def _local(
        self,
        job: Path,
        home: Path,
        environment: dict[str, str],
        *,
        until_caught_up: bool | None = None,
    ) -> LocalDriver:
        log = self._root / f"{home.name}.log"
        if until_caught_up is None:
            # Who is caught up waits for no receiver.
            until_caught_up = self._cell.visit.scene is not Scene.HOURS
        driver = self._server.start(job, home, log, environment, until_caught_up=until_caught_up)
        self._started.append(driver)
        return driver

    def _go_on(self, name: str) -> Path:
        """A driver without a fault, which also gets more to read, has to catch up."""
        home = self._home(name)
        job = self._stage.write_job(home, self._name, self._cell.visit.scene, both=True)
        driver = self._local(job, home, {})
        code = self._end_of(driver, job, both=True)
        assert code == 0, f"the {name} driver ended with {code}: {driver.words()}"
        return job

    def _judge_end(self) -> None:
        lawful = lawful_exit_codes(self._cell)
        assert self._exit_code in lawful, f"the driver ended with {self._exit_code}, not {lawful}"

    def _met(self) -> bool:
        return (self._marks / HIT).exists()

    def _home(self, name: str) -> Path:
        folder = self._root / name
        folder.mkdir()
        return folder

    def _end_all(self) -> None:
        for driver in self._started:
            driver.end()
        if self._spark is not None:
            self._spark.close()


def _wipe(folder: Path) -> None:
    """Remove a folder in which a dying JVM may still be at work."""
    until = time.monotonic() + _PATIENCE_S
    while folder.exists() and time.monotonic() < until:
        with suppress(OSError):
            shutil.rmtree(folder)


class _SparkDriver:
    """`sluiceway run` as a `Driver`."""

    def __init__(self, process: DriverProcess) -> None:
        self._process = process
        self.pid = process.pid

    def wait(self, patience_s: float) -> int:
        try:
            return self._process.wait(patience_s).exit_code
        except AssertionError as error:
            raise HungError(str(error)) from error

    def ended(self) -> bool:
        return not self._process.lives()

    def words(self) -> str:
        return self._process.stderr()[-1500:]
