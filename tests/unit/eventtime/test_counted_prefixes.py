"""Which prefixes are closed where audited counts decide too."""

import random

import pytest

from sluiceway.eventtime.prefix_periods import Period, PrefixPeriods
from sluiceway.eventtime.readiness import CountRule, OpenPrefixes

PERIODS = PrefixPeriods((("dt", "yyyyMMdd"), ("hr", "HH")), "UTC")
BOTH, ALONE = CountRule(), CountRule(alone=True)


def hour(number: int) -> Period:
    """Hour of the day 2026-11-20."""
    found = PERIODS.of(f"dt=20261120/hr={number:02d}")
    assert found is not None
    return found


def book(*rows: int, closed: tuple[int, ...] = (), lateness_us: int = 0) -> OpenPrefixes:
    """With rows in these hours."""
    made = OpenPrefixes(PERIODS, lateness_us)
    made.see_closed(hour(each).prefix for each in closed)
    made.see_partitions(hour(each).prefix for each in rows)
    return made


def due(
    made: OpenPrefixes, watermark: int | None, there: set[int], rule: CountRule = BOTH
) -> tuple[list[int], list[int], int | None]:
    """Hours that are due, those of them by their counts, and the hour that waits.

    Args:
        made: The book.
        watermark: The hour that it has just passed.
        there: Hours that have all rows of their counts.
        rule: Of the route.
    """
    names = {hour(each).prefix for each in there}
    us = None if watermark is None else hour(watermark).end_us
    found = made.due_counted(us, rule, names.__contains__)
    waits = None if found.waits is None else int(found.waits.prefix[-2:])
    if found.due is None:
        return [], [], waits
    hours = [int(each.prefix[-2:]) for each in found.due.periods]
    return hours, [int(each[-2:]) for each in found.due.counted], waits


def test_hour_waits_for_watermark_and_count() -> None:
    assert due(book(8), 7, {8}) == ([], [], None)
    assert due(book(8), 8, set()) == ([], [], 8)
    assert due(book(8), 8, {8}) == ([8], [8], None)


def test_hours_behind_one_that_waits_wait_too_with_and_without_rows() -> None:
    made = book(8, 9, 11)
    assert due(made, 12, {8, 10, 11, 12}) == ([8], [8], 9)
    assert due(made, 12, {8, 9, 11, 12}) == ([8, 9], [8, 9], 10)
    assert due(made, 12, {8, 9, 10, 11, 12}) == ([8, 9, 10, 11, 12], [8, 9, 10, 11, 12], None)


def test_hours_that_begin_before_since_need_no_count() -> None:
    rule = CountRule(since_us=hour(10).begin_us)
    assert due(book(8, 9, 10), 10, set(), rule) == ([8, 9], [], 10)
    assert due(book(8, 9, 10), 10, {9, 10}, rule) == ([8, 9, 10], [9, 10], None)


def test_counts_alone_need_no_watermark_but_before_since() -> None:
    assert due(book(8, 9), None, {8, 9}, ALONE) == ([8, 9], [8, 9], 10)
    rule = CountRule(since_us=hour(9).begin_us, alone=True)
    assert due(book(8, 9), 7, {8, 9}, rule) == ([], [], None)
    assert due(book(8, 9), 8, {9}, rule) == ([8, 9], [9], 10)


def test_bound_is_that_of_the_last_hour_that_the_watermark_has_passed() -> None:
    found = book(8, 9).due_counted(hour(8).end_us, ALONE, lambda _: True, 2).due
    assert found is not None
    assert found.bound_us == hour(8).end_us
    none = book(8, 9).due_counted(None, ALONE, lambda _: True, 2).due
    assert none is not None
    assert none.bound_us is None


def test_hour_behind_one_that_is_closed_waits_for_no_count() -> None:
    made = book(6, 12, closed=(9, 10))
    assert due(made, 10, set()) == ([6], [], None)
    assert due(made, 12, {11}) == ([6, 11], [11], 12)


def test_nothing_is_due_without_a_row() -> None:
    assert due(book(), 12, {8, 9}, ALONE) == ([], [], None)


def test_many_hours_are_closed_in_stretches() -> None:
    found = book(0).due_counted(hour(20).end_us, BOTH, lambda _: True, 5).due
    assert found is not None
    assert [each.prefix[-2:] for each in found.periods] == ["00", "01", "02", "03", "04"]


@pytest.mark.parametrize("rule", [BOTH, ALONE, CountRule(hour(7).begin_us, alone=True)])
def test_never_early_never_stuck_by_brute_force(rule: CountRule) -> None:
    """Rows, counts and watermark come in any order: closed is what may be, and nothing else."""
    for seed in range(300):
        rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
        made, closed = OpenPrefixes(PERIODS, 0), list[int]()
        rows, there, watermark = set[int](), set[int](), None
        for _ in range(25):
            step = rng.randrange(3)
            if step == 0:
                rows.add(rng.randrange(4, 12))
                made.see_partitions(hour(each).prefix for each in rows)
            elif step == 1:
                there |= {rng.randrange(4, 12)}
            else:
                watermark = max(watermark or 0, rng.randrange(3, 12))
            found, _, _ = due(made, watermark, there, rule)
            made.see_closed(hour(each).prefix for each in found)
            closed += [each for each in found if each not in closed]
            told = f"seed {seed}: rows {rows}, counted {there}, watermark {watermark}"
            assert sorted(closed) == _may_be_closed(closed, rows, there, watermark, rule), told


def _may_be_closed(
    closed: list[int], rows: set[int], there: set[int], watermark: int | None, rule: CountRule
) -> list[int]:
    """All that is closed has to be, as nothing is ever opened again; and what follows it."""

    def passes(number: int) -> bool:
        passed = watermark is not None and number <= watermark
        if rule.since_us is not None and hour(number).begin_us < rule.since_us:
            return passed
        return number in there and (passed or rule.alone)

    if not rows:
        return []
    begun = min(closed, default=min(rows))
    found, last = set(closed), max(closed, default=None)
    number = min(rows) if last is None else last + 1
    while number < 24 and passes(number):
        found.add(number)
        number += 1
    behind = {each for each in rows if last is not None and each < last}
    found |= {each for each in behind if each in there or (watermark or -1) >= each}
    chain = {each for each in closed if each >= begun}
    assert all(passes(each) or each < max(closed) for each in chain)
    return sorted(found)
