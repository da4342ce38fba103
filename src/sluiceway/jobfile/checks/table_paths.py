"""Path of the table in a job file, for every kind of table."""

from collections.abc import Mapping
from typing import Any

from sluiceway.jobfile.positions import Path, Positions

HIVE, ICEBERG = "hive", "iceberg"
"""Kinds of tables in the block `table`."""
FOLDING_KINDS = ("hive", "glue")
"""Kinds of Iceberg catalogs with names in lower case only."""


def table_path(positions: Positions, *keys: str) -> Path:
    """Path of keys of the table."""
    kind = ICEBERG if positions.has(("table", ICEBERG)) else HIVE
    return ("table", kind, *keys)


def table_kind(data: Mapping[str, Any]) -> str:
    """The kind of the table, as far as plain data of any shape shows it."""
    table = data.get("table")
    return ICEBERG if isinstance(table, Mapping) and ICEBERG in table else HIVE
