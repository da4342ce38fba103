"""How long a route goes on trying, and when it has tried enough."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sluiceway.errors import Fatal, SluicewayError, TaskFailedError

FIRST_RETRY_S = 2.0
LONGEST_RETRY_S = 15.0
_FAILED_EPOCHS = 4


@dataclass(slots=True)
class RetryPause:
    """Of one route.

    Attributes:
        in_doubt: Whether another driver may be the reason of the last failure.
    """

    in_doubt: bool = False
    _retry_s: float = field(default_factory=lambda: FIRST_RETRY_S)
    _failed_epochs: int = 0

    def judge(self, failures: Sequence[SluicewayError], *, landed: bool) -> None:
        """Raise what the loop has to react to.

        An outage may last. A task that fails on its own rows epoch after epoch is no outage: it
        halts the route in the end, even when other source partitions commit beside it.

        Args:
            failures: Of an epoch's tasks.
            landed: Whether the epoch has a record.
        """
        fatal = next((failure for failure in failures if isinstance(failure, Fatal)), None)
        if fatal is not None:
            raise fatal
        if landed and not failures:
            self._retry_s = FIRST_RETRY_S
        if not any(isinstance(failure, TaskFailedError) for failure in failures):
            self._failed_epochs = 0
        if failures:
            raise failures[0]

    def pause_s(self, error: SluicewayError) -> float | None:
        """How long to leave the route alone after an error; None halts it."""
        if isinstance(error, Fatal):
            return None
        self.in_doubt = True
        if isinstance(error, TaskFailedError):
            self._failed_epochs += 1
            if self._failed_epochs >= _FAILED_EPOCHS:
                return None
        pause, self._retry_s = self._retry_s, min(self._retry_s * 1.5, LONGEST_RETRY_S)
        return pause

    def begin_anew(self) -> None:
        """A route that comes back has all of it again."""
        self._retry_s = FIRST_RETRY_S
        self._failed_epochs = 0
