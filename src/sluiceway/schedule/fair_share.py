"""Shares a budget so that who wants little gets all of it: max-min fairness."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


def fair_shares(wants: Sequence[int], budget: int, *, first: int = 0) -> list[int]:
    """Share whole units so that no share can grow but at the cost of a smaller one.

    Everyone gets what it wants up to one level; who wants more gets that level. What cannot be
    divided goes to the first of those, one unit each.

    Args:
        wants: What each would take at most, not negative.
        budget: Units in all, not negative.
        first: Who comes first, modulo their number.

    Returns:
        As many shares as wants; they add up to the smaller of budget and all wants.
    """
    return _shared(wants, budget, first)[0]


@dataclass(slots=True)
class Rotation:
    """Shares again and again, so that shares below one unit come round to all.

    Who got the last unit that could not be divided is remembered by name; the next such unit goes
    to who comes after it. So nobody who always wants something is passed over, whoever else
    comes and goes meanwhile.
    """

    _last: str = ""

    def share(self, names: Sequence[str], wants: Sequence[int], budget: int) -> list[int]:
        """As `fair_shares`. Called once an epoch.

        Args:
            names: Of those that share, each once; in any order.
            wants: In the order of the names.
            budget: Units in all, not negative.
        """
        order = sorted(range(len(names)), key=names.__getitem__)
        turns = [names[index] for index in order]
        first = bisect_right(turns, self._last)
        found, last = _shared([wants[index] for index in order], budget, first)
        if last is not None:
            self._last = turns[last]
        shares = [0] * len(names)
        for index, share in zip(order, found, strict=True):
            shares[index] = share
        return shares


def _shared(wants: Sequence[int], budget: int, first: int) -> tuple[list[int], int | None]:
    """The shares, and who got the last unit that could not be divided; None when none was left."""
    shares = [0] * len(wants)
    order = sorted(range(len(wants)), key=lambda index: wants[index])
    left = budget
    for position, index in enumerate(order):
        level = left // (len(order) - position)
        if wants[index] > level:
            return shares, _share_level(shares, order[position:], left, first)
        shares[index] = wants[index]
        left -= wants[index]
    return shares, None


def _share_level(shares: list[int], unmet: Sequence[int], left: int, first: int) -> int | None:
    """All that is left among those who want more than the level."""
    level, units = divmod(left, len(unmet))
    turns = sorted(unmet, key=lambda index: (index - first) % len(shares))
    for turn, index in enumerate(turns):
        shares[index] = level + (1 if turn < units else 0)
    return turns[units - 1] if units else None
