"""Which routes may share a task: the routes of a task that died are kept apart. No I/O.

As a rule one route ends the process of a task: by the memory that its rows take, or by a bug in
native code. Halving finds that route. The halves run in tasks of their own, and only a route that
dies alone is to blame.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

CLEAN_EPOCHS = 10
"""After so many epochs without a death a route shares tasks again."""

_TOGETHER = 0


@dataclass(frozen=True, slots=True)
class EpochRoutes:
    """Routes of one epoch.

    Attributes:
        together: Routes that may share tasks.
        apart: Groups, each for one task of its own.
    """

    together: tuple[str, ...]
    apart: tuple[tuple[str, ...], ...]


@dataclass(slots=True)
class _Suspect:
    group: int
    clean: int = 0


class Quarantine:
    """Remembers which routes died together. Used by the loop's thread."""

    def __init__(self) -> None:
        self._suspects: dict[str, _Suspect] = {}
        self._numbers = count(_TOGETHER + 1)
        self._turns = count()
        self._last_turn: dict[int, int] = {}

    def died(self, routes: Sequence[str]) -> None:
        """Take in that a task died which served these routes and no others that are open."""
        middle = (len(routes) + 1) // 2
        for half in (routes[:middle], routes[middle:]):
            group = next(self._numbers)
            self._suspects |= {route: _Suspect(group) for route in half}

    def survived(self, routes: Iterable[str]) -> None:
        """Take in that these were in an epoch and their tasks did not die."""
        for route in routes:
            suspect = self._suspects.get(route)
            if suspect is not None:
                suspect.clean += 1
                if suspect.clean >= CLEAN_EPOCHS:
                    del self._suspects[route]

    def arrange(self, routes: Sequence[str], slots: int) -> EpochRoutes:
        """Deal routes that have something to read out over at most `slots` tasks.

        Groups for which there is no task take turns; what is left out comes in a later epoch.

        Args:
            routes: Routes in a stable order.
            slots: Tasks that can run at once, at least one.
        """
        groups: dict[int, list[str]] = {}
        for route in routes:
            suspect = self._suspects.get(route)
            groups.setdefault(suspect.group if suspect else _TOGETHER, []).append(route)
        chosen = sorted(groups, key=lambda group: (self._last_turn.get(group, -1), group))[:slots]
        if _TOGETHER in groups and _TOGETHER not in chosen and slots > 1:
            # They are all the others: routes that are kept apart never displace them.
            chosen[-1] = _TOGETHER
        turn = next(self._turns)
        open_groups = {suspect.group for suspect in self._suspects.values()} | {_TOGETHER}
        self._last_turn = {g: at for g, at in self._last_turn.items() if g in open_groups}
        self._last_turn |= dict.fromkeys(chosen, turn)
        return EpochRoutes(
            together=tuple(groups.get(_TOGETHER, ()) if _TOGETHER in chosen else ()),
            apart=tuple(tuple(groups[group]) for group in sorted(chosen) if group != _TOGETHER),
        )
