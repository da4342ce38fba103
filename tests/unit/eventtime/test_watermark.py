"""The watermark: by position first, never falling, never by a timer alone."""

from dataclasses import replace
from typing import Any

import pytest

from sluiceway.eventtime.watermark import (
    ALL_IDLE,
    ObservedSource,
    SourceStatus,
    WatermarkRule,
    route_watermark,
)

MINUTE = 60_000_000
NOW = 1_000_000 * MINUTE
RULE = WatermarkRule(out_of_orderness_us=MINUTE, idle_after_us=5 * MINUTE)


def seen(
    number: int, event_time_us: int | None, quiet_us: int = 0, **changes: Any
) -> ObservedSource:
    """A source partition that was read to its end `quiet_us` ago."""
    made = ObservedSource(("orders", number), 100, event_time_us, NOW - quiet_us, 100, 100)
    return replace(made, **changes)


def test_watermark_is_the_least_of_those_that_hold_it_minus_out_of_orderness() -> None:
    found = route_watermark(RULE, [seen(0, NOW), seen(1, NOW - 7 * MINUTE)], NOW, None)

    assert found.us == NOW - 8 * MINUTE
    assert found.by == ""
    assert found.holders(1)[0].key == ("orders", 1)


def test_watermark_before_a_row_was_seen_is_none_however_idle_all_are() -> None:
    found = route_watermark(RULE, [seen(0, None, 60 * MINUTE)], NOW, None)

    assert found.us is None


def test_rows_of_a_retired_source_partition_count_as_seen() -> None:
    found = route_watermark(RULE, [seen(0, None, 60 * MINUTE)], NOW, None, had_rows=True)

    assert found.us == NOW - 6 * MINUTE
    assert found.by == ALL_IDLE


def test_watermark_of_no_source_partition_stays_where_it_was() -> None:
    assert route_watermark(RULE, [], NOW, 7).us == 7
    assert route_watermark(RULE, [], NOW, None).us is None


def test_watermark_that_would_fall_stays() -> None:
    found = route_watermark(RULE, [seen(0, NOW - 50 * MINUTE)], NOW, NOW - 10 * MINUTE)

    assert found.us == NOW - 10 * MINUTE


def test_source_partition_at_its_end_and_quiet_for_long_does_not_hold() -> None:
    quiet = seen(1, NOW - 60 * MINUTE, 5 * MINUTE)

    found = route_watermark(RULE, [seen(0, NOW), quiet], NOW, None)

    assert found.us == NOW - MINUTE
    assert found.verdicts[1].status is SourceStatus.IDLE


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"log_end": 101, "high_watermark": 101}, "1 offsets are not read yet"),
        ({"high_watermark": 101}, "a transaction is open since offset 100"),
        ({"log_end": None}, "no leader"),
        ({"committed_end": 101}, "below what was read"),
    ],
)
def test_source_partition_that_may_hold_rows_is_stalled_however_quiet(
    changes: dict[str, int | None], reason: str
) -> None:
    held = seen(1, NOW - 60 * MINUTE, 600 * MINUTE, **changes)

    found = route_watermark(RULE, [seen(0, NOW), held], NOW, None)

    assert found.us == NOW - 61 * MINUTE
    assert found.verdicts[1].status is SourceStatus.STALLED
    assert reason in found.verdicts[1].reason


def test_source_partition_that_is_quiet_for_less_than_idle_after_holds() -> None:
    recent = seen(1, NOW - 60 * MINUTE, 5 * MINUTE - 1)

    assert route_watermark(RULE, [seen(0, NOW), recent], NOW, None).us == NOW - 61 * MINUTE


def test_source_partition_that_nobody_has_looked_at_before_is_not_idle() -> None:
    fresh = ObservedSource(("orders", 1), 0, None, None, 0, 0)

    found = route_watermark(RULE, [seen(0, NOW), fresh], NOW, NOW - 30 * MINUTE)

    assert found.us == NOW - 30 * MINUTE
    assert found.holders(1)[0].key == ("orders", 1)


def test_source_partition_without_rows_that_is_idle_takes_no_part() -> None:
    empty = seen(1, None, 10 * MINUTE)

    assert route_watermark(RULE, [seen(0, NOW), empty], NOW, None).us == NOW - MINUTE


def test_all_idle_lets_the_watermark_rise_with_the_time_of_the_look() -> None:
    rows = [seen(0, NOW - 90 * MINUTE, 80 * MINUTE), seen(1, None, 80 * MINUTE)]

    found = route_watermark(RULE, rows, NOW, NOW - 91 * MINUTE)

    assert (found.us, found.by) == (NOW - 6 * MINUTE, ALL_IDLE)


def test_watermark_that_is_there_already_is_raised_by_nobody() -> None:
    quiet = [seen(0, NOW - 90 * MINUTE, 60 * MINUTE)]
    assert route_watermark(RULE, quiet, NOW, NOW - 6 * MINUTE).by == ""
    assert route_watermark(RULE, quiet, NOW, NOW - 6 * MINUTE - 1).by == ALL_IDLE


def test_all_idle_with_hold_leaves_the_watermark() -> None:
    rows = [seen(0, NOW - 90 * MINUTE, 80 * MINUTE)]

    found = route_watermark(replace(RULE, hold_when_idle=True), rows, NOW, 5)

    assert (found.us, found.by) == (5, "")


def test_watermark_after_all_idle_does_not_fall_when_older_rows_come() -> None:
    found = route_watermark(RULE, [seen(0, NOW - 80 * MINUTE)], NOW, NOW - 6 * MINUTE)

    assert (found.us, found.by) == (NOW - 6 * MINUTE, "")
