"""Functions that tests have carried out outside their process, by name."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from sluiceway.errors import FileLostError
from sluiceway.work.request import WorkRequest

HINT = "a bug of the test"


def doubled(argument: int, attempt: str) -> tuple[int, str, int]:
    """Twice the argument, the attempt, and who did it."""
    return 2 * argument, attempt, os.getpid()


def lost(argument: str, attempt: str) -> None:
    """Raise an error that a user can cause."""
    del attempt
    raise FileLostError("it is gone", where=argument)


def broken(argument: object, attempt: str) -> None:
    """Raise what only a bug raises."""
    raise ZeroDivisionError(f"{argument}{attempt}")


def killed(argument: object, attempt: str) -> None:
    """End the process at once."""
    del argument, attempt
    os.kill(os.getpid(), signal.SIGKILL)


def endless(argument: str, attempt: str) -> None:
    """Say that it has begun, by a file, and go on for longer than any test waits."""
    del attempt
    Path(argument).touch()
    time.sleep(3_600)


def request(function: object, argument: object) -> WorkRequest:
    """Work that one of these functions does."""
    name = getattr(function, "__name__", "")
    return WorkRequest(f"{__name__}:{name}", argument, HINT, size_bytes=1)


def own_pid(shares: Iterator[bytes]) -> Iterator[bytes]:
    """For each share of a Spark task, the process that runs it."""
    for _ in shares:
        yield str(os.getpid()).encode()
