"""Rows of simulated files, against those that the brokers had."""

from collections import Counter

from sim.broker import hour
from sim.folded import NamedFile
from sim.places import require

Row = tuple[int, int]
"""(partition, offset)."""


def file_rows(content: bytes) -> list[Row]:
    """Rows of a simulated data file."""
    return [(int(p), int(o)) for p, o in (line.split(":") for line in content.decode().split())]


def rows_fit(files: list[tuple[NamedFile, str]], wanted: list[Row], optional: int) -> bool:
    """Whether files have just these rows, each in its own partition; some may be gone."""
    rows = [row for file, _ in files for row in file_rows(file.content)]
    apart = all(
        hour(*row) == value for file, value in files if value for row in file_rows(file.content)
    )
    exact = sorted(rows) == sorted(wanted)
    subset = optional and len(set(rows)) == len(rows) and set(rows) <= set(wanted)
    return apart and bool(exact or subset)


def compare_rows(kind: str, found: Counter[Row], wanted: Counter[Row]) -> None:
    """A row is there once for each passage that has read it."""
    foreign, lost = set(found) - set(wanted), wanted - found
    require(not foreign, "end", f"{kind} rows that nobody wrote: {sorted(foreign)[:3]}")
    require(not found - wanted, "end", f"{kind} rows are doubled: {sorted(found - wanted)[:3]}")
    require(not lost, "end", f"{kind} rows are lost: {sorted(lost)[:3]}")
