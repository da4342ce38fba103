"""Which prefixes are closed, in which order, and who holds the others."""

from sluiceway.eventtime.prefix_periods import Period, PrefixPeriods
from sluiceway.eventtime.readiness import OpenPrefixes, holders_of, next_to_announce
from sluiceway.eventtime.watermark import ObservedSource, WatermarkRule, route_watermark

HOUR = 3_600_000_000
MINUTE = 60_000_000
PERIODS = PrefixPeriods((("dt", "yyyyMMdd"), ("hr", "HH")), "UTC")


def hour(number: int) -> Period:
    """Hour of the day 2026-11-20."""
    found = PERIODS.of(f"dt=20261120/hr={number:02d}")
    assert found is not None
    return found


def book(*rows: int, lateness_us: int = 0) -> OpenPrefixes:
    """With rows in these hours, each in two partitions."""
    made = OpenPrefixes(PERIODS, lateness_us)
    made.see_partitions(f"{hour(n).prefix}/app={app}" for n in rows for app in ("a", "b"))
    return made


def names(made: OpenPrefixes, watermark_us: int | None) -> list[str]:
    """Hours that are due."""
    due = made.due(watermark_us)
    return [] if due is None else [each.prefix.rpartition("=")[2] for each in due.periods]


def test_hour_is_due_when_the_watermark_has_reached_its_end_plus_lateness() -> None:
    made = book(8, lateness_us=10 * MINUTE)

    assert names(made, hour(8).end_us + 10 * MINUTE - 1) == []
    assert names(made, hour(8).end_us + 10 * MINUTE) == ["08"]
    assert names(made, None) == []


def test_hours_without_rows_are_due_from_the_first_one_with_rows_on_in_order() -> None:
    made = book(12, 9)

    due = made.due(hour(14).end_us)

    assert due is not None
    assert [each.prefix[-2:] for each in due.periods] == ["09", "10", "11", "12", "13", "14"]
    assert due.bound_us == hour(14).end_us


def test_hour_of_an_older_row_that_is_open_still_is_due_alone() -> None:
    made = book(9)
    made.see_closed([hour(9).prefix, hour(10).prefix])
    made.see_partitions([f"{hour(6).prefix}/app=a"])

    assert names(made, hour(11).end_us) == ["06", "11"]


def test_nothing_is_due_without_a_row() -> None:
    assert names(book(), hour(14).end_us) == []


def test_closed_hour_is_not_due_again_when_rows_come_for_it() -> None:
    made = book(9)
    made.see_closed([hour(9).prefix])
    made.see_partitions([f"{hour(9).prefix}/app=c"])

    assert names(made, hour(9).end_us) == []
    assert made.open == ()


def test_partition_of_no_time_is_left_alone() -> None:
    made = book(9)
    made.see_partitions(["dt=__HIVE_DEFAULT_PARTITION__/hr=08/app=a", "other"])

    assert [each.prefix for each in made.open] == [hour(9).prefix]


def test_hole_of_very_many_hours_is_closed_at_its_latest_end_only() -> None:
    made = book(9)

    due = made.due(hour(9).end_us + 1000 * HOUR, most_empty=10)

    assert due is not None
    assert [each.prefix for each in due.periods[:1]] == [hour(9).prefix]
    assert len(due.periods) == 11
    assert due.skipped == 990
    assert due.periods[-1].end_us == hour(9).end_us + 1000 * HOUR


def test_ten_thousand_hours_of_backlog_are_due_at_once() -> None:
    made = OpenPrefixes(PERIODS, 0)
    first = hour(0).begin_us
    made.see_partitions(PERIODS.at(first + n * HOUR).prefix for n in range(10_000))

    due = made.due(first + 10_000 * HOUR)

    assert due is not None
    assert len(due.periods) == 10_000
    assert [each.begin_us for each in due.periods] == [first + n * HOUR for n in range(10_000)]


def test_announcements_go_in_time_order_whatever_their_names_sort_like() -> None:
    periods = PrefixPeriods((("month", "MM-yyyy"),), "UTC")
    closed = {"month=01-2027": 0, "month=12-2026": 0, "month=11-2026": 1}

    assert next_to_announce(closed, periods) == ["month=12-2026", "month=01-2027"]
    assert next_to_announce(closed, periods, 1) == ["month=12-2026"]


def test_holders_name_who_keeps_an_hour_open_and_until_when() -> None:
    now = hour(9).end_us + 5 * MINUTE
    rule = WatermarkRule(out_of_orderness_us=MINUTE, idle_after_us=10 * MINUTE)
    sources = [
        ObservedSource(("orders", 0), 100, now, now, 100, 100),
        ObservedSource(("orders", 1), 100, hour(9).end_us - 20 * MINUTE, now - MINUTE, 150, 150),
        ObservedSource(("orders", 2), 100, hour(9).end_us - MINUTE, now - 4 * MINUTE, 100, 100),
        ObservedSource(("orders", 3), 0, None, now - 60 * MINUTE, 0, 0),
    ]
    found = route_watermark(rule, sources, now, None)

    holders = holders_of(hour(9).end_us, rule, found.verdicts, now)

    assert [each.partition for each in holders] == [1, 2]
    lagging, quiet = holders
    assert lagging.behind_records == 50
    assert lagging.expected_us is None
    assert "50 offsets are not read yet" in lagging.reason
    assert lagging.needs_us == hour(9).end_us + MINUTE
    # It would need two minutes more of events, and it is quiet enough in six.
    assert quiet.expected_us == now + 2 * MINUTE
    assert quiet.since_us == now - 4 * MINUTE
