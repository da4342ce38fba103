"""Rows of simulated files, against the brokers' rows."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from sim.places import require

if TYPE_CHECKING:
    from sim.folded import NamedFile

Row = tuple[int, int]
"""(partition, offset)."""

Named: TypeAlias = "list[tuple[NamedFile, str]]"
"""Files, each with its partition's value."""


def file_rows(content: bytes) -> list[Row]:
    """Rows of a simulated data file."""
    return [(int(p), int(o)) for p, o in (line.split(":") for line in content.decode().split())]


def rows_fit(
    files: Named, wanted: list[Row], optional: int, value_of: Callable[[int, int], str]
) -> bool:
    """Whether files have just these rows, each in its own partition; some may be gone."""
    rows = [row for file, _ in files for row in file_rows(file.content)]
    apart = all(
        value_of(*row) == value for file, value in files if value for row in file_rows(file.content)
    )
    exact = sorted(rows) == sorted(wanted)
    subset = optional and not Counter(rows) - Counter(wanted)
    return apart and bool(exact or subset)


def compare_rows(kind: str, found: Counter[Row], wanted: Counter[Row]) -> None:
    """A row is there once for each passage that has read it."""
    foreign, lost = set(found) - set(wanted), wanted - found
    require(not foreign, "end", f"{kind} rows that nobody wrote: {sorted(foreign)[:3]}")
    require(not found - wanted, "end", f"{kind} rows are doubled: {sorted(found - wanted)[:3]}")
    require(not lost, "end", f"{kind} rows are lost: {sorted(lost)[:3]}")
