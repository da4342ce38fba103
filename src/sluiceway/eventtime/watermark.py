"""Up to which event time a route is complete: per source partition, then for the route.

Decided from committed rows and from log ends that were read after the epoch (commit rules 11, 12,
23). A timer alone never makes a source partition idle, and nothing makes the watermark fall. Values
only, without I/O: times are int64 microseconds since the epoch, UTC.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from sluiceway.types.log_key import SourceKey

ALL_IDLE = "all_idle"
"""Why a watermark rose without a row (commit rule 12)."""


@dataclass(frozen=True, slots=True)
class WatermarkRule:
    """What a job file says of a route's watermark.

    Attributes:
        out_of_orderness_us: How much older than the newest row of its source partition a row may
            be and still be in time.
        idle_after_us: How long a source partition is quiet before it may count as idle.
        hold_when_idle: Leave the watermark unchanged when all source partitions are idle.
    """

    out_of_orderness_us: int = 0
    idle_after_us: int = 300_000_000
    hold_when_idle: bool = False


class SourceStatus(StrEnum):
    """Effect of a source partition on the watermark.

    ACTIVE and STALLED ones hold it; a stalled one has records that were not read yet.
    """

    ACTIVE = "active"
    IDLE = "idle"
    STALLED = "stalled"


@dataclass(frozen=True, slots=True)
class ObservedSource:
    """A source partition that is read, as an epoch has left it.

    Attributes:
        committed_end: Next offset to read, with this epoch committed.
        max_event_time_us: Greatest committed event time, where a row counts at most as the time at
            which its epoch was read; None before the first row.
        quiet_since_us: When log ends were read for its last epoch with a row. Without any row, when
            its log end was first read; None before that.
        log_end: Last stable offset, read after the epoch; None when no leader has answered.
        high_watermark: High watermark of the log, read in the same moment.
    """

    key: SourceKey
    committed_end: int
    max_event_time_us: int | None
    quiet_since_us: int | None
    log_end: int | None
    high_watermark: int | None


@dataclass(frozen=True, slots=True)
class SourceVerdict:
    """A source partition's part in the watermark.

    Attributes:
        event_time_us: Event time up to which it is complete, except for rows out of order; None
            when it never had a row.
        reason: Why it is stalled, in words; else empty.
        behind_records: Offsets that can be read and were not; None when the log end is not known.
        quiet_since_us: As in `ObservedSource`.
    """

    key: SourceKey
    status: SourceStatus
    event_time_us: int | None
    reason: str
    behind_records: int | None
    quiet_since_us: int | None

    @property
    def holds(self) -> bool:
        """Whether the route's watermark waits for it."""
        return self.status is not SourceStatus.IDLE


@dataclass(frozen=True, slots=True)
class RouteWatermark:
    """The result of the committed rows and the log ends.

    Attributes:
        us: The route's watermark: never below the one before; None while no row was ever read.
        by: `all_idle` when it has risen without a row; else empty.
        verdicts: Verdicts in the order of the source partitions' keys.
    """

    us: int | None
    by: str
    verdicts: tuple[SourceVerdict, ...]

    def holders(self, most: int) -> tuple[SourceVerdict, ...]:
        """At most `most` source partitions that hold the watermark, the slowest first."""
        found = [each for each in self.verdicts if each.holds]
        # A source partition that never had a row holds whatever the others have.
        found.sort(key=lambda each: (each.event_time_us is not None, each.event_time_us, each.key))
        return tuple(found[:most])


def route_watermark(
    rule: WatermarkRule,
    sources: Iterable[ObservedSource],
    read_at_us: int,
    before_us: int | None,
    *,
    had_rows: bool = False,
) -> RouteWatermark:
    """The watermark of a route. Called on the driver, once an epoch, after its tasks.

    Args:
        rule: Watermark rule of the route.
        sources: All source partitions that are read; retired ones take no part.
        read_at_us: When their log ends were read.
        before_us: The route's watermark in the ledger.
        had_rows: Whether a source partition that is retired now had rows.
    """
    verdicts = tuple(sorted((_verdict(rule, each, read_at_us) for each in sources), key=_key))
    found, by = _found(rule, verdicts, read_at_us, before_us, had_rows=had_rows)
    if found is None or (before_us is not None and found <= before_us):
        return RouteWatermark(before_us, "", verdicts)
    return RouteWatermark(found, by, verdicts)


def _key(verdict: SourceVerdict) -> SourceKey:
    return verdict.key


def _found(
    rule: WatermarkRule,
    verdicts: tuple[SourceVerdict, ...],
    read_at_us: int,
    before_us: int | None,
    *,
    had_rows: bool,
) -> tuple[int | None, str]:
    had_rows = had_rows or any(each.event_time_us is not None for each in verdicts)
    if before_us is None and not had_rows:
        # A route without a row announces nothing.
        return None, ""
    holding = [each for each in verdicts if each.holds]
    times = [each.event_time_us for each in holding if each.event_time_us is not None]
    if len(times) < len(holding):
        # A new one joins at the present watermark, and holds it there.
        return None, ""
    if times:
        return min(times) - rule.out_of_orderness_us, ""
    if rule.hold_when_idle or not verdicts:
        # Without source partitions there is no answer.
        return None, ""
    return read_at_us - rule.idle_after_us - rule.out_of_orderness_us, ALL_IDLE


def _verdict(rule: WatermarkRule, seen: ObservedSource, read_at_us: int) -> SourceVerdict:
    status, reason = _status(rule, seen, read_at_us)
    behind = None if seen.log_end is None else max(0, seen.log_end - seen.committed_end)
    return SourceVerdict(
        seen.key, status, seen.max_event_time_us, reason, behind, seen.quiet_since_us
    )


def _status(rule: WatermarkRule, seen: ObservedSource, read_at_us: int) -> tuple[SourceStatus, str]:
    """Decide by position: what unread records may still bring; only then by time."""
    if seen.log_end is None or seen.high_watermark is None:
        return SourceStatus.STALLED, "no leader reports where its log ends"
    if seen.committed_end < seen.log_end:
        return SourceStatus.STALLED, f"{seen.log_end - seen.committed_end} offsets are not read yet"
    if seen.committed_end > seen.log_end:
        return SourceStatus.STALLED, f"its log ends at {seen.log_end}, below what was read"
    if seen.log_end < seen.high_watermark:
        return SourceStatus.STALLED, f"a transaction is open since offset {seen.log_end}"
    quiet = seen.quiet_since_us is not None and (
        read_at_us - seen.quiet_since_us >= rule.idle_after_us
    )
    return (SourceStatus.IDLE if quiet else SourceStatus.ACTIVE), ""
