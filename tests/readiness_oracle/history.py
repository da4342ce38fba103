"""A history as plain data: a route, its source partitions, its epochs. Times are microseconds, UTC.

Nothing here knows the product. A history that fails is made smaller by leaving out parts of it.
"""

from dataclasses import dataclass
from enum import StrEnum

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


class Kind(StrEnum):
    """What stands at an offset."""

    ROW = "row"
    ABORTED = "aborted"
    MARKER = "marker"


@dataclass(frozen=True, slots=True)
class Entry:
    """One offset of a log.

    Attributes:
        appended_at: When it was written; rises within a log.
        stable_at: When its transaction ended; `appended_at` without one. Before that, nothing
            from here on can be read.
        event: Event time; None is unreadable.
    """

    appended_at: int
    stable_at: int
    event: int | None
    kind: Kind = Kind.ROW


@dataclass(frozen=True, slots=True)
class SourceLog:
    """A source partition.

    Attributes:
        appears_at: When it is found and pinned, at its first offset.
        retires_at: When it is gone from the subscription; None is never.
        entries: Offset 0 and on.
        returns_at: When it is there again, and read on from where it was left; None is never.
    """

    appears_at: int
    retires_at: int | None
    entries: tuple[Entry, ...]
    returns_at: int | None = None

    def is_gone(self, at: int) -> bool:
        """Whether it is not in the subscription any more."""
        gone = self.retires_at is not None and self.retires_at <= at
        return gone and not self.is_back(at)

    def is_back(self, at: int) -> bool:
        """Whether it was gone and is there again."""
        return self.returns_at is not None and self.returns_at <= at

    def high_watermark(self, at: int) -> int:
        """First offset that is not written yet."""
        return sum(entry.appended_at <= at for entry in self.entries)

    def stable_end(self, at: int) -> int:
        """First offset that cannot be read: of an open transaction, or not written."""
        for offset, entry in enumerate(self.entries):
            if entry.appended_at > at or entry.stable_at > at:
                return offset
        return len(self.entries)


@dataclass(frozen=True, slots=True)
class CountNeed:
    """Which hours need an audited count.

    Attributes:
        since: Those that begin before it need none; None all do.
        alone: Whether the watermark has no say in those that do.
    """

    since: int | None = None
    alone: bool = False


@dataclass(frozen=True, slots=True)
class CountMessage:
    """What somebody else says of one hour.

    Attributes:
        at: When it is in the topic of counts; rises within it.
        begin: First instant of the hour.
        rows: All that it has.
    """

    at: int
    begin: int
    rows: int


class Point(StrEnum):
    """Where a driver puts what was read of the topic of counts."""

    BESIDE = "beside"
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Route:
    """How a route is set.

    Attributes:
        zone: IANA name.
        patterns: Of the leading time columns, in path order.
        spreads: Whether a value column follows them, so that a prefix has several partitions.
        on_all_idle: Whether the watermark goes on with the clock when all is idle.
        counts: Which hours wait for a count; None when nobody counts.
    """

    zone: str
    patterns: tuple[tuple[str, str], ...]
    spreads: bool
    out_of_orderness: int
    lateness: int
    archive_window: int
    max_future: int
    idle_after: int
    on_all_idle: bool
    policy: str
    counts: CountNeed | None = None


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """What happens to one epoch.

    Attributes:
        planned_at: Its start; tasks read at `read_at`, log ends are read at `looked_at`.
        budgets: Rows a task may read, by source; a source that is not named has no limit, and one
            with -1 belongs to a task that did not answer.
        blind: Sources whose broker shows no log end after it.
        tasks: How many tasks share the sources.
        committed: Whether its record lands; if not, it is thrown away with the one behind it.
        ahead: The next epoch is planned from its ends before its record lands.
        announces: The driver gets to announce after it.
        restart: The driver dies after it; another folds the records.
        resets: Source -> offset where an operator has it go on before the next epoch.
        deaf: Where nothing is read of the topic of counts: beside it, before or after its record.
        clock_wrong: How far the driver's clock is ahead when log ends are read after it.
    """

    planned_at: int
    read_at: int
    looked_at: int
    budgets: tuple[tuple[int, int], ...] = ()
    blind: frozenset[int] = frozenset()
    tasks: int = 1
    committed: bool = True
    ahead: bool = False
    announces: bool = True
    restart: bool = False
    resets: tuple[tuple[int, int], ...] = ()
    deaf: frozenset[Point] = frozenset()
    clock_wrong: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """All that happens to a route.

    Attributes:
        seed: That it was made from.
        centre: The moment around which it takes place.
        counts: The topic of counts.
    """

    seed: int
    centre: int
    route: Route
    logs: tuple[SourceLog, ...]
    epochs: tuple[EpochPlan, ...]
    counts: tuple[CountMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """Log ends of one source partition, as its broker says."""

    stable_end: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Span:
    """What one epoch read of one source partition: `[start, end)`."""

    source: int
    start: int
    end: int
