"""Each overdue hour is told with when it should have been announced, the oldest of many."""

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
from tools.table_on_disk import table_on_disk

NINE_US = 1_795_165_200_000_000
HOUR_US, MINUTE_US = 3_600_000_000, 60_000_000
RULE = ReadyRule(
    columns=(("dt", "yyyyMMdd"), ("hr", "HH")),
    timezone="UTC",
    watermark=WatermarkRule(out_of_orderness_us=MINUTE_US),
    whole_key=True,
    lateness_us=MINUTE_US,
)


def test_oldest_overdue_hours_are_told_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_on_disk(tmp_path)
    for day in (17, 18):
        table.rows(*(f"dt=202611{day}/hr={hour:02d}" for hour in range(24)))
    table.rows("dt=20261120/hr=08", "dt=20261120/hr=09")
    monkeypatch.setattr("time.time_ns", lambda: (NINE_US + 2 * MINUTE_US) * 1000)
    figures = Figures()
    config = replace(placed_session("a").config, ready=RULE)
    PartitionSurvey(config, figures, deque()).update(table.log.fold())
    since = figures.read().numbers[metrics.PARTITION_OVERDUE_SINCE.name]
    names = [prefix for (prefix,) in since]
    assert names == [f"dt=20261117/hr={hour:02d}" for hour in range(20)]
    first_us = NINE_US - 3 * 24 * HOUR_US - 8 * HOUR_US + 2 * MINUTE_US
    assert since["dt=20261117/hr=00",] == first_us / 1_000_000
    assert figures.read().numbers[metrics.PARTITIONS_OVERDUE.name][()] >= 49
