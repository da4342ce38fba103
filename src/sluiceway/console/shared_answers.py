"""One computation for all who ask the same at once, and for those who ask soon after."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

FoundT = TypeVar("FoundT")

_MOST_KEPT = 256
_AT_ONCE = 4


@dataclass(slots=True)
class _Slot(Generic[FoundT]):
    lock: threading.Lock = field(default_factory=threading.Lock)
    kept: tuple[float, FoundT] | None = None


class SharedAnswers(Generic[FoundT]):
    """Answers that cost something, as reading a ledger does. Any thread may ask.

    At most four are computed at once, whatever browsers ask, and each is kept for as long as the
    caller says, or for as long as it took, if that is longer.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slots: OrderedDict[Hashable, _Slot[FoundT]] = OrderedDict()
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(_AT_ONCE)

    def get(self, key: Hashable, compute: Callable[[], FoundT], keep_s: float) -> FoundT:
        """The answer under a key, computed where the kept one is too old.

        Args:
            key: Of what is asked.
            compute: Called by one thread at a time for a key; what it raises is not kept.
            keep_s: For how long the answer is good.
        """
        slot = self._slot(key)
        with slot.lock:
            if slot.kept is not None and self._clock() < slot.kept[0]:
                return slot.kept[1]
            with self._free:
                begun = self._clock()
                found = compute()
                ended = self._clock()
            slot.kept = (ended + max(keep_s, ended - begun), found)
            return found

    def _slot(self, key: Hashable) -> _Slot[FoundT]:
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
            while len(self._slots) > _MOST_KEPT:
                self._slots.popitem(last=False)
            return slot
