"""`sluiceway run` as a process that tests kill, with temporary folders that they wipe."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.job_files import JobFile
from tools.removal import remove_beside_others

PATIENCE_S = 240.0
_POLL_S = 0.01
_MARK = "SLUICEWAY_TEST_DRIVER"
_TAIL_CHARACTERS = 3000


@dataclass(frozen=True, slots=True)
class Ended:
    """How a driver ended."""

    exit_code: int
    stderr: str

    def error_lines(self) -> list[str]:
        """Lines of standard error that are no JSON."""
        return [line for line in self.stderr.splitlines() if not line.startswith("{")]


class DriverProcess:
    """A driver, its JVM and its workers. Close it, or use it as a context.

    All of them carry a mark in their environment, so that orphans are found whoever their parent
    is by now.

    Args:
        job: What to run.
        folder: An existing folder; the driver's temporary folder and its log come below it.
        options: Of `sluiceway run`.
        module: `tools.inline_driver` runs the tasks in threads, without a JVM.
        environment: On top of this process's own.
        launcher: A command that runs the rest of its line as the driver.
    """

    def __init__(
        self,
        job: JobFile,
        folder: Path,
        *options: str,
        module: str = "sluiceway",
        environment: Mapping[str, str] | None = None,
        launcher: Sequence[str] = (),
    ) -> None:
        self._mark = uuid.uuid4().hex
        self.temporary = folder / f"tmp-{self._mark}"
        self.temporary.mkdir()
        self._log = folder / f"driver-{self._mark}.log"
        self._output = folder / f"driver-{self._mark}.out"
        whole_environment = {
            **os.environ,
            **(environment or {}),
            _MARK: self._mark,
            "TMPDIR": str(self.temporary),
        }
        if module != "sluiceway":
            whole_environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        command = [*launcher, sys.executable, "-m", module, "run", str(job.path), *options]
        with self._log.open("wb") as log, self._output.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                env=whole_environment,
                # A process group of its own: a terminal would kill or stop it as a whole.
                start_new_session=True,
            )

    def __enter__(self) -> "DriverProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Of the Python driver."""
        return self._process.pid

    def stderr(self) -> str:
        """What it has written so far."""
        return self._log.read_text(errors="replace")

    def stdout(self) -> str:
        """What it has written to standard output so far."""
        return self._output.read_text(errors="replace")

    def events(self, name: str = "") -> list[dict[str, Any]]:
        """Its whole log lines so far, of one event or of all."""
        whole, _, _ = self.stderr().rpartition("\n")
        lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
        return [line for line in lines if name in ("", line["event"])]

    def wait_for_event(self, name: str, count: int = 1) -> dict[str, Any]:
        """Wait until an event was logged `count` times; the last of them."""
        self.wait_until(lambda: len(self.events(name)) >= count, f"{count} x {name}")
        return self.events(name)[-1]

    def wait_until(self, happened: Callable[[], object], what: str) -> None:
        """Wait for something while the driver lives."""
        until = time.monotonic() + PATIENCE_S
        while not happened():
            if self._process.poll() is not None:
                code = self._process.returncode
                raise AssertionError(f"ended with {code} before {what}:\n{self._tail()}")
            if time.monotonic() > until:
                raise AssertionError(f"no {what} in {PATIENCE_S:.0f} s:\n{self._tail()}")
            time.sleep(_POLL_S)

    def wait(self, timeout_s: float = PATIENCE_S) -> Ended:
        """Wait for its end."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"it runs on after {timeout_s} s:\n{self._tail()}") from error
        return Ended(code, self.stderr())

    def lives(self) -> bool:
        """Whether the Python driver runs."""
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Signal the Python driver only."""
        assert self.lives(), f"ended too early:\n{self._tail()}"
        self._process.send_signal(number)

    def kill_group(self) -> None:
        """SIGKILL the driver and its JVM at once."""
        assert self.lives(), f"ended too early:\n{self._tail()}"
        os.killpg(self.pid, signal.SIGKILL)

    def family(self) -> dict[int, str]:
        """All of its living processes but itself: pid to command line."""
        wanted = f"{_MARK}={self._mark}".encode()
        found: dict[int, str] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.pid:
                continue
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(entry.name)] = command.decode(errors="replace")
            except OSError:
                continue
        return found

    def jvm(self) -> int | None:
        """Of Spark's JVM; None before it is there."""
        found = [pid for pid, line in self.family().items() if "deploy.SparkSubmit" in line]
        return found[0] if found else None

    def workers(self) -> list[int]:
        """Of the Python workers, without the process that forks them."""
        daemons = [pid for pid, line in self.family().items() if "pyspark.worker" in line]
        return [pid for pid in daemons if _parent(pid) in daemons]

    def orphans_after(self, seconds: float) -> dict[int, str]:
        """Processes of its family that are still there `seconds` from now; waits no longer."""
        until = time.monotonic() + seconds
        while (left := self.family()) and time.monotonic() < until:
            time.sleep(_POLL_S)
        return left

    def wipe(self) -> None:
        """Remove all local state of a driver that is gone."""
        # A JVM that outlives its driver for a moment removes its own folders there meanwhile.
        remove_beside_others(self.temporary)

    def close(self) -> None:
        """Kill whatever is left. Safe to repeat."""
        for pid in [*self.family(), *([self.pid] if self.lives() else [])]:
            kill_quietly(pid)
        self._process.wait()

    def _tail(self) -> str:
        return self.stderr()[-_TAIL_CHARACTERS:]


def kill_quietly(pid: int) -> None:
    """SIGKILL a process that may be gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _parent(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return -1
    return int(stat.rpartition(")")[2].split()[1])
