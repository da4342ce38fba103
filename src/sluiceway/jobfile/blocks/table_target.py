"""Common keys of all kinds of tables in a job file."""

from collections.abc import Mapping
from typing import Any, Literal

from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.topic_pattern import groups_in
from sluiceway.jobfile.blocks.values import Location, TableName
from sluiceway.jobfile.positions import Path, Positions


class TableTarget(Block):
    """Where rows go.

    Attributes:
        connection: Name of the connection to the catalog.
        name: `database.table`; may hold groups of the topic pattern, as `ods.app_{1}`, or with
            `route_by` the value, as `ods.{value}`.
        create: Whether the driver creates a missing table.
        location: Root folder of a table that is created; None takes that of the database.
        create_location: Whether the driver creates missing folders above the table.
        storage: Name of the connection to the store of the table; None is the only connection of
            that kind, or the machine's settings.
    """

    connection: str
    name: TableName
    create: Literal["if_missing", "never"] = "if_missing"
    location: Location | None = None
    create_location: bool = False
    storage: str | None = None

    @property
    def is_template(self) -> bool:
        """Whether the name is made from a topic's name."""
        return bool(groups_in(self.name))

    @property
    def database(self) -> str:
        """Database in the form of Hive catalogs: in lower case."""
        return self.name.partition(".")[0].lower()

    @property
    def table(self) -> str:
        """Table in the form of Hive catalogs: in lower case."""
        return self.name.partition(".")[2].lower()


HIVE, ICEBERG = "hive", "iceberg"
"""Kinds of tables in the block `table`."""
HIVE_CATALOGS = ("metastore", "folder")
"""Kinds of a connection whose catalog has Hive tables."""
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
