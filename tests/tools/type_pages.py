"""Generated pages and blocks of the documentation, written from the data that they show.

`python -m tools.type_pages` writes them in place; a test compares.
"""

import re
import sys
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from sluiceway.types.dirty import DirtyReason
from sluiceway.types.dirty_pages import PAGES
from sluiceway.types.matrix import MATRIX, Cell, CellOutcome, ColumnKind
from sluiceway.types.policy import ROUNDING_MODES
from sluiceway.types.typed_matrix import AVRO_MATRIX, PROTOBUF_MATRIX, TYPED_CELLS, FormatCell
from tools.fault_page import fault_results, rocketmq_results
from tools.reference_pages import PAGES as PAGES_OF_CODE
from tools.reference_pages import table as _table

DOCS = Path(__file__).resolve().parents[2] / "docs"
_BLOCK = "<!-- generated: {name} -->\n"
AnyCell = TypeVar("AnyCell", Cell, FormatCell)
_END = "<!-- end of generated -->\n"


def generated(page: str, text: str) -> str:
    """The page with its generated blocks as they have to be."""
    for name, make in BLOCKS[page].items():
        begin = _BLOCK.format(name=name)
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(_END)}", re.DOTALL)
        block = f"{begin}{make()}{_END}"
        parts = pattern.split(text)
        if len(parts) != 2:
            raise ValueError(f"{page} has {len(parts) - 1} blocks {name}")
        text = block.join(parts)
    return text


def format_overview(cells: tuple[FormatCell, ...]) -> str:
    """A format's kinds against types, in columns that say nothing, kinds that fare alike as one."""
    fates: dict[tuple[str, ...], list[str]] = {}
    for source in dict.fromkeys(cell.source for cell in cells):
        plain = {
            cell.target: cell for cell in cells if cell.source is source and not cell.variant.label
        }
        fates.setdefault(tuple(_mark(plain[of]) for of in ColumnKind), []).append(source)
    rows = [["type", *("; ".join(sources) for sources in fates.values())]]
    for place, target in enumerate(ColumnKind):
        rows.append([f"`{target}`", *(marks[place] for marks in fates)])
    return _table(rows)


def typed_rules() -> str:
    """What becomes of values that JSON has not."""
    rows = [["value", "policy", "type", "outcome", "becomes", "else dirty"]]
    cells = sorted(TYPED_CELLS, key=lambda cell: cell.source)
    for cell, targets in _merged(cells):
        label = f"`{cell.variant.label}`" if cell.variant.label else ""
        rows.append([cell.source, label, targets, cell.outcome, cell.rule, _reasons(cell)])
    return _table(rows)


def _mark(cell: Cell | FormatCell) -> str:
    return "" if cell.outcome is CellOutcome.NEVER else cell.outcome.value


def matrix_rules() -> str:
    """What values become, and why they may be dirty."""
    rows = [["JSON", "type", "outcome", "becomes", "else dirty"]]
    cells = [
        cell for cell in MATRIX if not cell.variant.label and cell.outcome is not CellOutcome.NEVER
    ]
    for cell, targets in _merged(cells):
        rows.append([cell.source, targets, cell.outcome, cell.rule, _reasons(cell)])
    return _table(rows)


def matrix_policies() -> str:
    """What each policy changes."""
    rows = [["policy", "JSON", "type", "outcome", "becomes", "still dirty"]]
    cells = sorted(
        (cell for cell in MATRIX if cell.variant.label), key=lambda cell: cell.variant.label
    )
    for cell, targets in _merged(cells):
        label = f"`{cell.variant.label}`"
        rows.append([label, cell.source, targets, cell.outcome, cell.rule, _reasons(cell)])
    return _table(rows)


def _merged(cells: Iterable[AnyCell]) -> Iterable[tuple[AnyCell, str]]:
    """Cells that differ in their type only as one."""

    def same(cell: AnyCell) -> tuple[object, ...]:
        return (cell.variant.label, cell.source, cell.outcome, cell.rule, cell.reasons)

    for _, found in groupby(cells, key=same):
        group = list(found)
        targets = [cell.target for cell in group]
        shown = (
            "every type"
            if len(targets) == len(ColumnKind)
            else ", ".join(f"`{target}`" for target in targets)
        )
        yield group[0], shown


def _reasons(cell: Cell | FormatCell) -> str:
    codes = ", ".join(f"`{reason}`" for reason in cell.reasons)
    return f"{codes}{', ' if codes else ''}those of the values inside" if cell.inner else codes


def reason_help() -> str:
    """Every reason with its meaning and what to do, in a line."""
    rows = [["reason", "what is wrong", "what to do"]]
    for reason in DirtyReason:
        page = PAGES[reason]
        rows.append([f"`{reason}`", page.meaning, page.todo])
    return _table(rows)


def policies_in_short() -> str:
    """What each policy changes, whatever the kind of value it comes as."""
    found: dict[tuple[str, str], list[str]] = {}
    for cell in MATRIX:
        if cell.variant.label and cell.outcome is not CellOutcome.NEVER:
            key = (_general(cell.variant.label), _general(cell.rule))
            targets = found.setdefault(key, [])
            targets += [cell.target] if cell.target not in targets else []
    rows = [["policy", "types", "becomes"]]
    for (label, rule), targets in sorted(found.items()):
        rows.append([f"`{label}`", ", ".join(f"`{one}`" for one in targets), rule])
    return _table(rows)


_FAMILIES = {
    "integers": ("tinyint", "smallint", "int", "bigint"),
    "floats": ("float", "double"),
    "times": ("timestamp", "timestamp with local time zone"),
    "texts": ("string", "varchar", "char"),
}


def _families(text: str) -> str:
    """A table in which types that are always named together have one name."""
    for name, types in _FAMILIES.items():
        text = text.replace(", ".join(f"`{one}`" for one in types), name)
    return text


def _general(text: str) -> str:
    """Without the unit and the way of rounding: they change nothing else."""
    text = re.sub(r"round\([a-z_]+\)", "round(MODE)", text)
    text = re.sub(r"unit: (?:s|ms|us|ns)\b", "unit: UNIT", text)
    if not text.startswith("rounded"):
        return text
    return re.sub(rf", (?:{'|'.join(ROUNDING_MODES)})\b", " by MODE", text)


BLOCKS: dict[str, dict[str, Callable[[], str]]] = {
    "reference/types.md": {
        "rules": lambda: _families(matrix_rules()),
        "policies": lambda: _families(policies_in_short()),
    },
    "guides/dirty-rows.md": {"reasons": reason_help},
    "contributors/faults.md": {"results": fault_results, "results of rocketmq": rocketmq_results},
}
"""Pages that people write, with blocks in them that are made of data."""
CELLS = Path(__file__).resolve().parents[1] / "golden" / "type_cells.md"
"""Every cell of the matrices, too many for a page: a review reads what a change of them does."""


def cells() -> str:
    """Each policy, and each kind of value of Avro and Protobuf, with all outcomes."""
    formats = (format_overview(AVRO_MATRIX), format_overview(PROTOBUF_MATRIX))
    return "\n".join([matrix_policies(), *formats, typed_rules()])


def main() -> int:
    """Write the pages."""
    for page in BLOCKS:
        path = DOCS / page
        path.write_text(generated(page, path.read_text("utf-8")), "utf-8")
    for page, text in PAGES_OF_CODE.items():
        (DOCS / page).write_text(text(), "utf-8")
    CELLS.write_text(cells(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
