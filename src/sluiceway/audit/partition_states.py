"""The states of a route's partitions, by its ledger alone: open, ready, late, expired.

A line stands for all partitions of one time, `dt=20261120/hr=08`, since they are announced
together (commit rule 30a); without leading time columns for one partition.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from sluiceway.errors import WrongUsageError
from sluiceway.eventtime.partition_time import TimeKind
from sluiceway.eventtime.prefix_periods import Period, PrefixPeriods
from sluiceway.eventtime.readiness import CountedDue, OpenPrefixes
from sluiceway.jobfile.blocks.values import instant_us
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.ready_rule import ReadyRule
from sluiceway.ledger.folding.fold_state import ClosedPrefix, FoldState, PartitionState
from sluiceway.sinks.partition_path import requested_folder

_US_PER_S = 1_000_000
_EPOCHS = 2


class PartitionProgress(StrEnum):
    """How far a time or a partition has come."""

    OPEN = "open"
    OVERDUE = "overdue"
    CLOSED = "closed"
    READY = "ready"
    LATE = "late"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class TimeRule:
    """What a job file says of the times of a table.

    Attributes:
        periods: None when no leading columns say a time of their own.
        announces: Whether complete times are announced at all.
        due_us: How long after its end a time is announced when nothing delays it.
        timezone: Time zone of the partition columns.
    """

    periods: PrefixPeriods | None
    announces: bool = False
    due_us: int = 0
    timezone: str = "UTC"

    @classmethod
    def of(cls, config: RouteConfig) -> "TimeRule":
        """The rule of a route."""
        zone = "UTC" if config.event_time is None else config.event_time.timezone
        ready = config.ready
        if ready is None:
            return cls(periods_of(config), timezone=zone)
        watermark = ready.watermark
        patience_us = watermark.out_of_orderness_us + watermark.idle_after_us
        epochs_us = int(_EPOCHS * config.interval_s * _US_PER_S)
        due_us = ready.lateness_us + patience_us + epochs_us
        return cls(ready.periods(), announces=True, due_us=due_us, timezone=ready.timezone)


def periods_of(config: RouteConfig) -> PrefixPeriods | None:
    """Times of a table's leading columns; None when they say no time of their own."""
    columns: list[tuple[str, str]] = []
    for rule in config.partitions:
        if rule.pattern is None or rule.kind is not TimeKind.EVENT:
            break
        columns.append((rule.name, rule.pattern))
    if config.event_time is None or not columns:
        return None
    try:
        return PrefixPeriods(columns, config.event_time.timezone)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class ObservedPartition:
    """A partition of the table.

    Attributes:
        location: Folder of its files, relative to the table.
        version: How often the partition has moved.
        expired: Whether its owner dropped it, and no rows have come since.
    """

    partition: str
    location: str
    rows: int
    files: int
    size_bytes: int
    version: int
    expired: bool


@dataclass(frozen=True, slots=True)
class ObservedPrefix:
    """A time of the table; in a table without times, a partition.

    Attributes:
        prefix: Its folder, relative to the table.
        state: How far it has come.
        begin_us: When its time begins; None without a time, as `end_us`.
        version: Version of its last announcement; 0 when there is none.
        rows: Rows that readers find, or will find.
        late_rows: Rows that came after it was closed, in the table or in the late place.
        late_rows_aside: How many of these are in the late place, which `rows` does not count; None
            when that was not read.
        whole: Whether rows, files and bytes are complete: the ledger forgets old partitions.
        delay_us: From its end to its last announcement, in us; None when one of them is not known.
        partitions: Its partitions, by name.
        expected_rows: Rows that were counted elsewhere (`ready.counts`); None without a count, and
            once it is closed.
    """

    prefix: str
    state: PartitionProgress
    begin_us: int | None
    end_us: int | None
    version: int
    rows: int
    files: int
    size_bytes: int
    late_rows: int
    whole: bool
    delay_us: int | None
    partitions: tuple[ObservedPartition, ...] = field(default=())
    expected_rows: int | None = None
    late_rows_aside: int | None = None

    @property
    def describe(self) -> str:
        """The state in words for a person."""
        waits = self.state in (PartitionProgress.OPEN, PartitionProgress.OVERDUE)
        return f"{self.state.value}, no row yet" if waits and not self.partitions else self.state

    @property
    def describe_late(self) -> str:
        """Its late rows in words: those in the table, and those in the late place."""
        inside = self.late_rows - (self.late_rows_aside or 0)
        parts = [f"{inside:,} in it"] if inside else []
        parts += [f"{self.late_rows_aside:,} aside"] if self.late_rows_aside else []
        return (
            ", ".join(parts)
            if self.late_rows_aside is not None and parts
            else f"{self.late_rows:,}"
        )


def observed_prefixes(fold: FoldState, rule: TimeRule, now_us: int) -> list[ObservedPrefix]:
    """All times and partitions that the ledger knows, ordered by time.

    Args:
        fold: The ledger.
        rule: The route's rule of times.
        now_us: The clock; decides which times are overdue.
    """
    names = (*fold.closed, *fold.counted.rows)
    groups: dict[str, list[PartitionState]] = {prefix: [] for prefix in names}
    for state in fold.partitions.values():
        if state.values:
            groups.setdefault(prefix_of(fold, rule, state.folder), []).append(state)
    found = [
        _observed(fold, rule, prefix, states, now_us=now_us) for prefix, states in groups.items()
    ]
    found.sort(key=lambda each: (each.begin_us is None, each.begin_us or 0, each.prefix))
    return found


def listed_prefixes(fold: FoldState, rule: TimeRule, now_us: int) -> list[ObservedPrefix]:
    """As `observed_prefixes`, with times that are over by the clock and have no row yet.

    A route that never saw a row has no times: the first row begins the first time.
    """
    found = observed_prefixes(fold, rule, now_us)
    if not rule.announces or rule.periods is None:
        return found
    book = OpenPrefixes(rule.periods, 0)
    book.see_closed((*fold.closed, *fold.sealed))
    book.see_partitions(each.prefix for each in found)
    found += (
        _observed(fold, rule, each.prefix, (), now_us=now_us)
        for each in book.without_rows(now_us)
        # Partitions that the ledger has forgotten may have rows.
        if fold.knows_all_below(each.prefix)
    )
    found.sort(key=lambda each: (each.begin_us is None, each.begin_us or 0, each.prefix))
    return found


def prefix_of(fold: FoldState, rule: TimeRule, partition: str) -> str:
    """The prefix that a partition is announced with; the partition itself without times."""
    period = rule.periods.of(partition) if rule.periods is not None else None
    if period is not None:
        return period.prefix
    return fold.closed_above(partition) or partition


def _observed(
    fold: FoldState,
    rule: TimeRule,
    prefix: str,
    states: Collection[PartitionState],
    *,
    now_us: int,
) -> ObservedPrefix:
    period = rule.periods.of(prefix) if rule.periods is not None else None
    there = [state for state in states if not state.expired]
    closed = fold.closed.get(prefix)
    return ObservedPrefix(
        prefix=prefix,
        state=PartitionProgress.EXPIRED
        if states and not there
        else _stand(rule, period, closed, there, now_us),
        begin_us=None if period is None else period.begin_us,
        end_us=None if period is None else period.end_us,
        version=0 if closed is None else closed.version,
        rows=sum(state.rows for state in there),
        files=sum(state.files for state in there),
        size_bytes=sum(state.size_bytes for state in there),
        late_rows=0 if closed is None else closed.late_rows,
        whole=fold.knows_all_below(prefix),
        delay_us=_delay_us(period, closed),
        partitions=tuple(map(_partition, sorted(states, key=lambda state: state.folder))),
        expected_rows=fold.counted.rows.get(prefix),
    )


def _stand(
    rule: TimeRule,
    period: Period | None,
    closed: ClosedPrefix | None,
    there: Iterable[PartitionState],
    now_us: int,
) -> PartitionProgress:
    if closed is not None and closed.version:
        ready_seq = closed.ready_seq
        # A partition that has only moved has the same rows.
        late = any(state.has_rows_since(ready_seq) for state in there)
        return PartitionProgress.LATE if late else PartitionProgress.READY
    waits = rule.announces and period is not None
    if waits and period is not None and now_us > period.end_us + rule.due_us:
        return PartitionProgress.OVERDUE
    return PartitionProgress.CLOSED if closed is not None else PartitionProgress.OPEN


def stand_without_rows(rule: TimeRule, period: Period | None, now_us: int) -> PartitionProgress:
    """The state of a time that has no row and is not closed."""
    return _stand(rule, period, None, (), now_us)


def _delay_us(period: Period | None, closed: ClosedPrefix | None) -> int | None:
    if period is None or closed is None or closed.ready_at_us is None:
        return None
    return closed.ready_at_us - period.end_us


def _partition(state: PartitionState) -> ObservedPartition:
    return ObservedPartition(
        partition=state.folder,
        location=state.location,
        rows=state.rows,
        files=state.files,
        size_bytes=state.size_bytes,
        version=state.version,
        expired=state.expired,
    )


@dataclass(frozen=True, slots=True)
class ObservedCounts:
    """Row counts of an open time.

    Attributes:
        have: Committed rows.
        expected: As the last count says; None when none has come.
    """

    have: int
    expected: int | None


def counts_of(fold: FoldState, ready: ReadyRule, period: Period) -> ObservedCounts | None:
    """Committed and counted rows; None for a time that needs no count."""
    counts = ready.counts
    if counts is None or period.prefix in fold.closed or not counts.decide.needs_count(period):
        return None
    prefix = period.prefix
    return ObservedCounts(fold.rows_below(prefix), fold.counted.rows.get(prefix))


def counted_due(fold: FoldState, ready: ReadyRule) -> CountedDue:
    """What the driver closes next, and the time that only its count holds open."""
    counts = ready.counts
    if counts is None:
        return CountedDue(None, None)
    book = OpenPrefixes(ready.periods(), ready.lateness_us)
    book.see_closed(fold.closed)
    book.see_partitions(name for name, each in fold.partitions.items() if not each.expired)
    return book.due_counted(fold.watermark.us, counts.decide, fold.has_counted)


def counts_text(fold: FoldState, seen: ObservedCounts) -> str:
    """The counts in words, with what may be missing."""
    if seen.expected is None:
        return f"counts: no count has come for it, and {seen.have:,} rows are there"
    text = f"counts: have {seen.have:,} of {seen.expected:,} rows"
    missing = seen.have < seen.expected and fold.dirty_rows_open > 0
    return text + (f"; {fold.dirty_rows_open:,} dirty rows of the route are open" * missing)


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
