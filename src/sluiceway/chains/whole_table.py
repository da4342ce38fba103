"""A whole table in one state."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Generator

    import pyarrow as pa


class WholeTable(NamedTuple):
    """A state of a table, and its rows.

    Attributes:
        pin: The state as records name it: `<uuid>@<slot>` of a ledger, `<uuid>@<snapshot>` of an
            Iceberg table.
        rows: All rows, in pieces of one schema; read once.
    """

    pin: str
    rows: "Generator[pa.Table]"
