"""Work on files in a process of its own: begun, asked whether it is done, ended."""

import os
import pickle
import subprocess
import sys
import tempfile
from typing import IO, Any

from sluiceway.errors import SluicewayError, TaskFailedError

_SAID_AT_END = 300


class FileProcess:
    """One plan that is carried out elsewhere; nobody has to wait for it.

    Args:
        plan: What `merge_process` knows.

    Raises:
        TaskFailedError: No process can be begun.
    """

    def __init__(self, plan: object) -> None:
        # Found as this process finds its modules, and nothing of the folder that it works in.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-P", "-m", "sluiceway.sinks.iceberg.merge_process"]
        self._answer: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            with tempfile.TemporaryFile() as told:
                told.write(pickle.dumps(plan))
                told.seek(0)
                self._process = subprocess.Popen(  # noqa: S603
                    command, stdin=told, stdout=self._answer, stderr=self._said, env=environment
                )
        except OSError as error:
            self._close()
            raise TaskFailedError(f"no process can be begun: {error}") from error

    def is_over(self) -> bool:
        """Whether `answer` returns at once. Asks nobody else."""
        return self._process.poll() is not None

    def answer(self, timeout_s: float) -> Any:
        """What it has made. Called once.

        Raises:
            SluicewayError: It has made nothing; what lies in the table's folder is an orphan.
        """
        try:
            code = self._process.wait(timeout_s)
            self._said.seek(0)
            said = self._said.read().decode(errors="replace").strip()[-_SAID_AT_END:]
            self._answer.seek(0)
            raw = self._answer.read()
        except subprocess.TimeoutExpired as error:
            raise TaskFailedError(f"files could not be merged: {error}") from error
        finally:
            self.end()
        if code != 0:
            raise TaskFailedError(f"the merging process ended with {code}: {said}")
        answer = pickle.loads(raw)  # noqa: S301 - from a process of our own
        if isinstance(answer, SluicewayError):
            raise answer
        return answer

    def end(self) -> None:
        """End it, whatever it does. Safe to repeat."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._close()

    def _close(self) -> None:
        self._answer.close()
        self._said.close()
