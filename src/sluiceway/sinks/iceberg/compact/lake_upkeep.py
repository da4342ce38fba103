"""Upkeep of a lake table while its job runs: a follower that checks it now and then."""

import time
from collections.abc import Callable

from sluiceway.errors import SluicewayError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.follower import Follower, LogView
from sluiceway.sinks.iceberg.compact.compaction import LakeCompaction
from sluiceway.sinks.iceberg.compact.expiring import LakeExpiry

LOOK_INTERVAL_S = 300.0
EXPIRE_INTERVAL_S = 3_600.0
_POLL_S = 1.0


class LakeUpkeep(Follower):
    """Keeps files few, and snapshots as long as the job says.

    It follows no slot: its place is the log's end always, whatever it does or waits for. What fails
    is logged and tried at the next look, and never blocks a row, an announcement or a stop.

    Args:
        connection: What its calls go to.
        compaction: Opens that of the table, when it is due for the first time; None leaves files.
        expiry: Opens that of the table, likewise; None keeps all snapshots.
        keep_s: How long snapshots stay, in seconds.
    """

    name = "upkeep"
    follows_slots = False

    def __init__(
        self,
        connection: str,
        compaction: Callable[[], LakeCompaction] | None,
        expiry: Callable[[], LakeExpiry] | None = None,
        keep_s: float = 0.0,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.connection = connection
        self._open_compaction = compaction
        self._open_expiry = expiry
        self._compaction: LakeCompaction | None = None
        self._expiry: LakeExpiry | None = None
        self._keep_s = keep_s
        self._clock = clock
        self._place = 0
        # A driver that lives for a moment only leaves this to the others.
        self._due_s = self._expire_due_s = clock() + LOOK_INTERVAL_S

    def place(self) -> int:
        """See `Follower.place`."""
        return self._place

    def update(self, fold: Fold, since: int, *, again: bool = False) -> None:
        """See `Follower.update`."""
        del since, again
        self._place = fold.next_seq

    def rest_s(self) -> float | None:
        """See `Follower.rest_s`."""
        return max(0.0, self._due_s - self._clock())

    def waits(self) -> str:
        """See `Follower.waits`: files that cannot be compacted; all others are."""
        return "" if self._compaction is None else self._compaction.put_off

    def follow(self, view: LogView) -> int:
        """See `Follower.follow`: begin a process, ask for it, put its files into the table."""
        self._place = max(self._place, view.through)
        if view.hasty or self._clock() < self._due_s:
            return self._place
        view.log.check_held()
        try:
            self._due_s = self._clock() + self._work(view)
        except SluicewayError:
            self._due_s = self._clock() + LOOK_INTERVAL_S
            raise
        return self._place

    def _work(self, view: LogView) -> float:
        """One step; the seconds until the next."""
        if self._open_compaction is not None:
            self._compaction = self._compaction or self._open_compaction()
            if self._compact(self._compaction):
                return _POLL_S
        if view.over():
            return LOOK_INTERVAL_S
        if self._open_expiry is not None and self._clock() >= self._expire_due_s:
            self._expire_due_s = self._clock() + EXPIRE_INTERVAL_S
            self._expiry = self._expiry or self._open_expiry()
            self._expiry.expire(self._keep_s, view.over)
        return LOOK_INTERVAL_S

    @staticmethod
    def _compact(compaction: LakeCompaction) -> bool:
        """One step of a compaction; whether there is another one."""
        if compaction.is_under_way:
            if not compaction.is_over():
                return True
            if any(each.failed for each in compaction.finish()):
                # One after the other would keep a processor busy with nothing but failures.
                return False
        groups, _ = compaction.plan(all_of_them=False)
        if groups:
            compaction.begin(groups)
        return bool(groups)

    def close(self) -> None:
        """See `Follower.close`."""
        if self._compaction is not None:
            self._compaction.close()
