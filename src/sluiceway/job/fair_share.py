"""Shares a budget so that who wants little gets all of it: max-min fairness."""

from collections.abc import Sequence


def fair_shares(wants: Sequence[int], budget: int, *, first: int = 0) -> list[int]:
    """Share whole units so that no share can grow but at the cost of a smaller one.

    Called before each epoch that a rate bounds. Everyone gets what it wants up to one level; who
    wants more gets that level. What cannot be divided goes to the first of those, one unit each.

    Args:
        wants: What each would take at most, not negative.
        budget: Units in all, not negative.
        first: Who comes first, modulo their number; rotated by the caller, so that shares below
            one unit come round to all.

    Returns:
        As many shares as wants; they add up to the smaller of budget and all wants.
    """
    shares = [0] * len(wants)
    order = sorted(range(len(wants)), key=lambda index: wants[index])
    left = budget
    for position, index in enumerate(order):
        level = left // (len(order) - position)
        if wants[index] > level:
            _share_level(shares, wants, order[position:], left, first)
            break
        shares[index] = wants[index]
        left -= wants[index]
    return shares


def _share_level(
    shares: list[int], wants: Sequence[int], unmet: Sequence[int], left: int, first: int
) -> None:
    """All that is left among those who want more than the level."""
    level, units = divmod(left, len(unmet))
    count = len(wants)
    turns = sorted(unmet, key=lambda index: (index - first) % count)
    for turn, index in enumerate(turns):
        shares[index] = level + (1 if turn < units else 0)
