"""Compares the Parquet files of an engine with what its topic's rule says; see `workloads`."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import duckdb

from bench.standard_events import SHAPES
from bench.workloads import Totals, Workload

NOTHING = Totals(0, 0, 0, 0, (), 0)


class WrongOutputError(Exception):
    """An engine failed or its output is not its input; the run is no measurement."""


def found_totals(
    folder: Path, columns: Sequence[str], levels: int, keys: tuple[str, str] = ("id", "ts")
) -> Totals:
    """Read all rows of a table.

    Args:
        folder: The table's, with one level of folders a partition column.
        columns: Whose sums are wanted.
        levels: Number of partition columns.
        keys: Columns of the id and of the time.

    Returns:
        The totals; `NOTHING` for a table without files.
    """
    return totals_of(
        [path for path in folder.glob("*=*/" * levels + "[!_.]*") if path.is_file()],
        columns,
        keys,
    )


def totals_of(
    paths: Sequence[Path], columns: Sequence[str], keys: tuple[str, str] = ("id", "ts")
) -> Totals:
    """Read all rows of Parquet files; a folder with some of them is a partition."""
    files = [str(path) for path in paths]
    if not files:
        return NOTHING
    sums = "".join(f", sum({column})" for column in columns)
    where = "parse_path(filename)[:-2]"
    key, time = keys
    with duckdb.connect() as connection:
        relation = connection.read_parquet(files, filename=True, hive_partitioning=False)
        rows, ids, id_sum, ts_sum, partitions, *found = relation.aggregate(
            f"count(*), count(DISTINCT {key}), sum({key})::HUGEINT, sum({time})::HUGEINT, "
            f"count(DISTINCT {where}){sums}"
        ).fetchall()[0]
    return Totals(rows, ids, id_sum, ts_sum, tuple(map(Decimal, found)), partitions)


def check_output(folder: Path, workload: Workload, expected: Totals) -> None:
    """Refuse an output that is not the input.

    Args:
        folder: The table's.
        workload: Says which columns are summed.
        expected: From the workload's rule.

    Raises:
        WrongOutputError: Rows, ids, sums or partitions are missing, doubled or other ones.
    """
    levels = 1 if workload.values else 2
    found = found_totals(folder, workload.summed, levels, SHAPES[workload.shape].keys)
    if expected.rows == 0 and found == NOTHING:
        return
    if found != expected:
        raise WrongOutputError(f"{folder.name} has {found} instead of {expected}")


def dirty_rows(folder: Path) -> int:
    """Rows that our table's folder keeps as dirty."""
    files = [str(path) for path in folder.glob("_sluiceway/*/dirty/**/*.parquet")]
    if not files:
        return 0
    with duckdb.connect() as connection:
        return int(connection.read_parquet(files).aggregate("count(*)").fetchall()[0][0])
