"""Common keys of all kinds of tables in a job file."""

from typing import Literal

from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.topic_pattern import groups_in
from sluiceway.jobfile.blocks.values import Location, TableName


class TableTarget(Block):
    """Where rows go.

    Attributes:
        connection: Name of the connection to the catalog.
        name: `database.table`; may hold groups of the topic pattern, as `ods.app_{1}`.
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
