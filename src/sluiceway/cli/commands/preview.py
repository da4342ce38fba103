"""`sluiceway preview`: rows and dirty rows of some records, as the table would get them."""

import json
import shutil
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.audit.format_times import counted
from sluiceway.cli.options import JobFile, OneRoute, Output, OutputFormat
from sluiceway.cli.views.answers import print_document
from sluiceway.cli.views.tables import printable, table_lines
from sluiceway.cli.views.waiting import printed_while_waiting, servers_of

if TYPE_CHECKING:
    from sluiceway.audit.row_preview import Preview, PreviewDirty

app = typer.Typer()

_MOST_RECORDS = 10_000
_RECORDS = 10
_CELL = 40
_WIDE = 160
_SHOWN_FOLDERS = 10


class Which(StrEnum):
    """Which records."""

    NEWEST = "newest"
    NEXT = "next"
    OLDEST = "oldest"


@app.command()
def preview(
    job_file: JobFile,
    records: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--records",
            min=1,
            max=_MOST_RECORDS,
            help="How many to read.",
            show_default="10; all of a file",
        ),
    ] = None,
    which: Annotated[
        Which,
        typer.Option(
            "--from",
            metavar="newest|next|oldest",
            help="Of the log: its newest, its oldest, or what a run would begin with.",
        ),
    ] = Which.NEWEST,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Values of records, a line each, instead of the log's."),
    ] = None,
    route: OneRoute = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Read some records and show the rows that the table would get, and dirty rows with reasons.

    Writes nothing: no file, no ledger, no table, no offset. The table need not exist yet. The code
    of a run makes the rows; lateness of a row for its hour is not shown. With --file no broker is
    asked, and the table is as the job file would create it. A route with `mode: recompute`
    shows its newest or oldest unit, and --records is how many rows to show.

    $ sluiceway preview orders.yaml -n 100
    $ sluiceway preview orders.yaml --from next -o json
    $ sluiceway preview orders.yaml --file sample.jsonl
    """
    if file is not None:
        _preview_file(job_file, file, records, route, output)
        return
    from sluiceway.audit.pick_route import pick_route, routes_without_brokers  # noqa: PLC0415
    from sluiceway.audit.planned_route import foresee_route, foresee_source  # noqa: PLC0415
    from sluiceway.audit.row_preview import (  # noqa: PLC0415
        newest_splits,
        next_splits,
        oldest_splits,
        preview_rows,
    )
    from sluiceway.audit.unit_preview import preview_unit  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415

    spec = load_checked_job(job_file).spec
    choose = {Which.NEWEST: newest_splits, Which.NEXT: next_splits, Which.OLDEST: oldest_splits}
    with printed_while_waiting(servers_of(spec)):
        config = pick_route(routes_without_brokers(spec, WarningsOnDemand(), route), route)
        foreseen = foresee_route(config)
        if config.units is not None:
            found = preview_unit(foreseen, newest=which is Which.NEWEST, most=records or _RECORDS)
        else:
            source = foresee_source(foreseen)
            if source.problems:
                raise source.problems[0]
            found = preview_rows(foreseen, choose[which](source.starts, records or _RECORDS))
    if output.is_document:
        print_document(_as_document(config.route, found, exists=foreseen.table.exists), output)
        return
    sys.stdout.write("\n".join([*_lines(found, which), ""]))


def _preview_file(
    job_file: Path, file: Path, records: int | None, route: str | None, output: OutputFormat
) -> None:
    from sluiceway.audit.given_records import preview_given, records_of_lines  # noqa: PLC0415
    from sluiceway.audit.pick_route import pick_route, routes_without_brokers  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.jobfile.compile.compile import compile_routes  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415

    spec = load_checked_job(job_file).spec
    job = compile_routes(spec)
    # A `route_by` has one route as long as no catalog is asked for its tables.
    alone = route is None and not job.templates
    routes = job.routes if alone else routes_without_brokers(spec, WarningsOnDemand(), route)
    config = pick_route(routes, route)
    found = preview_given(config, records_of_lines(file)[: records or _MOST_RECORDS])
    if output.is_document:
        print_document(_as_document(config.route, found, exists=False), output)
        return
    sys.stdout.write("\n".join([*_lines(found, Which.OLDEST), ""]))


def _as_document(route: str, found: "Preview", *, exists: bool) -> dict[str, Any]:
    rows = [{name: getattr(each, name) for name in each.__slots__} for each in found.rows]
    dirty = [{name: getattr(each, name) for name in each.__slots__} for each in found.dirty]
    return {
        "route": route,
        "table_exists": exists,
        "counts": found.counts,
        "partitions": dict(found.folders),
        "rows": rows,
        "dirty": dirty,
        "columns_never_filled": list(found.unfilled),
        "fields_never_read": list(found.unread),
        "tables_made": list(found.tables),
        "columns_added": list(found.added),
        "fields_refused": dict(found.refused),
    }


def _lines(found: "Preview", which: Which) -> list[str]:
    counts = found.counts
    if not counts.read:
        why = "where a run would begin there is none yet" if which is Which.NEXT else "it is empty"
        return [f"there is no record to look at: {why}"]
    lines = _row_lines(found)
    if found.dirty:
        lines += ["", *(line for row in found.dirty for line in _dirty_lines(row))]
    told = [counted(counts.read, "record"), counted(counts.written, "row")]
    told += [f"{counts.dirty:,} dirty"]
    left_out = "of other tables" if found.shared else "left out by `where`"
    told += [f"{counts.filtered:,} {left_out}"] if counts.filtered else []
    if found.unit:
        told = [f"{found.unit}: {counted(counts.read, 'row')} read"]
        told += [f"{counted(counts.written, 'row')} computed"]
    told += [f"{counts.skipped:,} skipped by the format"] if counts.skipped else []
    lines += ["", f"{', '.join(told)}; nothing was written"]
    folders = list(found.folders.items())
    if folders and folders[0][0]:
        shown = ", ".join(f"{name} {rows:,}" for name, rows in folders[:_SHOWN_FOLDERS])
        more = f" and {len(folders) - _SHOWN_FOLDERS} more" if len(folders) > _SHOWN_FOLDERS else ""
        lines.append(f"partitions: {printable(shown)}{more}")
    if found.tables:
        lines.append(f"the run makes tables: {printable(', '.join(found.tables))}")
    if found.added:
        lines.append(f"the run adds columns: {printable(', '.join(found.added))}")
    for name, why in list(found.refused.items())[:_SHOWN_FOLDERS]:
        lines.append(f"no column is added for the field {printable(name)}: {printable(why)}")
    if found.unfilled:
        unread = ", ".join(found.unread[:_SHOWN_FOLDERS])
        lines.append(
            f"warning: no row fills {', '.join(found.unfilled)}; "
            f"no column reads the fields {printable(unread)}"
        )
    return lines


def _row_lines(found: "Preview") -> list[str]:
    if not found.rows:
        return ["no record became a row"]
    heads = ["RECORD", "PARTITION", *found.columns]
    cells = [
        [f"{row.topic}[{row.partition}]@{row.offset}", row.folder, *map(_cell, row.values.values())]
        for row in found.rows
    ]
    if found.unit:
        heads, cells = heads[2:], [row[2:] for row in cells]
    elif not any(row.folder for row in found.rows):
        heads.pop(1)
        for row in cells:
            row.pop(1)
    if any(row.change is not None for row in found.rows):
        heads.insert(1, "CHANGE")
        for shown, each in zip(cells, found.rows, strict=True):
            shown.insert(1, each.change or "")
    lines = table_lines([heads, *cells])
    if max(map(len, lines)) <= max(_WIDE, shutil.get_terminal_size().columns):
        return lines
    return [line for row in cells for line in ("", *_upright(heads, row))][1:]


def _upright(heads: Sequence[str], row: Sequence[str]) -> list[str]:
    """A row that is too long for a line, as one line per column."""
    return table_lines(list(zip(heads, row, strict=True)))


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _CELL else f"{text[: _CELL - 3]}..."


def _dirty_lines(row: "PreviewDirty") -> list[str]:
    field = f" {printable(row.path)}" if row.path else ""
    return [
        f"{row.topic}[{row.partition}] offset {row.offset}: {row.reason}{field} ({row.stage})",
        f"  {printable(row.message)}",
    ]
