"""A route's readiness between its ledger and the pure rules: what is closed and announced when."""

from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.eventtime.watermark import WatermarkRule
from sluiceway.job.desk import RouteDesk
from sluiceway.job.ready_rule import ReadyRule
from sluiceway.job.route_readiness import RouteReadiness
from sluiceway.job.source_view import SourceView
from sluiceway.observe.log import stderr_log
from sluiceway.sources.contract import LogBounds, SourcePartition
from tools.table_on_disk import TableOnDisk, table_on_disk

S = 1_000_000
HOUR = 3600 * S
EIGHT_US = 1_795_161_600 * S
SEVEN, EIGHT = "dt=20261120/hr=07", "dt=20261120/hr=08"
RULE = ReadyRule(
    WatermarkRule(), columns=(("dt", "yyyyMMdd"), ("hr", "HH")), timezone="UTC", whole_key=True
)


class Asked:
    """What has to happen before READY, and never does."""

    def __init__(self) -> None:
        self.prefixes: list[str] = []

    def is_done(self, prefix: str) -> bool:
        self.prefixes.append(prefix)
        return False


@pytest.fixture
def table(tmp_path: Path) -> TableOnDisk:
    return table_on_disk(tmp_path)


def readiness(table: TableOnDisk) -> RouteReadiness:
    fold = table.log.fold()
    return RouteReadiness(RULE, RouteDesk(table.log, fold.closed), fold, stderr_log(level="error"))


def test_time_without_rows_waits_for_nothing_before_it_is_announced(table: TableOnDisk) -> None:
    table.rows(EIGHT)
    table.rows(closed=(SEVEN,))
    made, before = readiness(table), Asked()
    made.before = before
    assert made.to_announce(table.log.fold()) == SEVEN
    assert before.prefixes == []
    table.rows(closed=(EIGHT,))
    again = readiness(table)
    again.before = before
    again.note_announced(SEVEN)
    fold = table.log.fold()
    fold.closed[SEVEN] = replace(fold.closed[SEVEN], version=1)
    assert again.to_announce(fold) is None
    assert before.prefixes == [EIGHT]


def test_row_ahead_of_the_clock_from_before_there_was_a_watermark_counts_as_now(
    table: TableOnDisk,
) -> None:
    table.rows(EIGHT, newest_us=EIGHT_US + HOUR)
    fold = table.log.fold()
    end = fold.sources["orders", 0].end
    bounds = {SourcePartition("orders", 0): LogBounds(0, end, end)}
    view = SourceView({}, bounds, {}, read_at_us=EIGHT_US + 10)
    mark = readiness(table).mark(fold, view)
    assert mark.us == EIGHT_US + 10
