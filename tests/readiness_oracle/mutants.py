"""Wrong variants of the product: patches of its own code, each of which some history must catch.

While a patch holds, the fold tests neither the watermark nor counts: the judge has to see it by
itself. A name that is not there any more is an error, not a mutant that does nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from readiness_oracle import product, row_work
from readiness_oracle.count_mutants import COUNT_MUTANTS
from readiness_oracle.mutant import Mutant
from sluiceway.eventtime import prefix_periods, readiness, watermark
from sluiceway.eventtime.prefix_periods import ClosedPrefixes, Period, PrefixPeriods
from sluiceway.eventtime.readiness import OpenPrefixes
from sluiceway.eventtime.watermark import ObservedSource, SourceStatus, SourceVerdict, WatermarkRule
from sluiceway.ledger.folding import fold_counts, fold_sources, fold_watermark
from sluiceway.ledger.folding.fold_state import ClosedPrefix, SourceState
from sluiceway.route import route_readiness
from sluiceway.schedule.steady_clock import SteadyClock
from sluiceway.worker.late_rows import LateJudge
from tools.mutant_fit import Patch, held

_Status = tuple[SourceStatus, str]


# Idle, stalled and the least of all


def _idle_by_timer() -> tuple[Patch, ...]:
    def status(rule: WatermarkRule, seen: ObservedSource, read_at_us: int) -> _Status:
        since = seen.quiet_since_us
        quiet = since is not None and read_at_us - since >= rule.idle_after_us
        return (SourceStatus.IDLE if quiet else SourceStatus.ACTIVE), ""

    return ((watermark, "_status", status),)


def _as_if(**changed: Callable[[ObservedSource], object]) -> tuple[Patch, ...]:
    """The status of a source partition of which something else is believed."""
    right = watermark._status

    def status(rule: WatermarkRule, seen: ObservedSource, read_at_us: int) -> _Status:
        values: dict[str, Any] = {name: make(seen) for name, make in changed.items()}
        return right(rule, replace(seen, **values), read_at_us)

    return ((watermark, "_status", status),)


def _open_transaction_is_idle() -> tuple[Patch, ...]:
    return _as_if(high_watermark=lambda seen: seen.log_end)


def _silent_broker_is_idle() -> tuple[Patch, ...]:
    def end(seen: ObservedSource) -> int:
        return seen.committed_end if seen.log_end is None else seen.log_end

    def high(seen: ObservedSource) -> int:
        return seen.committed_end if seen.high_watermark is None else seen.high_watermark

    return _as_if(log_end=end, high_watermark=high)


def _active_only() -> tuple[Patch, ...]:
    def holds(verdict: SourceVerdict) -> bool:
        return verdict.status is SourceStatus.ACTIVE

    return ((SourceVerdict, "holds", property(holds)),)


def _found_with(change: Callable[..., tuple[Any, ...]]) -> tuple[Patch, ...]:
    right = watermark._found

    def found(*arguments: Any, had_rows: bool) -> tuple[int | None, str]:
        return right(*change(*arguments), had_rows=had_rows)

    return ((watermark, "_found", found),)


def _no_out_of_orderness() -> tuple[Patch, ...]:
    return _found_with(lambda rule, *rest: (replace(rule, out_of_orderness_us=0), *rest))


def _all_idle_is_now() -> tuple[Patch, ...]:
    return _found_with(lambda rule, *rest: (replace(rule, idle_after_us=0), *rest))


def _new_joins_at_infinity() -> tuple[Patch, ...]:
    def change(rule: Any, verdicts: Any, *rest: Any) -> tuple[Any, ...]:
        some = tuple(each for each in verdicts if each.event_time_us is not None)
        return (rule, some or verdicts, *rest)

    return _found_with(change)


def _greatest() -> tuple[Patch, ...]:
    def change(rule: Any, verdicts: Any, *rest: Any) -> tuple[Any, ...]:
        times = [each.event_time_us for each in verdicts if each.event_time_us is not None]
        newest = max(times, default=None)
        return (
            rule,
            tuple(
                replace(each, event_time_us=newest) if each.event_time_us is not None else each
                for each in verdicts
            ),
            *rest,
        )

    return _found_with(change)


def _new_lowers_to_zero() -> tuple[Patch, ...]:
    right = watermark.route_watermark

    def lowest(
        rule: Any, sources: Any, read_at_us: int, before_us: int | None, *, had_rows: bool
    ) -> Any:
        seen = list(sources)
        found = right(rule, seen, read_at_us, before_us, had_rows=had_rows)
        new = any(each.max_event_time_us is None for each in seen)
        return replace(found, us=0) if new and before_us is not None else found

    return ((route_readiness, "route_watermark", lowest),)


def _all_idle_from_nothing() -> tuple[Patch, ...]:
    right = watermark._found

    def found(
        rule: WatermarkRule,
        verdicts: Any,
        read_at_us: int,
        before_us: int | None,
        *,
        had_rows: bool,
    ) -> tuple[int | None, str]:
        if not verdicts and before_us is not None:
            late = rule.idle_after_us + rule.out_of_orderness_us
            return read_at_us - late, watermark.ALL_IDLE
        return right(rule, verdicts, read_at_us, before_us, had_rows=had_rows)

    return ((watermark, "_found", found),)


# What is carried on


def _advance(*, capped: bool, quiet: bool) -> Patch:
    right = SourceState.advance

    def advance(state: SourceState, span: Any, read_at_us: int | None = None) -> None:
        before, known = state.quiet_since_us, state.max_event_time_us
        right(state, span, read_at_us)
        if not quiet and before is not None:
            state.quiet_since_us = before
        if not capped and span.max_event_time_us is not None:
            newest = int(span.max_event_time_us)
            state.max_event_time_us = newest if known is None else max(known, newest)

    return (SourceState, "advance", advance)


def _future_counts() -> tuple[Patch, ...]:
    def counted(event: int, read_at: int) -> int:
        del read_at
        return event

    return ((row_work, "counted_time", counted), _advance(capped=False, quiet=True))


def _rows_do_not_wake() -> tuple[Patch, ...]:
    return (_advance(capped=True, quiet=False),)


def _only_what_was_read() -> tuple[Patch, ...]:
    right = route_readiness.with_ranges

    def with_ranges(fold: Any, ranges: Any, read_at_us: int) -> Any:
        spans = list(ranges)
        read = {(span.topic, span.partition) for span in spans}
        found = right(fold, spans, read_at_us)
        return {key: each for key, each in found.items() if key in read} or found

    return ((route_readiness, "with_ranges", with_ranges),)


def _retired_holds() -> tuple[Patch, ...]:
    right = route_readiness.with_ranges

    def with_retired(fold: Any, ranges: Any, read_at_us: int) -> Any:
        retired = {key: each for key, each in fold.sources.items() if each.retired}
        return retired | right(fold, ranges, read_at_us)

    return (
        (route_readiness, "with_ranges", with_retired),
        (fold_watermark, "_idle_after", _no_idle),
    )


def _coming_back(change: Callable[[SourceState], None]) -> tuple[Patch, ...]:
    right = fold_sources._pin

    def resume(fold: Any, pin: Any) -> None:
        right(fold, pin)
        if pin.how == "resumed" and not pin.retired:
            change(fold.sources[pin.topic, pin.partition])

    return ((fold_sources, "_pin", resume),)


def _back_is_quiet() -> tuple[Patch, ...]:
    def change(known: SourceState) -> None:
        known.quiet_since_us = 0

    return _coming_back(change)


def _back_at_infinity() -> tuple[Patch, ...]:
    def change(known: SourceState) -> None:
        known.max_event_time_us = 1 << 60

    return _coming_back(change)


def _clock_believed() -> tuple[Patch, ...]:
    def judge(clock: SteadyClock, wall_us: int, at: float) -> int:
        del clock, at
        return wall_us

    return ((SteadyClock, "judge", judge),)


def _no_idle(*arguments: Any) -> set[Any]:
    del arguments
    return set()


def _forgetting(forget: Callable[[product.ProductDecider], None]) -> tuple[Patch, ...]:
    right = product.ProductDecider.take_over

    def take_over(decider: product.ProductDecider) -> None:
        right(decider)
        forget(decider)

    return ((product.ProductDecider, "take_over", take_over),)


def _restart_forgets_watermark() -> tuple[Patch, ...]:
    def forget(decider: product.ProductDecider) -> None:
        decider.fold.watermark.us = None

    return _forgetting(forget)


def _restart_forgets_source() -> tuple[Patch, ...]:
    def forget(decider: product.ProductDecider) -> None:
        for known in list(decider.fold.sources.values())[:1]:
            known.idle, known.quiet_since_us = True, 0
            known.max_event_time_us = None

    return (*_forgetting(forget), *_new_joins_at_infinity())


def _restart_forgets_closed() -> tuple[Patch, ...]:
    def forget(decider: product.ProductDecider) -> None:
        decider.record_queue._closed = {}

    return _forgetting(forget)


# Closing and announcing


def _closes_when_over() -> tuple[Patch, ...]:
    return (_book(lateness=lambda us: 0 * us),)


def _closes_a_moment_early() -> tuple[Patch, ...]:
    return (_book(lateness=lambda us: us - 1),)


def _closes_a_moment_late() -> tuple[Patch, ...]:
    return (_book(lateness=lambda us: us + 1),)


def _book(lateness: Callable[[int], int]) -> Patch:
    right = OpenPrefixes.__init__

    def make(book: OpenPrefixes, periods: PrefixPeriods, lateness_us: int) -> None:
        right(book, periods, lateness(lateness_us))

    return (OpenPrefixes, "__init__", make)


def _no_empty_hours() -> tuple[Patch, ...]:
    def empty(*arguments: Any) -> tuple[list[Period], int]:
        del arguments
        return [], 0

    return ((OpenPrefixes, "_empty", empty),)


def _ready_at_once() -> tuple[Patch, ...]:
    right = product.ProductDecider.announce

    def announce(decider: product.ProductDecider, in_flight: Any) -> Any:
        fold = decider.fold
        for prefix in decider.record_queue.closed():
            fold.closed.setdefault(prefix, ClosedPrefix(fold.next_seq - 1))
        return right(decider, in_flight)

    return ((product.ProductDecider, "announce", announce),)


def _newest_first() -> tuple[Patch, ...]:
    right = readiness.next_to_announce

    def backwards(*arguments: Any) -> list[str]:
        return right(*arguments)[::-1]

    return ((route_readiness, "next_to_announce", backwards),)


def _only_named_are_closed() -> tuple[Patch, ...]:
    def holds(closed: ClosedPrefixes, partition: str) -> bool:
        prefix = "/".join(partition.split("/")[: closed._periods.depth])
        return prefix in closed._closed

    return ((ClosedPrefixes, "holds", holds),)


# Late rows


def _late_judge(name: str, wrong: Any) -> tuple[Patch, ...]:
    return ((LateJudge, name, wrong),)


def _closed_unseen() -> tuple[Patch, ...]:
    return _late_judge("_in_closed", _nothing)


def _window_unseen() -> tuple[Patch, ...]:
    return _late_judge("_outside", _nothing)


def _bound_is_late() -> tuple[Patch, ...]:
    right = LateJudge.__init__

    def make(judge: LateJudge, plan: Any, assigner: Any) -> None:
        right(judge, plan, assigner)
        judge._bounds = tuple(None if each is None else each + 1 for each in judge._bounds)

    return _late_judge("__init__", make)


# Local time


def _period_ends(end: Callable[[Period, int], int]) -> tuple[Patch, ...]:
    right = PrefixPeriods._make

    def make(periods: PrefixPeriods, wall: Any) -> Period | None:
        found, behind = right(periods, wall), periods._next(wall)
        if found is None or behind is None:
            return found
        length_us = (behind - wall).days * 86_400_000_000 + (behind - wall).seconds * 1_000_000
        return replace(found, end_us=end(found, length_us))

    return ((PrefixPeriods, "_make", make),)


def _fixed_hours() -> tuple[Patch, ...]:
    return _period_ends(lambda period, length_us: period.begin_us + length_us)


def _first_occurrence() -> tuple[Patch, ...]:
    right = prefix_periods._pieces

    def pieces(*arguments: Any) -> Iterator[tuple[int, int]]:
        yield from list(right(*arguments))[:1]

    return ((prefix_periods, "_pieces", pieces),)


def _zone_is_utc() -> tuple[Patch, ...]:
    right = PrefixPeriods.__init__

    def make(periods: PrefixPeriods, columns: Any, timezone: str) -> None:
        del timezone
        right(periods, columns, "UTC")

    return ((PrefixPeriods, "__init__", make),)


MUTANTS = (
    Mutant("idle-by-timer", "a source partition is idle by time alone", _idle_by_timer),
    Mutant("open-transaction-idle", "what is behind it is not seen", _open_transaction_is_idle),
    Mutant("silent-broker-idle", "no log end counts as nothing left", _silent_broker_is_idle),
    Mutant("active-only", "stalled source partitions do not hold", _active_only),
    Mutant("no-out-of-orderness", "the watermark is the newest row", _no_out_of_orderness),
    Mutant("all-idle-is-now", "all idle: up to now, without idle_after", _all_idle_is_now),
    Mutant("all-idle-from-nothing", "no source partition is all idle", _all_idle_from_nothing),
    Mutant("new-at-infinity", "one without a row does not hold", _new_joins_at_infinity),
    Mutant("new-at-zero", "one without a row takes the watermark down", _new_lowers_to_zero),
    Mutant("greatest", "the furthest source partition decides", _greatest),
    Mutant("future-counts", "a row of the future moves the watermark there", _future_counts),
    Mutant("rows-do-not-wake", "quiet is counted from the first look on", _rows_do_not_wake),
    Mutant("only-what-was-read", "stragglers take no part", _only_what_was_read),
    Mutant("retired-holds", "one that is gone still holds", _retired_holds),
    Mutant("back-is-quiet", "one that comes back counts as quiet for ever", _back_is_quiet),
    Mutant("back-at-infinity", "one that comes back does not hold", _back_at_infinity),
    Mutant("clock-looked-at-once", "a look at a clock that steps is believed", _clock_believed),
    Mutant("restart-no-watermark", "a new driver has no watermark", _restart_forgets_watermark),
    Mutant("restart-no-source", "a new driver leaves a source out", _restart_forgets_source),
    Mutant("restart-all-open", "a new driver has all open again", _restart_forgets_closed),
    Mutant("no-lateness", "closed at the end, not at end + lateness", _closes_when_over),
    Mutant("moment-early", "closed a microsecond too early", _closes_a_moment_early),
    Mutant("moment-late", "closed a microsecond too late", _closes_a_moment_late),
    Mutant("no-empty-hours", "hours without a row are left out", _no_empty_hours),
    Mutant("ready-at-once", "an epoch in flight has the hour open", _ready_at_once),
    Mutant("newest-first", "announced backwards", _newest_first),
    Mutant("only-named", "hours before the first closed one are open", _only_named_are_closed),
    Mutant("closed-unseen", "rows go on into closed hours", _closed_unseen),
    Mutant("window-unseen", "rows are in time however old they are", _window_unseen),
    Mutant("bound-is-late", "a row on the bound of the window is late", _bound_is_late),
    Mutant("fixed-hours", "each hour has 60 minutes", _fixed_hours),
    Mutant("first-occurrence", "a fold ends with its first half", _first_occurrence),
    Mutant("zone-utc", "hours end as in UTC", _zone_is_utc),
    *COUNT_MUTANTS,
)


def _nothing(*arguments: object) -> None:
    del arguments


@contextmanager
def patched(mutant: Mutant | None) -> Iterator[None]:
    """Hold a mutant's patches; None holds none.

    Raises:
        MisfitError: It does not apply to the product as it is.
    """
    if mutant is None:
        yield
        return
    unseen = ((fold_watermark, "check_watermark"), (fold_counts, "check_counted"))
    patches = (*mutant.make(), *((owner, name, _nothing) for owner, name in unseen))
    product.periods_of.cache_clear()
    try:
        with held(mutant.name, patches):
            yield
    finally:
        product.periods_of.cache_clear()


def named(name: str) -> Mutant:
    """The mutant of that name.

    Raises:
        LookupError: There is none.
    """
    for mutant in MUTANTS:
        if mutant.name == name:
            return mutant
    raise LookupError(f"no mutant {name}; there are {', '.join(each.name for each in MUTANTS)}")
