"""Which times of a table a user means: by a folder, `dt=20261120`, or by a moment."""

from dataclasses import dataclass

from sluiceway.audit.partition_states import ObservedPrefix, TimeRule
from sluiceway.errors import WrongUsageError
from sluiceway.eventtime.prefix_periods import PrefixPeriods
from sluiceway.jobfile.blocks.values import instant_us
from sluiceway.sinks.partition_path import requested_folder


@dataclass(frozen=True, slots=True)
class Edge:
    """One end of a range: a moment, or a folder's name when that is no time."""

    us: int | None = None
    folder: str = ""


def parse_edge(text: str, rule: TimeRule) -> Edge:
    """What `--from` or `--to` mean.

    Args:
        text: `dt=20261120/hr=08`, `dt=20261120` or `2026-11-20T08:00:00Z`.
        rule: The route's rule of times.

    Raises:
        WrongUsageError: It is neither, or a moment for a table without times.
    """
    if "=" in text:
        folder = requested_folder(text)
        return Edge(_begin_us(folder, rule), folder)
    at_us = instant_us(text)
    if at_us is None:
        raise WrongUsageError(
            f"{text!r} is no folder and no time",
            hint="write dt=20261120, or date, time and zone as 2026-11-20T08:00:00Z",
        )
    if rule.periods is None:
        raise WrongUsageError(
            "the table's leading partition columns say no time", hint="name folders instead"
        )
    return Edge(at_us)


def _begin_us(folder: str, rule: TimeRule) -> int | None:
    """Start of a folder's time, with all leading time columns or the first ones; in us."""
    if rule.periods is None:
        return None
    depth = folder.count("/") + 1
    try:
        above = PrefixPeriods(rule.periods.columns[:depth], rule.timezone)
    except ValueError:
        return None
    period = above.of(folder)
    return None if period is None else period.begin_us


def is_within(seen: ObservedPrefix, start: Edge | None, stop: Edge | None) -> bool:
    """Whether a prefix begins in [start, stop); None is no end."""
    return not _is_before(seen, start) and (stop is None or _is_before(seen, stop))


def _is_before(seen: ObservedPrefix, edge: Edge | None) -> bool:
    if edge is None:
        return False
    if edge.us is not None and seen.begin_us is not None:
        return seen.begin_us < edge.us
    return seen.prefix < edge.folder
