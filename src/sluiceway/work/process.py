"""Requests that a process of this machine carries out, which may be ended at any time.

Decoding and encoding would hold the driver's interpreter for seconds; and a process can be given
little priority, and report what it has cost.
"""

import atexit
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import IO, Any, Final

from sluiceway.errors import SluicewayError, TaskFailedError
from sluiceway.work.frames import Check, framed, read_frame, until, write_frame
from sluiceway.work.process_main import LOW
from sluiceway.work.request import WorkAnswer, WorkRequest

MOST_AT_ONCE = 2
"""Groups of requests that a driver has carried out at the same time with low priority."""

_LOOK_S = 0.2
_ENDS_S = 5.0
_MOST_IDLE = 2
_SAID_CHARACTERS = 500
_turns = threading.BoundedSemaphore(MOST_AT_ONCE)

Answers = tuple[list[Any], SluicewayError | None]
"""Values of the parts of a request, in order; and why the rest of them have none."""


def _begun(told: IO[bytes] | int, answer: IO[bytes] | int, said: IO[bytes], *options: str) -> Any:
    """The process.

    Raises:
        OSError: The machine has no process, file handle or room for it.
    """
    # Found as this process finds its modules, and nothing of the folder that it works in.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-P", "-m", "sluiceway.work.process_main", *options]
    return subprocess.Popen(  # noqa: S603
        command, stdin=told, stdout=answer, stderr=said, env=environment, bufsize=0
    )


def _last_words(said: IO[bytes]) -> str:
    said.seek(0)
    return said.read().decode(errors="replace").strip()[-_SAID_CHARACTERS:]


def _end(process: Any, *files: IO[bytes]) -> None:
    """End a process, whatever it does, and close files of it. Safe to repeat."""
    if process.poll() is None:
        process.kill()
        process.wait()
    for each in (process.stdin, process.stdout, *files):
        if each is not None:
            each.close()


class ProcessEndedError(Exception):
    """A process has ended and given no answer.

    Attributes:
        code: Its exit code; None when it has closed its pipes and goes on.
        said: The end of what it wrote to standard error.
    """

    def __init__(self, code: int | None, said: str) -> None:
        super().__init__(code, said)
        self.code = code
        self.said = said


class WorkProcess:
    """Carries out one request after the other, each with one answer. One caller at a time.

    Its input stays open as long as it is wanted.

    Args:
        options: Options of `process_main`.

    Raises:
        OSError: The machine has no process, file handle or room for it.
    """

    def __init__(self, *options: str) -> None:
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        try:
            self._process = _begun(subprocess.PIPE, subprocess.PIPE, self._said, *options)
        except OSError:
            self._said.close()
            raise
        self.used = False

    def ask(self, request: WorkRequest, check: Check) -> WorkAnswer:
        """What it has made of a request. After any error it is of no use, and is to be ended.

        Raises:
            ProcessEndedError: It has ended.
            Exception: What the check raises.
        """
        answer: Any = None
        self.used = True
        try:
            write_frame(self._process.stdin.fileno(), framed(request), check)
            answer = read_frame(self._process.stdout.fileno(), check)
        except TimeoutError:
            raise
        except (OSError, EOFError):
            answer = None
        if isinstance(answer, WorkAnswer):
            return answer
        code = None
        with suppress(subprocess.TimeoutExpired):
            code = int(self._process.wait(_ENDS_S))
        raise ProcessEndedError(code, _last_words(self._said))

    def end(self) -> None:
        """End it, whatever it does. Safe to repeat."""
        _end(self._process, self._said)


class ProcessWork:
    """A `WorkRunner` that begins processes of low priority, one after the other.

    One serves a group of requests, one after the other, and ends with it. Where it dies, another
    one goes on with the request after the one that was under way.

    Args:
        about: What the processes do, in words.
    """

    def __init__(self, about: str) -> None:
        self._about = about

    def run(self, requests: Sequence[WorkRequest], check: Callable[[], None]) -> list[WorkAnswer]:
        """See `WorkRunner.run`. What is given up in the midst is a failure of each that is left."""
        check()
        while not _turns.acquire(timeout=_LOOK_S):
            check()
        process: WorkProcess | None = None
        answers: list[WorkAnswer] = []
        try:
            for request in requests:
                began = time.monotonic()
                try:
                    check()
                    process = process or self._begin()
                    answer = self._answer(process, request, check)
                    answers.append(replace(answer, wall_s=time.monotonic() - began))
                except SluicewayError as error:
                    # It is dead, or busy with work that no caller wants any more.
                    answers.append(WorkAnswer(failure=error))
                    if process is not None:
                        process.end()
                    process = None
        finally:
            if process is not None:
                process.end()
            _turns.release()
        return answers

    def _begin(self) -> WorkProcess:
        try:
            return WorkProcess(LOW)
        except OSError as error:
            raise TaskFailedError(
                f"the process that {self._about} cannot begin: {error}",
                hint="see what the machine lacks: processes, open files, memory, room for "
                "temporary files; nothing was changed",
            ) from error

    def _answer(self, process: WorkProcess, request: WorkRequest, check: Check) -> WorkAnswer:
        try:
            return process.ask(request, check)
        except ProcessEndedError as error:
            signal = error.code is not None and error.code < 0
            how = f"by signal {-error.code}" if signal and error.code else f"with {error.code}"
            raise TaskFailedError(
                f"the process that {self._about} has ended {how}{': ' if error.said else ''}"
                f"{error.said}",
                hint="killed for its memory? Nothing was changed; ask for the rewriting again",
            ) from error


class UnattendedProcess:
    """One request that is carried out elsewhere; no caller has to wait for it.

    Args:
        request: It has an answer for each of its parts.

    Raises:
        TaskFailedError: No process can be begun.
    """

    def __init__(self, request: WorkRequest) -> None:
        self._answer: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            with tempfile.TemporaryFile() as told:
                told.write(framed(request))
                told.seek(0)
                self._process = _begun(told, self._answer, self._said)
        except OSError as error:
            self._answer.close()
            self._said.close()
            raise TaskFailedError(f"no process can be begun: {error}") from error

    def is_over(self) -> bool:
        """Whether `answers` returns at once. Asks no other process."""
        return self._process.poll() is not None

    def answers(self, parts: int, timeout_s: float) -> Answers:
        """What it has made. Called once; it is over then.

        Args:
            parts: Number of the request's parts; each has an answer.
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
        failure = next((each.failure for each in found if each.failure is not None), None)
        values = [each.value for each in found if each.failure is None]
        if failure is not None and not values:
            raise failure
        if len(values) == parts or failure is not None:
            return values, failure
        if code is None or code < 0:
            why = f"took longer than {timeout_s:g} s" if code is None else f"ended with {code}"
            return values, TaskFailedError(f"the process that rewrites it {why}: {said}")
        raise TaskFailedError(f"the process that rewrites files ended with {code}: {said}")

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
        _end(self._process, self._answer, self._said)


def _frames(source: int) -> Iterator[WorkAnswer]:
    """All whole ones."""
    try:
        while (frame := read_frame(source)) is not None:
            yield frame
    except EOFError:
        # It was killed in the midst of an answer.
        return


class WarmProcesses:
    """Processes that wait for the next request: beginning one costs more than most requests.

    A few wait at a time, whatever the number of tables, and only for a while. Any thread may call.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[WorkProcess] = []

    def ask(self, request: WorkRequest, timeout_s: float, *, keep: bool = True) -> Any:
        """Have a request carried out.

        Args:
            request: A request with one answer.
            timeout_s: Longest wait.
            keep: Whether the process may wait for another request; what one has needed of memory
                for a large one goes with it.

        Returns:
            The answer's value.

        Raises:
            SluicewayError: Nothing was made; what lies in the table's folder is an orphan.
        """
        answer: WorkAnswer | None = None
        while answer is None:
            process = self._taken()
            # A process that had ended for want of requests has not seen this one.
            answer = _answer_in_time(process, request, timeout_s)
        self._give_back(process, keep=keep)
        if answer.failure is not None:
            raise answer.failure
        return answer.value

    def close(self) -> None:
        """End processes that wait."""
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each.end()

    def _taken(self) -> WorkProcess:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        try:
            return WorkProcess()
        except OSError as error:
            raise TaskFailedError(f"no process can be begun: {error}") from error

    def _give_back(self, process: WorkProcess, *, keep: bool) -> None:
        with self._lock:
            if keep and len(self._idle) < _MOST_IDLE:
                self._idle.append(process)
                return
        process.end()


def _answer_in_time(
    process: WorkProcess, request: WorkRequest, timeout_s: float
) -> WorkAnswer | None:
    """The answer; None of a process that had ended before, for want of requests."""
    first = not process.used
    try:
        return process.ask(request, until(time.monotonic() + timeout_s))
    except TimeoutError as error:
        process.end()
        raise TaskFailedError(f"files could not be merged in {timeout_s:g} s") from error
    except ProcessEndedError as error:
        process.end()
        if error.code == 0 and not first:
            return None
        raise TaskFailedError(
            f"the merging process ended with {error.code}: {error.said}"
        ) from error


_WARM: Final = WarmProcesses()
atexit.register(_WARM.close)


def warm_processes() -> WarmProcesses:
    """The warm processes of this process."""
    return _WARM
