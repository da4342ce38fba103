"""Rows reach their partitions whole and in order, however many partitions there are."""

import numpy as np
import pyarrow as pa
import pytest

from sluiceway.worker.open_files import SharedRows
from sluiceway.worker.plan import Place
from sluiceway.worker.row_writer import MIN_PIECE_ROWS, RowSorter


class _Taken:
    """What was handed on: pieces, and the rows of each partition."""

    def __init__(self) -> None:
        self.pieces: list[tuple[Place, int]] = []
        self.rows: dict[Place, list[int]] = {}

    def __call__(self, values: Place, rows: pa.RecordBatch, shared: SharedRows | None) -> None:
        del shared
        self.pieces.append((values, rows.num_rows))
        self.rows.setdefault(values, []).extend(rows.column("id").to_pylist())


def _add(sorter: RowSorter, first: int, count: int, partitions: int) -> None:
    """A batch of `count` rows, dealt out to the partitions in turn; they are named anew in each."""
    ids = np.arange(first, first + count)
    values: list[Place] = [(str(number),) for number in range(partitions)]
    values = values[first % partitions :] + values[: first % partitions]
    places = {value: place for place, value in enumerate(values)}
    codes = np.array([places[(str(one % partitions),)] for one in ids], np.int32)
    sorter.add(pa.record_batch({"id": pa.array(ids)}), codes, values)


def _expected(count: int, partitions: int) -> dict[Place, list[int]]:
    return {(str(number),): list(range(number, count, partitions)) for number in range(partitions)}


def test_rows_for_few_partitions_are_handed_on_at_once() -> None:
    taken = _Taken()
    sorter = RowSorter(taken)
    _add(sorter, 0, 4 * MIN_PIECE_ROWS, 4)
    assert taken.rows == _expected(4 * MIN_PIECE_ROWS, 4)
    assert len(taken.pieces) == 4


def test_rows_for_many_partitions_are_gathered_and_cut_once() -> None:
    taken = _Taken()
    sorter = RowSorter(taken)
    for number in range(5):
        _add(sorter, number * 210, 210, 100)
    assert taken.pieces == []
    sorter.flush()
    assert taken.rows == _expected(1050, 100)
    assert len(taken.pieces) == 100
    sorter.flush()
    assert len(taken.pieces) == 100


def test_rows_behind_gathered_ones_stay_behind_them() -> None:
    taken = _Taken()
    sorter = RowSorter(taken)
    _add(sorter, 0, 10, 2)
    # Large enough for its two partitions to be handed on at once, were nothing kept back.
    _add(sorter, 10, 2 * MIN_PIECE_ROWS, 2)
    sorter.flush()
    assert taken.rows == _expected(10 + 2 * MIN_PIECE_ROWS, 2)


@pytest.mark.parametrize("most", [1, 8 * 100, 8 * 1000])
def test_gathered_rows_are_bounded(most: int) -> None:
    taken = _Taken()
    sorter = RowSorter(taken, gathered_bytes=most)
    for number in range(30):
        _add(sorter, number * 100, 100, 50)
        handed_on = sum(rows for _, rows in taken.pieces)
        assert (number + 1) * 100 - handed_on < max(most // 8, 1)
    sorter.flush()
    assert taken.rows == _expected(3000, 50)


def test_runs_of_one_partition_are_cut_without_a_copy() -> None:
    taken: list[pa.RecordBatch] = []
    rows = pa.record_batch({"id": pa.array(range(1000))})
    codes = np.repeat(np.array([0, 1], np.int32), 500)
    RowSorter(lambda _, piece, __: taken.append(piece)).add(rows, codes, [("a",), ("b",)])
    addresses = {piece.column("id").buffers()[1].address for piece in taken}
    assert addresses == {rows.column("id").buffers()[1].address}


def _skewed(number: int) -> tuple[pa.RecordBatch, np.ndarray]:
    """Twenty thousand rows, four of them for the second partition."""
    ids = np.arange(number * 20_000, (number + 1) * 20_000)
    codes = np.zeros(len(ids), np.int32)
    codes[::5000] = 1
    return pa.record_batch(
        {"id": pa.array(ids), "text": pa.array([f"{i:0100}" for i in ids])}
    ), codes


@pytest.mark.parametrize("runs", [False, True])
def test_rows_of_a_small_partition_do_not_keep_those_of_a_large_one_in_memory(
    *, runs: bool
) -> None:
    waiting: list[pa.RecordBatch] = []

    def write(values: Place, rows: pa.RecordBatch, shared: SharedRows | None) -> None:
        del shared
        # The large partition's are written at once.
        if values == ("small",):
            waiting.append(rows)

    sorter = RowSorter(write)
    for number in range(5):
        rows, codes = _skewed(number)
        sorter.add(rows, np.sort(codes) if runs else codes, [("large",), ("small",)])
    sorter.flush()
    assert sum(rows.num_rows for rows in waiting) == 20
    assert sum(rows.get_total_buffer_size() for rows in waiting) < 20 * 1000
    ids = [one for rows in waiting for one in rows.column("id").to_pylist()]
    assert ids == sorted(ids)
