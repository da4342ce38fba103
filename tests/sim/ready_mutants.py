"""Wrong variants of watermark, closing and announcing.

In most of them the fold tests nothing either: it would halt, and hide what goes wrong then.
"""

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sluiceway.eventtime import watermark
from sluiceway.eventtime.readiness import OpenPrefixes, next_to_announce
from sluiceway.eventtime.watermark import (
    ObservedSource,
    RouteWatermark,
    SourceStatus,
    SourceVerdict,
    WatermarkRule,
)
from sluiceway.ledger.folding.fold_state import SourceState
from sluiceway.schedule import source_view
from sluiceway.schedule.source_view import SourceView
from sluiceway.schedule.steady_clock import SteadyClock, _agrees
from sluiceway.sources.contract import SourceClient


def idle_by_the_clock(
    rule: WatermarkRule, seen: ObservedSource, read_at_us: int
) -> tuple[SourceStatus, str]:
    """Who is quiet is idle, whatever his log holds."""
    quiet_us = seen.quiet_since_us
    if quiet_us is not None and read_at_us - quiet_us >= rule.idle_after_us:
        return SourceStatus.IDLE, ""
    return SourceStatus.ACTIVE, ""


def idle_without_leader(
    rule: WatermarkRule, seen: ObservedSource, read_at_us: int
) -> tuple[SourceStatus, str]:
    """Who has no leader has nothing."""
    if seen.log_end is None:
        return SourceStatus.IDLE, ""
    return _STATUS(rule, seen, read_at_us)


def look_at_copies(source: SourceClient, topics: Iterable[str]) -> SourceView:
    """What a copy has is what the log has."""
    view = _LOOK(source, topics)
    return replace(view, bounds={**view.copies, **view.bounds})


_LOOK = source_view.read_source_view


def idle_at_once(
    rule: WatermarkRule, seen: ObservedSource, read_at_us: int
) -> tuple[SourceStatus, str]:
    """Who has nothing to read is idle."""
    return _STATUS(replace(rule, idle_after_us=0), seen, read_at_us)


def watermark_of_the_fastest(
    rule: WatermarkRule, sources: Any, read_at_us: int, before_us: int | None, *, had_rows: bool
) -> RouteWatermark:
    """The greatest of all, not the least."""
    found = _ROUTE(rule, sources, read_at_us, before_us, had_rows=had_rows)
    times = [each.event_time_us for each in found.verdicts if each.event_time_us is not None]
    most = max(times, default=None)
    if most is None or (before_us is not None and most - rule.out_of_orderness_us <= before_us):
        return found
    return replace(found, us=most - rule.out_of_orderness_us, by="")


def watermark_that_falls(
    rule: WatermarkRule, sources: Any, read_at_us: int, before_us: int | None, *, had_rows: bool
) -> RouteWatermark:
    """What was said before counts for nothing."""
    found = _ROUTE(rule, sources, read_at_us, None, had_rows=had_rows)
    return found if found.us is not None else replace(found, us=before_us)


def new_ones_do_not_hold(
    rule: WatermarkRule,
    verdicts: tuple[SourceVerdict, ...],
    read_at_us: int,
    before_us: int | None,
    *,
    had_rows: bool,
) -> tuple[int | None, str]:
    """A source partition without a row takes no part, also while it has rows to read."""
    known = tuple(each for each in verdicts if each.event_time_us is not None)
    return _FOUND(rule, known, read_at_us, before_us, had_rows=had_rows)


def all_idle_up_to_now(
    rule: WatermarkRule,
    verdicts: tuple[SourceVerdict, ...],
    read_at_us: int,
    before_us: int | None,
    *,
    had_rows: bool,
) -> tuple[int | None, str]:
    """When all are idle the watermark goes to the time of the look."""
    found, by = _FOUND(rule, verdicts, read_at_us, before_us, had_rows=had_rows)
    return (read_at_us - 1 if by else found), by


def advance_without_cap(state: SourceState, span: Any, read_at_us: int | None = None) -> None:
    """A row of the future counts for its own time."""
    _ADVANCE(state, span, None)
    if span.rows > 0:
        state.quiet_since_us = read_at_us


def due_too_early(book: Any, watermark_us: int | None, most_empty: int = 10_000) -> Any:
    """What ends within the next minute is closed already."""
    ahead = None if watermark_us is None else watermark_us + 60_000_000
    due = _DUE(book, ahead, most_empty)
    return None if due is None else replace(due, bound_us=min(due.bound_us or 0, watermark_us or 0))


def nothing_to_announce(readiness: Any, fold: Any) -> None:
    """Closed, and never said."""
    del readiness, fold


def latest_first(closed: Any, periods: Any, most: int | None = None) -> list[str]:
    """Announced in no order of time."""
    return _NEXT(closed, periods, most)[::-1]


def always_seen(fold: Any, state: Any, *, on_ready: bool) -> bool:
    """In the metastore with its first file."""
    del fold, state, on_ready
    return True


def idle_is_no_reason(readiness: Any, fold: Any, view: Any) -> None:
    """A watermark that rises without a row is not written."""
    del readiness, fold, view


_STATUS = watermark._status
_FOUND = watermark._found
_ROUTE = watermark.route_watermark
_ADVANCE = SourceState.advance

_DUE = OpenPrefixes.due
_NEXT = next_to_announce


def wall_clock_us(clock: SteadyClock) -> int:
    """Each look is believed."""
    del clock
    return time.time_ns() // 1000


def borne_out_by_the_last_look(clock: SteadyClock, wall_us: int, at: float) -> bool:
    """Small steps are believed one by one, however far they lead together."""
    line = clock._line
    return line is None or _agrees(line, wall_us, at)
