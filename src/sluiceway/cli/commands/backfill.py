"""`sluiceway backfill`: read again what made an hour, and replace its rows at once."""

import re
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from sluiceway.audit.format_times import counted
from sluiceway.cli.options import JobFile, OneRoute, Output, OutputFormat, this_operator
from sluiceway.cli.views.answers import print_document
from sluiceway.cli.views.tables import print_table
from sluiceway.upkeep.partition_requests import RowOrigin

if TYPE_CHECKING:
    from sluiceway.audit.open_table import OpenLedger
    from sluiceway.audit.planned_backfill import PlannedBackfill
    from sluiceway.jobfile.compile.config import RouteConfig
    from sluiceway.ledger.partition_records import SwapCounts
    from sluiceway.upkeep.partition_requests import BackfillAnswer

app = typer.Typer()

_AS_MANY = -1


@app.command()
def backfill(  # noqa: PLR0913, PLR0917 - options of a command
    job_file: JobFile,
    prefix: Annotated[
        str,
        typer.Argument(
            help="What is replaced, as dt=20261120/hr=08; dt=20261120 stands for all below it.",
            metavar="PREFIX",
        ),
    ],
    origin: Annotated[
        RowOrigin,
        typer.Option(
            "--from",
            help="ledger: what made the rows, from the queue, by today's job file. "
            "files: Parquet or ORC files with the table's columns. table: another table of ours "
            "with its columns. inputs: the table that the route reads; with mode: recompute its "
            "SQL runs again. offsets: its rows, and what the queue has from before the route "
            "began.",
        ),
    ],
    named: Annotated[
        str | None,
        typer.Argument(
            help="With --from files: the files, as '/fixed/2026-11-20/*.parquet'. "
            "With --from table: the table, as ods.orders_fixed.",
            metavar="GLOB|TABLE",
            show_default=False,
        ),
    ] = None,
    route: OneRoute = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read and count; change nothing.")
    ] = False,
    accept_rows: Annotated[
        int | None,
        typer.Option("--accept-rows", help="Go on when there are so many rows afterwards."),
    ] = None,
    why: Annotated[str, typer.Option("--why", help="Kept in the ledger.")] = "",
    output: Output = OutputFormat.TABLE,
) -> None:
    """Read again what made the rows of an hour or day, and replace them all at once.

    A running driver does it while it commits epochs, else this process. Readers see the old rows
    or the new ones. Rows that come meanwhile stay. Rows that were dirty or late then are not read:
    `dirty replay` and `late replay` bring them. What the broker has lost is listed, and nothing is
    done. Another number of rows than before is shown, and nothing is done without --accept-rows.

    $ sluiceway backfill orders.yaml dt=20261120/hr=08 --from ledger --dry-run
    $ sluiceway backfill orders.yaml dt=20261120/hr=08 --from ledger --why "wrong rate"
    $ sluiceway backfill orders.yaml dt=20261120/hr=08 --from files '/fixed/*.parquet'
    $ sluiceway backfill orders.yaml dt=20261120/hr=08 --from table ods.orders_fixed
    $ sluiceway backfill refined.yaml dt=20261120/hr=08 --from inputs
    """
    from sluiceway.audit.open_table import open_ledger  # noqa: PLC0415
    from sluiceway.audit.pick_route import job_routes, pick_route  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415

    _check_usage(origin, named, accept_rows)
    config = pick_route(job_routes(load_checked_job(job_file).spec, WarningsOnDemand()), route)
    ledger = open_ledger(config)
    name = _folder(config, prefix)
    read = _Read(origin, () if named is None else _found(config, origin, named))
    if dry_run:
        _print_planned(config, ledger, name, read, output)
        return
    _refuse_unused(ledger, name)
    accepted = _AS_MANY if accept_rows is None else accept_rows
    answer = _carried_out(config, ledger, name, read, why.strip(), accepted)
    _print_answer(config.route, name, answer, output)


class _Read(NamedTuple):
    """What is read, as in a `BackfillRequest`."""

    origin: RowOrigin
    names: tuple[str, ...]


def _check_usage(origin: RowOrigin, named: str | None, accept_rows: int | None) -> None:
    if (named is None) is (origin in (RowOrigin.FILES, RowOrigin.TABLE)):
        raise typer.BadParameter(
            "with --from files or --from table, and only then", param_hint="GLOB|TABLE"
        )
    if origin is RowOrigin.TABLE and not re.fullmatch(r"\w+\.\w+", str(named)):
        raise typer.BadParameter("a table as ods.orders", param_hint="TABLE")
    if accept_rows is not None and accept_rows < 0:
        raise typer.BadParameter("a number of rows", param_hint="--accept-rows")


def _print_answer(route: str, name: str, answer: "BackfillAnswer", output: OutputFormat) -> None:
    if output.is_document:
        print_document({"dry_run": False, "route": route, **asdict(answer)}, output)
        return
    sys.stdout.write(
        f"{route}: {name} has {counted(answer.rows_after, 'row')} now, "
        f"{answer.rows_before:,} before, by slot {answer.slot}\n"
    )
    _print_counts(answer.counts, answer.dirty_reasons)


def _folder(config: "RouteConfig", prefix: str) -> str:
    from sluiceway.sinks.partition_path import requested_folder  # noqa: PLC0415

    name = prefix.strip("/")
    return name if config.table.lake is not None else requested_folder(name)


def _refuse_unused(ledger: "OpenLedger", prefix: str) -> None:
    from sluiceway.errors import WrongUsageError  # noqa: PLC0415

    if ledger.fold.first_fence is None:
        raise WrongUsageError("no driver has ever filled the table", where=prefix)


def _carried_out(
    config: "RouteConfig",
    ledger: "OpenLedger",
    prefix: str,
    read: _Read,
    why: str,
    accept_rows: int,
) -> "BackfillAnswer":
    """Have it done.

    Raises:
        SluicewayError: Nothing was changed; says why.
    """
    from sluiceway.audit.sql_preview import unit_engine  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415
    from sluiceway.operate.requested import carry_out  # noqa: PLC0415
    from sluiceway.types.strict_json import BigInt  # noqa: PLC0415
    from sluiceway.upkeep.partition_requests import (  # noqa: PLC0415
        BACKFILL,
        BackfillAnswer,
        BackfillRequest,
    )
    from sluiceway.upkeep.requests import REQUEST_VERSION  # noqa: PLC0415

    fence = ledger.fold.first_fence
    assert fence is not None  # noqa: S101 - looked at before
    request = BackfillRequest(
        version=REQUEST_VERSION,
        ledger=fence.ledger,
        kind=BACKFILL,
        operator=this_operator(),
        reason=why,
        prefix=prefix,
        origin=read.origin.value,
        names=read.names,
        accept_rows=BigInt(accept_rows),
    )
    log = WarningsOnDemand()
    computes = config.units is not None and read.origin is RowOrigin.INPUTS
    units = unit_engine if computes else None
    answer = carry_out(
        config, ledger.log, request, BackfillAnswer, lambda *_: None, log, units=units
    )
    if answer.failure is not None:
        raise answer.failure.to_error()
    return answer


def _found(config: "RouteConfig", origin: RowOrigin, named: str) -> tuple[str, ...]:
    from sluiceway.audit.planned_backfill import files_of  # noqa: PLC0415

    return files_of(config, named) if origin is RowOrigin.FILES else (named,)


def _print_planned(
    config: "RouteConfig",
    ledger: "OpenLedger",
    prefix: str,
    read: _Read,
    output: OutputFormat,
) -> None:
    from sluiceway.audit.planned_backfill import foresee  # noqa: PLC0415

    found = foresee(config, ledger, prefix, *read)
    if output.is_document:
        print_document({"dry_run": True, "route": config.route, **asdict(found)}, output)
        return
    if found.ranges:
        _print_ranges(found)
    write = sys.stdout.write
    if found.counts is None:
        write("the broker has lost some of it: nothing would be done\n")
    else:
        would = found.counts.written
        write(f"{prefix} has {found.rows_before:,} rows, and would have {would:,}\n")
        _print_counts(found.counts, found.dirty_reasons)
        if would != found.rows_before:
            write(f"it would be done with --accept-rows {would}\n")
    write("nothing was changed\n")


def _print_ranges(found: "PlannedBackfill") -> None:
    rows: list[tuple[str, ...]] = [("LOG", "FROM", "TO", "LOST")]
    lost = {(each.topic, each.partition, each.start): each.why for each in found.lost}
    for each in found.ranges:
        why = lost.get((each.topic, each.partition, each.start), "")
        log = f"{each.topic}[{each.partition}]"
        rows.append((log, f"{each.start:,}", f"{each.end:,}", why or "-"))
    print_table(rows)
    if found.replayed:
        sys.stdout.write(f"and {counted(found.replayed, 'row')} of replays\n")


def _print_counts(counts: "SwapCounts", reasons: dict[str, int]) -> None:
    parts: dict[str, Any] = asdict(counts)
    shown = ", ".join(f"{name} {rows:,}" for name, rows in parts.items() if rows)
    sys.stdout.write(f"  {shown}\n")
    for reason, rows in sorted(reasons.items()):
        sys.stdout.write(f"  dirty: {reason} {rows:,}\n")
