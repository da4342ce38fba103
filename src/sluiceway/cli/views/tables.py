"""Tables for people: columns as wide as their widest cell, on the terminal and in a pipe.

Widths are rich's, so that names in Chinese or Japanese stay in line. Its `Table` is not used: it
breaks lines at a pipe's 80 columns, and takes seconds for the partitions of a year.
"""

import sys
from collections.abc import Container, Sequence

from rich.cells import cell_len

_GAP = "  "


def print_table(
    rows: Sequence[Sequence[str]],
    *,
    numbers: Container[int] = (),
    indent: int = 0,
) -> None:
    """Write a table to standard output; nothing when it has no row.

    Args:
        rows: Cells from left to right, as many in each row; the heads are a row like others.
        numbers: Positions of columns that are aligned to the right.
        indent: Blanks before each line.
    """
    sys.stdout.writelines(f"{line}\n" for line in table_lines(rows, numbers=numbers, indent=indent))


def table_lines(
    rows: Sequence[Sequence[str]],
    *,
    numbers: Container[int] = (),
    indent: int = 0,
) -> list[str]:
    """The lines of a table, as `print_table` writes them; one for each row, never broken."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*shown, strict=True)]
    return [(" " * indent + _GAP.join(_placed(row, widths, numbers))).rstrip() for row in shown]


def _placed(row: Sequence[str], widths: Sequence[int], numbers: Container[int]) -> list[str]:
    placed = []
    for position, (cell, width) in enumerate(zip(row, widths, strict=True)):
        blanks = " " * (width - cell_len(cell))
        placed.append(blanks + cell if position in numbers else cell + blanks)
    return placed


def printable(text: str) -> str:
    """One line without control characters: parts of it may be names that others chose."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
