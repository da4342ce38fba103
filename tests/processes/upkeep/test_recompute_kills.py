"""The driver of a route that computes units is killed at each step: a repeat, and nothing more."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from sluiceway.ledger.partition_records import ReadyRecord, SwapRecord
from sluiceway.ledger.records import RecordType
from tools.driver_kills import drive_until_killed
from tools.test_plan import slow_after
from tools.units_on_disk import units_on_disk

EIGHT, NINE = "dt=20261120/hr=08", "dt=20261120/hr=09"
POINTS = {
    "swap.landed": 1,
    "unit.announcing": 1,
    "unit.written": 1,
    "swap.begun": 1,
    "unit.started": 2,
    "unit.done": 1,
    "swap.written": 1,
    "swap.landing": 2,
    "publish.file": 1,
    "effects.apply": 1,
}


@dataclass(frozen=True, slots=True)
class _Killed:
    """What `drive_until_killed` asks of a job."""

    path: Path
    folder: Path


@pytest.mark.parametrize("point", slow_after(2, POINTS))
def test_driver_that_is_killed_computes_each_unit_once_in_the_end(
    point: str, tmp_path: Path
) -> None:
    disk = units_on_disk(tmp_path)
    disk.fill(EIGHT, NINE)
    job = _Killed(disk.run.job.path, tmp_path)
    drive_until_killed(job, tmp_path / "marks", point, POINTS[point])
    disk.run.catch_up()
    assert disk.rows() == [("08", 4, 6), ("09", 4, 22)]
    bodies = [each.body for each in disk.run.records()]
    swaps = [each.prefix for each in bodies if isinstance(each, SwapRecord)]
    ready = [(each.prefix, each.version) for each in bodies if isinstance(each, ReadyRecord)]
    assert (sorted(swaps), sorted(ready)) == ([EIGHT, NINE], [(EIGHT, 1), (NINE, 1)])
    kinds = [each.type for each in disk.run.records()]
    assert kinds.count(RecordType.INTENT) == 2 + kinds.count(RecordType.ABANDON)
    disk.run.assert_verified()
