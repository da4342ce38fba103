"""`verify --deep`: the rows of an epoch's files against the offsets that its record says."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.audit.offset_check import OriginColumns, offset_problems
from sluiceway.ledger.offset_sum import offset_sum
from sluiceway.storage.local import LocalStorage
from tools.ledger_records import data, span

COLUMNS = OriginColumns("_t", "_p", "_o")
TOLD = "orders[0] [0, 4): the files do not hold the 4 rows that were read"


def _rows(offsets: list[int], names: tuple[str, str, str], partition: int = 0) -> pa.Table:
    values = (["orders"] * len(offsets), [str(partition)] * len(offsets), offsets)
    return pa.table(dict(zip(names, values, strict=True)))


class Epoch:
    """Four rows that were read, of which the last is dirty."""

    def __init__(self, root: Path) -> None:
        self.root = root
        known = offset_sum(0, np.arange(4, dtype=np.int64))
        self.record = data(1, 0, replace(span(0, 0, 4), offset_sum=known), dirty=1)
        (clean,), (dirty,) = self.record.files, self.record.dirty_files
        self.clean, self.dirty = clean.final, dirty.final
        self.write([0, 1, 2], [3])

    def write(self, clean: list[int], dirty: list[int], *, partition: int = 0) -> None:
        names = ("topic", "partition", "offset")
        pq.write_table(_rows(clean, ("_t", "_p", "_o"), partition), self.root / "clean.parquet")
        pq.write_table(_rows(dirty, names), self.root / "dirty.parquet")

    def problems(self) -> list[str]:
        paths = {
            self.clean: str(self.root / "clean.parquet"),
            self.dirty: str(self.root / "dirty.parquet"),
        }
        return offset_problems(LocalStorage(), self.record, COLUMNS, paths)


@pytest.fixture
def epoch(tmp_path: Path) -> Epoch:
    return Epoch(tmp_path)


def test_rows_of_clean_and_dirty_files_together_are_what_was_read(epoch: Epoch) -> None:
    assert epoch.problems() == []


@pytest.mark.parametrize(
    ("clean", "dirty"),
    [([0, 1], [3]), ([0, 1, 2, 2], [3]), ([0, 1, 4], [3]), ([0, 1, 2], []), ([0, 1, 2], [2])],
)
def test_row_that_is_lost_doubled_or_of_another_offset_is_told(
    epoch: Epoch, clean: list[int], dirty: list[int]
) -> None:
    epoch.write(clean, dirty)
    assert epoch.problems() == [TOLD]


def test_rows_of_a_log_that_was_not_read_are_told(epoch: Epoch) -> None:
    epoch.write([0, 1, 2], [3], partition=7)
    assert epoch.problems() == [TOLD, "orders[7]: rows of a log that was not read"]


def test_file_whose_columns_are_not_there_is_told_and_its_rows_are_missing(epoch: Epoch) -> None:
    pq.write_table(pa.table({"id": [1]}), epoch.root / "clean.parquet")
    first, second = epoch.problems()
    assert first.startswith(f"{epoch.clean}: _t, _p, _o cannot be read")
    assert second == TOLD
