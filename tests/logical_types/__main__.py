"""`python -m logical_types`: what becomes of each type; the last line is the outcome as JSON."""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog

from logical_types.cases import Case, cases
from logical_types.judge import is_right
from logical_types.readers import (
    HIVE_BY_SPARK,
    LAKE_BY_PYICEBERG,
    LAKE_BY_SPARK,
    READERS,
    Rows,
    read_by_pyiceberg,
    read_hive,
    read_lake,
    spark,
)
from logical_types.tables import FORMATS, WAYS, WrittenTable, sources, types_of, write_table

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/logical-types.md"
CELLS = Path(__file__).resolve().parents[1] / "golden/logical_types.md"
"""Every case, those within arrays, structs and maps too: too many for a page."""
_NESTED = ("array of ", "struct with ", "map of ")
_MARK = "<!-- generated: logical types -->"
_END = "<!-- end of generated -->"
RIGHT, ASIDE, SILENT = "right", "dirty_with_reason", "silent"


def judge(of: Sequence[Case], table: WrittenTable, rows: Rows) -> list[tuple[str, str]]:
    """The outcome of each case for one reader, and what to show of it."""
    types, found = types_of(table), list[tuple[str, str]]()
    for number, case in enumerate(of):
        name = f"c{number}"
        if name not in types:
            found.append((ASIDE, f"no column: {table.refused.get(number, 'nothing tells it')}"))
        elif number in table.dirty:
            found.append((ASIDE, f"`{types[name]}`, dirty: `{table.dirty[number]}`"))
        else:
            value = rows.get(number, {}).get(name)
            right = is_right(case, value)
            shown = f"`{types[name]}`" if right else f"`{types[name]}`, WRONG: {value!r}"
            found.append((RIGHT if right else SILENT, shown))
    return found


def measure(
    of: Sequence[Case], folder: Path, readers: Mapping[str, Callable[[WrittenTable], Rows]]
) -> tuple[Counter[str], dict[tuple[str, str], list[str]]]:
    """Write all tables and read them.

    Returns:
        Numbers of outcomes, and for each way and format what to show of each case.
    """
    counts: Counter[str] = Counter(dict.fromkeys((RIGHT, ASIDE, SILENT, "unreadable_tables"), 0))
    shown: dict[tuple[str, str], list[str]] = {}
    warehouse = folder / "lake"
    warehouse.mkdir()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/c.db", warehouse=warehouse.as_uri())
    catalog.create_namespace("ods")
    with sources(of) as formats:
        for way in WAYS:
            for source in formats:
                table = write_table(way, source, of, folder, catalog)
                texts: dict[str, list[str]] = {}
                for reader, read in readers.items():
                    try:
                        rows = read(table)
                    except Exception as error:  # noqa: BLE001 - whatever a reader says of it
                        counts["unreadable_tables"] += 1
                        print(f"{table.name}, {reader}: {str(error)[:500]}", file=sys.stderr)
                        rows = {}
                    outcomes = judge(of, table, rows)
                    counts.update(outcome for outcome, _ in outcomes)
                    texts[reader] = [text for _, text in outcomes]
                shown[way, source.format] = [
                    _common(dict(zip(texts, each, strict=True)))
                    for each in zip(*texts.values(), strict=True)
                ]
    return counts, shown


def _common(texts: Mapping[str, str]) -> str:
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{reader}: {text}" for reader, text in texts.items())


def cells(of: Sequence[Case], shown: Mapping[tuple[str, str], list[str]]) -> list[str]:
    """A table of all cases, a line each: ways with one outcome are shown as one."""
    lines = [f"| type | {' | '.join(FORMATS)} |", "|---|---|---|---|"]
    for number, case in enumerate(of):
        found = [_of_ways({way: shown[way, name][number] for way in WAYS}) for name in FORMATS]
        lines.append(f"| `{case.name}` | {' | '.join(found)} |")
    return lines


def page_text(lines: Sequence[str], outcome: Mapping[str, int]) -> str:
    """The generated part of the page: types by themselves, and the outcome of all cases."""
    flat = [line for line in lines if not line.startswith(tuple(f"| `{name}" for name in _NESTED))]
    return "\n".join([_MARK, "", *flat, "", "```json", json.dumps(outcome), "```", _END])


def _of_ways(texts: Mapping[str, str]) -> str:
    ways: dict[str, list[str]] = {}
    for way, text in texts.items():
        ways.setdefault(text, []).append(way)
    if len(ways) == 1:
        return next(iter(ways)).replace("|", "\\|")
    said = (f"{', '.join(names)}: {text}" for text, names in ways.items())
    return "; ".join(said).replace("|", "\\|")


def with_outcome(counts: Counter[str]) -> dict[str, int]:
    """The outcome as it is told."""
    cells = counts[RIGHT] + counts[ASIDE] + counts[SILENT]
    names = (RIGHT, ASIDE, SILENT, "unreadable_tables")
    return {"cells": cells, **{name: counts[name] for name in names}}


def main() -> int:
    """Write the page; 1 when a value changed or a table cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m logical_types", description=__doc__)
    parser.add_argument("--no-page", action="store_true", help="leave the page as it is")
    options = parser.parse_args()
    # Spark's rows hold times of this process's zone.
    os.environ["TZ"] = "UTC"
    time.tzset()
    of = cases()
    with tempfile.TemporaryDirectory(prefix="logical-types-") as made:
        folder = Path(made)
        with spark(folder) as session:
            readers = {
                HIVE_BY_SPARK: lambda table: read_hive(session, table),
                LAKE_BY_SPARK: lambda table: read_lake(session, table),
                LAKE_BY_PYICEBERG: read_by_pyiceberg,
            }
            assert tuple(readers) == READERS
            counts, shown = measure(of, folder, readers)
    outcome = with_outcome(counts)
    if not options.no_page:
        lines = cells(of, shown)
        CELLS.write_text("\n".join(lines) + "\n", "utf-8")
        text = PAGE.read_text(encoding="utf-8")
        begin, end = text.index(_MARK), text.index(_END) + len(_END)
        PAGE.write_text(text[:begin] + page_text(lines, outcome) + text[end:], "utf-8")
    print(json.dumps(outcome))
    return 1 if outcome[SILENT] or outcome["unreadable_tables"] else 0


if __name__ == "__main__":
    sys.exit(main())
