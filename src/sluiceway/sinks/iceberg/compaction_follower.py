"""Compaction while the job runs: a follower that looks now and then, and waits for no process."""

import time
from collections.abc import Callable

from sluiceway.errors import SluicewayError
from sluiceway.ledger.follower import Follower, LogView
from sluiceway.sinks.iceberg.compaction import LakeCompaction

LOOK_INTERVAL_S = 300.0
_POLL_S = 1.0


class LakeCompactor(Follower):
    """Keeps the files of one append lake table few.

    It follows no slot: its place is the log's end always. What fails is told and tried at the next
    look, and is never in the way of a row.

    Args:
        compaction: Of the table; closed by this.
        connection: What its calls go to.
    """

    name = "compaction"

    def __init__(
        self,
        compaction: LakeCompaction,
        connection: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._compaction = compaction
        self.connection = connection
        self._clock = clock
        self._place = 0
        # A driver that lives for a moment only leaves this to the others.
        self._due_s = clock() + LOOK_INTERVAL_S

    def place(self) -> int:
        """See `Follower.place`."""
        return self._place

    def rest_s(self) -> float | None:
        """See `Follower.rest_s`."""
        return max(0.0, self._due_s - self._clock())

    def follow(self, view: LogView) -> int:
        """See `Follower.follow`: begin a process, ask for it, put its files into the table."""
        self._place = view.through
        if view.hasty or self._clock() < self._due_s:
            return self._place
        view.log.check_held()
        try:
            self._due_s = self._clock() + self._work()
        except SluicewayError:
            self._due_s = self._clock() + LOOK_INTERVAL_S
            raise
        return self._place

    def _work(self) -> float:
        """One step; the seconds until the next."""
        if self._compaction.is_under_way:
            if not self._compaction.is_over():
                return _POLL_S
            self._compaction.finish()
        groups, _ = self._compaction.look(all_of_them=False)
        if not groups:
            return LOOK_INTERVAL_S
        self._compaction.begin(groups)
        return _POLL_S

    def close(self) -> None:
        """See `Follower.close`."""
        self._compaction.close()
