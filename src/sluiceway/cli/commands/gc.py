"""`sluiceway gc`: remove what dead attempts left under the tables' stage folders."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.audit.format_times import counted
from sluiceway.audit.open_table import open_ledger
from sluiceway.cli.options import JobFile, OnlyRoute, Output, OutputFormat
from sluiceway.cli.views.answers import print_document, raise_code, read_each, route_answers
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.ledger.collect import Collected, garbage_of

if TYPE_CHECKING:
    from sluiceway.errors import SluicewayError


app = typer.Typer()

_FAILED = 1
_MIB = 1 << 20


@app.command()
def gc(
    job_file: JobFile,
    route: OnlyRoute = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would go, and why.")
    ] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Remove staged files and temporary files that no record can ever name any more.

    The log alone decides, never age: no file that an undecided commit may still need is removed.
    Drivers may go on meanwhile; they do the same at their start and every ten minutes.
    """
    from sluiceway.audit.pick_route import job_routes, pick_route  # noqa: PLC0415
    from sluiceway.cli.commands.gc import collect_route  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415

    routes = job_routes(load_checked_job(job_file).spec, WarningsOnDemand())
    chosen = routes if route is None else (pick_route(routes, route),)
    found = read_each(chosen, lambda config: collect_route(config, dry_run=dry_run), output)
    if output.is_document:
        print_document(
            {"dry_run": dry_run, "routes": route_answers(chosen, found, _as_json)}, output
        )
    else:
        for config, one in zip(chosen, found, strict=True):
            _print(config.route, one, dry_run=dry_run)
    raise_code(found, lambda one: _FAILED if one.failed else 0)


def _as_json(found: "Collected") -> dict[str, Any]:
    shown = asdict(found)
    shown["failed"] = [{**asdict(place), "error": why} for place, why in found.failed]
    return {**shown, "size_bytes": found.size_bytes}


def _print(route: str, found: "Collected | SluicewayError", *, dry_run: bool) -> None:
    write = sys.stdout.write
    if isinstance(found, Exception):
        write(f"{route}: NOT LOOKED AT [{found.code}] {found}\n")
        return
    verb = "would remove" if dry_run else "removed"
    for place in found.removed:
        size = f"{counted(place.files, 'file')}, {place.size_bytes:,} bytes"
        write(f"{verb} {place.path} ({size}): {place.reason}\n")
    for place in found.kept:
        write(f"kept {place.path}: {place.reason}\n")
    for place, why in found.failed:
        write(f"FAILED {place.path}: {why}\n")
    places = counted(len(found.removed), "place")
    total = f"{places}, {found.size_bytes / _MIB:,.1f} MiB"
    write(f"{route}: {verb} {total}; {len(found.kept)} kept\n")


_ALL = 1 << 62


def collect_route(config: RouteConfig, *, dry_run: bool) -> Collected:
    """Remove the garbage of a route, or only list it. A live driver may go on.

    Writes no record and takes no fence: a file that the log no longer needs stays unneeded.

    Raises:
        TableNotFoundError: There is no such table.
        LedgerMismatchError: Its ledger is another job's or route's.
        LedgerCorruptError: The log is damaged; nothing is removed then.
        StorageUnavailableError: The store failed.
        MetastoreUnavailableError: The place of the table is not known.
    """
    ledger = open_ledger(config)
    return garbage_of(ledger.log, ledger.fold).collect(dry_run=dry_run, most=_ALL)
