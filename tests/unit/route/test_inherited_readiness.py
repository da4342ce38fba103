"""Hours of a route that reads a table are closed and announced as those of that table are."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import TableMismatchError
from sluiceway.eventtime.watermark import WatermarkRule
from sluiceway.jobfile.compile.ready_rule import ReadyRule
from sluiceway.ledger.data_parts import WatermarkRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_watermark import ALL_IDLE
from sluiceway.ledger.partition_records import ReadyCause
from sluiceway.observe.log import stderr_log
from sluiceway.route.inherited_readiness import InheritedReadiness
from sluiceway.schedule.source_view import SourceView
from sluiceway.sources.contract import Inheritance, InheritedReady, SourcePartition
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.record_queue import RecordQueue
from tools.ledger_records import LEDGER
from tools.table_on_disk import TableOnDisk, table_on_disk

S = 1_000_000
EIGHT_US = 1_795_161_600 * S
NOW_US = EIGHT_US + 3600 * S
SIX, SEVEN, EIGHT = (f"dt=20261120/hr={hour:02d}" for hour in (6, 7, 8))
RULE = ReadyRule(
    WatermarkRule(), columns=(("dt", "yyyyMMdd"), ("hr", "HH")), timezone="UTC", whole_key=True
)


class Above:
    """What the table that is read says, whatever is read of it."""

    def __init__(self, watermark_us: int | None = None, *ready: tuple[str, int]) -> None:
        self.watermark_us = watermark_us
        self.ready = tuple(
            InheritedReady(LEDGER, prefix, version, 9, 10) for prefix, version in ready
        )
        self.ends: list[dict[SourcePartition, int]] = []

    def __call__(self, ends: Mapping[SourcePartition, int]) -> Inheritance | None:
        self.ends.append(dict(ends))
        return Inheritance(self.watermark_us, self.ready)


@pytest.fixture
def table(tmp_path: Path) -> TableOnDisk:
    return table_on_disk(tmp_path)


def opened(table: TableOnDisk, above: Above) -> tuple[InheritedReadiness, RecordQueue, Fold]:
    fold = table.log.fold()
    queue = RecordQueue(table.log, fold.closed)
    log = stderr_log(level="error")
    return InheritedReadiness(RULE, queue, fold, log, above), queue, fold


def view() -> SourceView:
    return SourceView({}, {}, {}, read_at_us=NOW_US)


def test_hour_is_closed_by_the_announcement_alone(table: TableOnDisk) -> None:
    table.rows(SEVEN, EIGHT, newest_us=EIGHT_US + S)
    above = Above()
    readiness, queue, fold = opened(table, above)
    readiness.close_due(fold)
    assert (queue.closed(), readiness.inherits_due(fold)) == ((), False)
    above.ready = (InheritedReady(LEDGER, SEVEN, 1, 9, 20),)
    assert readiness.inherits_due(fold)
    readiness.close_due(fold)
    assert (queue.closed(), queue.bound_us) == ((SEVEN,), None)
    assert not readiness.inherits_due(fold)
    assert above.ends[-1] == {SourcePartition("orders", 0): 20}


def test_hours_without_rows_are_closed_from_the_first_one_with_rows_on(table: TableOnDisk) -> None:
    table.rows(SEVEN)
    readiness, queue, fold = opened(table, Above(None, (SIX, 1), (SEVEN, 1), (EIGHT, 1)))
    readiness.close_due(fold)
    assert queue.closed() == (SEVEN, EIGHT)


def test_bound_is_one_that_the_own_watermark_has_reached(table: TableOnDisk) -> None:
    us = EIGHT_US - 60 * S
    mark = WatermarkRecord(BigInt(NOW_US), us=BigInt(us))
    table.rows(SEVEN, newest_us=us, mark=mark)
    readiness, queue, fold = opened(table, Above(EIGHT_US, (SEVEN, 1)))
    readiness.close_due(fold)
    assert (queue.closed(), queue.bound_us) == ((SEVEN,), us)


def test_watermark_is_that_of_the_table(table: TableOnDisk) -> None:
    table.rows(SEVEN, newest_us=EIGHT_US)
    above = Above(EIGHT_US - 60 * S)
    readiness, _, fold = opened(table, above)
    mark = readiness.mark(fold, view())
    assert (mark.us, mark.by, mark.idle) == (EIGHT_US - 60 * S, "", ())
    # Rows that the table has left out took it further than the rows that came.
    above.watermark_us = EIGHT_US + 60 * S
    ahead = readiness.mark(fold, view())
    assert (ahead.us, ahead.by) == (EIGHT_US + 60 * S, ALL_IDLE)
    assert [name.topic for name in ahead.idle] == ["orders"]
    table.rows(mark=ahead)
    table.rows(EIGHT, newest_us=EIGHT_US + 120 * S, mark=WatermarkRecord(BigInt(NOW_US)))
    above.watermark_us = EIGHT_US + 90 * S
    readiness, _, fold = opened(table, above)
    again = readiness.mark(fold, view())
    table.rows(mark=again)
    assert table.log.fold().watermark.us == EIGHT_US + 90 * S


def test_no_watermark_comes_before_what_was_closed_without_one(table: TableOnDisk) -> None:
    table.rows(SEVEN, newest_us=EIGHT_US)
    above = Above(None, (SEVEN, 1))
    readiness, queue, fold = opened(table, above)
    readiness.close_due(fold)
    above.watermark_us = EIGHT_US
    assert readiness.mark(fold, view()).us is None
    table.rows(closed=queue.closed())
    fold = table.log.fold()
    assert readiness.mark(fold, view()).us == EIGHT_US


def test_announcement_names_the_newest_one_that_it_follows(table: TableOnDisk) -> None:
    table.rows(SEVEN)
    readiness, _, fold = opened(table, Above(None, (SEVEN, 1), (EIGHT, 1), (SEVEN, 2)))
    assert readiness.cause(fold, SEVEN) == ReadyCause(LEDGER, SEVEN, 2)
    assert readiness.cause(fold, SIX) is None


def test_table_with_other_time_columns_is_named(table: TableOnDisk) -> None:
    table.rows(SEVEN)
    readiness, _, fold = opened(table, Above(None, ("day=2026-11-20", 1)))
    with pytest.raises(TableMismatchError, match=r"announces day=2026-11-20.*dt/hr"):
        readiness.close_due(fold)


def test_source_that_says_nothing_closes_nothing(table: TableOnDisk) -> None:
    table.rows(SEVEN, newest_us=EIGHT_US)
    fold = table.log.fold()
    queue = RecordQueue(table.log, fold.closed)
    log = stderr_log(level="error")
    rule = replace(RULE, lateness_us=0)
    readiness = InheritedReadiness(rule, queue, fold, log, lambda _: None)
    assert readiness.idle_mark(fold, view()) is None
    assert readiness.mark(fold, view()).us is None
