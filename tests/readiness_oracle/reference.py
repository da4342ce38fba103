"""The watermark as the design has it, from all rows of all records, made anew at every record.

Written from the design alone: lists and loops, no state that is carried on. Where the design
leaves room (when a driver may know that nothing came for `idle_after`) there are two: the highest
watermark that would still be lawful, and the lowest one that is not too slow.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from readiness_oracle.history import Entry, History, Kind, Look, Span


@dataclass(frozen=True, slots=True)
class Landed:
    """A record that landed: what its epoch read, and what was seen after it.

    Attributes:
        epoch: Place in the history's epochs.
        read_at: Time the epoch was read.
        looked_at: Time the log ends were read.
        term: How many drivers there were before.
        refused: (source, offset) of its rows that came late where late rows are dirty.
        looks: Of the sources whose broker answered.
        pinned: Source -> when it was pinned; sources that are gone are not in it.
        ends: Committed ends with it.
    """

    epoch: int
    read_at: int
    looked_at: int
    spans: tuple[Span, ...]
    looks: dict[int, Look]
    pinned: dict[int, int]
    ends: dict[int, int]
    term: int
    refused: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the route's watermark behind one record; None while there can't or needn't be one.

    Attributes:
        lowest: What the record alone comes to, whatever was before.
    """

    highest: int | None
    lowest: int | None


def readable(entry: Entry, read_at: int, max_future: int) -> bool:
    """Whether a row has an event time that counts."""
    return (
        entry.kind is Kind.ROW and entry.event is not None and entry.event <= read_at + max_future
    )


def source_watermark(history: History, landed: Sequence[Landed], source: int) -> int | None:
    """Greatest event time of all rows that were ever committed; a future row counts as now.

    Dirty rows say nothing, whatever has made them so.
    """
    entries = history.logs[source].entries
    found = [
        min(event, record.read_at)
        for record in landed
        for span in record.spans
        if span.source == source
        for offset in range(span.start, span.end)
        if (event := entries[offset].event) is not None
        and readable(entries[offset], record.read_at, history.route.max_future)
        and (source, offset) not in record.refused
    ]
    return max(found, default=None)


def _caught_up(record: Landed, source: int) -> bool:
    look = record.looks.get(source)
    end = record.ends[source]
    return look is not None and end >= look.stable_end and end >= look.high_watermark


def _may_be_idle(history: History, landed: Sequence[Landed], source: int) -> bool:
    """Nothing is left to read, and nothing came for `idle_after`, by the log's own times."""
    record = landed[-1]
    if not _caught_up(record, source):
        return False
    rows = [
        entry.stable_at
        for each in landed
        for span in each.spans
        if span.source == source
        for entry in history.logs[source].entries[span.start : span.end]
        if entry.kind is Kind.ROW
    ]
    since = max(rows, default=record.pinned[source])
    return record.looked_at - since >= history.route.idle_after


def _must_be_idle(history: History, landed: Sequence[Landed], source: int) -> bool:
    """The same, by what a driver has seen: it counts from the first look that found all read.

    A driver that ends before any row was read since a source partition was pinned, came back, or
    was moved by an operator, takes what it saw with it.
    """
    since: int | None = None
    pinned_at: int | None = None
    noted = begun = False
    term = landed[0].term
    end: int | None = None
    for record in landed:
        moved = {span.source for span in record.spans if span.end > span.start}
        begun = begun or bool(moved)
        start = next((span.start for span in record.spans if span.source == source), end)
        was_reset = source in record.pinned and end is not None and start != end
        end = record.ends.get(source)
        is_back = record.pinned.get(source) != pinned_at
        pinned_at = record.pinned.get(source)
        if was_reset or is_back or (record.term != term and not noted):
            since, noted = None, False
        term = record.term
        if source not in record.pinned or not _caught_up(record, source) or not begun:
            since = None
        elif since is None or source in moved:
            since = record.looked_at
        noted = noted or (source in record.pinned and bool(moved))
    return since is not None and landed[-1].looked_at - since >= history.route.idle_after


def _when_all_idle(history: History, landed: Sequence[Landed], before: int | None) -> int | None:
    """Rule 12: the clock goes on where no partition does, once a row was ever seen."""
    route = history.route
    sources = range(len(history.logs))
    ever = any(source_watermark(history, landed, source) is not None for source in sources)
    if not ever or not route.on_all_idle:
        return before
    return _later(before, landed[-1].looked_at - route.idle_after - route.out_of_orderness)


def _when_held_by(
    history: History, landed: Sequence[Landed], before: int | None, holding: set[int]
) -> int | None:
    """The least of those that hold it. One without a row joins at the watermark as it is."""
    seen = [source_watermark(history, landed, source) for source in holding]
    times = [time for time in seen if time is not None]
    if not times or len(times) < len(seen):
        return before
    return _later(before, min(times) - history.route.out_of_orderness)


def _later(before: int | None, now: int | None) -> int | None:
    known = [time for time in (before, now) if time is not None]
    return max(known, default=None)


def _earlier(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else min(one, other)


def _highest(
    history: History, landed: Sequence[Landed], before: int | None, may: set[int]
) -> int | None:
    live = set(landed[-1].pinned)
    if live - may:
        return _when_held_by(history, landed, before, live - may)
    # A driver that does not know yet that the last one is idle may still be held by it alone.
    found = _when_all_idle(history, landed, before) if live else before
    for source in live:
        found = _later(found, _when_held_by(history, landed, before, {source}))
    return found


def _lowest(
    history: History, landed: Sequence[Landed], may: set[int], must: set[int]
) -> int | None:
    live = set(landed[-1].pinned)
    all_idle = _when_all_idle(history, landed, None) if live else None
    if not live - must:
        return all_idle
    held = _when_held_by(history, landed, None, live - must)
    return _earlier(held, all_idle) if not live - may else held


def idle_sources(history: History, landed: Sequence[Landed]) -> set[int]:
    """Those that may count as idle behind the last record."""
    return {source for source in landed[-1].pinned if _may_be_idle(history, landed, source)}


def reference_bounds(history: History, landed: Sequence[Landed], before: Bounds) -> Bounds:
    """Bounds behind the last record, from all rows of all records.

    Args:
        before: Behind the record before: a watermark never falls.
    """
    live = landed[-1].pinned
    may = idle_sources(history, landed)
    must = {source for source in live if _must_be_idle(history, landed, source)}
    return Bounds(
        _highest(history, landed, before.highest, may),
        _lowest(history, landed, may, must),
    )
