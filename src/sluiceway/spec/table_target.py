"""What all kinds of tables have in a job file."""

from typing import Literal

from sluiceway.spec.block import Block
from sluiceway.spec.topic_pattern import groups_in
from sluiceway.spec.values import Location, TableName


class TableTarget(Block):
    """Where rows go.

    Attributes:
        connection: Name of the connection to the catalog.
        name: `database.table`; may hold groups of the topic pattern, as `ods.app_{1}`.
        create: Whether a missing table is created.
        location: Root folder of a table that is created.
        create_location: Whether folders above the table's are made where they are missing.
        storage: Name of the connection to the store that it lies on; None is the job file's only
            one of that kind, or what the machine's own settings say.
    """

    connection: str
    name: TableName
    create: Literal["if_missing", "never"] = "if_missing"
    location: Location | None = None
    create_location: bool = False
    storage: str | None = None

    @property
    def is_template(self) -> bool:
        """Whether the name is made from a topic's."""
        return bool(groups_in(self.name))

    @property
    def database(self) -> str:
        """Database as catalogs of Hive store it: in lower case."""
        return self.name.partition(".")[0].lower()

    @property
    def table(self) -> str:
        """Table as catalogs of Hive store it: in lower case."""
        return self.name.partition(".")[2].lower()
