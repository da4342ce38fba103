"""What the metrics count as overdue, also of a route whose driver looks no more."""

from collections import deque
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.eventtime.watermark import WatermarkRule
from sluiceway.jobfile.compile.ready_rule import ReadyRule
from sluiceway.observe import metrics
from sluiceway.observe.figures import Figures
from sluiceway.route.partition_survey import PartitionSurvey
from tools.board_sessions import placed_session
from tools.table_on_disk import TableOnDisk, table_on_disk

HOUR_US, MINUTE_US = 3_600_000_000, 60_000_000
DAY = "dt=20261120"
SIX, EIGHT = f"{DAY}/hr=06", f"{DAY}/hr=08"
NINE_US = 1_795_165_200_000_000
RULE = ReadyRule(
    columns=(("dt", "yyyyMMdd"), ("hr", "HH")),
    timezone="UTC",
    watermark=WatermarkRule(idle_after_us=5 * MINUTE_US),
    whole_key=True,
)


@pytest.fixture
def table(tmp_path: Path) -> TableOnDisk:
    return table_on_disk(tmp_path)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    now = [0]
    monkeypatch.setattr("time.time_ns", lambda: now[0] * 1000)
    return now


def overdue(figures: Figures) -> float:
    return figures.read().numbers[metrics.PARTITIONS_OVERDUE.name][()]


def test_hours_without_a_row_are_overdue_by_the_clock_alone(
    table: TableOnDisk, clock: list[int]
) -> None:
    table.rows(SIX, EIGHT)
    figures = Figures()
    config = replace(placed_session("a").config, ready=RULE, interval_s=30.0)
    survey = PartitionSurvey(config, figures, deque())
    clock[0] = NINE_US - 1
    survey.update(table.log.fold())
    # The sixth, which has rows; the seventh, which has none. The eighth is not over.
    assert overdue(figures) == 2
    clock[0] = NINE_US
    survey.count_overdue()
    assert overdue(figures) == 3
    # Nothing is looked at any more, and hours go by: each is closed once all is quiet.
    clock[0] = NINE_US + HOUR_US + 6 * MINUTE_US - 1
    survey.count_overdue()
    assert overdue(figures) == 3
    clock[0] += 1
    survey.count_overdue()
    assert overdue(figures) == 4


def test_table_that_announces_nothing_has_nothing_overdue(
    table: TableOnDisk, clock: list[int]
) -> None:
    table.rows(SIX)
    clock[0] = NINE_US
    figures = Figures()
    PartitionSurvey(placed_session("a").config, figures, deque()).update(table.log.fold())
    assert overdue(figures) == 0
