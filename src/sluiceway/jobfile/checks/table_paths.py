"""Where a table is written in a job file, whatever kind it is."""

from collections.abc import Mapping
from typing import Any

from sluiceway.jobfile.positions import Path, Positions

HIVE, ICEBERG = "hive", "iceberg"
"""Kinds of tables, as the block `table` has them."""
FOLDING_KINDS = ("hive", "glue")
"""Kinds of Iceberg catalogs that keep names in lower case only."""


def table_path(positions: Positions, *keys: str) -> Path:
    """Path of keys of the table."""
    kind = ICEBERG if positions.has(("table", ICEBERG)) else HIVE
    return ("table", kind, *keys)


def table_kind(data: Mapping[str, Any]) -> str:
    """The kind of the table, as far as plain data of any shape tells."""
    table = data.get("table")
    return ICEBERG if isinstance(table, Mapping) and ICEBERG in table else HIVE
