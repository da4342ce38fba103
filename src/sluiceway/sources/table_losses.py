"""Errors of an Iceberg table of others that no longer has the rows which a route has read."""

from collections.abc import Mapping

from sluiceway.errors import OffsetsLostError

SAFE = "rows that were read are safe in the route's own table"
NEW_ROUTE = "let a new route fill another table from this one, which begins with the rows of now"


def rows_removed(where: str, number: int, ids: Mapping[int, int], read: int) -> OffsetsLostError:
    """The error for a snapshot that has removed rows, and that the route does not pass over.

    Args:
        where: The table.
        number: Sequence number of the snapshot.
        ids: Sequence number -> id of each snapshot that the table still has.
        read: Rows that were read before.
    """
    return OffsetsLostError(
        f"{_named(number, ids)} has removed or replaced rows; {read:,} rows were read before",
        where=where,
        hint=f"{SAFE}: pass over removed rows with `source.on_correction: ignore`, or make the "
        "snapshot before it current again and start the job again; where the table was created "
        f"again, {NEW_ROUTE}",
    )


def rolled_back(where: str, number: int, ids: Mapping[int, int], what: str) -> OffsetsLostError:
    """The error for a table whose current snapshot is older than what was read.

    Args:
        where: The table.
        number: Sequence number of the snapshot with the last row that was read.
        ids: As in `rows_removed`.
        what: What shows it.
    """
    again = f"make {_named(number, ids)} current again and start the job again, or "
    hint = f"{SAFE}: {again if number in ids else ''}{NEW_ROUTE}"
    return OffsetsLostError(f"the table was rolled back: {what}", where=where, hint=hint)


def _named(number: int, ids: Mapping[int, int]) -> str:
    known = f" {ids[number]}" if number in ids else ""
    return f"the snapshot{known} of sequence number {number}"
