"""A catalog that follows a log which a test makes up: the product's follower on its runner."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from sluiceway.errors import Fatal
from sluiceway.followers.catalog import CatalogFollower
from sluiceway.followers.moved_partitions import MovedPartitions
from sluiceway.followers.runner import FollowerRunner
from sluiceway.host.work_pool import WorkPool
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.log import stderr_log
from sluiceway.sinks.contract import DesiredPartition, TableSink
from sluiceway.storage.local import LocalStorage


class FollowedCatalog:
    """Begun; gets what records ask for.

    Attributes:
        runner: Of the one follower.
        through: Each slot that the ledger got, in order.
    """

    def __init__(self, sink: TableSink, check_held: Callable[[], None] = lambda: None) -> None:
        events = stderr_log(level="error")
        log = LedgerLog(LocalStorage(), LedgerLayout("/t", "r"))
        self.through: list[int] = []
        moved = MovedPartitions(log, events)
        self._catalog = CatalogFollower(
            sink, events, self.through.append, moved, check_held=check_held
        )
        self.runner = FollowerRunner([self._catalog], log, events, WorkPool())
        self.runner.begin(_fold(0))

    def want(self, partitions: list[DesiredPartition], through: int) -> None:
        """Records below this slot have landed and ask for these."""
        self._catalog.want(partitions, through)
        self.runner.update(_fold(through))

    def settle(self, timeout_s: float) -> bool:
        """Whether no follower is left at the end."""
        return self.runner.finish(timeout_s) == () and self.failure is None

    @property
    def failure(self) -> Fatal | None:
        """What has ended the route."""
        return self.runner._failure

    def close(self) -> None:
        """End it."""
        self.runner.close()


def _fold(through: int) -> Any:
    return cast("Any", SimpleNamespace(next_seq=through, effects_through=0))
