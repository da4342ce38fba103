"""Drivers of a cell, forked by one server that has imported all they need."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Protocol

from tools.local_driver import DriverOrder

_TESTS = Path(__file__).resolve().parents[1]
_POLL_S = 0.02
_TAIL_CHARACTERS = 1500


class HungError(Exception):
    """A driver neither ended nor came to where it should be."""


class Driver(Protocol):
    """A driver under test."""

    pid: int

    def wait(self, patience_s: float) -> int:
        """Its exit code; minus the signal's number when it was killed."""
        ...

    def ended(self) -> bool:
        """Whether it is over."""
        ...

    def words(self) -> str:
        """The end of what it said."""
        ...


@dataclass(slots=True)
class LocalDriver:
    """A driver that the server has forked."""

    log: Path
    pid: int = 0
    group: int = 0
    exit_code: int | None = None
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self, answer: dict[str, int]) -> None:
        """Take what the server says of it."""
        with self._changed:
            self.pid = answer.get("pid", self.pid)
            self.group = answer.get("group", self.group)
            self.exit_code = answer.get("exit", self.exit_code)
            self._changed.notify_all()

    def wait_for_start(self, patience_s: float) -> None:
        """Wait until it has a pid."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.pid, patience_s):
                raise HungError("no driver was forked")

    def wait(self, patience_s: float) -> int:
        """See `Driver.wait`."""
        with self._changed:
            self._changed.wait_for(lambda: self.exit_code is not None, patience_s)
            if self.exit_code is None:
                raise HungError(f"runs on after {patience_s:.0f} s: {self.words()}")
            return self.exit_code

    def ended(self) -> bool:
        """See `Driver.ended`."""
        return self.exit_code is not None

    def words(self) -> str:
        """See `Driver.words`."""
        return self.log.read_text(errors="replace")[-_TAIL_CHARACTERS:] if self.log.exists() else ""

    def end(self) -> None:
        """Kill it and its workers, whatever they do."""
        if self.group:
            with suppress(ProcessLookupError):
                os.killpg(self.group, signal.SIGKILL)


class DriverServer:
    """Starts local drivers in some 50 ms, from a process that has imported all they need."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._drivers: dict[str, LocalDriver] = {}
        self._lock = threading.Lock()
        self._count = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def start(
        self,
        job: Path,
        folder: Path,
        log: Path,
        environment: dict[str, str],
        *,
        until_caught_up: bool = True,
    ) -> LocalDriver:
        """Fork a driver that runs the job until it has caught up, or is stopped."""
        assert self._process.stdin is not None
        driver = LocalDriver(log)
        with self._lock:
            self._count += 1
            name = str(self._count)
            self._drivers[name] = driver
            order = DriverOrder(
                name,
                str(job),
                str(folder),
                str(log),
                {**environment, "TMPDIR": str(folder)},
                until_caught_up,
            )
            self._process.stdin.write(json.dumps(asdict(order)) + "\n")
            self._process.stdin.flush()
        driver.wait_for_start(60.0)
        return driver

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            self._drivers[answer["name"]].take(answer)


@contextmanager
def driver_server() -> Iterator[DriverServer]:
    """A server that is up in the block; drivers are ended by who started them."""
    command = [sys.executable, "-m", "tools.local_driver", "--serve"]
    stdin: IO[str] | None = None
    with subprocess.Popen(
        command, cwd=_TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        stdin = process.stdin
        try:
            yield DriverServer(process)
        finally:
            assert stdin is not None
            stdin.close()


def is_stopped(pid: int) -> bool:
    """Whether SIGSTOP has reached the process."""
    with suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return stat.rpartition(")")[2].split()[0] == "T"
    return False


def wait_until_stopped(driver: Driver, patience_s: float) -> bool:
    """Wait for SIGSTOP; False when the driver ended without it."""
    until = time.monotonic() + patience_s
    while not is_stopped(driver.pid):
        if driver.ended():
            return False
        if time.monotonic() > until:
            raise HungError(f"never stopped: {driver.words()}")
        time.sleep(_POLL_S)
    return True
