"""Wrong variants of closing by audited counts."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from readiness_oracle import product
from readiness_oracle.bodies import Plan
from readiness_oracle.mutant import Mutant
from sluiceway.eventtime.prefix_periods import Period
from sluiceway.eventtime.readiness import CountedDue, CountRule, DuePrefixes, OpenPrefixes
from sluiceway.ledger.counts_records import CountsRecord
from sluiceway.ledger.folding import fold
from sluiceway.ledger.folding.fold_counts import apply_counts, check_counts
from sluiceway.ledger.folding.fold_state import FoldState
from sluiceway.route import route_readiness
from sluiceway.upkeep.record_queue import RecordQueue
from tools.mutant_fit import Patch


def _needs(needs: Callable[[CountRule, Period], bool]) -> tuple[Patch, ...]:
    return ((CountRule, "needs_count", needs),)


def _count_ignored() -> tuple[Patch, ...]:
    return _needs(lambda rule, period: False)


def _since_ignored() -> tuple[Patch, ...]:
    return _needs(lambda rule, period: True)


def _since_is_a_bound_too_far() -> tuple[Patch, ...]:
    def needs(rule: CountRule, period: Period) -> bool:
        return rule.since_us is None or period.begin_us > rule.since_us

    return _needs(needs)


def _since_is_an_end() -> tuple[Patch, ...]:
    def needs(rule: CountRule, period: Period) -> bool:
        return rule.since_us is None or period.end_us > rule.since_us

    return _needs(needs)


def _is_there(there: Callable[[int, int | None], bool]) -> tuple[Patch, ...]:
    """Of committed rows, and those that were counted."""

    def has_counted(state: FoldState, prefix: str) -> bool:
        return there(state.rows_below(prefix), state.counted.rows.get(prefix))

    return ((FoldState, "has_counted", has_counted),)


def _no_rows_needed() -> tuple[Patch, ...]:
    return _is_there(lambda rows, counted: counted is not None)


def _one_row_fewer() -> tuple[Patch, ...]:
    return _is_there(lambda rows, counted: counted is not None and rows >= counted - 1)


def _one_row_more() -> tuple[Patch, ...]:
    return _is_there(lambda rows, counted: counted is not None and rows > counted)


def _exactly_as_many() -> tuple[Patch, ...]:
    return _is_there(lambda rows, counted: rows == counted)


def _rows_in_flight_count() -> tuple[Patch, ...]:
    flying: dict[int, Counter[str]] = {}
    read, commit = product.ProductDecider.read, product.ProductDecider.commit
    take_over = product.ProductDecider.take_over

    def reads(decider: product.ProductDecider, plan: Plan, *rest: Any) -> Any:
        found = read(decider, plan, *rest)
        flying[id(plan)] = Counter(plan.folders)
        return found

    def commits(decider: product.ProductDecider, plan: Plan, *rest: Any) -> Any:
        flying.pop(id(plan), None)
        return commit(decider, plan, *rest)

    def takes_over(decider: product.ProductDecider) -> None:
        flying.clear()
        take_over(decider)

    def has_counted(state: FoldState, prefix: str) -> bool:
        soon = sum(
            rows
            for folders in flying.values()
            for name, rows in folders.items()
            if f"{name}/".startswith(f"{prefix}/")
        )
        expected = state.counted.rows.get(prefix)
        return expected is not None and state.rows_below(prefix) + soon >= expected

    return (
        (product.ProductDecider, "read", reads),
        (product.ProductDecider, "commit", commits),
        (product.ProductDecider, "take_over", takes_over),
        (FoldState, "has_counted", has_counted),
    )


def _due(change: Callable[[CountRule], CountRule]) -> tuple[Patch, ...]:
    right = OpenPrefixes.due_counted

    def due(
        book: OpenPrefixes, watermark_us: int | None, rule: CountRule, *rest: Any
    ) -> CountedDue:
        return right(book, watermark_us, change(rule), *rest)

    return ((OpenPrefixes, "due_counted", due),)


def _watermark_is_asked() -> tuple[Patch, ...]:
    return _due(lambda rule: replace(rule, alone=False))


def _watermark_is_not_asked() -> tuple[Patch, ...]:
    return _due(lambda rule: replace(rule, alone=True))


def _empty_needs_no_count() -> tuple[Patch, ...]:
    right = OpenPrefixes.due_counted

    def due(
        book: OpenPrefixes, watermark_us: int | None, rule: CountRule, is_there: Any, *rest: Any
    ) -> CountedDue:
        with_rows = {each.prefix for each in book.open}

        def is_there_or_empty(prefix: str) -> bool:
            return is_there(prefix) or (not rule.alone and prefix not in with_rows)

        found = right(book, watermark_us, rule, is_there_or_empty, *rest)
        if found.due is None:
            return found
        counted = tuple(prefix for prefix in found.due.counted if is_there(prefix))
        return replace(found, due=replace(found.due, counted=counted))

    return ((OpenPrefixes, "due_counted", due),)


def _in_no_order() -> tuple[Patch, ...]:
    """Whoever has all rows is closed, what is before it as well or not."""
    right = OpenPrefixes.due_counted

    def due(
        book: OpenPrefixes, watermark_us: int | None, rule: CountRule, is_there: Any, *rest: Any
    ) -> CountedDue:
        found = right(book, watermark_us, rule, is_there, *rest)
        known = {} if found.due is None else {each.prefix: each for each in found.due.periods}
        known |= {
            each.prefix: each
            for each in book.open
            if is_there(each.prefix)
            and (rule.alone or (watermark_us is not None and book.bound_us(each) <= watermark_us))
        }
        if not known:
            return found
        periods = tuple(sorted(known.values()))
        bounds = [book.bound_us(each) for each in periods]
        passed = [us for us in bounds if watermark_us is not None and us <= watermark_us]
        counted = tuple(each.prefix for each in periods if is_there(each.prefix))
        made = DuePrefixes(periods, max(passed, default=None), counted=counted)
        return CountedDue(made, found.waits)

    return ((OpenPrefixes, "due_counted", due),)


def _first_count_holds() -> tuple[Patch, ...]:
    def take(state: Any, body: CountsRecord, record: Any) -> None:
        known = dict(state.counted.rows)
        apply_counts(state, body, record)
        state.counted.rows |= known

    return _taking(take)


def _greatest_count_holds() -> tuple[Patch, ...]:
    def take(state: Any, body: CountsRecord, record: Any) -> None:
        known = dict(state.counted.rows)
        apply_counts(state, body, record)
        for prefix, rows in known.items():
            state.counted.rows[prefix] = max(rows, state.counted.rows[prefix])

    return _taking(take)


def _taking(take: Callable[[Any, CountsRecord, Any], None]) -> tuple[Patch, ...]:
    steps = fold._STEPS | {CountsRecord: (check_counts, take)}
    return ((fold, "_STEPS", steps),)


def _closing_tells_nothing() -> tuple[Patch, ...]:
    return ((RecordQueue, "counted", property(lambda record_queue: ())),)


def _restart_forgets_counts() -> tuple[Patch, ...]:
    right = product.ProductDecider.take_over

    def take_over(decider: product.ProductDecider) -> None:
        right(decider)
        decider.fold.counted.rows.clear()

    return ((product.ProductDecider, "take_over", take_over),)


def _nothing_comes_first() -> tuple[Patch, ...]:
    def none(*arguments: Any) -> list[Period]:
        del arguments
        return []

    return ((route_readiness, "open_before_first", none),)


COUNT_MUTANTS = (
    Mutant("count-ignored", "no hour needs a count", _count_ignored),
    Mutant("since-ignored", "hours before `since` need a count", _since_ignored),
    Mutant(
        "since-too-far", "the hour that begins at `since` needs none", _since_is_a_bound_too_far
    ),
    Mutant("since-is-an-end", "the hour around `since` needs a count", _since_is_an_end),
    Mutant("no-rows-needed", "a count is enough, whatever is there", _no_rows_needed),
    Mutant("one-row-fewer", "almost all is all", _one_row_fewer),
    Mutant("one-row-more", "more rows than were counted are needed", _one_row_more),
    Mutant("exactly-as-many", "more rows than were counted wait for ever", _exactly_as_many),
    Mutant("empty-needs-no-count", "an hour without rows needs no count", _empty_needs_no_count),
    Mutant("rows-in-flight", "rows count before they are committed", _rows_in_flight_count),
    Mutant("watermark-asked", "counts never decide alone", _watermark_is_asked),
    Mutant("watermark-not-asked", "counts always decide alone", _watermark_is_not_asked),
    Mutant("counts-in-no-order", "an hour does not wait for those before it", _in_no_order),
    Mutant("first-count", "a count that was corrected is not taken", _first_count_holds),
    Mutant("greatest-count", "a count that goes down is not taken", _greatest_count_holds),
    Mutant("counted-untold", "closings by counts do not say so", _closing_tells_nothing),
    Mutant("overtaken", "an open hour does not hold what is closed behind", _nothing_comes_first),
    Mutant("restart-no-counts", "a new driver has no counts", _restart_forgets_counts),
)
