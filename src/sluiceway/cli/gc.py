"""`sluiceway gc`: remove what dead attempts left under the tables' stage folders."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sluiceway.errors import SluicewayError
    from sluiceway.ledger.collect import Collected

app = typer.Typer()

_FAILED = 1
_MIB = 1 << 20


@app.command()
def gc(
    job_file: Annotated[Path, typer.Argument(help="The job file.", metavar="JOB")],
    route: Annotated[
        str | None, typer.Option("--route", help="Only this route.", show_default=False)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what would go, and why.")
    ] = False,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="table|json", help="How to answer.")
    ] = "table",
) -> None:
    """Remove staged files and temporary files that no record can ever name any more.

    The log alone decides, never age: nothing that an undecided commit may still need is touched.
    Drivers may go on meanwhile; they do the same at their start and every ten minutes.
    """
    from sluiceway.audit.pick_route import job_routes, pick_route  # noqa: PLC0415
    from sluiceway.audit.run_gc import collect_route  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.errors import SluicewayError  # noqa: PLC0415
    from sluiceway.observe.log import stderr_log  # noqa: PLC0415

    if output not in ("table", "json"):
        raise typer.BadParameter("expected table or json", param_hint="-o")
    routes = job_routes(load_checked_job(job_file).spec, stderr_log(level="warning"))
    if route is not None or len(routes) == 1:
        chosen = pick_route(routes, route)
        found: dict[str, Collected | SluicewayError] = {
            chosen.route: collect_route(chosen, dry_run=dry_run)
        }
    else:
        found = {}
        for config in routes:
            try:
                found[config.route] = collect_route(config, dry_run=dry_run)
            except SluicewayError as error:
                found[config.route] = error
    if output == "json":
        each = {name: _as_json(one) for name, one in found.items()}
        sys.stdout.write(json.dumps({"dry_run": dry_run, "routes": each}) + "\n")
    else:
        for name, one in found.items():
            _print(name, one, dry_run=dry_run)
    code = max(map(_code, found.values()), default=0)
    if code:
        raise typer.Exit(code)


def _code(found: "Collected | SluicewayError") -> int:
    if isinstance(found, Exception):
        return found.exit_code
    return _FAILED if found.failed else 0


def _as_json(found: "Collected | SluicewayError") -> dict[str, Any]:
    if isinstance(found, Exception):
        return {"error": found.code, "message": str(found)}
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
        files = "1 file" if place.files == 1 else f"{place.files:,} files"
        size = f"{files}, {place.size_bytes:,} bytes"
        write(f"{verb} {place.path} ({size}): {place.reason}\n")
    for place in found.kept:
        write(f"kept {place.path}: {place.reason}\n")
    for place, why in found.failed:
        write(f"FAILED {place.path}: {why}\n")
    places = "1 place" if len(found.removed) == 1 else f"{len(found.removed):,} places"
    total = f"{places}, {found.size_bytes / _MIB:,.1f} MiB"
    write(f"{route}: {verb} {total}; {len(found.kept)} kept\n")
