"""Has the files of partitions rewritten, outside the driver's process."""

import threading
import time
from collections.abc import Sequence
from typing import Protocol

from sluiceway.errors import SluicewayError, TaskFailedError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.sinks.files.contract import FileChoice
from sluiceway.storage.access import NO_STORES, Stores
from sluiceway.work.process import ProcessWork
from sluiceway.work.request import ClusterWork, WorkRunner
from sluiceway.worker.plan import FileRules
from sluiceway.worker.rewrite import RewritePlan, rewrite_request


class Rewritten:
    """New files of a partition, and what they have cost."""

    __slots__ = ("cpu_s", "files", "wall_s")

    def __init__(self, files: Sequence[FileRecord], wall_s: float, cpu_s: float) -> None:
        self.files = files
        self.wall_s = wall_s
        self.cpu_s = cpu_s


class Rewriter(Protocol):
    """Rewrites files, for one group of partitions at a time."""

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


class WorkRewriter:
    """Has partitions rewritten outside the driver's process; a `Rewriter`.

    Executors do it while there are several, else a process of this machine. Where it goes is
    decided again for each group: executors come and go.

    Args:
        layout: The route's layout.
        choice: How the table's files are written.
        rules: Size and names of new files.
        stores: How the table's store is reached.
        cluster: Executors; None where one machine does all.
    """

    def __init__(
        self,
        layout: LedgerLayout,
        choice: FileChoice,
        rules: FileRules,
        stores: Stores = NO_STORES,
        *,
        cluster: ClusterWork | None = None,
    ) -> None:
        self._layout = layout
        self._choice = choice
        self._rules = rules
        self._stores = stores
        self._cluster = cluster
        self._cancelled = threading.Event()

    def rewrite(
        self, staged: Sequence[tuple[str, Sequence[FileRecord]]], *, until: float | None
    ) -> list[Rewritten | SluicewayError]:
        """See `Rewriter.rewrite`."""
        requests = [rewrite_request(self.plan(folder, live)) for folder, live in staged]
        cluster = self._cluster
        runner: WorkRunner = ProcessWork("rewrites files")
        if cluster is not None and cluster.is_usable():
            runner = cluster
        try:
            answers = runner.run(requests, lambda: self._check(until))
        except TaskFailedError as error:
            return [error for _ in staged]
        return [
            answer.failure or Rewritten(answer.value, answer.wall_s, answer.cpu_s)
            for answer in answers
        ]

    def cancel(self) -> None:
        """See `Rewriter.cancel`."""
        self._cancelled.set()

    def plan(self, folder: str, live: Sequence[FileRecord]) -> RewritePlan:
        """What is to be done for a partition; see `Rewriter.rewrite`."""
        rules, stores = self._rules, self._stores
        return RewritePlan(self._layout, folder, tuple(live), self._choice, rules, stores)

    def _check(self, until: float | None) -> None:
        """Whether to go on. Called again and again by who waits for the work.

        Raises:
            TaskFailedError: It was cancelled, or its time is over.
        """
        if self._cancelled.is_set():
            raise TaskFailedError("it was given up: its route is left")
        if until is not None and time.monotonic() >= until:
            raise TaskFailedError("it was given up: its time is over")
