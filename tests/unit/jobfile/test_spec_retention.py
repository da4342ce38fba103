"""The block `retention`: what it takes and what it refuses."""

from pathlib import Path

import pytest

from sluiceway.jobfile.loader import inspect_job
from tools.table_on_disk import table_on_disk

TIMES = "event_time: {field: ts, unit: ms"
DAY = '[{name: dt, event_time: "yyyyMMdd"}]'


def problems(folder: Path, more: str, event_time: str = "}", partition_by: str = DAY) -> list[str]:
    table = table_on_disk(
        folder, more=more, event_time=f"{TIMES}{event_time}", partition_by=partition_by
    )
    return [str(each) for each in inspect_job(table.job.read_bytes(), table.job, {}).problems]


@pytest.mark.parametrize(
    ("more", "event_time"),
    [
        ("retention: {partitions: 1d}", "}"),
        ("retention: {partitions: 7d, drop: true}", ", archive_window: 7d}"),
        ("retention: {partitions: 36500d}", "}"),
    ],
)
def test_retention_that_is_long_enough_is_taken(tmp_path: Path, more: str, event_time: str) -> None:
    assert problems(tmp_path, more, event_time) == []


@pytest.mark.parametrize(
    ("more", "event_time", "partition_by", "says"),
    [
        ("retention: {partitions: 23h}", "}", DAY, "expected at least 1d"),
        ("retention: {partitions: 7d}", ", archive_window: 8d}", DAY, "expected at least 8d"),
        ("retention: {partitions: 7d}", ", archive_window: unlimited}", DAY, "archive_window"),
        ("retention: {partitions: 7d}", "}", "[{name: app, column: app}]", "begin with the year"),
        ("retention: {partitions: 7d}", "}", '[{name: h, event_time: "HH"}]', "begin with the y"),
        ("retention: {partitions: soon}", "}", DAY, "a duration"),
        ("retention: {drop: true}", "}", DAY, "partitions"),
        ("retention: {partitions: 7d, keep: 1}", "}", DAY, "keep"),
    ],
)
def test_retention_that_would_drop_what_rows_come_for_is_refused(
    tmp_path: Path, more: str, event_time: str, partition_by: str, says: str
) -> None:
    found = problems(tmp_path, more, event_time, partition_by)
    assert any(says in each for each in found), found
