"""Why a time is announced or not, in the driver's own reasoning."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from sluiceway.audit.format_times import moment
from sluiceway.audit.partition_states import ObservedCounts, TimeRule, observed_prefixes
from sluiceway.audit.partition_why import NEVER, Reason, WaitExplanation, explain, with_driver
from sluiceway.audit.rooms import with_lost_room
from sluiceway.eventtime.readiness import CountRule
from sluiceway.eventtime.watermark import SourceStatus, WatermarkRule
from sluiceway.jobfile.compile.ready_rule import CountsRule, ReadyRule
from sluiceway.ledger.data_parts import HeldByRecord, SourceName, WatermarkRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.room_files import RoomReport
from sluiceway.sources.side_topics import SideTopic
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.partition_bodies import counts_body, expire_body, intent_body, ready_body
from tools.table_on_disk import TableOnDisk, table_on_disk

S = 1_000_000
HOUR = 3600 * S
COLUMNS = (("dt", "yyyyMMdd"), ("hr", "HH"))
READY = ReadyRule(
    WatermarkRule(out_of_orderness_us=60 * S, idle_after_us=300 * S),
    COLUMNS,
    "UTC",
    whole_key=True,
    lateness_us=120 * S,
)
RULE = TimeRule(READY.periods(), announces=True, due_us=480 * S)
FIVE, SIX, SEVEN, EIGHT, NINE = (f"dt=20261120/hr={hour:02d}" for hour in range(5, 10))
EIGHT_US = 1_795_161_600 * S
NOW = EIGHT_US + HOUR // 2


@pytest.fixture
def table(tmp_path: Path) -> TableOnDisk:
    return table_on_disk(tmp_path, partitions=2)


def why(
    table: TableOnDisk, asked: str, *, now_us: int = NOW, ready: ReadyRule | None = READY
) -> WaitExplanation:
    return explain(table.log.fold(), ready, RULE, asked, now_us)


def mark(at_us: int, us: int | None = None) -> WatermarkRecord:
    return WatermarkRecord(BigInt(at_us), None if us is None else BigInt(us))


def half_past_eight(table: TableOnDisk) -> None:
    """Partition 0 is at 08:29, partition 1 at 07:10 with 40 offsets unread; watermark 07:09."""
    slow_us = EIGHT_US - 50 * 60 * S
    table.rows(SEVEN, source=1, newest_us=slow_us, mark=mark(NOW - 600 * S))
    held = HeldByRecord("orders", 1, BigInt(50), BigInt(50))
    marked = replace(mark(NOW - S, slow_us - 60 * S), held_by=(held,))
    table.rows(SEVEN, EIGHT, newest_us=NOW - 60 * S, mark=marked)


def test_lagging_source_partition_is_named_with_how_far_it_is_and_since_when(
    table: TableOnDisk,
) -> None:
    half_past_eight(table)
    found = why(table, SEVEN)
    (holder,) = found.holders
    assert (found.reason, found.state) == (Reason.HELD, "overdue")
    assert (holder.topic, holder.partition, holder.status) == ("orders", 1, SourceStatus.STALLED)
    assert (holder.behind_records, holder.at_us) == (40, EIGHT_US - 50 * 60 * S)
    assert holder.needs_us == EIGHT_US + 180 * S
    assert found.needs_us == EIGHT_US + 120 * S
    assert found.expected_us is None
    assert found.text == (
        "orders[1] holds it: it is at 2026-11-20T07:10:00Z and has to be at 2026-11-20T08:03:00Z, "
        "40 offsets are not read yet, last rows 10m ago. "
        "The watermark is 2026-11-20T07:09:00Z; "
        "the time closes when it reaches 2026-11-20T08:02:00Z"
    )


def test_quiet_source_partition_is_expected_to_become_idle(table: TableOnDisk) -> None:
    slow_us = EIGHT_US - 50 * 60 * S
    table.rows(SEVEN, source=1, newest_us=slow_us, mark=mark(NOW - 100 * S))
    table.rows(EIGHT, newest_us=NOW - 60 * S, mark=mark(NOW - S, slow_us - 60 * S))
    found = why(table, SEVEN)
    (holder,) = found.holders
    assert (found.reason, holder.partition, holder.status) == (Reason.HELD, 1, "active")
    assert found.expected_us == NOW - 100 * S + 300 * S


def test_partition_that_never_had_a_row_is_held_as_any_other(table: TableOnDisk) -> None:
    table.rows(FIVE, newest_us=EIGHT_US - 2 * HOUR - S, mark=mark(NOW - 900 * S))
    idle = (SourceName("orders", 1),)
    later = replace(mark(NOW - 500 * S, EIGHT_US - 2 * HOUR - 61 * S), idle=idle)
    table.rows(FIVE, newest_us=EIGHT_US - 2 * HOUR - S, mark=later)
    found = why(table, SIX)
    assert (found.reason, found.rows, [each.partition for each in found.holders]) == (
        "held",
        0,
        [0],
    )
    assert why(table, "dt=20261120/hr=04").reason is Reason.BEFORE_FIRST_ROW


def test_time_that_is_not_over_says_when_it_is(table: TableOnDisk) -> None:
    table.rows(EIGHT, newest_us=NOW - 60 * S, mark=mark(NOW - S))
    marked = mark(NOW - S, NOW - 120 * S)
    table.rows(EIGHT, source=1, newest_us=NOW - 60 * S, mark=marked)
    found = why(table, EIGHT)
    assert (found.reason, found.expected_us) == (Reason.NOT_OVER, EIGHT_US + HOUR + 180 * S)
    assert found.text.startswith("its time ends at 2026-11-20T09:00:00Z")
    assert why(table, "dt=20301120/hr=08").reason is Reason.NOT_OVER


def test_time_that_is_not_over_names_who_lags_already(table: TableOnDisk) -> None:
    half_past_eight(table)
    found = why(table, EIGHT)
    assert (found.reason, found.expected_us) == (Reason.NOT_OVER, None)
    assert ". orders[1] holds it: " in found.text


def all_idle(table: TableOnDisk) -> None:
    """One hour of rows, then silence until the watermark is 07:54 by the clock."""
    table.rows(SIX, newest_us=EIGHT_US - HOUR - 2 * S, mark=mark(EIGHT_US - 900 * S))
    idle = (SourceName("orders", 0), SourceName("orders", 1))
    us = EIGHT_US - 360 * S
    table.rows(mark=replace(mark(EIGHT_US, us), by="all_idle", idle=idle))


def test_all_quiet_waits_for_the_clock_alone(table: TableOnDisk) -> None:
    all_idle(table)
    found = why(table, SEVEN)
    assert (found.reason, found.holders) == (Reason.IDLE, ())
    assert found.expected_us == EIGHT_US + (120 + 60 + 300) * S
    assert why(table, SIX).reason is Reason.CLOSING


def closed_six_and_seven(table: TableOnDisk) -> None:
    all_idle(table)
    us = EIGHT_US + 240 * S
    table.rows(mark=replace(mark(EIGHT_US + 600 * S, us), by="all_idle"))
    bound = replace(mark(EIGHT_US + 601 * S), bound_us=BigInt(EIGHT_US + 120 * S))
    table.rows(closed=(SIX, SEVEN), mark=bound)


def announce(table: TableOnDisk, prefix: str, at_us: int | None = None) -> None:
    table.writer.commit(lambda fold: ready_body(fold, prefix, at_us) or pytest.fail(prefix))
    table.writer.set_published()


def test_closed_time_waits_for_those_before_it_and_for_what_has_to_happen(
    table: TableOnDisk,
) -> None:
    closed_six_and_seven(table)
    assert why(table, SIX).reason is Reason.ANNOUNCING
    lost = RoomReport(
        *("b", 1, "d", "h", 2, "d", True, True, (), None, 2, 1),
        lost_room="a",
        lost_ms=EIGHT_US // 1000,
    )
    found = with_lost_room(why(table, SIX), lost)
    assert found.reason is Reason.LOST_ROOM
    assert "room a may have rows of it" in found.text
    before_six = replace(lost, lost_ms=(EIGHT_US - 2 * HOUR) // 1000)
    assert with_lost_room(why(table, SIX), before_six).reason is Reason.ANNOUNCING
    assert f"{SIX} is announced before it" in why(table, SEVEN).text
    assert why(table, SEVEN).reason is Reason.IN_ORDER
    table.writer.commit(lambda fold: intent_body(fold, SIX, "compact") or pytest.fail(SIX))
    assert why(table, SIX).reason is Reason.COMPACTING
    assert "being merged since slot" in why(table, SIX).text


def test_announced_time_says_so_and_whether_the_metastore_is_known_to_show_it(
    table: TableOnDisk,
) -> None:
    closed_six_and_seven(table)
    announce(table, SIX, EIGHT_US + 602 * S)
    found = why(table, f"{SIX}/app=a")
    assert (found.prefix, found.reason, found.version, found.shown) == (SIX, "ready", 1, False)
    assert "announced at 2026-11-20T08:10:02Z, version 1" in found.text
    table.writer.set_effects(table.writer.fold.next_seq)
    announce(table, SEVEN)
    assert why(table, SIX).shown is True
    table.rows(SIX, rows=3)
    found = why(table, SIX)
    assert (found.reason, found.state) == (Reason.LATE_ROWS, "late")
    assert "Rows have come since" in found.text
    table.writer.commit(lambda fold: expire_body(fold, [SIX], "gone") or pytest.fail(SIX))
    assert why(table, SIX).reason is Reason.EXPIRED


def test_what_is_never_announced_says_why(table: TableOnDisk) -> None:
    assert why(table, SEVEN).reason is Reason.NO_ROWS_YET
    assert why(table, "app=a").reason is Reason.NO_TIME
    assert "dt=yyyyMMdd/hr=HH" in why(table, "dt=20261120").text
    assert why(table, SEVEN, ready=None).reason is Reason.NOT_ANNOUNCED


def test_times_left_out_among_many_without_rows_are_told(table: TableOnDisk) -> None:
    all_idle(table)
    us = EIGHT_US + 240 * S
    table.rows(mark=replace(mark(EIGHT_US + 600 * S, us), by="all_idle"))
    bound = replace(mark(EIGHT_US + 601 * S), bound_us=BigInt(EIGHT_US + 120 * S))
    table.rows(closed=(FIVE, SEVEN), mark=bound)
    table.rows(SIX, newest_us=EIGHT_US - HOUR - S, mark=mark(EIGHT_US + 602 * S))
    assert why(table, SIX).reason is Reason.CLOSING
    assert explain(without_six(table), READY, RULE, SIX, NOW).reason is Reason.LEFT_OUT


def without_six(table: TableOnDisk) -> Fold:
    fold = table.log.fold()
    del fold.partitions[SIX]
    return fold


COUNTED = replace(READY, counts=CountsRule(SideTopic((), "audit"), CountRule()))
ALONE = replace(READY, counts=CountsRule(SideTopic((), "audit"), CountRule(alone=True)))


def count(table: TableOnDisk, **rows: int) -> None:
    """Somebody has counted hours: `h08=10`."""
    counts = {f"dt=20261120/hr={name[1:]}": number for name, number in rows.items()}
    log = ("audit", "c", "t")
    table.writer.commit_made(lambda fold: counts_body(fold, (), log, {0: 1}, counts))
    table.writer.set_published()


def past_seven(table: TableOnDisk) -> None:
    """Rows at six and seven, and a watermark that has passed both."""
    table.rows(SIX, SEVEN, newest_us=EIGHT_US + 300 * S)
    marked = mark(NOW - S, EIGHT_US + 240 * S)
    table.rows(EIGHT, source=1, newest_us=EIGHT_US + 300 * S, mark=marked)


def test_missing_count_and_missing_rows_are_told_with_what_is_there(table: TableOnDisk) -> None:
    past_seven(table)
    none = why(table, SIX, ready=COUNTED)
    assert (none.reason, none.state, none.counts) == ("counts", "overdue", ObservedCounts(10, None))
    assert none.text == "counts: no count has come for it, and 10 rows are there"
    count(table, h06=1012)
    found = why(table, SIX, ready=COUNTED)
    assert (found.reason, found.text) == ("counts", "counts: have 10 of 1,012 rows")
    assert asdict(found)["counts"] == {"have": 10, "expected": 1012}
    behind = why(table, SEVEN, ready=COUNTED)
    assert behind.reason is Reason.IN_ORDER
    assert behind.text == (
        f"{SIX} is closed before it: counts: have 10 of 1,012 rows. "
        "Its own counts: no count has come for it, and 10 rows are there"
    )


def test_count_that_is_there_leaves_the_reason_to_what_holds_else(table: TableOnDisk) -> None:
    past_seven(table)
    count(table, h06=10)
    found = why(table, SIX, ready=COUNTED)
    assert (found.reason, found.counts) == (Reason.CLOSING, ObservedCounts(10, 10))
    open_still = why(table, EIGHT, ready=COUNTED)
    assert open_still.reason is Reason.NOT_OVER
    assert open_still.text.endswith(
        "Its own counts: no count has come for it, and 10 rows are there"
    )
    table.rows(closed=(SIX,), mark=replace(mark(NOW), bound_us=BigInt(EIGHT_US)))
    closed = why(table, SIX, ready=COUNTED)
    assert (closed.reason, closed.counts) == (Reason.ANNOUNCING, None)


def test_hour_behind_a_closed_one_waits_for_its_count_or_the_watermark(table: TableOnDisk) -> None:
    alone = replace(COUNTED, counts=CountsRule(SideTopic((), "audit"), CountRule(alone=True)))
    table.rows(SEVEN, mark=mark(NOW))
    table.rows(SIX, mark=mark(NOW + S))
    count(table, h07=10)
    table.rows(closed=(SEVEN,), mark=mark(NOW + 2 * S))
    six = why(table, SIX, ready=alone)
    assert six.reason is Reason.COUNTS
    assert six.text == (
        "counts: no count has come for it, and 10 rows are there; "
        "it waits for them, or for the watermark"
    )
    seven = why(table, SEVEN, ready=alone)
    assert seven.reason is Reason.IN_ORDER
    assert seven.text.endswith(f"{SIX} is open, and announced before it")


def test_hour_before_since_says_nothing_of_counts(table: TableOnDisk) -> None:
    past_seven(table)
    decide = CountRule(since_us=EIGHT_US)
    since = replace(READY, counts=CountsRule(SideTopic((), "audit"), decide))
    found = why(table, SEVEN, ready=since)
    assert (found.reason, found.counts) == (Reason.CLOSING, None)


def test_counts_alone_name_no_source_partition(table: TableOnDisk) -> None:
    half_past_eight(table)
    count(table, h07=30)
    found = why(table, SEVEN, ready=ALONE)
    assert (found.reason, found.text) == ("counts", "counts: have 20 of 30 rows")
    assert found.holders == ()
    assert why(table, EIGHT, ready=ALONE).reason is Reason.NOT_OVER
    count(table, h07=20)
    assert why(table, SEVEN, ready=ALONE).reason is Reason.CLOSING


def test_dirty_rows_are_named_where_rows_are_missing(table: TableOnDisk) -> None:
    past_seven(table)
    count(table, h06=12)
    fold = table.log.fold()
    fold.counts = replace(fold.counts, dirty=BigInt(2))
    found = explain(fold, COUNTED, RULE, SIX, NOW)
    assert found.text == "counts: have 10 of 12 rows; 2 dirty rows of the route are open"


def test_counted_hour_without_a_row_is_listed(table: TableOnDisk) -> None:
    past_seven(table)
    count(table, h05=7)
    found = observed_prefixes(table.log.fold(), RULE, NOW)
    five = next(each for each in found if each.prefix == FIVE)
    assert (five.state, five.rows, five.expected_rows) == ("overdue", 0, 7)
    assert [each.expected_rows for each in found if each.prefix == SIX] == [None]


def test_source_partition_that_never_had_a_row_is_named_with_when_it_counts_as_idle(
    table: TableOnDisk,
) -> None:
    seen_us = EIGHT_US + 300 * S
    table.rows(SEVEN, newest_us=seen_us, mark=mark(seen_us))
    found = why(table, SEVEN)
    assert (found.reason, found.watermark_us, found.rows) == (Reason.HELD, None, 10)
    (holder,) = found.holders
    assert (holder.topic, holder.partition, holder.at_us) == ("orders", 1, None)
    assert (holder.since_us, holder.expected_us) == (seen_us, seen_us + 300 * S)
    assert found.expected_us == seen_us + 300 * S
    assert found.text == (
        "orders[1] holds it: it has never had a row, was seen first 25m ago (2026-11-20T08:05:00Z),"
        " and counts as idle from 2026-11-20T08:10:00Z on (`idle_after`). "
        "There is no watermark yet; the time closes when it reaches 2026-11-20T08:02:00Z"
    )


def test_source_partition_without_a_row_is_named_where_the_time_is_not_over(
    table: TableOnDisk,
) -> None:
    table.rows(EIGHT, newest_us=NOW - S, mark=mark(NOW))
    found = why(table, EIGHT)
    assert (found.reason, [each.partition for each in found.holders]) == (Reason.NOT_OVER, [1, 0])
    assert "orders[1] holds it: it has never had a row" in found.text


def test_time_before_the_first_row_is_not_open_and_not_given_up_before_the_watermark(
    table: TableOnDisk,
) -> None:
    table.rows(SEVEN, newest_us=EIGHT_US - S, mark=mark(EIGHT_US))
    early = why(table, FIVE)
    assert (early.reason, early.state) == (Reason.EARLIER_THAN_ROWS, None)
    assert early.reason not in NEVER
    table.rows(SEVEN, source=1, newest_us=EIGHT_US - S, mark=mark(NOW, EIGHT_US - 61 * S))
    passed = why(table, FIVE)
    assert (passed.reason, passed.state) == (Reason.BEFORE_FIRST_ROW, None)
    assert passed.reason in NEVER


def test_rows_that_are_all_dirty_are_told_of_a_table_without_rows(table: TableOnDisk) -> None:
    fold = table.log.fold()
    fold.counts = replace(fold.counts, read=BigInt(7), dirty=BigInt(7))
    found = explain(fold, READY, RULE, SEVEN, NOW)
    assert found.reason is Reason.NO_ROWS_YET
    assert "7 were read, and 7 of them are dirty (`sluiceway dirty list" in found.text


def test_ledger_from_before_the_block_ready_names_nobody(table: TableOnDisk) -> None:
    table.rows(SEVEN, newest_us=EIGHT_US - S)
    found = why(table, SEVEN)
    assert (found.reason, found.holders) == (Reason.NOT_LOOKED_AT, ())


def test_without_a_driver_nothing_is_expected(table: TableOnDisk) -> None:
    table.rows(SEVEN, newest_us=EIGHT_US - S, mark=mark(EIGHT_US))
    alone = with_driver(why(table, SEVEN), runs=False)
    assert (alone.driver_runs, alone.expected_us) == (False, None)
    assert alone.text.endswith("until one does: `sluiceway status JOB`, `sluiceway run JOB`")
    assert alone.holders[0].expected_us == EIGHT_US + 300 * S
    halted = with_driver(why(table, SEVEN), runs=False, halted="SW455").text
    assert halted.endswith("has halted with SW455: `sluiceway status JOB` says what to do")
    driven = with_driver(why(table, SEVEN), runs=True)
    assert (driven.text, driven.driver_runs) == (why(table, SEVEN).text, True)
    assert driven.expected_us == EIGHT_US + 300 * S


def test_moment_of_a_holder_that_is_over_is_told_as_over_and_not_at_all_without_a_driver(
    table: TableOnDisk,
) -> None:
    slow_us = EIGHT_US - 50 * 60 * S
    table.rows(SEVEN, source=1, newest_us=slow_us, mark=mark(NOW - 400 * S))
    table.rows(EIGHT, newest_us=NOW - 60 * S, mark=mark(NOW - 350 * S, slow_us - 60 * S))
    found = why(table, SEVEN)
    at = found.expected_us
    assert at is not None
    assert at < NOW
    assert f", was expected at {moment(at)}" in found.text
    alone = with_driver(found, runs=False)
    assert "expected at" not in alone.text
