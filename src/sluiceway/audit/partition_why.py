"""Why a partition is announced, or is not yet: the driver's own reasoning, by the ledger alone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from sluiceway.audit.format_times import ago, moment, span
from sluiceway.audit.partition_states import (
    ObservedCounts,
    PartitionProgress,
    TimeRule,
    counted_due,
    counts_of,
    counts_text,
    observed_prefixes,
    stand_without_rows,
)
from sluiceway.eventtime.prefix_periods import Period, PrefixPeriods
from sluiceway.eventtime.readiness import Holder, holders_of, next_to_announce
from sluiceway.eventtime.watermark import (
    ObservedSource,
    SourceStatus,
    WatermarkRule,
    route_watermark,
)
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.ready_rule import AnnounceRule, ReadyRule
from sluiceway.ledger.folding.fold_state import ClosedPrefix, FoldState, SourceState
from sluiceway.ledger.partition_records import COMPACT
from sluiceway.ledger.places import is_below, overlaps
from sluiceway.ledger.sealing import NEVER_CLOSED
from sluiceway.route.route_readiness import open_before_first
from sluiceway.sinks.partition_path import requested_folder
from sluiceway.types.log_key import SourceKey

_MOST_NAMED = 3
_CLOSING = "the next epoch is planned with it closed"


class Reason(StrEnum):
    """Why a time is in its state; programs may rely on these words."""

    READY = "ready"
    LATE_ROWS = "late_rows"
    EXPIRED = "expired"
    NOT_ANNOUNCED = "not_announced"
    NO_TIME = "no_time"
    NO_LEDGER = "no_ledger"
    NO_ROWS_YET = "no_rows_yet"
    NOT_LOOKED_AT = "not_looked_at"
    BEFORE_FIRST_ROW = "before_first_row"
    EARLIER_THAN_ROWS = "earlier_than_rows"
    LEFT_OUT = "left_out"
    NOT_OVER = "not_over"
    HELD = "held"
    IDLE = "idle"
    COUNTS = "counts"
    CLOSING = "closing"
    IN_ORDER = "in_order"
    COMPACTING = "compacting"
    ANNOUNCING = "announcing"
    LOST_ROOM = "lost_room"


NEVER = frozenset({
    Reason.EXPIRED,
    Reason.NOT_ANNOUNCED,
    Reason.NO_TIME,
    Reason.BEFORE_FIRST_ROW,
    Reason.LEFT_OUT,
})  # fmt: skip
"""Reasons that no waiting ends."""

_NOWHERE = frozenset({
    Reason.NO_TIME,
    Reason.BEFORE_FIRST_ROW,
    Reason.EARLIER_THAN_ROWS,
    Reason.LEFT_OUT,
})  # fmt: skip
"""Reasons for which the table has no such time: it is not even open."""

BY_DRIVER = frozenset({
    Reason.NO_ROWS_YET,
    Reason.NOT_LOOKED_AT,
    Reason.EARLIER_THAN_ROWS,
    Reason.LATE_ROWS,
    Reason.NOT_OVER,
    Reason.HELD,
    Reason.IDLE,
    Reason.COUNTS,
    Reason.CLOSING,
    Reason.IN_ORDER,
    Reason.COMPACTING,
    Reason.ANNOUNCING,
})  # fmt: skip
"""Reasons that only a running driver can end."""


@dataclass(frozen=True, slots=True)
class WaitExplanation:
    """What is known of one time of a table.

    Attributes:
        prefix: The prefix that is announced: the folder that was asked for, or the one for it.
        state: None when the table has no such time.
        text: One or several sentences.
        version: Version of its last announcement; 0 when there is none.
        rows: Rows in it now.
        needs_us: Watermark that closes it; None when it is no time.
        watermark_us: Watermark of the route; None when it has none yet.
        looked_at_us: When the driver last read the log ends.
        holders: Source partitions that keep it open, the slowest first.
        expected_us: When it may be closed if the pace stays as it is; None when not known.
        shown: Whether the metastore is known to show what was announced; None without a READY.
        announced_to: Receiver of announcements -> whether it has the last one.
        counts: Row counts of an open time that needs them (`ready.counts`); None for others.
        driver_runs: Whether a driver works for the route; None when that is not known.
    """

    prefix: str
    state: PartitionProgress | None
    reason: Reason
    text: str
    version: int = 0
    rows: int = 0
    begin_us: int | None = None
    end_us: int | None = None
    needs_us: int | None = None
    watermark_us: int | None = None
    looked_at_us: int | None = None
    holders: tuple[Holder, ...] = ()
    expected_us: int | None = None
    shown: bool | None = None
    announced_to: dict[str, bool] = field(default_factory=dict)
    counts: ObservedCounts | None = None
    driver_runs: bool | None = None


def explain(
    fold: FoldState, ready: ReadyRule | None, rule: TimeRule, asked: str, now_us: int
) -> WaitExplanation:
    """Explain why a time of the table is announced or not.

    Args:
        fold: The ledger.
        ready: Block `ready` of the route; None announces nothing.
        rule: The route's rule of times.
        asked: Folder of a time, or of a partition below one.
        now_us: The clock.
    """
    name = requested_folder(asked)
    found = _explained(fold, ready, rule, name, now_us)
    return replace(found, state=None) if found.reason in _NOWHERE else found


def _explained(
    fold: FoldState, ready: ReadyRule | None, rule: TimeRule, name: str, now_us: int
) -> WaitExplanation:
    period = None if rule.periods is None else rule.periods.of(name)
    prefix = name if period is None else period.prefix
    seen = next((e for e in observed_prefixes(fold, rule, now_us) if e.prefix == prefix), None)
    why = WaitExplanation(
        prefix=prefix,
        state=stand_without_rows(rule, period, now_us) if seen is None else seen.state,
        reason=Reason.NO_TIME,
        text="",
        version=0 if seen is None else seen.version,
        rows=0 if seen is None else seen.rows,
        begin_us=None if period is None else period.begin_us,
        end_us=None if period is None else period.end_us,
        watermark_us=fold.watermark.us,
        looked_at_us=fold.watermark.read_at_us,
    )
    if seen is not None and seen.state is PartitionProgress.EXPIRED:
        text = "its owner has dropped it; rows that come for it go to another folder"
        return replace(why, reason=Reason.EXPIRED, text=text)
    if seen is not None and seen.version:
        return _announced(fold, why, fold.closed[prefix])
    sealed = fold.sealed_above(prefix)
    if seen is None and sealed is not None:
        return _sealed(why, fold.sealed[sealed])
    if fold.next_seq == 0:
        return replace(why, reason=Reason.NO_LEDGER, text="no driver has ever run for this table")
    if ready is None or rule.periods is None:
        text = "the job file has no block `ready`: times of this table are not announced"
        return replace(why, reason=Reason.NOT_ANNOUNCED, text=text)
    if period is None:
        wanted = "/".join(f"{column}={pattern}" for column, pattern in rule.periods.columns)
        text = f"{name} is no time of this table; times are written {wanted}"
        if name.count("/") < wanted.count("/"):
            text += "; they are announced in order, so for all of it look at the last one"
        return replace(why, reason=Reason.NO_TIME, text=text)
    return _waiting(fold, ready, period, why, now_us)


def _announced(fold: FoldState, why: WaitExplanation, closed: ClosedPrefix) -> WaitExplanation:
    when = "" if closed.ready_at_us is None else f" at {moment(closed.ready_at_us)}"
    text = f"it was announced{when}, version {closed.version}, in slot {closed.ready_seq}"
    shown = fold.effects_through > closed.ready_seq
    if not shown:
        text += (
            "; the ledger does not say yet that the metastore shows it: the driver's next record "
            "will"
        )
    if why.state is PartitionProgress.LATE:
        text += ". Rows have come since; it will be announced again with them"
        return replace(why, reason=Reason.LATE_ROWS, text=text, shown=shown)
    return replace(why, reason=Reason.READY, text=text, shown=shown)


def _sealed(why: WaitExplanation, ready_seq: int) -> WaitExplanation:
    """A time that was announced so long ago that the ledger keeps only its slot."""
    if ready_seq == NEVER_CLOSED:
        text = "it was touched long ago; rows that still come for it go to the late place"
        return replace(why, reason=Reason.NOT_ANNOUNCED, text=text)
    text = (
        f"it was announced long ago, in slot {ready_seq}, and is closed for ever: rows that still "
        "come for it go to the late place"
    )
    return replace(
        why, state=PartitionProgress.READY, reason=Reason.READY, text=text, version=1, shown=True
    )


def receiver_names(ready: AnnounceRule | None) -> tuple[str, ...]:
    """Names of the receivers that get announcements."""
    if ready is None:
        return ()
    known = {"webhook": ready.webhook, "kafka": ready.topic}
    return tuple(name for name, rule in known.items() if rule is not None)


def with_receivers(
    fold: FoldState, why: WaitExplanation, through: Mapping[str, int]
) -> WaitExplanation:
    """The explanation, with who has the last announcement.

    Args:
        fold: The ledger.
        why: What is known so far.
        through: By receiver, the slot below which it has all announcements.
    """
    closed = fold.closed.get(why.prefix)
    if closed is None or not closed.version or why.reason is Reason.EXPIRED:
        return why
    has = {name: slot > closed.ready_seq for name, slot in through.items()}
    waiting = [name for name, knows in has.items() if not knows]
    more = f". Not announced yet to: {', '.join(waiting)}" if waiting else ""
    return replace(why, announced_to=has, text=why.text + more)


def with_driver(why: WaitExplanation, *, runs: bool | None, halted: str = "") -> WaitExplanation:
    """The explanation, with whether a driver works for the route: without one nothing goes on.

    Args:
        why: What is known so far.
        runs: None when that is not known.
        halted: Code of the error that the route has halted with; empty when it has not.
    """
    if runs is not False or why.reason not in BY_DRIVER:
        return replace(why, driver_runs=runs)
    text = why.text
    for words in (each for holder in why.holders for each in _promises(holder)):
        text = text.replace(words, "")
    if halted:
        text += f". The route has halted with {halted}: `sluiceway status JOB` says what to do"
    else:
        text += ". No driver works for it now, so this stays until one does: "
        text += "`sluiceway status JOB`, `sluiceway run JOB`"
    return replace(why, driver_runs=False, text=text, expected_us=None)


def _waiting(
    fold: FoldState, ready: ReadyRule, period: Period, why: WaitExplanation, now_us: int
) -> WaitExplanation:
    """A time that was never announced, with its count where it needs one."""
    why = replace(why, counts=counts_of(fold, ready, period))
    alone = ready.counts is not None and ready.counts.decide.alone
    if why.counts is None or not (alone and fold.partitions):
        why = _by_watermark(fold, ready, period, why, now_us)
    else:
        why = replace(why, reason=Reason.IN_ORDER, text="what is before it is closed first")
        if now_us < period.end_us:
            over = f"its time ends at {moment(period.end_us)}"
            return _with_counts(fold, replace(why, reason=Reason.NOT_OVER, text=over))
    if why.reason not in (Reason.CLOSING, Reason.IN_ORDER) or ready.counts is None:
        return _with_counts(fold, why)
    found = counted_due(fold, ready)
    if found.due is not None and period in found.due.periods:
        return replace(why, reason=Reason.CLOSING, text=_CLOSING)
    if why.counts is not None and _is_behind_closed(fold, ready, period):
        text = f"{counts_text(fold, why.counts)}; it waits for them, or for the watermark"
        return replace(why, reason=Reason.COUNTS, text=text)
    first = found.waits
    if first is None or period < first:
        return why
    seen = counts_of(fold, ready, first)
    if period == first and seen is not None:
        return replace(why, reason=Reason.COUNTS, text=counts_text(fold, seen))
    before = "" if seen is None else f": {counts_text(fold, seen)}"
    text = f"{first.prefix} is closed before it{before}"
    return _with_counts(fold, replace(why, reason=Reason.IN_ORDER, text=text))


def _is_behind_closed(fold: FoldState, ready: ReadyRule, period: Period) -> bool:
    """Whether a later time is closed: rows of an epoch that was in flight then made this one."""
    closed = map(ready.periods().of, fold.closed)
    return any(each is not None and period < each for each in closed)


def _with_counts(fold: FoldState, why: WaitExplanation) -> WaitExplanation:
    if why.counts is None:
        return why
    return replace(why, text=f"{why.text}. Its own {counts_text(fold, why.counts)}")


def _by_watermark(
    fold: FoldState, ready: ReadyRule, period: Period, why: WaitExplanation, now_us: int
) -> WaitExplanation:
    bound_us = period.end_us + ready.lateness_us
    why = replace(why, needs_us=bound_us)
    if period.prefix in fold.closed:
        return _closed(fold, ready.periods(), period, why)
    watermark_us = fold.watermark.us
    if watermark_us is None and not _has_rows(fold):
        return replace(why, reason=Reason.NO_ROWS_YET, text=_no_rows_text(fold))
    if fold.watermark.read_at_us is None:
        text = "log ends were not read since the job file announces times; the next epoch does that"
        return replace(why, reason=Reason.NOT_LOOKED_AT, text=text)
    if not any(is_below(folder, period.prefix) for folder in fold.partitions):
        none = _without_rows(fold, ready.periods(), period, bound_us)
        if none is not None:
            return replace(why, reason=none[0], text=none[1])
    if watermark_us is not None and watermark_us >= bound_us:
        return replace(why, reason=Reason.CLOSING, text=f"the watermark has passed it; {_CLOSING}")
    return _open(fold, ready.watermark, period, why, now_us)


def _open(
    fold: FoldState, rule: WatermarkRule, period: Period, why: WaitExplanation, now_us: int
) -> WaitExplanation:
    """A time that the watermark has not passed: what keeps it open, and until when."""
    watermark_us, bound_us = fold.watermark.us, why.needs_us or 0
    needs_us = bound_us + rule.out_of_orderness_us
    mark = "There is no watermark yet"
    if watermark_us is not None:
        mark = f"The watermark is {moment(watermark_us)}"
    left = f"{mark}; the time closes when it reaches {moment(bound_us)}"
    holders = _holders(fold, rule, bound_us)
    if now_us < period.end_us:
        text = f"its time ends at {moment(period.end_us)}. {left}"
        behind = [each for each in holders if _is_behind(each)]
        if behind:
            text = f"{text}. {_named(behind, now_us)}"
        return replace(
            why,
            reason=Reason.NOT_OVER,
            text=text,
            holders=holders,
            expected_us=_expected_us(behind, max(needs_us, period.end_us)),
        )
    if not holders:
        expected = needs_us + rule.idle_after_us
        wait = span(rule.idle_after_us)
        text = f"nothing is left to read; all source partitions have to be quiet for {wait}. {left}"
        if rule.hold_when_idle:
            text = f"nothing is left to read, and `on_all_idle: hold` waits for rows. {left}"
            return replace(why, reason=Reason.IDLE, text=text)
        return replace(why, reason=Reason.IDLE, text=text, expected_us=expected)
    return replace(
        why,
        reason=Reason.HELD,
        text=f"{_named(holders, now_us)}. {left}",
        holders=holders,
        expected_us=_expected_us(holders, 0),
    )


def _has_rows(fold: FoldState) -> bool:
    """Whether any row was ever written, even if none is left."""
    return bool(fold.partitions or fold.forgotten_up_to or fold.counts.written)


def _no_rows_text(fold: FoldState) -> str:
    if not fold.counts.read:
        return "no row was ever read for this table; the first announced time is that of a row"
    read, dirty = fold.counts.read, fold.counts.dirty
    return (
        f"no row was ever written to this table: {read:,} were read, and {dirty:,} of them are "
        "dirty (`sluiceway dirty list JOB` says why); the first announced time is that of a row"
    )


def _without_rows(
    fold: FoldState, periods: PrefixPeriods, period: Period, bound_us: int
) -> tuple[Reason, str] | None:
    """Why a time without rows is not announced; None when it may be."""
    names = [*fold.sealed, *fold.closed, *fold.partitions]
    known = [found for found in map(periods.of, names) if found is not None]
    first = min(known, default=None)
    passed = (fold.watermark.us or 0) >= bound_us
    if first is not None and period < first:
        text = f"no row was ever read for it, and the first time with rows is {first.prefix}"
        if passed or fold.closed:
            return Reason.BEFORE_FIRST_ROW, text
        text += "; rows of it may still come"
        return Reason.EARLIER_THAN_ROWS, text
    closed = [found for found in map(periods.of, fold.closed) if found is not None]
    if any(period < found for found in closed) and passed:
        text = "no row was read for it, and it was left out among too many times without rows"
        return Reason.LEFT_OUT, text
    return None


def _closed(
    fold: FoldState, periods: PrefixPeriods, period: Period, why: WaitExplanation
) -> WaitExplanation:
    """A time that is closed in the ledger and was not announced."""
    versions = {prefix: each.version for prefix, each in fold.closed.items()}
    (first, *_) = next_to_announce(versions, periods, 1)
    slot = fold.closed[period.prefix].closed_seq
    for each in open_before_first(fold, periods)[:1]:
        if each < period:
            text = f"it was closed in slot {slot}; {each.prefix} is open, and announced before it"
            return replace(why, reason=Reason.IN_ORDER, text=text)
    if first != period.prefix:
        text = f"it was closed in slot {slot}; {first} is announced before it"
        return replace(why, reason=Reason.IN_ORDER, text=text)
    for seq, intent in sorted(fold.intents.items()):
        if overlaps(intent.partition, period.prefix):
            merged = "merged" if intent.purpose == COMPACT else "replaced"
            text = f"it was closed in slot {slot}; its files are being {merged} since slot {seq}"
            return replace(why, reason=Reason.COMPACTING, text=text)
    text = (
        f"it was closed in slot {slot}; it is announced once the epochs that were under way then "
        "are committed and what has to happen before is done"
    )
    return replace(why, reason=Reason.ANNOUNCING, text=text)


def _holders(fold: FoldState, rule: WatermarkRule, bound_us: int) -> tuple[Holder, ...]:
    """Source partitions that keep it open, by the log ends in the ledger."""
    read_at_us = fold.watermark.read_at_us or 0
    behind = {(each.topic, each.partition): each for each in fold.watermark.held_by}
    seen = []
    for key, known in fold.sources.items():
        if known.retired:
            continue
        held = behind.get(key)
        if held is None:
            seen.append(_at_its_end(key, known, rule, read_at_us))
            continue
        seen.append(
            ObservedSource(
                key=key,
                committed_end=known.end,
                max_event_time_us=known.max_event_time_us,
                quiet_since_us=known.quiet_since_us,
                log_end=None if held.log_end is None else int(held.log_end),
                high_watermark=None if held.high_watermark is None else int(held.high_watermark),
            )
        )
    verdicts = route_watermark(rule, seen, read_at_us, fold.watermark.us).verdicts
    return holders_of(bound_us, rule, verdicts, read_at_us)


def _at_its_end(
    key: SourceKey, known: SourceState, rule: WatermarkRule, read_at_us: int
) -> ObservedSource:
    """A holder that was read to its end: the ledger names all others."""
    quiet_us = known.quiet_since_us
    if known.idle:
        long_ago = read_at_us - rule.idle_after_us
        quiet_us = long_ago if quiet_us is None else min(quiet_us, long_ago)
    return ObservedSource(
        key=key,
        committed_end=known.end,
        max_event_time_us=known.max_event_time_us,
        quiet_since_us=quiet_us,
        log_end=known.end,
        high_watermark=known.end,
    )


def _named(holders: Iterable[Holder], now_us: int) -> str:
    found = list(holders)
    texts = [_holder_text(each, now_us) for each in found[:_MOST_NAMED]]
    more = f"; and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return f"{'; '.join(texts)}{more}"


def _is_behind(holder: Holder) -> bool:
    """Whether it holds more than the running hour; named even when no reader waits yet."""
    return holder.status is SourceStatus.STALLED or holder.at_us is None


def _expected_us(holders: Iterable[Holder], earliest_us: int) -> int | None:
    """When the last holder passes; None when that is not known of one of them."""
    expected_us = earliest_us
    for each in holders:
        if each.expected_us is None:
            return None
        expected_us = max(expected_us, each.expected_us)
    return expected_us


def _holder_text(holder: Holder, now_us: int) -> str:
    name = f"{holder.topic}[{holder.partition}]"
    if holder.at_us is None:
        return f"{name} holds it: {_never_had_rows(holder, now_us)}"
    text = f"{name} holds it: it is at {moment(holder.at_us)} and has to be at "
    text += f"{moment(holder.needs_us)}, {holder.reason}"
    if holder.since_us is not None:
        text += f", last rows {ago(now_us - holder.since_us)}"
    if holder.expected_us is not None:
        to_come, passed = _promises(holder)
        text += passed if holder.expected_us < now_us else to_come
    return text


def _promises(holder: Holder) -> tuple[str, ...]:
    """Forecasts of when it gets there; none of them holds without a driver."""
    if holder.expected_us is None:
        return ()
    at = moment(holder.expected_us)
    return f", expected at {at}", f", was expected at {at}"


def _never_had_rows(holder: Holder, now_us: int) -> str:
    """A source partition without any row: its first may be of any time, until it counts as idle."""
    text = "it has never had a row"
    if holder.status is SourceStatus.STALLED:
        text += f", {holder.reason}"
    if holder.since_us is not None:
        text += f", was seen first {ago(now_us - holder.since_us)} ({moment(holder.since_us)})"
    if holder.expected_us is not None:
        text += f", and counts as idle from {moment(holder.expected_us)} on (`idle_after`)"
    return text


MOST_EXPLAINED = 5
"""Times of one table that are listed with their reasons; the others are only counted."""


@dataclass(frozen=True, slots=True)
class Unannounced:
    """A time that readers do not see, or not in full.

    Attributes:
        prefix: Its folder, relative to the table.
        rows: How many rows are committed.
        reason: In words, as `partitions why` has it.
    """

    prefix: str
    rows: int
    reason: str


def unannounced(
    fold: FoldState, config: RouteConfig, now_us: int
) -> tuple[tuple[Unannounced, ...], int]:
    """The first times that are committed and not announced, and how many there are in all.

    Args:
        fold: The ledger.
        config: Config of the route; without a block `ready` nothing is announced, and none is
            listed.
        now_us: The clock.
    """
    if config.ready is None:
        return (), 0
    rule = TimeRule.of(config)
    waits = (
        PartitionProgress.OPEN,
        PartitionProgress.OVERDUE,
        PartitionProgress.CLOSED,
        PartitionProgress.LATE,
    )
    found = [
        each for each in observed_prefixes(fold, rule, now_us) if each.state in waits and each.rows
    ]
    told = []
    for each in found[:MOST_EXPLAINED]:
        why = explain(fold, config.ready, rule, each.prefix, now_us)
        told.append(Unannounced(each.prefix, each.rows, why.text))
    return tuple(told), len(found)
