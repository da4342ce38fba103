"""One follower of the product on the product's runner, after one that a test lets through."""

from sluiceway.followers.runner import FollowerRunner
from sluiceway.host.work_pool import WorkPool
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.follower import Follower, LogView
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.log import Log


class Before(Follower):
    """Is as far as the test says."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.at = 0

    def place(self) -> int:
        return self.at

    def follow(self, view: LogView) -> int:
        del view
        return self.at


class Followed:
    """Begun with the ledger as it is.

    Attributes:
        runner: Of both.
    """

    def __init__(self, follower: Follower, log: LedgerLog, fold: Fold, events: Log) -> None:
        self._follower = follower
        self._before = Before(follower.after[0])
        self.runner = FollowerRunner([self._before, follower], log, events, WorkPool())
        self.runner.begin(fold)

    def through(self, fold: Fold, place: int | None = None) -> None:
        """Records have landed; the one before is through them, or up to a slot."""
        self._before.at = fold.next_seq if place is None else place
        self.runner.update(fold)

    @property
    def trouble(self) -> str:
        """Why it does not go on."""
        return self.runner.states()[-1].waits_for

    def settle(self, timeout_s: float) -> bool:
        """Whether it is through at the end."""
        return self._follower.name not in self.runner.finish(timeout_s)

    def close(self) -> None:
        """End it."""
        self.runner.close()
