"""The driver of a route that computes units is killed at each step: a repeat, and nothing more."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from sluiceway.ledger.partition_records import ReadyRecord, SwapRecord
from sluiceway.ledger.records import RecordType
from tools.driver_kills import drive_until_killed
from tools.route_faults import NewRun
from tools.test_plan import slow_after
from tools.topic_writer import TopicWriter
from tools.unit_jobs import TIMES, computed_hours, fill_hour

POINTS = {
    "swap.landed": 1,
    "unit.written": 1,
    "unit.announcing": 1,
    "swap.begun": 1,
    "unit.started": 1,
    "unit.done": 2,
    "swap.written": 1,
    "swap.landing": 1,
    "publish.file": 1,
    "metastore.add_partitions.request": 1,
    "metastore.alter_partitions.reply": 1,
}


@dataclass(frozen=True, slots=True)
class _Killed:
    """What `drive_until_killed` asks of a job."""

    path: Path
    folder: Path


@pytest.mark.parametrize("point", slow_after(3, POINTS))
def test_driver_that_is_killed_computes_each_unit_once_in_the_end(
    point: str, new_run: NewRun, writer: TopicWriter, tmp_path: Path, metastore_uri: str
) -> None:
    raw, topic = new_run(1, ready="{visible: on_commit}", event_time=TIMES)
    hours = computed_hours(raw, tmp_path, metastore_uri)
    for hour in range(3):
        fill_hour(raw, writer, topic, range(10 * hour, 10 * hour + 10), hour)
    job = _Killed(hours.job.path, tmp_path)
    drive_until_killed(job, tmp_path / "marks", point, POINTS[point])
    hours.catch_up()
    assert hours.rows("city, n, newest") == [
        ("Berlin", 5, 8),
        ("Berlin", 5, 18),
        ("Paris", 5, 9),
        ("Paris", 5, 19),
    ]
    bodies = [each.body for each in hours.records()]
    prefixes = [f"dt=20261120/hr={hour:02d}" for hour in (8, 9)]
    assert sorted(each.prefix for each in bodies if isinstance(each, SwapRecord)) == prefixes
    ready = [(each.prefix, each.version) for each in bodies if isinstance(each, ReadyRecord)]
    assert sorted(ready) == [(prefix, 1) for prefix in prefixes]
    kinds = [each.type for each in hours.records()]
    assert kinds.count(RecordType.INTENT) == 2 + kinds.count(RecordType.ABANDON)
    hours.assert_verified()
