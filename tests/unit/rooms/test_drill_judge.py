"""The comparison of the proof of rooms finds a planted loss and a planted double."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rooms.judge import DrillResults, Rows, committed_rows
from rooms.mirrored import wanted_rows, wrong_rows
from sluiceway.ledger.partition_records import ReadyRecord
from sluiceway.types.strict_json import BigInt
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


def test_a_log_without_an_announcement_judges_nothing(table: RowsOnDisk) -> None:
    results = DrillResults()
    records = [record for record, _ in table.table.log.records()]
    results.check_order(records)
    assert (results.announced, results.unannounced, results.early_ready) == (0, 1, 0)
    body = ReadyRecord(SEVEN, 1, 8, BigInt(8), BigInt(1), whole=True, partitions=())
    ready = replace(records[-1], body=body)
    results.check_order([*records, ready])
    assert (results.announced, results.unannounced) == (1, 1)
    results.check_order([ready, *records])
    assert results.early_ready == 2


def test_a_row_that_its_topic_has_twice_is_wanted_twice_and_a_repeated_copy_once() -> None:
    own = 10_000_000
    written = Rows([(0, 1, 5), (0, 2, 5), (0, 3, 6), (0, 9, 7)])
    copied = Rows([(0, 1, 6), (0, 2, 6), (0, 3, own)])
    read = Rows([(0, 1, 5), (0, 2, 5)])
    # Row 7 was neither read nor copied: it is stranded.
    assert wanted_rows(written, read, copied) == Rows({(5,): 2, (6,): 1, (own,): 1})


def test_a_wrong_row_is_shown_with_its_places() -> None:
    written, copied = Rows([(0, 1, 5), (0, 2, 6)]), Rows([(1, 4, 5)])
    found = Rows([(5, 0, 1), (5, 1, 4)])
    lines = list(wrong_rows(Rows([(5,), (6,)]), found, written, copied))
    assert lines == [
        "row 6: in a at [(0, 2)], in b at [], in the table from []",
        "row 5: in a at [(0, 1)], in b at [(1, 4)], in the table from [(0, 1), (1, 4)]",
    ]
