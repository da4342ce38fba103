"""Assigns the splits of an epoch to its tasks: the longest first, and where they were before.

A task serves one route unless there are fewer tasks than routes (commit rule 20). Splits stay with
their task while that is nearly as good as dealing them out again. A consumer goes on only with the
very source partitions that it had.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sluiceway.schedule.planner import PlannedSplit
from sluiceway.sources.contract import SourcePartition

if TYPE_CHECKING:
    from sluiceway.schedule.planner import PlannedEpoch

# What a split costs that holds nothing, in records.
_SPLIT_COST: Final = 100
# Dealing again costs each task its consumer; it has to shorten the longest task by a third.
_WORTH_IT: Final = 1.5

# A route is dealt whole when it is at most this part of what a task gets.
_SMALL_PART: Final = 8

_Key = tuple[int, SourcePartition]
_Deal = dict[_Key, int]


@dataclass(frozen=True, slots=True)
class _Unit:
    """Splits that are dealt together: a whole route, or one split of it."""

    route: int
    splits: tuple[PlannedSplit, ...]
    weight: int


class SplitAssigner:
    """Deals splits out to tasks, epoch after epoch. Owned by the loop, used by one thread."""

    def __init__(self) -> None:
        self._before: _Deal = {}

    def assign(self, epochs: Mapping[int, "PlannedEpoch"], slots: int) -> None:
        """Fill `by_task` of each epoch. Called once an epoch, before its tasks are made.

        Args:
            epochs: By the number that stands for their route in each call; each has splits.
            slots: Tasks that can run at once.
        """
        splits = {route: tuple(epoch.splits) for route, epoch in epochs.items()}
        tasks = max(1, min(slots, sum(map(len, splits.values()))))
        deal = self._before = self._kept_or_anew(splits, tasks)
        for route, epoch in epochs.items():
            by_task: dict[int, list[PlannedSplit]] = {}
            for each in epoch.splits:
                by_task.setdefault(deal[route, each.split.partition], []).append(each)
            epoch.by_task = {task: tuple(by_task[task]) for task in sorted(by_task)}

    def _kept_or_anew(self, splits: "_Splits", tasks: int) -> _Deal:
        kept = _kept(self._before, splits, tasks)
        longest = 0 if kept is None else _longest(kept, splits)
        if kept is not None and longest <= _WORTH_IT * _shortest_possible(splits, tasks):
            return kept
        again = _deal_apart(splits, tasks) if len(splits) <= tasks else _deal_mixed(splits, tasks)
        if kept is not None and longest <= _WORTH_IT * _longest(again, splits):
            return kept
        return again


_Splits = Mapping[int, tuple[PlannedSplit, ...]]


def _deal_apart(splits: _Splits, tasks: int) -> _Deal:
    """Tasks of its own for each route; routes with more to do get more."""
    routes = list(splits)
    weights = [_weight(splits[route]) for route in routes]
    shares = [1] * len(routes)
    for _ in range(tasks - len(routes)):
        growing = [i for i, route in enumerate(routes) if shares[i] < len(splits[route])]
        if not growing:
            break
        shares[max(growing, key=lambda i: weights[i] / shares[i])] += 1
    deal: _Deal = {}
    first = 0
    for route, share in zip(routes, shares, strict=True):
        units = [_Unit(route, (each,), _weight((each,))) for each in splits[route]]
        deal |= _longest_first(units, range(first, first + share))
        first += share
    return deal


def _deal_mixed(splits: _Splits, tasks: int) -> _Deal:
    """Whole routes where that is even enough: a route in two tasks writes twice the files."""
    weights = {route: _weight(each) for route, each in splits.items()}
    even_share = sum(weights.values()) / tasks
    units = []
    for route, each in splits.items():
        if weights[route] * _SMALL_PART <= even_share:
            units.append(_Unit(route, each, weights[route]))
        else:
            units += [_Unit(route, (one,), _weight((one,))) for one in each]
    return _longest_first(units, range(tasks))


def _longest_first(units: Iterable[_Unit], tasks: Sequence[int]) -> _Deal:
    """The largest unit to the emptiest task, again and again; equal ones in their order."""
    loads = [(0, task) for task in tasks]
    deal: _Deal = {}
    for unit in sorted(units, key=lambda unit: -unit.weight):
        load, task = loads[0]
        heapq.heapreplace(loads, (load + unit.weight, task))
        deal |= {(unit.route, each.split.partition): task for each in unit.splits}
    return deal


def _kept(before: _Deal, splits: _Splits, tasks: int) -> _Deal | None:
    """All where they were, new ones where there is room; None when that cannot be."""
    mixed = len(splits) > tasks
    deal: _Deal = {}
    loads = dict.fromkeys(range(tasks), 0)
    owners: dict[int, int] = {}
    new: list[tuple[int, PlannedSplit]] = []
    for route, each in splits.items():
        for one in each:
            key = (route, one.split.partition)
            task = before.get(key)
            if task is None or task >= tasks:
                new.append((route, one))
                continue
            if owners.setdefault(task, route) != route and not mixed:
                return None
            deal[key] = task
            loads[task] += _weight((one,))
    if len(new) > len(deal):
        return None
    for route, one in new:
        fit = [task for task in loads if mixed or owners.get(task, route) == route]
        if not fit:
            return None
        task = min(fit, key=lambda task: loads[task])
        owners[task] = route
        deal[route, one.split.partition] = task
        loads[task] += _weight((one,))
    return deal


def _longest(deal: _Deal, splits: _Splits) -> int:
    loads: dict[int, int] = {}
    for route, each in splits.items():
        for one in each:
            task = deal[route, one.split.partition]
            loads[task] = loads.get(task, 0) + _weight((one,))
    return max(loads.values(), default=0)


def _shortest_possible(splits: _Splits, tasks: int) -> float:
    """What the longest task has at least, however the splits are dealt."""
    weights = [_weight((one,)) for each in splits.values() for one in each]
    return max(sum(weights) / tasks, max(weights, default=0))


def _weight(splits: Iterable[PlannedSplit]) -> int:
    return sum(_SPLIT_COST + each.expected_records for each in splits)
