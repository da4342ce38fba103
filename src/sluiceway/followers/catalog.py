"""Effects in the catalog, as desired state, outside the commit path (commit rule 16)."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sluiceway.followers.moved_partitions import MovedPartitions
from sluiceway.followers.ready_effects import ReadyEffects
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.follower import Follower, LogView
from sluiceway.observe.failpoints import reach
from sluiceway.observe.log import Log
from sluiceway.sinks.contract import DesiredPartition, ParkedPartition, TableSink

_PARKED_RETRY_S = 60.0
# After so many partitions the log is read again: another driver may have taken over.
_MOST_AT_ONCE = 1000
# Without partitions to apply, the follower only asks the catalog whether the table still exists.
_LOOK_INTERVAL_S = 30.0


_Applied = tuple[list[DesiredPartition], tuple[ParkedPartition, ...]]
"""Partitions that were compared, and how many of them were left alone."""


def parts_of(batch: Sequence[DesiredPartition]) -> list[list[DesiredPartition]]:
    """What is applied together: the partitions of each SWAP, and others up to a number.

    Args:
        batch: Partitions in any order.

    Returns:
        At least one part, which may be empty.
    """
    swaps: dict[int, list[DesiredPartition]] = {}
    for each in batch:
        if each.swapped >= 0:
            swaps.setdefault(each.swapped, []).append(each)
    others = [each for each in batch if each.swapped < 0]
    parts = [
        others[start : start + _MOST_AT_ONCE] for start in range(0, len(others), _MOST_AT_ONCE)
    ]
    parts += [swaps[slot] for slot in sorted(swaps)]
    return parts or [[]]


@dataclass(frozen=True, slots=True)
class _RequestedPartitions:
    through: int
    partitions: list[DesiredPartition]
    complete_us: int | None


class CatalogFollower(Follower):
    """Makes the catalog equal to the desired state of the fold.

    A catalog that is down delays partitions, never commits. A table that is gone, or another driver
    that has taken over, ends the route.
    Commits without new partitions cost the catalog one call in 30 s, however many there are. So a
    missing table may be noticed as late as that.

    Args:
        sink: Sink of the route.
        log: Log of the route.
        on_applied: Called with the slot below which the catalog has all that is desired.
        moved: Partitions that have moved.
        check_held: Called before each change of the catalog; raises when the lease is lost.
        ready: Effects of announcements in the table; None without announcements.
    """

    name = "catalog"
    after: tuple[str, ...] = ("files",)
    owns_table = True

    def __init__(
        self,
        sink: TableSink,
        log: Log,
        on_applied: Callable[[int], None],
        moved: MovedPartitions,
        *,
        check_held: Callable[[], None],
        ready: ReadyEffects | None = None,
    ) -> None:
        self._sink = sink
        self._ready = ready
        self._check_held = check_held
        self._log = log
        self._on_applied = on_applied
        self._moved = moved
        self._requested: deque[_RequestedPartitions] = deque()
        self._complete_us: int | None = None
        self._desired: dict[tuple[str, ...], DesiredPartition] = {}
        self._parked: dict[tuple[str, ...], DesiredPartition] = {}
        self._reasons: dict[tuple[str, ...], str] = {}
        self._place = self._taken = 0
        self._parked_due = 0.0
        self._lock = threading.Lock()
        self._looked = time.monotonic()
        self._look_owed = False

    def want(
        self, partitions: list[DesiredPartition], through: int, complete_us: int | None = None
    ) -> None:
        """Request partitions; returns at once.

        Args:
            partitions: Partitions of records below `through` that were not applied yet.
            through: Slot up to which the catalog will be equal afterwards.
            complete_us: Until when the table is complete with these partitions; microseconds since
                1970. Given with them, so that no reader hears of an hour before the catalog has it.
        """
        with self._lock:
            self._requested.append(_RequestedPartitions(through, partitions, complete_us))

    def update(self, fold: Fold, since: int, *, again: bool = False) -> None:
        """See `Follower.update`: its partitions come through `want`."""
        if again:
            self._place = self._taken = fold.effects_through

    def place(self) -> int:
        """See `Follower.place`: a parked partition does not keep others waiting."""
        return self._place

    def follow(self, view: LogView) -> int:
        """See `Follower.follow`.

        Raises:
            FencedError: Another driver has taken over.
            TableMismatchError: The table was dropped or created again.
            SluicewayError: Store or catalog do not answer.
        """
        through = self._add_requested(view)
        due = self._parked and time.monotonic() >= self._parked_due
        if due or self._desired:
            self._desired = self._parked | self._desired
        look = bool(self._desired) or self._moved.pause_s() == 0.0
        if not look and through == self._place and not self._look_owed:
            return self._place
        look = look or view.hasty or time.monotonic() >= self._looked + _LOOK_INTERVAL_S
        batch, parked = self._apply(view.through) if look else ([], ())
        if look:
            self._looked = time.monotonic()
        self._look_owed = not look
        self._set_parked(batch, parked, through)
        return self._place

    def _add_requested(self, view: LogView) -> int:
        """Take requested partitions whose files have final names; returns the slot after them."""
        with self._lock:
            while self._requested and self._requested[0].through <= view.through:
                asked = self._requested.popleft()
                self._taken = asked.through
                self._desired.update((each.values, each) for each in asked.partitions)
                if asked.complete_us is not None:
                    self._complete_us = max(asked.complete_us, self._complete_us or 0)
        return self._taken

    def rest_s(self) -> float | None:
        """See `Follower.rest_s`: checks moved partitions, parked partitions and the table."""
        now = time.monotonic()
        dues = [] if (moved_s := self._moved.pause_s()) is None else [moved_s]
        if self._parked:
            dues.append(max(0.0, self._parked_due - now))
        if self._look_owed:
            dues.append(max(0.0, self._looked + _LOOK_INTERVAL_S - now))
        return min(dues, default=None)

    def waits(self) -> str:
        """See `Follower.waits`."""
        reasons = dict(self._reasons)
        if not reasons:
            return ""
        first = next(iter(reasons))
        return f"{len(reasons)} partitions are left alone, as {'/'.join(first)}: {reasons[first]}"

    def _set_parked(
        self, batch: list[DesiredPartition], parked: tuple[ParkedPartition, ...], through: int
    ) -> None:
        reasons = {each.values: each.reason for each in parked}
        for partition in batch:
            self._desired.pop(partition.values, None)
            if partition.values not in reasons:
                self._parked.pop(partition.values, None)
                self._reasons.pop(partition.values, None)
            elif self._parked.get(partition.values) != partition:
                self._parked[partition.values] = partition
                self._reasons[partition.values] = reasons[partition.values]
                self._log.warning(
                    "partition_conflict",
                    values="/".join(partition.values),
                    reason=reasons[partition.values],
                )
        if reasons:
            self._parked_due = time.monotonic() + _PARKED_RETRY_S
        self._place = through
        # A parked partition is tried again, by this driver from time to time and by the next one.
        if not self._parked:
            self._on_applied(through)

    def _apply(self, through: int) -> _Applied:
        self._check_held()
        due = self._moved.due(self._sink, through, self._desired.keys())
        again = {each.values: each for each in due}
        batch = list((again | self._desired).values())
        parked = self._apply_all(batch)
        reach("effects.applied")
        self._moved.sweep(self._sink)
        return batch, parked

    def _apply_all(self, batch: list[DesiredPartition]) -> tuple[ParkedPartition, ...]:
        reach("effects.apply")
        parked: tuple[ParkedPartition, ...] = ()
        # Also without partitions: this finds out that the table was dropped.
        for part in parts_of(batch):
            self._check_held()
            if self._ready is not None:
                self._ready.before(part)
            parked += self._sink.apply(part)
        if self._ready is not None:
            self._check_held()
            self._ready.after(self._complete_us)
        return parked
