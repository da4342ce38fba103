"""`verify --deep`: offsets of the rows of an epoch, and the columns that say them."""

from dataclasses import replace
from itertools import starmap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.audit.offset_check import (
    OriginColumns,
    add_origins,
    offset_problems,
    origin_columns,
    table_origins,
)
from sluiceway.ledger.offset_sum import offset_sum
from sluiceway.storage.local import LocalStorage
from sluiceway.types.log_key import LogKey, SourceKey
from sluiceway.worker.plan import PlannedMetaColumn
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


@pytest.mark.parametrize("kind", ["partition", "partition_text"])
def test_columns_are_found_whatever_the_kind_of_the_keys(kind: str) -> None:
    meta = (("topic", "_t"), (kind, "_p"), ("offset", "_o"), ("timestamp", "_s"))
    found = origin_columns({each.part: each.column for each in starmap(PlannedMetaColumn, meta)})
    assert found == OriginColumns("_t", "_p", "_o")
    assert origin_columns({"topic": "_t", "offset": "_o"}) is None


@pytest.mark.parametrize("keys", [(3, 4), ("broker-a/3", "broker-b/3")])
def test_sums_of_rows_are_those_of_their_source_partitions(keys: tuple[LogKey, LogKey]) -> None:
    first, second = keys
    table = pa.table({"t": ["a"] * 3, "p": [first, second, first], "o": [1, 2, 5]})
    found: dict[SourceKey, str] = {}
    add_origins(found, table_origins(table, ["t", "p", "o"]))
    assert found == {
        ("a", first): offset_sum(first, np.array([1, 5], dtype=np.int64)),
        ("a", second): offset_sum(second, np.array([2], dtype=np.int64)),
    }


def test_numbers_that_a_text_format_keeps_as_text_are_the_same_source_partitions() -> None:
    found: dict[SourceKey, str] = {}
    table = pa.table({"t": ["a"], "p": ["3"], "o": ["7"]})
    add_origins(found, table_origins(table, ["t", "p", "o"]))
    assert found == {("a", 3): offset_sum(3, np.array([7], dtype=np.int64))}


def test_key_that_no_source_gives_is_told() -> None:
    table = pa.table({"t": ["a"], "p": ["007"], "o": [7]})
    with pytest.raises(ValueError, match="'007' is no source partition"):
        add_origins({}, table_origins(table, ["t", "p", "o"]))
