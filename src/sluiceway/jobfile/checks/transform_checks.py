"""Checks around the block `transform`, as far as the job file alone allows."""

from collections.abc import Iterator, Mapping
from typing import Any

from sluiceway.jobfile.blocks.block import mapping
from sluiceway.jobfile.blocks.table import FROM_SQL
from sluiceway.jobfile.blocks.table_target import HIVE_CATALOGS, ICEBERG
from sluiceway.jobfile.blocks.transform import INPUT
from sluiceway.jobfile.blocks.written_columns import INPUT_COLUMNS
from sluiceway.jobfile.positions import Positions
from sluiceway.jobfile.problems import JobFileProblem, quoted

_COLUMNS = ("table", "columns")
_CATALOGS = frozenset({*HIVE_CATALOGS, ICEBERG})


def check_transform(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Check SQL against the blocks around it. Called once a route and load.

    Args:
        data: The file as plain data; may be of the wrong shape.
        positions: Positions in the file.
    """
    table = mapping(data, "table")
    columns = table.get("columns", FROM_SQL)
    if "transform" not in data:
        if columns == FROM_SQL and "columns" in table:
            text = f"expected `transform.sql` with {quoted(FROM_SQL)}, got none"
            yield JobFileProblem(positions.value(_COLUMNS), text, "add it, or list the columns")
        return
    if columns not in (FROM_SQL, "from_table"):
        text = "expected `from_sql` or `from_table` with `transform.sql`, got other columns"
        todo = "write columns: from_sql; what is decoded is declared under transform.columns"
        yield JobFileProblem(positions.value(_COLUMNS), text, todo)
    if "columns" not in mapping(data, "transform") and "table" not in mapping(data, "source"):
        text = "expected `transform.columns`, the columns that are decoded, got none"
        todo = "declare them; the SQL reads them as the table `input`"
        yield JobFileProblem(positions.key(("transform",)), text, todo)
    if table.get("evolution", "fail") != "fail":
        text = "expected `evolution: fail` with `transform.sql`"
        at = positions.value(("table", "evolution"))
        yield JobFileProblem(at, text, "remove it: the SQL says what the columns are")
    if "key" in table:
        text = "`transform.sql` into a table with a `key` is not in this version"
        at = positions.key(("table", "key"))
        yield JobFileProblem(at, text, "remove one of them", not_yet=True)
    yield from _check_names(data, positions)
    yield from _check_tables(data, positions)


def _check_tables(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Connections of small tables have a catalog."""
    known = mapping(data, "connections")
    fitting = [name for name, of in known.items() if _CATALOGS & mapping(of).keys()]
    for name, block in mapping(data, "transform", "tables").items():
        wanted = mapping(block).get("connection")
        if isinstance(wanted, str) and known and wanted not in fitting:
            text = f"expected a connection to a catalog of tables, got {quoted(wanted)}"
            todo = f"write one of: {', '.join(fitting)}" if fitting else "add such a connection"
            at = positions.value(("transform", "tables", name, "connection"))
            yield JobFileProblem(at, text, todo)


def _check_names(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """One name, one thing: in Spark's catalog case does not matter."""
    block = mapping(data, "transform")
    taken = {INPUT}
    for name in mapping(block, "tables"):
        if name.lower() in taken:
            text = f"expected another name than `input` and other tables, got {quoted(name)}"
            yield JobFileProblem(positions.key(("transform", "tables", name)), text, "rename it")
        taken.add(name.lower())
    seen: set[str] = set()
    for name in mapping(block, "functions"):
        if name.lower() in seen:
            text = f"expected each function once, got {quoted(name)} again"
            at = positions.key(("transform", "functions", name))
            yield JobFileProblem(at, text, "rename it")
        seen.add(name.lower())
    named: set[str] = set()
    columns = block.get("columns")
    for index, column in enumerate(columns if isinstance(columns, tuple) else ()):
        declared = str(mapping(column).get("name", index))
        if declared.lower() in named:
            text = f"expected names that differ in more than case, got {quoted(declared)} again"
            at = positions.value((*INPUT_COLUMNS, index, "name"))
            yield JobFileProblem(at, text, "rename one of them")
        named.add(declared.lower())
