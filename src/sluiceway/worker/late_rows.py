"""Which rows are late, and where they go instead of their own partition (commit rule 17).

With nothing closed and no row below its bound it costs little: a check of each batch's least event
time and few distinct partitions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sluiceway.eventtime.partition_time import TimeKind
from sluiceway.eventtime.partition_values import PartitionAssigner
from sluiceway.eventtime.prefix_periods import ClosedPrefixes, PrefixPeriods
from sluiceway.ledger.data_parts import NO_LATE_ROWS, LateRows
from sluiceway.ledger.places import prefixes
from sluiceway.sinks.partition_path import partition_folder
from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.types.iso_time import shown_instant
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import LatePlace, LatePolicy, Place, RoutePlan, TaskPlan, Values

Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]


_SIDE, _REDIRECT, _REOPEN = 1, 2, 3


@dataclass(frozen=True, slots=True)
class LateSplit:
    """Where the rows of a batch go.

    Attributes:
        places: Partitions, and late places of partitions.
        codes: One a row: its place in `places`; that of a dirty one says nothing.
        dirty: Dirty rows, by rising position in the batch.
        fates: One a row: what becomes of a late one, 0 for one in time; None when all are.
    """

    places: Sequence[Place]
    codes: Codes
    dirty: tuple[DirtyRow, ...] = ()
    fates: NDArray[np.int8] | None = None

    def only(self, kept: Mask) -> "LateSplit":
        """The rows that stay."""
        fates = None if self.fates is None else self.fates[kept]
        return LateSplit(self.places, self.codes[kept], (), fates)

    def rows(self) -> LateRows:
        """How many late rows go where; dirty ones are left out."""
        if self.fates is None:
            return NO_LATE_ROWS
        fates = (_SIDE, _REDIRECT, _REOPEN)
        return LateRows(*(BigInt(int(np.count_nonzero(self.fates == fate))) for fate in fates))


class LateJudge:
    """Judges the rows of one task. Used by its thread.

    Args:
        plan: The task.
        assigner: Assigns rows to the route's partitions.
    """

    def __init__(self, plan: TaskPlan, assigner: PartitionAssigner) -> None:
        self._policy = plan.route.late.policy
        self._assigner = assigner
        self._names = tuple(rule.name for rule in plan.route.partitions)
        self._field = plan.route.event_time.name if plan.route.event_time is not None else ""
        self._closed = _closed_of(plan)
        self._bounds = plan.times.late_before_us or (None,) * len(plan.splits)
        self._watermark_us = plan.times.watermark_us
        self._is_closed: dict[Values, bool] = {}

    def judge(
        self,
        values: Sequence[Values],
        codes: Codes,
        times: pa.Array | None,
        spans: Sequence[tuple[int, int, int]],
    ) -> LateSplit:
        """Find the late rows of a batch and where they go. Called once a batch.

        Args:
            values: Values of the partitions.
            codes: For each row, its place in `values`.
            times: Event times of the rows, without nulls; None without event times.
            spans: (split, first row, row after the last) of each split in the batch.
        """
        outside = self._outside(times, spans)
        closed = self._in_closed(values, codes)
        if outside is None and closed is None:
            return LateSplit(values, codes)
        late = _either(outside, closed)
        if self._policy is LatePolicy.DIRTY:
            return self._as_dirty(values, codes, times, late)
        if self._policy is LatePolicy.REDIRECT:
            return self._redirected(values, codes, late)
        fates = np.zeros(len(codes), dtype=np.int8)
        fates[late] = _SIDE
        if self._policy is LatePolicy.REOPEN:
            fates[late if outside is None else late & ~outside] = _REOPEN
        places, codes = _aside(values, codes, fates == _SIDE)
        return LateSplit(places, codes, fates=fates)

    def _outside(
        self, times: pa.Array | None, spans: Sequence[tuple[int, int, int]]
    ) -> Mask | None:
        """Rows that are too much older than their source partition; None when none are."""
        found: Mask | None = None
        for split, begin, end in spans:
            bound = self._bounds[split]
            if bound is None or times is None or end == begin:
                continue
            part = times.slice(begin, end - begin)
            if pc.min(part).as_py() >= bound:
                continue
            found = np.zeros(len(times), dtype=np.bool_) if found is None else found
            found[begin:end] = pc.less(part, bound).to_numpy(zero_copy_only=False)
        return found

    def _in_closed(self, values: Sequence[Values], codes: Codes) -> Mask | None:
        """Rows whose partition is closed; None when none are."""
        if self._closed is None:
            return None
        flags = np.fromiter((self._closed_above(each) for each in values), np.bool_, len(values))
        if not flags.any():
            return None
        found: Mask = flags[codes]
        return found if found.any() else None

    def _closed_above(self, values: Values) -> bool:
        known = self._is_closed.get(values)
        if known is None:
            folder = partition_folder(self._names, values) if values else ""
            known = self._closed is not None and self._closed.holds(folder)
            self._is_closed[values] = known
        return known

    def _redirected(self, values: Sequence[Values], codes: Codes, late: Mask) -> LateSplit:
        """Late rows go to the watermark's hour; where that cannot be, aside, never lost."""
        places: list[Place] = list(values)
        found = codes.copy()
        fates = np.zeros(len(codes), dtype=np.int8)
        numbers: dict[Place, int] = {}
        for code in np.unique(codes[late]).tolist():
            rows = late & (codes == code)
            target = self._moved(values[code])
            place: Place = LatePlace(values[code]) if target is None else target
            if place not in numbers:
                numbers[place] = values.index(target) if target in values else len(places)
                if numbers[place] == len(places):
                    places.append(place)
            found[rows] = numbers[place]
            fates[rows] = _SIDE if target is None else _REDIRECT
        return LateSplit(places, found, fates=fates)

    def _moved(self, values: Values) -> Values | None:
        if self._watermark_us is None:
            return None
        target = self._assigner.moved(values, self._watermark_us)
        return None if target is None or self._closed_above(target) else target

    def _as_dirty(
        self, values: Sequence[Values], codes: Codes, times: pa.Array | None, late: Mask
    ) -> LateSplit:
        dirty = []
        for row in np.flatnonzero(late).tolist():
            when = "" if times is None else f" {shown_instant(times[row].as_py())}"
            folder = partition_folder(self._names, values[codes[row]])
            message = f"the row{when} came too late for {folder}"
            dirty.append(DirtyRow(row, "late", DirtyReason.LATE, self._field, message[:300]))
        return LateSplit(values, codes, tuple(dirty))


class _Named:
    """Prefixes that are closed in a table whose leading columns are no time of their own."""

    def __init__(self, closed: Iterable[str]) -> None:
        self._closed = frozenset(closed)

    def holds(self, partition: str) -> bool:
        return any(prefix in self._closed for prefix in prefixes(partition))


def closing_periods(route: RoutePlan) -> PrefixPeriods | None:
    """Times that a table's leading columns stand for; None when they are none."""
    by_event = (
        each.pattern is not None and each.kind is TimeKind.EVENT for each in route.partitions
    )
    leading = sum(1 for _ in takewhile(bool, by_event))
    columns = [(each.name, each.pattern or "") for each in route.partitions[:leading]]
    try:
        return PrefixPeriods(columns, route.event_time.timezone if route.event_time else "UTC")
    except ValueError:
        return None


def _closed_of(plan: TaskPlan) -> ClosedPrefixes | _Named | None:
    """The closed prefixes for a task; None when nothing is closed."""
    if not plan.times.closed:
        return None
    periods = closing_periods(plan.route)
    if periods is None:
        return _Named(plan.times.closed)
    return ClosedPrefixes(periods, plan.times.closed)


def _either(one: Mask | None, other: Mask | None) -> Mask:
    if one is None or other is None:
        found = one if other is None else other
        return found if found is not None else np.zeros(0, dtype=np.bool_)
    both: Mask = one | other
    return both


def _aside(values: Sequence[Values], codes: Codes, rows: Mask) -> tuple[list[Place], Codes]:
    """Give rows the late place of their partition."""
    places: list[Place] = list(values)
    if not rows.any():
        return places, codes
    numbers = np.zeros(len(values), dtype=np.int32)
    for code in np.unique(codes[rows]).tolist():
        numbers[code] = len(places)
        places.append(LatePlace(values[code]))
    return places, np.where(rows, numbers[codes], codes)
