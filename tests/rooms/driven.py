"""Drivers of one job in rooms a and b: a room is lost and returns, and its log is read along."""

import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rooms.stretched import Place
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.records import DataRecord, FenceRecord, Record
from tools.driver_process import DriverProcess
from tools.route_runs import RouteRun

if TYPE_CHECKING:
    from sluiceway.ledger.log import LedgerLog

KINDS = ("kill", "stop", "cut")
_PATIENCE_S = 180.0
_POLL_S = 0.05


class DrivenRooms:
    """A driver in each room. A context; ends the drivers that it has started.

    Args:
        places: The rooms, with their brokers.
        run: The job.
        folder: For the drivers' logs.

    Attributes:
        drivers: By room.
        records: Of the log, as far as it was read.
    """

    def __init__(self, places: Mapping[str, Place], run: RouteRun, folder: Path) -> None:
        self.places, self.run = places, run
        self.drivers: dict[str, DriverProcess] = {}
        self.records: list[Record] = []
        self._folder = folder
        self._stack = ExitStack()
        self._log: LedgerLog | None = None
        self._fold = Fold()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def log(self) -> "LedgerLog":
        """The ledger's log; the table exists."""
        self._log = self._log or self.run.log()
        return self._log

    def read_log(self) -> list[Record]:
        """Records since the last call."""
        new = self.log.advance(self._fold)
        self.records += new
        return new

    def caught_up(self) -> Fold:
        """The fold up to the log's tail."""
        self.read_log()
        return self._fold

    @property
    def holder(self) -> str:
        """Room of the last fence."""
        fence = self.caught_up().fence
        assert fence is not None
        return fence.site

    def start(self, room: str) -> DriverProcess:
        """Start the driver of a room; tasks run in its threads."""
        driver = DriverProcess(
            self.run.job,
            self._folder,
            *("--room", room, "--log-format", "json"),
            module="rooms.driver",
            launcher=self.places[room].prefix,
        )
        self.drivers[room] = self._stack.enter_context(driver)
        return driver

    def lose(self, room: str, kind: str) -> None:
        """Kill or stop the room's driver and broker, or cut its network off."""
        place, driver = self.places[room], self.drivers[room]
        if kind == "cut":
            assert place.host is not None
            place.host.cut()
        elif kind == "stop":
            driver.send(signal.SIGSTOP)
            place.signal(signal.SIGSTOP)
        else:
            driver.kill_group()
            place.kill()

    def await_commit_of(self, room: str) -> None:
        """Wait until a room has fenced and committed rows."""
        until = time.monotonic() + _PATIENCE_S
        fenced = False
        while time.monotonic() < until:
            for record in self.read_log():
                if isinstance(record.body, FenceRecord):
                    fenced = record.body.site == room
                elif fenced and isinstance(record.body, DataRecord):
                    return
            time.sleep(_POLL_S)
        tails = {name: each.stderr()[-2500:] for name, each in self.drivers.items()}
        raise AssertionError(f"room {room} commits nothing:\n{tails['a']}\n--- b\n{tails['b']}")

    def assert_fenced(self, room: str) -> None:
        """A driver that was stopped runs again, and has the route no longer; its broker runs too.

        It finds the fence and ends, or finds the operator's request first and is a standby.
        """
        driver = self.drivers[room]
        self.places[room].signal(signal.SIGCONT)
        driver.send(signal.SIGCONT)
        driver.wait_until(
            lambda: driver.events("room_released") or not driver.lives(), "a fenced driver"
        )
        if not driver.events("room_released"):
            ended = driver.wait()
            assert ended.exit_code == 7, ended.stderr[-2000:]
            assert "SW451" in ended.stderr

    def end(self, *rooms: str) -> None:
        """End the drivers of rooms in order."""
        for room in rooms:
            driver = self.drivers[room]
            driver.send(signal.SIGTERM)
            assert driver.wait().exit_code == 0, driver.stderr()[-2000:]
