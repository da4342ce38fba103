"""The columns in a job file, as plain data: declared, changed and added ones."""

from collections.abc import Iterator, Mapping
from typing import Any

from sluiceway.jobfile.blocks.block import mapping
from sluiceway.jobfile.blocks.table import FROM_REGISTRY
from sluiceway.jobfile.positions import Path

COLUMNS = ("table", "columns")
INPUT_COLUMNS = ("transform", "columns")
"""Columns that are decoded where SQL makes the rows of the table."""
CHANGES: Path = (*COLUMNS, FROM_REGISTRY)


def changes_of(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Differences from the columns of a registry's schema; none without one."""
    return mapping(data, "table", "columns", FROM_REGISTRY)


def written_columns(data: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """All mappings that describe a column, with their paths, in the table's order.

    Args:
        data: A route as plain data; parts of the wrong shape are ignored.
    """
    yield from _listed(COLUMNS, mapping(data, "table").get("columns"))
    changes = changes_of(data)
    for field, change in mapping(changes.get("override")).items():
        if isinstance(change, Mapping):
            yield (*CHANGES, "override", field), change
    yield from _listed((*CHANGES, "add"), changes.get("add"))


def decoded_columns(data: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """As `written_columns`, of the columns that are decoded: with SQL they are not the table's."""
    yield from written_columns(data)
    yield from _listed(INPUT_COLUMNS, mapping(data, "transform").get("columns"))


def decoded_path(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Path of the columns that are decoded."""
    return INPUT_COLUMNS if "transform" in data else COLUMNS


def written_name(path: Path, column: Mapping[str, Any]) -> object:
    """Name of a column from `written_columns`; the field's own where none is written."""
    overrides = path[:-1] == (*CHANGES, "override")
    return column.get("name", path[-1]) if overrides else column.get("name")


def _listed(path: Path, found: object) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for index, item in enumerate(found if isinstance(found, tuple) else ()):
        if isinstance(item, Mapping):
            yield (*path, index), item
