"""How far partitions are, by the ledger alone."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.audit.partition_states import (
    ObservedPrefix,
    PartitionProgress,
    TimeRule,
    is_within,
    listed_prefixes,
    observed_prefixes,
    parse_edge,
)
from sluiceway.errors import WrongUsageError
from sluiceway.eventtime.prefix_periods import PrefixPeriods
from sluiceway.ledger.data_parts import LateRows
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.partition_bodies import expire_body, ready_body
from tools.ledger_records import data, span
from tools.table_on_disk import TableOnDisk, table_on_disk

HOUR_US = 3_600_000_000
DAY = "dt=20261120"
SIX, SEVEN, EIGHT = (f"{DAY}/hr={hour:02d}" for hour in (6, 7, 8))
EIGHT_US = 1_795_161_600_000_000
RULE = TimeRule(PrefixPeriods([("dt", "yyyyMMdd"), ("hr", "HH")], "UTC"))


@pytest.fixture
def table(tmp_path: Path) -> TableOnDisk:
    return table_on_disk(tmp_path)


def seen(table: TableOnDisk, rule: TimeRule = RULE, now_us: int = 0) -> dict[str, ObservedPrefix]:
    return {each.prefix: each for each in observed_prefixes(table.log.fold(), rule, now_us)}


def states(table: TableOnDisk, rule: TimeRule = RULE, now_us: int = 0) -> dict[str, str]:
    return {name: each.state.value for name, each in seen(table, rule, now_us).items()}


def announce(table: TableOnDisk, prefix: str, at_us: int | None = None) -> None:
    table.writer.commit(
        lambda fold: ready_body(fold, prefix, at_us) or pytest.fail("nothing to announce")
    )
    table.writer.set_published()


def expire(table: TableOnDisk, *partitions: str) -> None:
    table.writer.commit(
        lambda fold: expire_body(fold, partitions, "dropped") or pytest.fail("nothing to expire")
    )
    table.writer.set_published()


def test_partition_goes_from_open_through_closed_ready_and_late_to_ready_again(
    table: TableOnDisk,
) -> None:
    table.rows(SEVEN, EIGHT)
    assert states(table) == {SEVEN: "open", EIGHT: "open"}
    table.rows(EIGHT, closed=(SEVEN,))
    assert states(table) == {SEVEN: "closed", EIGHT: "open"}
    announce(table, SEVEN, EIGHT_US + 90_000_000)
    assert states(table) == {SEVEN: "ready", EIGHT: "open"}
    assert seen(table)[SEVEN].delay_us == 90_000_000
    table.rows(SEVEN, EIGHT)
    found = seen(table)[SEVEN]
    assert (found.state, found.version, found.rows, found.files) == (
        PartitionProgress.LATE,
        1,
        20,
        2,
    )
    assert found.late_rows == 10
    announce(table, SEVEN)
    found = seen(table)[SEVEN]
    assert (found.state, found.version, found.size_bytes) == (PartitionProgress.READY, 2, 2000)
    assert (found.delay_us, found.late_rows) == (None, 10)
    assert (found.begin_us, found.end_us) == (EIGHT_US - HOUR_US, EIGHT_US)


def test_late_rows_that_are_kept_aside_are_counted_and_change_nothing(table: TableOnDisk) -> None:
    table.rows(SEVEN, EIGHT)
    table.rows(EIGHT, closed=(SEVEN,))
    announce(table, SEVEN)
    fold = table.writer.fold
    end = fold.sources["orders", 0].end
    body = data(fold.term, fold.last_epoch + 1, span(0, end, end + 4))
    (file,) = body.files
    aside = table.log.layout.late_relative(SEVEN, file.final.rpartition("/")[2])
    four = BigInt(4)
    table.writer.commit(
        replace(
            body,
            files=(),
            late_files=(replace(file, final=aside),),
            late_rows=LateRows(side=four),
            counts=replace(body.counts, written=BigInt(0), late=four),
        )
    )
    table.writer.set_published()
    found = seen(table)[SEVEN]
    assert (found.state, found.rows, found.late_rows) == (PartitionProgress.READY, 10, 4)


def test_hour_without_rows_that_was_announced_is_ready_and_empty(table: TableOnDisk) -> None:
    table.rows(SIX, EIGHT)
    table.rows(EIGHT, closed=(SIX, SEVEN))
    announce(table, SIX)
    announce(table, SEVEN)
    found = seen(table)
    assert list(found) == [SIX, SEVEN, EIGHT]
    assert (found[SEVEN].state, found[SEVEN].rows, found[SEVEN].partitions) == ("ready", 0, ())


def test_only_what_is_announced_at_all_is_ever_overdue(table: TableOnDisk) -> None:
    table.rows(SEVEN, EIGHT, closed=())
    table.rows(EIGHT, closed=(SIX,))
    late_us = EIGHT_US + HOUR_US
    assert states(table, RULE, late_us) == {SIX: "closed", SEVEN: "open", EIGHT: "open"}
    rule = replace(RULE, announces=True, due_us=60_000_000)
    assert states(table, rule, EIGHT_US + 60_000_000) == {
        SIX: "overdue",
        SEVEN: "open",
        EIGHT: "open",
    }
    assert states(table, rule, EIGHT_US + 60_000_001)[SEVEN] == "overdue"
    announce(table, SIX)
    assert states(table, rule, late_us)[SIX] == "ready"


def test_hours_that_are_over_and_have_no_row_are_listed_up_to_the_clock(table: TableOnDisk) -> None:
    rule = replace(RULE, announces=True, due_us=600_000_000)
    fold = table.log.fold()
    assert listed_prefixes(fold, rule, EIGHT_US) == []
    table.rows(SIX, EIGHT)
    now_us = EIGHT_US + 2 * HOUR_US + HOUR_US // 2
    found = {each.prefix: each.describe for each in listed_prefixes(table.log.fold(), rule, now_us)}
    nine, ten, eleven = (f"{DAY}/hr={hour:02d}" for hour in (9, 10, 11))
    assert found == {
        SIX: "overdue",
        SEVEN: "overdue, no row yet",
        EIGHT: "overdue",
        nine: "overdue, no row yet",
    }
    just_over = {
        each.prefix: each.describe
        for each in listed_prefixes(table.log.fold(), rule, EIGHT_US + 3 * HOUR_US + 1)
    }
    assert (just_over[ten], just_over.get(eleven)) == ("open, no row yet", None)
    table.rows(EIGHT, closed=(SIX, SEVEN))
    names = [each.prefix for each in listed_prefixes(table.log.fold(), rule, now_us)]
    assert names == [SIX, SEVEN, EIGHT, nine]
    assert [each.prefix for each in listed_prefixes(table.log.fold(), RULE, now_us)] == names[:3]


def test_expired_partition_shows_nothing_until_rows_come_again(table: TableOnDisk) -> None:
    table.rows(SEVEN, EIGHT)
    table.rows(EIGHT, closed=(SEVEN,))
    announce(table, SEVEN)
    expire(table, SEVEN)
    found = seen(table)[SEVEN]
    assert (found.state, found.rows, found.files, found.version) == (
        PartitionProgress.EXPIRED,
        0,
        0,
        1,
    )
    assert [each.expired for each in found.partitions] == [True]
    table.rows(SEVEN, rows=3)
    found = seen(table)[SEVEN]
    assert (found.state, found.rows) == (PartitionProgress.LATE, 3)
    assert found.partitions[0].location != SEVEN


def test_partitions_of_one_time_are_one_line_and_expire_one_by_one(table: TableOnDisk) -> None:
    table.rows(f"{EIGHT}/app=a", f"{EIGHT}/app=b", f"{SEVEN}/app=a")
    found = seen(table)
    assert list(found) == [SEVEN, EIGHT]
    assert [each.partition for each in found[EIGHT].partitions] == [
        f"{EIGHT}/app=a",
        f"{EIGHT}/app=b",
    ]
    expire(table, f"{EIGHT}/app=a")
    found = seen(table)
    assert (found[EIGHT].state, found[EIGHT].rows) == (PartitionProgress.OPEN, 10)
    assert [each.expired for each in found[EIGHT].partitions] == [True, False]
    expire(table, f"{EIGHT}/app=b")
    assert states(table) == {SEVEN: "open", EIGHT: "expired"}


def test_table_without_times_has_a_line_a_partition(table: TableOnDisk) -> None:
    table.rows("app=a", "app=b")
    found = seen(table, TimeRule(None))
    assert {name: each.state for name, each in found.items()} == {"app=a": "open", "app=b": "open"}
    assert found["app=a"].begin_us is None


@pytest.mark.parametrize(
    ("start", "stop", "wanted"),
    [
        (None, None, [SIX, SEVEN, EIGHT]),
        (SEVEN, None, [SEVEN, EIGHT]),
        (None, SEVEN, [SIX]),
        ("2026-11-20T07:00:00Z", "2026-11-20T09:00:00+01:00", [SEVEN]),
        (DAY, "dt=20261121", [SIX, SEVEN, EIGHT]),
        ("dt=20261121", None, []),
        ("2026-11-20T06:30:00Z", None, [SEVEN, EIGHT]),
    ],
)
def test_range_is_half_open_by_folder_and_by_time(
    table: TableOnDisk, start: str | None, stop: str | None, wanted: list[str]
) -> None:
    table.rows(SIX, SEVEN, EIGHT)
    edges = [None if text is None else parse_edge(text, RULE) for text in (start, stop)]
    found = observed_prefixes(table.log.fold(), RULE, 0)
    assert [each.prefix for each in found if is_within(each, *edges)] == wanted


def test_folder_is_a_time_in_the_zone_of_the_table_whatever_its_names_look_like() -> None:
    columns = [("d", "dd-MM-yyyy")]
    rule = TimeRule(PrefixPeriods(columns, "Europe/Berlin"), timezone="Europe/Berlin")
    moment = parse_edge("2027-01-02T00:00:00+01:00", rule)
    assert moment.us is not None
    assert parse_edge("d=02-01-2027", rule).us == moment.us


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-20", "2026-11-20T08:00:00"])
def test_end_of_a_range_that_is_no_folder_and_no_time_is_refused(text: str) -> None:
    with pytest.raises(WrongUsageError, match="no folder and no time"):
        parse_edge(text, RULE)


def test_time_is_refused_for_a_table_that_has_none() -> None:
    with pytest.raises(WrongUsageError, match="say no time"):
        parse_edge("2026-11-20T08:00:00Z", TimeRule(None))
