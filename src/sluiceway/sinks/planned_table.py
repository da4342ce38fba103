"""A table as the start of a route would find it, of whatever kind; for people, before any start."""

from dataclasses import dataclass

from sluiceway.sinks.contract import TableState


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table as it is, or as it would be made.

    Attributes:
        name: `database.table`.
        home: Folder of the ledger, a guess while the table is missing; empty where only its
            catalog knows, once it is created.
        state: What the route would make of it.
        exists: Whether it is there.
        statement: That would make the table, or the columns that it lacks; empty when it is whole.
        home_to_be: The same folder for people, where a part of its name is known only once the
            table is created, as `/wh/_sluiceway/orders-<uuid>`; empty where `home` is true.
    """

    name: str
    home: str
    state: TableState
    exists: bool
    statement: str
    home_to_be: str = ""

    @property
    def shown_home(self) -> str:
        """Folder of the ledger, as it is told to people."""
        return self.home_to_be or self.home
