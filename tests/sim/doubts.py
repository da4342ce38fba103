"""What some seeds add, by dice of their own: the other seeds go as they always did.

A store that loses what a task has closed, folders that take no files for minutes, a leader that
knows less than the one before, logs that have no leader for a while, and a metastore that does not
do what it is asked.
"""

import random
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, field

from sim.broker import Broker
from sim.scheduler import Scheduler
from sluiceway.sources.contract import LogBounds, SourcePartition

_SHARE = 0.15
_LONGEST_LAG_S = 2.0
_LONGEST_WITHOUT_LEADER_S = 30.0
_LONGEST_WITHOUT_NAMES_S = 180.0
_SILENT, _COPIED, _VANISHED = "silent", "copied", "vanished"
_LED = (-1.0, "")


@dataclass(slots=True)
class Doubts:
    """Of one seed.

    Attributes:
        vanishing: How often a file that a task has named is gone before PREPARE looks.
        lagging: How often a leader is elected that knows no record of the last seconds.
        refusing: How often a partition cannot be changed in the metastore for a while.
        leaving: How often a log has no leader from now on, for a while; some of them have a copy,
            and some are not described at all.
        naming: How often a folder of the table takes no file's final name at first, for a while:
            publishing stands still, commits and the rest of the table do not.
    """

    rng: random.Random
    clock: Callable[[], float]
    vanishing: float = 0.0
    lagging: float = 0.0
    refusing: float = 0.0
    leaving: float = 0.0
    naming: float = 0.0
    _names: random.Random = field(default_factory=random.Random)
    _nameless_until: dict[str, float] = field(default_factory=dict)
    _without_leader: dict[tuple[str, int], tuple[float, str]] = field(default_factory=dict)
    _behind_until: dict[tuple[str, int], float] = field(default_factory=dict)
    _refused_until: dict[tuple[str, ...], float] = field(default_factory=dict)
    _epochs: dict[tuple[str, int], int] = field(default_factory=dict)

    @classmethod
    def drawn(cls, seed: int, clock: Callable[[], float]) -> "Doubts":
        """Most seeds have none of it."""
        rng = random.Random(f"{seed} doubts")  # noqa: S311 - repeatable, not secret
        vanishing, lagging, refusing = (
            rng.random() * most if rng.random() < _SHARE else 0.0 for most in (0.3, 0.2, 0.5)
        )
        # By dice of their own again: these came later.
        leaders = random.Random(f"{seed} leaders")  # noqa: S311 - repeatable, not secret
        leaving = leaders.random() * 0.2 if leaders.random() < _SHARE else 0.0
        names = random.Random(f"{seed} names")  # noqa: S311 - repeatable, not secret
        naming = names.random() if names.random() < _SHARE else 0.0
        return cls(rng, clock, vanishing, lagging, refusing, leaving, naming, names)

    def heal(self) -> None:
        """From now on there is none of it."""
        self.vanishing = self.lagging = self.refusing = self.leaving = 0.0
        self.naming = 0.0
        self._without_leader.clear()
        self._behind_until.clear()
        self._refused_until.clear()

    def vanished(self, paths: Iterable[str]) -> list[str]:
        """Which of these files of one task are gone."""
        if not self.vanishing:
            return []
        return [path for path in paths if self.rng.random() < self.vanishing]

    def seen(
        self,
        partition: tuple[str, int],
        place: LogBounds,
        committed: int,
        elect: Callable[[], int],
    ) -> LogBounds:
        """What the leader says, who may know less than is committed; never for long.

        A leader that lags but knows all that is committed looks like one that does not.
        Each that lags was just elected: `elect` does that and says its epoch.
        """
        until = self._behind_until.get(partition, -1.0)
        now = self.clock()
        if until < now and self.lagging and self.rng.random() < self.lagging:
            until = now + self.rng.random() * _LONGEST_LAG_S
            self._behind_until[partition] = until
            self._epochs[partition] = elect()
        if until < now or not place.start_offset < committed <= place.high_watermark:
            return place
        end = self.rng.randint(place.start_offset, committed - 1)
        return LogBounds(place.start_offset, end, end, leader_epoch=self._epochs[partition])

    def is_without_leader(self, partition: tuple[str, int]) -> bool:
        """Whether no leader answers for a log now."""
        now = self.clock()
        if self._without_leader.get(partition, _LED)[0] >= now:
            return True
        if self.leaving and self.rng.random() < self.leaving:
            until = now + self.rng.random() * _LONGEST_WITHOUT_LEADER_S
            kind = self.rng.choice((_SILENT, _COPIED, _COPIED, _VANISHED))
            self._without_leader[partition] = (until, kind)
            return True
        return False

    def has_vanished(self, partition: tuple[str, int]) -> bool:
        """Whether no leader knows of a log now, as if there were none."""
        until, kind = self._without_leader.get(partition, _LED)
        return kind == _VANISHED and until >= self.clock()

    def operator_looks(self) -> bool:
        """Whether somebody finds now that a log has vanished."""
        return any(map(self.has_vanished, self._without_leader)) and self.rng.random() < 0.5

    def copy(self, partition: tuple[str, int], place: LogBounds) -> LogBounds | None:
        """What a copy of a log without a leader has, which may be little; None without one."""
        if self._without_leader.get(partition, _LED)[1] != _COPIED:
            return None
        end = self.rng.randint(place.start_offset, place.end_offset)
        return LogBounds(self.rng.randint(place.start_offset, end), end, end)

    def refuses(self, values: tuple[str, ...]) -> bool:
        """Whether the metastore leaves this partition as it is."""
        now = self.clock()
        if self._refused_until.get(values, -1.0) >= now:
            return True
        if self.refusing and self.rng.random() < self.refusing:
            self._refused_until[values] = now + self.rng.random() * 40
            return True
        return False

    def takes_no_name(self, folder: str) -> bool:
        """Whether no file can get its final name in this folder now."""
        if not self.naming:
            return False
        now = self.clock()
        if folder not in self._nameless_until:
            # Folders that partitions got later are few, and few rows ever wait for them.
            often = 1.0 if "/_sluiceway-" in folder else 0.2
            closed = self._names.random() < self.naming * often
            lasts_s = self._names.random() * _LONGEST_WITHOUT_NAMES_S if closed else -1.0
            self._nameless_until[folder] = now + lasts_s
        return self._nameless_until[folder] >= now


def leave_logs(
    broker: Broker, doubts: Doubts, scheduler: Scheduler, seen: MutableMapping[str, int]
) -> None:
    """Have leaders leave logs, as drivers see it."""

    def is_led(one: SourcePartition) -> bool:
        if not scheduler.alive().process.name.startswith("driver"):
            return True
        led = not doubts.is_without_leader((one.topic, one.number))
        seen["without_leader"] += not led
        return led

    def copy(one: SourcePartition, place: LogBounds) -> LogBounds | None:
        found = doubts.copy((one.topic, one.number), place)
        seen["copies"] += found is not None
        return found

    def is_known(one: SourcePartition) -> bool:
        known = not doubts.has_vanished((one.topic, one.number))
        seen["vanished"] += not known
        return known

    broker.is_led, broker.copy, broker.is_known = is_led, copy, is_known
