"""`sluiceway maintain`: merges small files and removes old snapshots and orphans of lake tables."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.audit.format_times import counted
from sluiceway.cli.options import JobFile, OnlyRoute, Output, OutputFormat
from sluiceway.cli.views.answers import print_document, raise_code, read_each, route_answers

if TYPE_CHECKING:
    from sluiceway.errors import SluicewayError
    from sluiceway.jobfile.compile.config import RouteConfig
    from sluiceway.operate.lake_maintain import Maintained, MaintenanceRequest

app = typer.Typer()

_FAILED = 1
_DAY_S = 86_400.0
_KEEP_S = 5 * _DAY_S
"""As Iceberg's own default, for tables without a value in the job file."""
_LEAST_AGE_S = _DAY_S
"""A writer has to commit a new file within a day: no younger file is an orphan."""


@app.command()
def maintain(  # noqa: PLR0913, PLR0917 - the command's options
    job_file: JobFile,
    route: OnlyRoute = None,
    keep: Annotated[
        str | None,
        typer.Option("--keep", help="Expire snapshots older than this, as 1d.", show_default=False),
    ] = None,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="Also remove files that nothing names.")
    ] = False,
    older_than: Annotated[
        str, typer.Option("--older-than", help="Age of files that --orphans removes; 1d at least.")
    ] = "3d",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done.")
    ] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Merge the small files of lake tables, then expire their old snapshots.

    This process does it, whether a driver runs or not. The newest 100 snapshots of each table stay.
    Our last one stays too, and so does every snapshot with a branch or tag. Without --keep the age
    is table.iceberg.keep_snapshots, else 5d. Files that only expired snapshots name are removed.
    --orphans removes old files below the table's data and metadata folders, too: those without a
    name in any snapshot, metadata log or slot of the ledger. The store's clock decides their age.

    $ sluiceway maintain orders.yaml --keep 1d
    $ sluiceway maintain orders.yaml --orphans --older-than 3d --dry-run
    """
    from sluiceway.audit.pick_route import job_routes, pick_route  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.errors import WrongUsageError  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415

    keep_s = None if keep is None else _seconds(keep)
    age_s = _seconds(older_than)
    if age_s < _LEAST_AGE_S:
        raise typer.BadParameter(
            f"a file may be on its way for a day, so it is 1d at least, got {older_than!r}"
        )
    orphan_age_s = age_s if orphans else None
    routes = job_routes(load_checked_job(job_file).spec, WarningsOnDemand())
    chosen = routes if route is None else (pick_route(routes, route),)
    lakes = tuple(each for each in chosen if each.table.lake is not None)
    if not lakes:
        raise WrongUsageError(
            "no route of the job fills a lake table",
            where=str(job_file),
            hint="Hive tables have no snapshots; `sluiceway compact JOB` merges their files",
        )

    def work(each: "RouteConfig") -> "Maintained":
        return _maintained(each, _request(each, keep_s, orphan_age_s, dry_run=dry_run))

    found = read_each(lakes, work, output)
    if output.is_document:
        print_document({"dry_run": dry_run, "routes": route_answers(lakes, found, _plain)}, output)
    else:
        for config, one in zip(lakes, found, strict=True):
            _print(config.route, one, dry_run=dry_run)
    raise_code(found, lambda one: _FAILED if _reasons(one) else 0)


def _seconds(text: str) -> float:
    from sluiceway.jobfile.blocks.values import parse_duration_ms  # noqa: PLC0415

    try:
        return parse_duration_ms(text) / 1000
    except ValueError as error:
        raise typer.BadParameter(f"expected a duration such as 1d, got {text!r}") from error


def _request(
    config: "RouteConfig", keep_s: float | None, orphan_age_s: float | None, *, dry_run: bool
) -> "MaintenanceRequest":
    from sluiceway.operate.lake_maintain import MaintenanceRequest  # noqa: PLC0415

    said = None if config.table.lake is None else config.table.lake.keep_snapshots_s
    age_s = keep_s if keep_s is not None else _KEEP_S if said is None else said
    return MaintenanceRequest(age_s, orphan_age_s, dry_run)


def _maintained(config: "RouteConfig", wanted: "MaintenanceRequest") -> "Maintained":
    from sluiceway.audit.open_table import open_ledger  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415
    from sluiceway.operate.lake_compact import FencedLog  # noqa: PLC0415
    from sluiceway.operate.lake_maintain import Maintained, maintain_lake  # noqa: PLC0415
    from sluiceway.sinks.iceberg.compact.expiring import Expired  # noqa: PLC0415

    ledger = open_ledger(config)
    fence = ledger.fold.first_fence
    if fence is None:
        return Maintained(0, 0, (), Expired())
    fenced = FencedLog(ledger.log, fence.ledger)
    return maintain_lake(config, fenced, wanted, WarningsOnDemand())


def _plain(found: "Maintained") -> dict[str, Any]:
    return asdict(found)


def _print(route: str, found: "Maintained | SluicewayError", *, dry_run: bool) -> None:
    write = sys.stdout.write
    if isinstance(found, Exception):
        write(f"{route}: NOT MAINTAINED [{found.code}] {found}\n")
        return
    would = "would " if dry_run else ""
    gone = found.expired
    files = counted(found.files_before, "file")
    write(f"{route}: {files} {would}become {found.files_after:,}; ")
    write(f"{counted(gone.snapshots, 'snapshot')} and {counted(gone.tags, 'tag')} {would}go")
    if not dry_run:
        write(f", and {gone.data_files:,} data and {gone.metadata_files:,} metadata files")
    write("\n")
    if found.orphans is not None and not found.orphans.left:
        one = found.orphans
        write(f"{route}: {one.files:,} orphans {would}go, {one.size_bytes:,} bytes\n")
        for other in one.others:
            write(f"{route}: left alone, another table's or a link: {other}\n")
    for why in _reasons(found):
        write(f"{route}: FAILED: {why}\n")


def _reasons(found: "Maintained") -> list[str]:
    """What failed or was left undone, and why."""
    reasons = [*found.failed, found.expired.left]
    if found.orphans is not None:
        reasons.append(found.orphans.left)
        if found.orphans.failed:
            reasons.append(f"{found.orphans.failed:,} orphans could not be removed")
    return [each for each in reasons if each]
