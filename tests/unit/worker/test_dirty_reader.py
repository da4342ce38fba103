"""Dirty files are read a piece at a time, and large payloads in small pieces."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sluiceway.storage.local import LocalStorage
from sluiceway.worker.dirty_reader import read_dirty_rows


def pieces(folder: Path, values: list[bytes], start: int, stop: int) -> list[tuple[int, int]]:
    """First row and length of each piece, whose values are checked."""
    path = folder / "dirty.parquet"
    pq.write_table(pa.table({"value": values}), path, use_dictionary=False, compression="zstd")
    found = []
    for first, rows in read_dirty_rows(LocalStorage(), str(path), start, stop):
        assert rows.column("value").to_pylist() == values[first : first + rows.num_rows]
        found.append((first, rows.num_rows))
    return found


def test_rows_come_a_thousand_at_a_time_from_start_to_stop(tmp_path: Path) -> None:
    values = [b"%d" % row for row in range(2_500)]
    assert pieces(tmp_path, values, 500, 2_100) == [(500, 500), (1_000, 1_000), (2_000, 100)]


def test_large_payloads_come_a_few_at_a_time(tmp_path: Path) -> None:
    values = [b"%d" % row + bytes(3 << 20) for row in range(12)]
    found = pieces(tmp_path, values, 0, 12)
    assert sum(rows for _, rows in found) == 12
    assert max(rows for _, rows in found) <= 5
