"""What some seeds add, by dice of their own: the other seeds go as they always did.

A store that loses what a task has closed, a leader that knows less than the one before, and a
metastore that does not do what it is told.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sluiceway.sources.contract import LogBounds

_SHARE = 0.15
_LONGEST_LAG_S = 2.0


@dataclass(slots=True)
class Doubts:
    """Of one seed.

    Attributes:
        vanishing: How often a file that a task has named is gone before PREPARE looks.
        lagging: How often a leader is elected that knows no record of the last seconds.
        refusing: How often a partition cannot be changed in the metastore for a while.
    """

    rng: random.Random
    clock: Callable[[], float]
    vanishing: float = 0.0
    lagging: float = 0.0
    refusing: float = 0.0
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
        return cls(rng, clock, vanishing, lagging, refusing)

    def heal(self) -> None:
        """From now on there is none of it."""
        self.vanishing = self.lagging = self.refusing = 0.0
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

        A leader that lags but knows all that is committed cannot be told from one that does not.
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

    def refuses(self, values: tuple[str, ...]) -> bool:
        """Whether the metastore leaves this partition as it is."""
        now = self.clock()
        if self._refused_until.get(values, -1.0) >= now:
            return True
        if self.refusing and self.rng.random() < self.refusing:
            self._refused_until[values] = now + self.rng.random() * 40
            return True
        return False
