"""Work on files in a process of its own: one plan that nobody waits for, or one after the other."""

import atexit
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import IO, Any, Final

from sluiceway.errors import SluicewayError, TaskFailedError
from sluiceway.sinks.iceberg.compact.plan_frames import framed, read_frame, write_frame

_SAID_AT_END = 300
_MOST_IDLE = 2
_ENDS_S = 5.0

Answers = tuple[list[Any], SluicewayError | None]
"""Of the parts of a plan, in order; and why the one behind them, and all after it, have none."""


def _begun(told: IO[bytes] | int, answer: IO[bytes] | int, said: IO[bytes]) -> Any:
    """The process.

    Raises:
        TaskFailedError: None can be begun.
    """
    # Found as this process finds its modules, and nothing of the folder that it works in.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-P", "-m", "sluiceway.sinks.iceberg.compact.merge_process"]
    try:
        return subprocess.Popen(  # noqa: S603
            command, stdin=told, stdout=answer, stderr=said, env=environment, bufsize=0
        )
    except OSError as error:
        raise TaskFailedError(f"no process can be begun: {error}") from error


def _last_words(said: IO[bytes]) -> str:
    said.seek(0)
    return said.read().decode(errors="replace").strip()[-_SAID_AT_END:]


class FileProcess:
    """One plan that is carried out elsewhere; nobody has to wait for it.

    Args:
        plan: What `merge_process` knows.

    Raises:
        TaskFailedError: No process can be begun.
    """

    def __init__(self, plan: object) -> None:
        self._answer: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            with tempfile.TemporaryFile() as told:
                told.write(framed(plan))
                told.seek(0)
                self._process = _begun(told, self._answer, self._said)
        except SluicewayError:
            self._close()
            raise

    def is_over(self) -> bool:
        """Whether `answers` returns at once. Asks nobody else."""
        return self._process.poll() is not None

    def answers(self, parts: int, timeout_s: float) -> Answers:
        """What it has made. Called once; it is over then.

        Args:
            parts: Of the plan; each has an answer.
            timeout_s: Longest wait; then it is killed.

        Raises:
            SluicewayError: It cannot do its work, whatever the parts are.
        """
        try:
            code = self._killed_after(timeout_s)
            said = _last_words(self._said)
            self._answer.seek(0)
            found = list(_frames(self._answer.fileno()))
        finally:
            self.end()
        if found and isinstance(found[0], SluicewayError):
            raise found[0]
        if len(found) == parts:
            return found, None
        if code is None or code < 0:
            why = f"took longer than {timeout_s:g} s" if code is None else f"ended with {code}"
            return found, TaskFailedError(f"the process that writes it anew {why}: {said}")
        raise TaskFailedError(f"the process that writes files anew ended with {code}: {said}")

    def _killed_after(self, timeout_s: float) -> int | None:
        """Its exit code; None when it had to be killed."""
        try:
            return int(self._process.wait(timeout_s))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return None

    def end(self) -> None:
        """End it, whatever it does. Safe to repeat."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._close()

    def _close(self) -> None:
        self._answer.close()
        self._said.close()


def _frames(source: int) -> Iterator[Any]:
    """All whole ones."""
    try:
        while (frame := read_frame(source)) is not None:
            yield frame
    except EOFError:
        # It was killed in the midst of telling it.
        return


def _made(answer: Any | None, code: int | None, said: str) -> Any:
    if answer is None:
        raise TaskFailedError(f"the merging process ended with {code}: {said}")
    if isinstance(answer, SluicewayError):
        raise answer
    return answer


class _WarmProcess:
    """One that takes plan after plan. One caller at a time.

    Raises:
        TaskFailedError: No process can be begun.
    """

    def __init__(self) -> None:
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        try:
            self._process = _begun(subprocess.PIPE, subprocess.PIPE, self._said)
        except SluicewayError:
            self._said.close()
            raise
        self.used = False

    def ask(self, plan: object, timeout_s: float) -> Any:
        """What it has made of a plan; None when it had ended before, for want of plans.

        Raises:
            SluicewayError: It has made nothing, and is to be ended unless the error is its answer.
        """
        until_s = time.monotonic() + timeout_s
        first, self.used = not self.used, True
        try:
            write_frame(self._process.stdin.fileno(), framed(plan), until_s)
            answer = read_frame(self._process.stdout.fileno(), until_s)
        except TimeoutError as error:
            self.end()
            raise TaskFailedError(f"files could not be merged in {timeout_s:g} s") from error
        except (OSError, EOFError):
            answer = None
        if answer is not None:
            return answer
        try:
            code = self._process.wait(_ENDS_S)
        except subprocess.TimeoutExpired:
            code = None
        said = _last_words(self._said)
        self.end()
        return None if code == 0 and not first else _made(None, code, said)

    def end(self) -> None:
        """End it, whatever it does. Safe to repeat."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for each in (self._process.stdin, self._process.stdout, self._said):
            each.close()


class WarmProcesses:
    """Processes that wait for the next plan: beginning one costs more than most plans.

    A few wait at a time, whatever the number of tables, and only for a while. Any thread may call.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_WarmProcess] = []

    def ask(self, plan: object, timeout_s: float, *, keep: bool = True) -> Any:
        """Have a plan carried out.

        Args:
            plan: What `merge_process` knows.
            timeout_s: Longest wait.
            keep: Whether the process may wait for another plan; what one has needed of memory for
                a large one goes with it.

        Raises:
            SluicewayError: Nothing was made; what lies in the table's folder is an orphan.
        """
        answer = None
        while answer is None:
            process = self._taken()
            # One that had ended for want of plans has not seen this one.
            answer = process.ask(plan, timeout_s)
        self._give_back(process, keep=keep)
        return _made(answer, None, "")

    def close(self) -> None:
        """End those that wait."""
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each.end()

    def _taken(self) -> _WarmProcess:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _WarmProcess()

    def _give_back(self, process: _WarmProcess, *, keep: bool) -> None:
        with self._lock:
            if keep and len(self._idle) < _MOST_IDLE:
                self._idle.append(process)
                return
        process.end()


_WARM: Final = WarmProcesses()
atexit.register(_WARM.close)


def warm_processes() -> WarmProcesses:
    """Those of this process."""
    return _WARM
