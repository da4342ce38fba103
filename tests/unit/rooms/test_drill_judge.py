"""The comparison of the proof of rooms finds a planted loss and a planted double."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rooms.judge import DrillResults, Rows, committed_rows
from tools.rows_on_disk import RowsOnDisk, rows_on_disk

SEVEN, EIGHT = "dt=20261120/hr=07", "dt=20261120/hr=08"
WANTED = Rows((number,) for number in range(12))


@pytest.fixture
def table(tmp_path: Path) -> RowsOnDisk:
    """Twelve rows in two partitions that are not announced; one of them was compacted."""
    made = rows_on_disk(tmp_path)
    made.add(SEVEN, EIGHT)
    made.add(SEVEN)
    made.merge(SEVEN)
    return made


def _compared(table: RowsOnDisk) -> tuple[int, int, int]:
    results = DrillResults()
    results.compare(WANTED, committed_rows(table.table.log, "ts"))
    return results.rows, results.lost, results.doubled


def test_rows_of_partitions_that_are_not_announced_are_compared(table: RowsOnDisk) -> None:
    assert _compared(table) == (12, 0, 0)


def test_planted_loss_and_planted_double_are_found(table: RowsOnDisk) -> None:
    (path, *_) = table.root.glob(f"{EIGHT}/*.parquet")
    # Row 4 is missing, and row 5 is there twice.
    pq.write_table(pa.table({"ts": [5, 5, 6, 7]}), path)
    assert _compared(table) == (12, 1, 1)


def test_file_that_no_record_names_is_not_compared(table: RowsOnDisk) -> None:
    pq.write_table(pa.table({"ts": [99]}), table.root / EIGHT / "more.parquet")
    assert _compared(table) == (12, 0, 0)
