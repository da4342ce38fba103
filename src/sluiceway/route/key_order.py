"""New source partitions of a keyed route: they wait until the old ones are drained (L22).

With more partitions a topic's keys move. A change in a new partition may be younger than a change
of its key that still lies in an old one. So the old ones are read first, up to the ends that they
have a while after the new one was seen. By then every producer knows of it. Nothing of this is
kept: a driver that starts again waits again, and never too short.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sluiceway.ledger.folding.fold import Fold
from sluiceway.observe.log import Log
from sluiceway.sources.contract import DiscoveredPartition, LogBounds, SourcePartition
from sluiceway.worker.keyed_rows import several_partitions

Bounds = Mapping[SourcePartition, LogBounds]


@dataclass(slots=True)
class _Waiting:
    """A new partition.

    Attributes:
        since_s: When it was seen.
        ends: Ends of the old ones, up to which they are read first; None before the time is over.
        over: Whether they are read, by the last check. It waits until it is pinned all the same: a
            check for an epoch that is not committed yet pins nothing.
    """

    since_s: float
    ends: dict[SourcePartition, int] | None = None
    over: bool = False


@dataclass(slots=True)
class KeyOrderGuard:
    """Decides which partitions may be pinned. Used by the route's thread.

    Attributes:
        drain_s: Time from seeing a partition to reading the others' ends; None holds nothing back.
        one_partition: A topic with more is refused, since only its order counts.
        log: Log for people.
        clock: Monotonic.
    """

    drain_s: float | None
    log: Log
    one_partition: bool = False
    clock: Callable[[], float] = time.monotonic
    _waiting: dict[SourcePartition, _Waiting] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether a partition waits that is there already."""
        return any(not waiting.over for waiting in self._waiting.values())

    @property
    def ends(self) -> dict[SourcePartition, int]:
        """Up to where old source partitions are to be read, for the new ones that wait."""
        found: dict[SourcePartition, int] = {}
        for waiting in self._waiting.values():
            for one, end in ({} if waiting.over else waiting.ends or {}).items():
                found[one] = max(end, found.get(one, end))
        return found

    def admitted(
        self, discovered: Sequence[DiscoveredPartition], fold: Fold, bounds: Bounds
    ) -> tuple[DiscoveredPartition, ...]:
        """The partitions that need not wait. Called before new ones are pinned.

        Args:
            discovered: All partitions of the route's topics.
            fold: State of the ledger.
            bounds: Log ends of the partitions that are read.

        Raises:
            SourceOrderError: A topic has several, and may have one only.
        """
        if self.one_partition:
            _check_one(discovered, fold)
        if self.drain_s is None:
            return tuple(discovered)
        old = [SourcePartition(*key) for key, known in fold.sources.items() if not known.retired]
        topics = {each.topic for each in old}
        new = {
            found.partition
            for found in discovered
            if (found.partition.topic, found.partition.partition) not in fold.sources
            and found.partition.topic in topics
        }
        for gone in self._waiting.keys() - new:
            del self._waiting[gone]
        return tuple(
            found
            for found in discovered
            if found.partition not in new
            or self._is_over(
                found.partition,
                [each for each in old if each.topic == found.partition.topic],
                fold,
                bounds,
            )
        )

    def _is_over(
        self, new: SourcePartition, old: Sequence[SourcePartition], fold: Fold, bounds: Bounds
    ) -> bool:
        was_over = new in self._waiting and self._waiting[new].over
        over = self._is_drained(new, old, fold, bounds)
        self._waiting[new].over = over
        if over and not was_over:
            self.log.info("key_order_wait_over", partition=str(new))
        return over

    def _is_drained(
        self, new: SourcePartition, old: Sequence[SourcePartition], fold: Fold, bounds: Bounds
    ) -> bool:
        waiting = self._waiting.get(new)
        if waiting is None:
            waiting = self._waiting[new] = _Waiting(self.clock())
            self.log.info("key_order_wait_begins", partition=str(new), seconds=self.drain_s)
        if waiting.ends is None:
            if self.clock() - waiting.since_s < (self.drain_s or 0.0):
                return False
            if any(each not in bounds for each in old):
                # A leader does not answer: its end is read the next time.
                return False
            # Rows that wait for an open transaction are older than what comes in the new one, too.
            waiting.ends = {each: bounds[each].high_watermark for each in old}
        return all(
            int(fold.sources[each.topic, each.partition].end) >= end
            for each, end in waiting.ends.items()
        )


def _check_one(discovered: Sequence[DiscoveredPartition], fold: Fold) -> None:
    """Check that each topic has one partition, partitions read before included."""
    read = {SourcePartition(*key) for key, known in fold.sources.items() if not known.retired}
    seen: set[str] = set()
    for each in sorted(read | {found.partition for found in discovered}):
        if each.topic in seen:
            raise several_partitions(str(each))
        seen.add(each.topic)
