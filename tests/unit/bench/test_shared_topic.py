"""The benchmark of one topic for many tables: what its check of the tables refuses."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

COUNT, HALTED, HALTED_AT = 600, 7, 300


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[3])
        yield importlib.import_module("bench.shared_topic")


@pytest.fixture
def filled(bench: Any, tmp_path: Path) -> Any:
    """Fifty tables, of which one has halted; how many events each has read."""
    rows: dict[int, list[dict[str, Any]]] = {}
    for number, event in bench.workload_events(bench.WORKLOAD, COUNT):
        value = number * 7_919 % bench.VALUES
        if value != HALTED or number < HALTED_AT:
            row = {"app": f"app-{value:05}", "id": json.loads(event)["id"]}
            rows.setdefault(value, []).append({**row, "_partition": 0, "_offset": number})
    for value, of_table in rows.items():
        write(tmp_path, value, of_table)
    return np.where(np.arange(bench.VALUES) == HALTED, HALTED_AT, COUNT)


def write(warehouse: Path, value: int, rows: list[dict[str, Any]], file: str = "a") -> None:
    folder = warehouse / f"t_app_{value:05}" / "dt=20261120" / "hr=08"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / f"{file}.parquet")


def test_tables_that_have_each_row_once_are_exact(bench: Any, filled: Any, tmp_path: Path) -> None:
    bench.check_tables(tmp_path, "t", filled)
    with pytest.raises(bench.WrongOutputError, match="app-00007"):
        bench.check_tables(tmp_path, "t", np.full(bench.VALUES, COUNT))


@pytest.mark.parametrize("fault", ["lost", "doubled", "elsewhere"])
def test_row_that_is_not_there_once_is_refused(
    bench: Any, filled: Any, tmp_path: Path, fault: str
) -> None:
    (file,) = tmp_path.glob("t_app_00003/*/*/a.parquet")
    rows = pq.read_table(file, partitioning=None).to_pylist()
    write(tmp_path, 3, rows[1:] if fault != "doubled" else [*rows, rows[0]])
    if fault == "elsewhere":
        write(tmp_path, 4, rows[:1], "b")
    with pytest.raises(bench.WrongOutputError, match="app-00003"):
        bench.check_tables(tmp_path, "t", filled)
