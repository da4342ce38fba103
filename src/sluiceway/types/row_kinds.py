"""What a change does to the row of its key, from the message to the file that says so."""

from enum import IntEnum

KIND_COLUMN = "_sluiceway_kind"
"""Column of change files, after all others; no table has it."""
KIND_FIELD_ID = 2_000_000_001
"""Its id in them: above the ids of a table's columns, below the ones that Iceberg reserves."""


class RowKind(IntEnum):
    """The kind of a change."""

    IMAGE = 0
    """The row as it is from now on: of an insert, an update or a snapshot."""
    DELETE = 1
    """The row is gone; the change has nothing but its key."""
    FIRST = 2
    """An image, with which the source begins to send all rows from the start."""
    FIRST_GONE = 3
    """As `FIRST`, but the row is none of the table: `where` does not let it through."""
    TRUNCATE = 4
    """All earlier rows of the topic are gone; no key, no row."""
    FIRST_LOST = 5
    """As `FIRST`, but the record is dirty: no key, no row."""
