"""Slots of a cluster that epochs leave to work of low priority, such as compaction."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

SHARE = 4
"""One slot of so many may be spared; of two or three, one."""

_LOOK_S = 0.2
_NO_EPOCH_S = 5.0


@dataclass(slots=True, eq=False)
class _Wish:
    most: int
    granted: int = 0


class SpareSlots:
    """Slots are lent between two epochs, so that an epoch never counts on a lent slot.

    Spark's pools alone do not do that: a task that runs is not put aside for a later task.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slots = 0
        self._lent = 0
        self._wishes: deque[_Wish] = deque()
        self._changed = threading.Condition()

    @property
    def lent(self) -> int:
        """Slots that are lent, or asked for, now."""
        with self._changed:
            return self._lent + min(sum(wish.most for wish in self._wishes), self._free())

    def left_of(self, slots: int) -> int:
        """Slots that the next epoch may use, at least 1. Called by the loop before each epoch.

        Args:
            slots: Slots that are up, lent ones too.
        """
        with self._changed:
            self._slots = slots
            while self._wishes and self._free() > 0:
                self._grant(self._wishes.popleft())
            return max(slots - self._lent, 1)

    def set_least(self, least: int) -> None:
        """So many slots are up, or more; a loop that has nothing to read does not count them."""
        with self._changed:
            self._slots = max(self._slots, least)

    def acquire(self, most: int, check: Callable[[], None]) -> int:
        """Wait for slots; give them back with `give_back`. Called by any other thread.

        Args:
            most: Slots that are of use.
            check: Asked again and again; raises to wait no longer.

        Returns:
            1 to `most`.
        """
        wish, began = _Wish(most), self._clock()
        with self._changed:
            self._wishes.append(wish)
            try:
                while not wish.granted:
                    check()
                    # A loop that has nothing to read does not ask for slots.
                    idle = self._clock() - began >= _NO_EPOCH_S
                    if idle and self._wishes[0] is wish and self._free() > 0:
                        self._grant(self._wishes.popleft())
                        break
                    self._changed.wait(_LOOK_S)
            except BaseException:
                if wish in self._wishes:
                    self._wishes.remove(wish)
                self._lent -= wish.granted
                raise
            return wish.granted

    def acquire_now(self) -> bool:
        """Take one slot for a few seconds, if one is free; whoever waits for some goes on waiting.

        Give it back with `give_back`. Called by any other thread.
        """
        with self._changed:
            if self._free() == 0:
                return False
            self._lent += 1
            return True

    def give_back(self, slots: int) -> None:
        """They are free again."""
        with self._changed:
            self._lent -= slots
            self._changed.notify_all()

    def _free(self) -> int:
        share = max(self._slots // SHARE, 1) if self._slots > 1 else 0
        return max(share - self._lent, 0)

    def _grant(self, wish: _Wish) -> None:
        wish.granted = min(wish.most, self._free())
        self._lent += wish.granted
        self._changed.notify_all()
