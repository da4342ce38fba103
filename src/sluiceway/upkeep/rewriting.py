"""Has the files of partitions written anew, by a process of its own beside the driver.

Decoding and encoding would hold the driver's interpreter for seconds; and a process can be given
little priority, be ended at any time, and tell what it has cost. One serves a group of partitions,
one after the other, and ends with it; where it dies, another goes on behind the one that was under
way.
"""

import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from select import POLLIN, poll
from typing import Protocol

from sluiceway.errors import SluicewayError, TaskFailedError
from sluiceway.ledger.file_records import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.sinks.files.contract import FileChoice
from sluiceway.storage.access import NO_STORES, Stores
from sluiceway.worker.plan import FileRules
from sluiceway.worker.rewrite import RewriteAnswer, RewritePlan
from sluiceway.worker.rewrite_process import LENGTH_BYTES, framed

MOST_AT_ONCE = 2
"""Groups of partitions that all routes of a driver together have rewritten at the same time."""

_LOOK_S = 0.2
_LAST_WAIT_S = 5.0
_READ_BYTES = 1 << 16
_ERROR_CHARACTERS = 500
_turns = threading.BoundedSemaphore(MOST_AT_ONCE)


class Rewritten:
    """New files of a partition, and what they have cost."""

    __slots__ = ("cpu_s", "files", "wall_s")

    def __init__(self, files: Sequence[FileRecord], wall_s: float, cpu_s: float) -> None:
        self.files = files
        self.wall_s = wall_s
        self.cpu_s = cpu_s


class Rewriter(Protocol):
    """Writes files anew, for one group of partitions at a time."""

    def rewrite(
        self, staged: Sequence[tuple[str, Sequence[FileRecord]]], *, until: float | None
    ) -> list[Rewritten | SluicewayError]:
        """Write the rows of partitions to few new files, of each in a staged folder of its own.

        Args:
            staged: For each partition its folder, absolute, which exists, and all its live files
                in their order.
            until: On the monotonic clock; what is not done then is given up. None goes on.

        Returns:
            For each what was made, or why it cannot be done; what was written of that is garbage.
        """

    def cancel(self) -> None:
        """Give up what is being rewritten, and all that is asked for later. Safe to repeat."""


class ProcessRewriter:
    """Rewrites in processes of its own; a `Rewriter`.

    Args:
        layout: Of the route.
        choice: How the table's files are written.
        rules: Size and names of new files.
        stores: How the table's store is reached.
    """

    def __init__(
        self,
        layout: LedgerLayout,
        choice: FileChoice,
        rules: FileRules,
        stores: Stores = NO_STORES,
    ) -> None:
        self._layout = layout
        self._choice = choice
        self._rules = rules
        self._stores = stores
        self._cancelled = threading.Event()

    def rewrite(
        self, staged: Sequence[tuple[str, Sequence[FileRecord]]], *, until: float | None
    ) -> list[Rewritten | SluicewayError]:
        """See `Rewriter.rewrite`."""

        def check() -> None:
            self.check(until)

        try:
            check()
            while not _turns.acquire(timeout=_LOOK_S):
                check()
        except TaskFailedError as error:
            return [error for _ in staged]
        try:
            with _Processes(check) as processes:
                return [processes.rewrite(self.plan(folder, live)) for folder, live in staged]
        finally:
            _turns.release()

    def cancel(self) -> None:
        """See `Rewriter.cancel`."""
        self._cancelled.set()

    def plan(self, folder: str, live: Sequence[FileRecord]) -> RewritePlan:
        """What is to be done for a partition; see `Rewriter.rewrite`."""
        rules, stores = self._rules, self._stores
        return RewritePlan(self._layout, folder, tuple(live), self._choice, rules, stores)

    def check(self, until: float | None) -> None:
        """Whether to go on. Called again and again by who waits for the work.

        Raises:
            TaskFailedError: It was cancelled, or its time is over.
        """
        if self._cancelled.is_set():
            raise TaskFailedError("it was given up: its route is left")
        if until is not None and time.monotonic() >= until:
            raise TaskFailedError("it was given up: its time is over")


class _Processes:
    """One process after the other, each as long as it lives.

    Args:
        check: Asked again and again; raises to give up.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._process: _Process | None = None

    def __enter__(self) -> "_Processes":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def rewrite(self, plan: RewritePlan) -> Rewritten | SluicewayError:
        """Have a partition rewritten; why not, where it cannot be."""
        began = time.monotonic()
        try:
            self._check()
            if self._process is None:
                self._process = _Process.begin()
            answer = self._process.carry_out(plan, self._check)
        except SluicewayError as error:
            # It is dead, or busy with what nobody wants any more.
            self._end()
            return error
        return answer.failure or Rewritten(answer.files, time.monotonic() - began, answer.cpu_s)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()


class _Process:
    """A process that rewrites one partition after the other."""

    def __init__(self) -> None:
        # Found as this process finds its modules, and nothing of the folder that it works in.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-P", "-m", "sluiceway.worker.rewrite_process"]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        # Its input stays open as long as it is wanted: it ends when that is closed.
        self._process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
        )

    @classmethod
    def begin(cls) -> "_Process":
        """A new one.

        Raises:
            TaskFailedError: The machine has no process, file handle or room for it.
        """
        try:
            return cls()
        except OSError as error:
            raise TaskFailedError(
                f"the process that rewrites files cannot begin: {error}",
                hint="see what the machine lacks: processes, open files, memory, room for "
                "temporary files; nothing was changed",
            ) from error

    def carry_out(self, plan: RewritePlan, check: Callable[[], None]) -> RewriteAnswer:
        """Have a plan carried out.

        Raises:
            TaskFailedError: The process has died, or `check` gives up: it is of no use any more.
        """
        to, back = self._process.stdin, self._process.stdout
        if to is None or back is None:
            raise TaskFailedError("its pipes are missing")
        try:
            to.write(framed(plan))
            to.flush()
        except BrokenPipeError as error:
            raise self._ended() from error
        raw = self._read(back.fileno(), LENGTH_BYTES, check)
        answer = pickle.loads(  # noqa: S301 - from a process of our own
            self._read(back.fileno(), int.from_bytes(raw), check)
        )
        if not isinstance(answer, RewriteAnswer):
            raise TaskFailedError(f"it answers with {type(answer).__name__}")
        return answer

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        # Closes its pipes too.
        with self._process, self._errors, suppress(BrokenPipeError):
            if self._process.stdin is not None:
                self._process.stdin.close()

    def _read(self, back: int, size: int, check: Callable[[], None]) -> bytes:
        raw = bytearray()
        # Not `select`, which takes no handle above 1,023: drivers of many routes have more.
        answers = poll()
        answers.register(back, POLLIN)
        while len(raw) < size:
            check()
            if not answers.poll(_LOOK_S * 1000):
                continue
            part = os.read(back, min(size - len(raw), _READ_BYTES))
            if not part:
                raise self._ended()
            raw += part
        return bytes(raw)

    def _ended(self) -> TaskFailedError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_WAIT_S)
        code = self._process.poll()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()[-_ERROR_CHARACTERS:]
        signal = code is not None and code < 0
        how = f"by signal {-code}" if signal and code is not None else f"with {code}"
        return TaskFailedError(
            f"the process that rewrites files has ended {how}{': ' if said else ''}{said}",
            hint="killed for its memory? Nothing was changed; the rewriting begins anew when asked "
            "for",
        )
