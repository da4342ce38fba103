"""Limits of lake tables in this version, and settings that only lake tables have."""

from collections.abc import Iterator, Mapping
from typing import Any

from sluiceway.jobfile.blocks.block import mapping
from sluiceway.jobfile.blocks.table import takes_from_registry
from sluiceway.jobfile.blocks.table_target import FOLDING_KINDS, ICEBERG, table_kind
from sluiceway.jobfile.blocks.values import is_lake_name, is_table_name
from sluiceway.jobfile.positions import Path, Positions
from sluiceway.jobfile.problems import JobFileProblem, quoted

_NOT_YET: tuple[tuple[Path, str, str], ...] = (
    (("retention",), "`retention` of lake tables", "delete old rows with an engine"),
    (("event_time", "late_table"), "a table of late rows with a lake table", "remove it"),
    (("dirty", "store", "table"), "a table of dirty rows with a lake table", "name a topic"),
    (("ready", "counts"), "audited counts of lake tables", "remove it"),
)
_SAID_OTHERWISE: tuple[tuple[Path, object, str, str], ...] = (
    (
        ("ready", "visible"),
        "on_ready",
        "`visible: on_ready` of lake tables: a snapshot shows all its rows",
        "write visible: on_commit",
    ),
    (
        ("ready", "success_file"),
        True,
        "`success_file` of lake tables, which have no folders",
        "remove it: readers find the table's property sluiceway.ROUTE.ready",
    ),
    (
        ("files", "compact"),
        "before_ready",
        "`compact: before_ready` of lake tables",
        "remove it: a running job merges small files, unless you write compact: never",
    ),
    (
        ("event_time", "late"),
        "reopen",
        "`late: reopen` of lake tables",
        "write late: side_output, redirect or dirty",
    ),
)


def check_lake(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Refuse by name what this version does not support. Called once a route and load.

    Args:
        data: The file as plain data; may be of the wrong shape.
        positions: Positions in the file.
    """
    if table_kind(data) != ICEBERG:
        yield from _only_lakes(data, positions)
        return
    yield from _cannot_add(data, positions)
    yield from _hives_names(data, positions)
    for path, what, todo in _NOT_YET:
        if positions.has(path):
            yield _not_yet(positions.key(path), what, todo)
    for path, value, what, todo in _SAID_OTHERWISE:
        if positions.has(path) and mapping(data, *map(str, path[:-1])).get(str(path[-1])) == value:
            yield _not_yet(positions.value(path), what, todo)


def _hives_names(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Metastores and Glue have one level of databases, and names without a `-`."""
    table = mapping(data, "table", ICEBERG)
    name, connection = table.get("name"), table.get("connection")
    found = mapping(data, "connections", str(connection), ICEBERG)
    kind = next((kind for kind in FOLDING_KINDS if kind in found), None)
    if kind and isinstance(name, str) and is_lake_name(name) and not is_table_name(name):
        text = f"expected `database.table`, both of letters, digits and `_`, got {quoted(name)}"
        todo = f"rename it: a catalog of the kind {kind} has no other names"
        yield JobFileProblem(positions.value(("table", ICEBERG, "name")), text, todo)


def _cannot_add(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    """Allow new columns only for fields of JSON, which include the rows of a change log."""
    table, path = mapping(data, "table"), ("table", "evolution")
    if table.get("evolution") == "add_columns" and takes_from_registry(table):
        what = "`evolution: add_columns` of lake tables with `columns: from_registry`"
        todo = "write fail or quarantine; add the column to the table and to the job file"
        yield _not_yet(positions.value(path), what, todo)


def _only_lakes(data: Mapping[str, Any], positions: Positions) -> Iterator[JobFileProblem]:
    parts = mapping(data, "table").get("partition_by")
    for index, part in enumerate(parts if isinstance(parts, tuple) else ()):
        if isinstance(part, Mapping) and "transform" in part:
            text = "expected `transform` in tables of the kind iceberg only"
            at = positions.key(("table", "partition_by", index, "transform"))
            yield JobFileProblem(at, text, "remove it, or write table.iceberg")
    if positions.has(("ready", "tag")):
        text = "expected `tag` with tables of the kind iceberg only"
        yield JobFileProblem(
            positions.key(("ready", "tag")), text, "remove it, or write table.iceberg"
        )


def _not_yet(mark: Any, what: str, todo: str) -> JobFileProblem:
    return JobFileProblem(mark, f"{what} is not in this version", todo, not_yet=True)
