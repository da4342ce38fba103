"""A request names a function and holds its argument; an answer holds what the function gave.

Two backends carry requests out: a process of this machine (`work/process.py`), and Spark jobs of
low priority (`driver/spark/spark_work.py`).
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from sluiceway.errors import SluicewayError, TaskFailedError
from sluiceway.storage.access import Stores


@dataclass(frozen=True, slots=True)
class WorkRequest:
    """What is to be done. It is pickled with its argument.

    Attributes:
        function: `module:name` of a function of two arguments: `argument`, and a text. The text
            names a further attempt (earlier ones may still write); it is empty for the first. An
            iterator that it returns gives several answers.
        argument: For the function.
        hint: What an operator is advised where the function has a bug.
        size_bytes: What the function reads; shares and times go by it.
        place: Root of the table that it works on, and how that store is reached; None for work
            that needs no tokens.
        route: Whose work it is; for people.
    """

    function: str
    argument: Any
    hint: str = ""
    size_bytes: int = 0
    place: tuple[str, Stores] | None = None
    route: str = ""


@dataclass(frozen=True, slots=True)
class WorkAnswer:
    """What became of a request, or of a part of one.

    Attributes:
        value: What the function gave; None with a failure.
        failure: Why there is no value.
        cpu_s: CPU seconds of the process for it; the first ones include its start.
        wall_s: Seconds that it took where it was carried out.
    """

    value: Any = None
    failure: SluicewayError | None = None
    cpu_s: float = 0.0
    wall_s: float = 0.0


class WorkRunner(Protocol):
    """Carries requests out elsewhere. Any thread of the driver may ask it."""

    def run(self, requests: Sequence[WorkRequest], check: Callable[[], None]) -> list[WorkAnswer]:
        """Carry requests out, each of which fails alone.

        Args:
            requests: Requests, at least one, each with one answer.
            check: Asked again and again; raises `TaskFailedError` to give up.

        Returns:
            An answer to each, in their order.

        Raises:
            TaskFailedError: It was given up before all had answers.
        """


class ClusterWork(WorkRunner, Protocol):
    """Carries requests out as tasks of the cluster that runs the epochs, with low priority."""

    def is_usable(self) -> bool:
        """Whether there is more than one executor now; else the driver's machine does the work."""

    def run_now(self, request: WorkRequest, longest_s: float) -> WorkAnswer | None:
        """Carry out one request at once, or not at all.

        Args:
            request: A request with one answer.
            longest_s: Seconds after which its executor counts as hanging.

        Returns:
            None when it was not begun, as there are too few executors or none of their slots is
            free: then the driver's process does it.

        Raises:
            TaskFailedError: The task has died, or it takes far too long.
        """


def carry_out(request: WorkRequest, used_s: float, attempt: str = "") -> Iterator[WorkAnswer]:
    """Call the function of a request. Called by a backend, where the work is done; never raises.

    Args:
        request: What to do.
        used_s: CPU seconds of this process that are not for this request.
        attempt: See `WorkRequest.function`.
    """
    for value, failure, began in _values(request, attempt):
        cpu_s = time.process_time() - used_s
        used_s += cpu_s
        yield WorkAnswer(value, failure, cpu_s, time.monotonic() - began)


def _values(
    request: WorkRequest, attempt: str
) -> Iterator[tuple[Any, SluicewayError | None, float]]:
    """What the function gives, and when it began with that."""
    began = time.monotonic()
    try:
        module, _, name = request.function.partition(":")
        found = getattr(import_module(module), name)(request.argument, attempt)
        if not isinstance(found, Iterator):
            yield found, None, began
            return
        for value in found:
            yield value, None, began
            began = time.monotonic()
    except SluicewayError as error:
        yield None, error, began
    except Exception as error:  # noqa: BLE001 - the boundary of the work: its driver logs it
        why = f"{type(error).__name__}: {str(error)[:300]}"
        yield None, TaskFailedError(why, hint=request.hint), began
