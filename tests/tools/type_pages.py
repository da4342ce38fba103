"""Generated blocks of the documentation, written from the data that they show.

`python -m tools.type_pages` writes them in place; a test compares.
"""

import re
import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from sluiceway.observe.metrics import METRICS
from sluiceway.service.alerts import ALERTS
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.dirty_pages import PAGES
from sluiceway.types.matrix import MATRIX, Cell, ColumnKind, JsonKind, Outcome
from sluiceway.types.typed_matrix import AVRO_MATRIX, PROTOBUF_MATRIX, TYPED_CELLS, FormatCell
from tools.fault_page import fault_results, rocketmq_results

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


def matrix_overview() -> str:
    """Kinds of values against types, in columns that say nothing."""
    plain = {(cell.target, cell.source): cell for cell in MATRIX if not cell.variant.label}
    sources = [kind for kind in JsonKind if kind not in (JsonKind.NULL, JsonKind.MISSING)]
    rows = [["type", *sources]]
    for target in ColumnKind:
        marks = [_mark(plain[target, source]) for source in sources]
        rows.append([f"`{target}`", *marks])
    return _table(rows)


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
    return "" if cell.outcome is Outcome.NEVER else cell.outcome.value


def matrix_rules() -> str:
    """What values become, and why they may be dirty."""
    rows = [["JSON", "type", "outcome", "becomes", "else dirty"]]
    cells = [
        cell for cell in MATRIX if not cell.variant.label and cell.outcome is not Outcome.NEVER
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


def reason_table() -> str:
    """Every reason, in a line."""
    rows = [["reason", "stage", "meaning"]]
    for reason in DirtyReason:
        page = PAGES[reason]
        rows.append([f"`{reason}`", page.stages, page.meaning])
    return _table(rows)


def reason_help() -> str:
    """Every reason with an example and what to do, in a line."""
    rows = [["reason", "example", "what to do"]]
    for reason in DirtyReason:
        page = PAGES[reason]
        rows.append([f"`{reason}`", page.example, page.todo])
    return _table(rows)


def _table(rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines) + "\n"


def metric_table() -> str:
    """Every metric with its labels, in the order of the page."""
    rows = [["name", "kind", "labels beside those of the route", "what it says"]]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        own = labels if metric.of_route else f"{labels or 'none'}; of the process"
        rows.append([f"`{metric.full_name}`", metric.kind, own, metric.help])
    return _table(rows)


def alert_table() -> str:
    """Every alert: when it fires and how it is meant."""
    rows = [["alert", "fires when", "for", "severity"]]
    for alert in ALERTS:
        expression = alert.expression.replace("|", "\\|")
        link = f"[{alert.name}](runbook.md#{alert.anchor})"
        rows.append([link, f"`{expression}`", alert.for_, alert.severity])
    return _table(rows)


BLOCKS = {
    "types.md": {
        "overview": matrix_overview,
        "rules": matrix_rules,
        "policies": matrix_policies,
        "reasons": reason_table,
    },
    "schema-formats.md": {
        "avro overview": lambda: format_overview(AVRO_MATRIX),
        "protobuf overview": lambda: format_overview(PROTOBUF_MATRIX),
        "typed rules": typed_rules,
    },
    "guides/dirty-rows.md": {"reasons": reason_help},
    "faults.md": {"results": fault_results, "results of rocketmq": rocketmq_results},
    "metrics.md": {"metrics": metric_table, "alerts": alert_table},
}


def main() -> int:
    """Write the pages."""
    for page in BLOCKS:
        path = DOCS / page
        path.write_text(generated(page, path.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
