"""Bounds what an epoch reads by `run.max_rate` and `source.max_rate`.

A bound is an end offset of each split: rate times interval, shared by max-min fairness over the
routes, then over a route's source partitions. Budget without demand goes to all alike, for
records that come while the epoch runs. The next epoch begins when this one's share of time is
over, so the rate holds over any two epochs, however fast they are read.
"""

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.schedule.planner import PlannedEpoch, PlannedSplit


def fair_shares(wants: Sequence[int], budget: int, *, first: int = 0) -> list[int]:
    """Share whole units so that no share can grow but at the cost of a smaller one.

    Everyone gets what it wants up to one level; who wants more gets that level. The indivisible
    rest goes to the first of the latter, one unit each.

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
    to who comes after it. So no share that always wants something is passed over, whoever else
    comes and goes meanwhile.
    """

    _last: str = ""

    def share(self, names: Sequence[str], wants: Sequence[int], budget: int) -> list[int]:
        """As `fair_shares`. Called once an epoch.

        Args:
            names: Names of the sharers, each once; in any order.
            wants: Wanted units in the order of the names.
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
    """All that is left, shared by names that want more than the level."""
    level, units = divmod(left, len(unmet))
    turns = sorted(unmet, key=lambda index: (index - first) % len(shares))
    for turn, index in enumerate(turns):
        shares[index] = level + (1 if turn < units else 0)
    return turns[units - 1] if units else None


@dataclass(frozen=True, slots=True)
class RouteSplits:
    """What one route would read in the next epoch, if it could."""

    config: RouteConfig
    splits: Sequence[PlannedSplit]


@dataclass(slots=True)
class _Turns:
    """Whose turn it is among the sharers of one budget: each budget has turns of its own."""

    _waited: Rotation = field(default_factory=Rotation)
    _extra: Rotation = field(default_factory=Rotation)

    def share(
        self, names: Sequence[str], wants: Sequence[int], most: Sequence[int], budget: int
    ) -> list[int]:
        """First what is waited for; then the rest, for what comes meanwhile."""
        waited = [min(want, top) for want, top in zip(wants, most, strict=True)]
        shares = self._waited.share(names, waited, budget)
        room = [top - share for top, share in zip(most, shares, strict=True)]
        extra = self._extra.share(names, room, budget - sum(shares))
        return [share + more for share, more in zip(shares, extra, strict=True)]


@dataclass(slots=True)
class RateLimit:
    """The job's rates. Owned by its loop, used by one thread.

    Attributes:
        per_s: Records that all routes together may read a second; None sets no bound.
        clock: Monotonic seconds.
    """

    per_s: int | None = None
    clock: Callable[[], float] = time.monotonic
    _due: float = 0.0
    _route_due: dict[str, float] = field(default_factory=dict)
    _routes: _Turns = field(default_factory=_Turns)
    _partitions: dict[str, _Turns] = field(default_factory=dict)

    def is_due(self, config: RouteConfig) -> bool:
        """Whether the route may be in an epoch that begins now. Called before it is planned."""
        if self.per_s is None and config.max_rate_per_s is None:
            return True
        return self.clock() >= max(self._due, self._route_due.get(config.route, 0.0))

    def bound_epochs(
        self, configs: Mapping[int, RouteConfig], planned: Mapping[int, PlannedEpoch]
    ) -> dict[int, PlannedEpoch]:
        """Give the splits of an epoch their ends; see `bound`.

        Args:
            configs: Configurations of at least the routes that are planned, by any key.
            planned: What each would read, by the same key; their splits are replaced.

        Returns:
            The epochs that may read anything.
        """
        asked = [RouteSplits(configs[key], epoch.splits) for key, epoch in planned.items()]
        for epoch, splits in zip(planned.values(), self.bound(asked), strict=True):
            epoch.splits = splits
        return {key: epoch for key, epoch in planned.items() if epoch.splits}

    def bound(self, routes: Sequence[RouteSplits]) -> list[list[PlannedSplit]]:
        """Give each split its end. Called once an epoch, right before its tasks start.

        Args:
            routes: Routes of the epoch, all of them due.

        Returns:
            The splits of each route in the given order; splits that get nothing are left out.
        """
        if self.per_s is None and all(each.config.max_rate_per_s is None for each in routes):
            return [list(each.splits) for each in routes]
        budgets = self._route_budgets(routes)
        return [
            list(each.splits) if budget is None else self._bound_route(each, budget)
            for each, budget in zip(routes, budgets, strict=True)
        ]

    def _route_budgets(self, routes: Sequence[RouteSplits]) -> list[int | None]:
        caps = [_budget(each.config.max_rate_per_s, each.config.interval_s) for each in routes]
        if self.per_s is None or not routes:
            return caps
        whole = _budget(self.per_s, max(each.config.interval_s for each in routes)) or 0
        tops = [whole if cap is None else min(cap, whole) for cap in caps]
        wants = [sum(split.expected_records for split in each.splits) for each in routes]
        most = [
            min(top, sum(_most(split, whole) for split in each.splits))
            for each, top in zip(routes, tops, strict=True)
        ]
        names = [each.config.route for each in routes]
        shares = self._routes.share(names, wants, most, whole)
        self._due = self.clock() + sum(shares) / self.per_s
        return list(shares)

    def _bound_route(self, route: RouteSplits, budget: int) -> list[PlannedSplit]:
        most = [_most(each, budget) for each in route.splits]
        names = [str(each.split.partition) for each in route.splits]
        wants = [each.expected_records for each in route.splits]
        turns = self._partitions.setdefault(route.config.route, _Turns())
        shares = turns.share(names, wants, most, budget)
        rate = route.config.max_rate_per_s
        if rate is not None:
            self._route_due[route.config.route] = self.clock() + sum(shares) / rate
        return [
            _ended(planned, share)
            for planned, share in zip(route.splits, shares, strict=True)
            if share > 0
        ]


def _budget(per_s: int | None, interval_s: float) -> int | None:
    """Records of an epoch; a rate of less than one an epoch makes epochs rare, not empty."""
    return None if per_s is None else max(1, int(per_s * interval_s))


def _most(planned: PlannedSplit, budget: int) -> int:
    stop = planned.split.stop_offset
    if stop is None:
        return budget
    return min(budget, max(0, stop - planned.split.start_offset))


def _ended(planned: PlannedSplit, records: int) -> PlannedSplit:
    split = planned.split
    return replace(
        planned,
        split=replace(split, stop_offset=split.start_offset + records),
        expected_records=min(planned.expected_records, records),
    )
