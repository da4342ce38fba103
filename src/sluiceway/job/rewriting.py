"""Has a partition's files written anew, by a process of its own beside the driver.

Decoding and encoding would hold the driver's interpreter for seconds; and a process can be given
little priority, be ended at any time, and tell what it has cost.
"""

import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from select import select
from typing import IO, Protocol

from sluiceway.errors import TaskFailedError
from sluiceway.ledger.file_records import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.sinks.files.contract import FileChoice
from sluiceway.worker.plan import FileRules
from sluiceway.worker.rewrite import RewriteAnswer, RewritePlan

MOST_AT_ONCE = 2
"""Partitions that all routes of a driver together have rewritten at the same time."""

_LOOK_S = 0.2
_READ_BYTES = 1 << 16
_ERROR_CHARACTERS = 500
_turns = threading.BoundedSemaphore(MOST_AT_ONCE)


class Rewriter(Protocol):
    """Writes files anew, for one partition at a time."""

    def rewrite(
        self, folder: str, live: Sequence[FileRecord], *, until: float | None
    ) -> "Rewritten":
        """Write the rows of these files to few new ones in a staged folder.

        Args:
            folder: Absolute; it exists.
            live: All in the partition, in their order.
            until: On the monotonic clock; given up then. None goes on.

        Raises:
            SluicewayError: It cannot be done; what was written is garbage.
        """

    def cancel(self) -> None:
        """Give up what is being rewritten, and all that is asked for later. Safe to repeat."""


class Rewritten:
    """New files, and what they have cost."""

    __slots__ = ("cpu_s", "files")

    def __init__(self, files: Sequence[FileRecord], cpu_s: float) -> None:
        self.files = files
        self.cpu_s = cpu_s


class ProcessRewriter:
    """Rewrites in a process of its own; a `Rewriter`.

    Args:
        layout: Of the route.
        choice: How the table's files are written.
        rules: Size and names of new files.
    """

    def __init__(self, layout: LedgerLayout, choice: FileChoice, rules: FileRules) -> None:
        self._layout = layout
        self._choice = choice
        self._rules = rules
        self._cancelled = threading.Event()

    def rewrite(self, folder: str, live: Sequence[FileRecord], *, until: float | None) -> Rewritten:
        """See `Rewriter.rewrite`."""
        plan = RewritePlan(self._layout, folder, tuple(live), self._choice, self._rules)
        while not _turns.acquire(timeout=_LOOK_S):
            self._check(until)
        try:
            answer = self._run(plan, until)
        finally:
            _turns.release()
        if answer.failure is not None:
            raise answer.failure
        return Rewritten(answer.files, answer.cpu_s)

    def cancel(self) -> None:
        """See `Rewriter.cancel`."""
        self._cancelled.set()

    def _run(self, plan: RewritePlan, until: float | None) -> RewriteAnswer:
        # Found as this process finds its modules, and nothing of the folder that it works in.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-P", "-m", "sluiceway.worker.rewrite_process"]
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
            )
            # Its input stays open until it has answered: it ends when that is closed.
            with process:
                try:
                    raw = self._talk(process, pickle.dumps(plan), until)
                finally:
                    process.kill()
            try:
                answer = pickle.loads(raw)  # noqa: S301 - from a process of our own
            except (pickle.UnpicklingError, EOFError) as error:
                raise _ended(process.returncode, errors) from error
        if not isinstance(answer, RewriteAnswer):
            raise TaskFailedError(f"it answers with {type(answer).__name__}")
        return answer

    def _talk(
        self, process: "subprocess.Popen[bytes]", message: bytes, until: float | None
    ) -> bytes:
        """Send the plan, and wait for all of the answer; empty when the process has died."""
        to, back = process.stdin, process.stdout
        if to is None or back is None:
            raise TaskFailedError("its pipes are missing")
        try:
            to.write(message)
            to.flush()
        except BrokenPipeError:
            return b""
        raw = bytearray()
        while True:
            self._check(until)
            if not select([back], [], [], _LOOK_S)[0]:
                continue
            part = os.read(back.fileno(), _READ_BYTES)
            if not part:
                return bytes(raw)
            raw += part

    def _check(self, until: float | None) -> None:
        if self._cancelled.is_set():
            raise TaskFailedError("it was given up: its route is left")
        if until is not None and time.monotonic() >= until:
            raise TaskFailedError("it was given up: its time is over")


def _ended(code: int, errors: IO[bytes]) -> TaskFailedError:
    errors.seek(0)
    said = errors.read().decode(errors="replace").strip()[-_ERROR_CHARACTERS:]
    how = f"by signal {-code}" if code < 0 else f"with {code}"
    return TaskFailedError(
        f"the process that rewrites files has ended {how}{': ' if said else ''}{said}",
        hint="killed for its memory? Nothing was changed; the rewriting begins anew when asked for",
    )
