"""Which partitions are too old: by event time, never an open one."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.jobfile.compile import retention
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.compile.retention import RetentionRule, expired_by_age
from sluiceway.jobfile.loader import load_job
from sluiceway.ledger.data_parts import SourceName, WatermarkRecord
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.partition_bodies import expire_body, intent_body, ready_body
from tools.table_on_disk import TableOnDisk, table_on_disk

S = 1_000_000
HOUR = 3600 * S
EIGHT_US = 1_795_161_600 * S
SIX, SEVEN, EIGHT = (f"dt=20261120/hr={hour:02d}" for hour in (6, 7, 8))
COLUMNS = (("dt", "yyyyMMdd"), ("hr", "HH"))
RULE = RetentionRule(
    keep_us=2 * HOUR, text="2h", drop=False, columns=COLUMNS, timezone="UTC", announced=False
)
NOW = EIGHT_US + 1000 * HOUR


@pytest.fixture
def table(tmp_path: Path) -> TableOnDisk:
    return table_on_disk(tmp_path, partitions=2)


def old(table: TableOnDisk, rule: RetentionRule = RULE, now_us: int = NOW) -> list[str]:
    return expired_by_age(table.log.fold(), rule, now_us)


def at(table: TableOnDisk, us: int, *partitions: str) -> None:
    for source in (0, 1):
        table.rows(*(partitions or (EIGHT,)), source=source, newest_us=us)


def announce(table: TableOnDisk, prefix: str) -> None:
    table.writer.commit(lambda fold: ready_body(fold, prefix) or pytest.fail(prefix))
    table.writer.set_published()


def test_partition_goes_when_all_source_partitions_are_that_far_behind_its_end(
    table: TableOnDisk,
) -> None:
    table.rows(SIX, SEVEN, EIGHT, newest_us=EIGHT_US + 2 * HOUR)
    assert old(table) == [], "the other source partition may have rows for it"
    table.rows(EIGHT, source=1, newest_us=EIGHT_US + HOUR - 1)
    assert old(table) == []
    table.rows(EIGHT, source=1, newest_us=EIGHT_US + HOUR)
    assert old(table) == [SIX]
    table.rows(EIGHT, source=1, newest_us=EIGHT_US + 2 * HOUR)
    assert old(table) == [SIX, SEVEN]


def test_rows_of_the_future_make_nothing_older_than_the_clock_does(table: TableOnDisk) -> None:
    at(table, EIGHT_US + 100 * HOUR, SIX, EIGHT)
    assert old(table, now_us=EIGHT_US + HOUR - 1) == []
    assert old(table, now_us=EIGHT_US + HOUR) == [SIX]


def test_expired_ones_and_those_that_are_worked_on_are_left_out(table: TableOnDisk) -> None:
    at(table, EIGHT_US + 100 * HOUR, SIX, SEVEN, EIGHT)
    table.writer.commit(lambda fold: expire_body(fold, [SIX], "gone") or pytest.fail(SIX))
    table.writer.set_published()
    table.writer.commit(lambda fold: intent_body(fold, SEVEN, "compact") or pytest.fail(SEVEN))
    assert old(table) == [EIGHT]


def test_so_many_go_at_once_and_the_oldest_first(
    table: TableOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "MOST_AT_ONCE", 2)
    at(table, EIGHT_US + 100 * HOUR, EIGHT, SEVEN, SIX)
    assert old(table) == [SIX, SEVEN]


def test_what_is_no_time_of_the_table_stays(table: TableOnDisk) -> None:
    at(table, EIGHT_US + 100 * HOUR, "dt=x/hr=08", EIGHT)
    assert old(table) == [EIGHT]


def test_where_times_are_announced_none_goes_that_is_not_or_has_late_rows(
    table: TableOnDisk,
) -> None:
    rule = replace(RULE, announced=True)
    table.rows(SIX, SEVEN, newest_us=EIGHT_US + 5 * HOUR)
    assert old(table, rule) == []
    marked = WatermarkRecord(BigInt(NOW), BigInt(EIGHT_US + 4 * HOUR))
    table.rows(EIGHT, source=1, newest_us=EIGHT_US + 4 * HOUR, mark=marked)
    assert old(table, rule) == []
    bound = WatermarkRecord(BigInt(NOW), bound_us=BigInt(EIGHT_US))
    table.rows(closed=(SIX, SEVEN), mark=bound)
    assert old(table, rule) == []
    for prefix in (SIX, SEVEN):
        announce(table, prefix)
    assert old(table, rule) == [SIX, SEVEN]
    table.rows(SIX)
    assert old(table, rule) == [SEVEN]


def test_clock_that_runs_ahead_while_all_are_idle_makes_nothing_older(table: TableOnDisk) -> None:
    rule = replace(RULE, announced=True)
    at(table, EIGHT_US + 10, SEVEN, EIGHT)
    ahead = NOW + 10 * 365 * 24 * HOUR
    idle = tuple(SourceName("orders", number) for number in (0, 1))
    mark = WatermarkRecord(BigInt(ahead), BigInt(ahead - HOUR), by="all_idle", idle=idle)
    table.rows(mark=mark)
    bound = WatermarkRecord(BigInt(ahead), bound_us=BigInt(EIGHT_US + HOUR))
    table.rows(closed=(SEVEN, EIGHT), mark=bound)
    for prefix in (SEVEN, EIGHT):
        announce(table, prefix)
    assert old(table, rule, now_us=ahead) == []
    table.rows("dt=20261120/hr=11", newest_us=EIGHT_US + 2 * HOUR)
    assert old(table, rule, now_us=ahead) == [SEVEN]


def test_rule_comes_from_the_job_file(tmp_path: Path) -> None:
    table = table_on_disk(tmp_path, more="retention: {partitions: 90d, drop: true}")
    (route,) = load_job(table.job).spec.routes
    found = compile_route(route).retention
    assert found == RetentionRule(
        keep_us=90 * 24 * HOUR,
        text="90d",
        drop=True,
        columns=COLUMNS,
        timezone="UTC",
        announced=False,
    )
