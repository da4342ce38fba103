"""How long a route that fails is left alone, and when it is no outage any more."""

from collections.abc import Sequence

from sluiceway.errors import Fatal, SluicewayError, TaskFailedError
from sluiceway.observe.log import Log

_FAILED_EPOCHS = 4


class Patience:
    """Of one route, from its start until it is left or a commit goes well.

    Args:
        first_s: Pause after the first failure; each further one is half as long again.
        longest_s: Bound of the pauses.
    """

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._retry_s = first_s
        self._failed_epochs = 0

    def judge(self, failures: Sequence[SluicewayError], log: Log, *, committed: bool) -> None:
        """Raise what the loop has to react to.

        An outage may last. A task that fails on its own rows epoch after epoch is no outage: it
        halts the route in the end, even when other source partitions commit beside it.

        Args:
            failures: Of the epoch's tasks.
            log: Told of each.
            committed: Whether the epoch has moved an end.
        """
        for failure in failures:
            log.warning("task_failed", code=failure.code, error=str(failure))
        fatal = next((failure for failure in failures if isinstance(failure, Fatal)), None)
        if fatal is not None:
            raise fatal
        if committed and not failures:
            self._retry_s = self._first_s
        if not any(isinstance(failure, TaskFailedError) for failure in failures):
            self._failed_epochs = 0
        if failures:
            raise failures[0]

    def pause_s(self, error: SluicewayError) -> float | None:
        """How long to leave the route alone after an error; None halts it."""
        if isinstance(error, Fatal):
            return None
        if isinstance(error, TaskFailedError):
            self._failed_epochs += 1
            if self._failed_epochs >= _FAILED_EPOCHS:
                return None
        pause, self._retry_s = self._retry_s, min(self._retry_s * 1.5, self._longest_s)
        return pause
