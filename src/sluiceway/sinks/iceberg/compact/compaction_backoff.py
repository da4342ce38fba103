"""Files that could not be rewritten are left alone for a while, so that all others go on.

A pause doubles each time. What has gone from the table is forgotten.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

FIRST_PAUSE_S = 600.0
LONGEST_PAUSE_S = 6 * 3_600.0


@dataclass(slots=True)
class _Pause:
    """The pause of one file.

    Attributes:
        until_s: On the clock.
        length_s: The next one.
        why: What was said of it last.
    """

    until_s: float
    length_s: float
    why: str


class CompactionBackoff:
    """Pauses of one table. One thread at a time, except `said`.

    Args:
        clock: In seconds, never back.

    Attributes:
        said: Which files are put off and why, for a person; empty when none is. Any thread.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.said = ""
        self._clock = clock
        self._pauses: dict[str, _Pause] = {}

    def paths(self) -> frozenset[str]:
        """The files whose time has not come."""
        now_s = self._clock()
        return frozenset(path for path, each in self._pauses.items() if each.until_s > now_s)

    def is_known(self, paths: Iterable[str]) -> bool:
        """Whether one of these has failed before."""
        return any(path in self._pauses for path in paths)

    def add(self, paths: Collection[str], why: str) -> bool:
        """They have failed; whether none of them was logged yet."""
        is_new = not self.is_known(paths)
        now_s = self._clock()
        for path in paths:
            known = self._pauses.get(path)
            length_s = FIRST_PAUSE_S if known is None else known.length_s
            longer_s = min(length_s * 2, LONGEST_PAUSE_S)
            self._pauses[path] = _Pause(now_s + length_s, longer_s, why)
        self._say()
        return is_new

    def forget_others(self, live: Collection[str]) -> None:
        """Keep only files that the table still has."""
        gone = self._pauses.keys() - set(live)
        for path in gone:
            del self._pauses[path]
        if gone:
            self._say()

    def _say(self) -> None:
        if not self._pauses:
            self.said = ""
            return
        path, first = next(iter(self._pauses.items()))
        number = len(self._pauses)
        files = "1 file is" if number == 1 else f"{number:,} files are"
        self.said = f"{files} not compacted for now: {path}: {first.why}"
