"""`sluiceway verify`: the ledger against files, metastore and broker."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.audit.format_times import counted
from sluiceway.cli.options import JobFile, OnlyRoute, Output, OutputFormat
from sluiceway.cli.views.answers import print_document, raise_code, read_each, route_answers
from sluiceway.cli.views.typed_commands import typed

if TYPE_CHECKING:
    from sluiceway.audit.verify import VerifyReport
    from sluiceway.errors import SluicewayError

app = typer.Typer()

_NOT_AS_THE_LEDGER_SAYS = 7
_SHOWN = 20


@app.command()
def verify(
    job_file: JobFile,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every file whole and compare its checksum.")
    ] = False,
    route: OnlyRoute = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Check that the tables hold exactly what their ledgers say; exit with 7 when not.

    Reads the whole log (chain, ranges without gap or overlap, sums), every file's footer, the
    metastore's partitions and the broker's log ends. Changes nothing; a live driver may go on.

    $ sluiceway verify orders.yaml --deep
    """
    from sluiceway.audit.pick_route import job_routes, pick_route  # noqa: PLC0415
    from sluiceway.audit.run_verify import verify_route  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415

    routes = job_routes(load_checked_job(job_file).spec, WarningsOnDemand())
    chosen = routes if route is None else (pick_route(routes, route),)
    found = read_each(chosen, lambda config: verify_route(config, deep=deep), output)
    if output.is_document:
        verified = not any(map(_code, found))
        print_document(
            {"verified": verified, "routes": route_answers(chosen, found, _as_json)}, output
        )
    elif len(chosen) == 1 and not isinstance(found[0], Exception):
        _print(found[0], str(job_file))
    else:
        by_route = {one.route: each for one, each in zip(chosen, found, strict=True)}
        _print_all(by_route, str(job_file))
    raise_code(found, _code)


def _code(report: "VerifyReport | SluicewayError") -> int:
    if isinstance(report, Exception):
        return report.exit_code
    return 0 if report.verified else _NOT_AS_THE_LEDGER_SAYS


def _as_json(report: "VerifyReport") -> dict[str, Any]:
    return {"verified": report.verified, **asdict(report)}


def _print_all(reports: "dict[str, VerifyReport | SluicewayError]", job_file: str) -> None:
    for name, report in reports.items():
        sys.stdout.write(f"route {name}\n")
        if isinstance(report, Exception):
            sys.stdout.write(f"NOT LOOKED AT [{report.code}] {report}\n\n")
        else:
            _print(report, job_file)
            sys.stdout.write("\n")
    good = sum(_code(report) == 0 for report in reports.values())
    routes = "route" if len(reports) == 1 else "routes"
    sys.stdout.write(f"{good} of {len(reports)} {routes} verified\n")


def _print(report: "VerifyReport", job_file: str) -> None:
    write = sys.stdout.write
    write(f"records     {report.records:>12,}  chain {_word(report, 'chain')}\n")
    late = f"+ {report.late_rows:,} late " if report.late_rows else ""
    write(f"identity    {'':>12}  OWNER, table and ledger {_word(report, 'identity')}\n")
    write(
        f"offsets     {report.offsets:>12,}  = {report.rows:,} rows + {report.dirty_rows:,} dirty "
        f"{late}+ {report.filtered:,} filtered + {report.skipped:,} skipped + {report.gaps:,} gaps"
        f"{f' - {report.replayed:,} replayed' if report.replayed else ''}"
        f"{f' - {report.swapped:,} swapped' if report.swapped else ''}"
        f"{f' - {report.expanded:,} of several in one' if report.expanded else ''}\n"
    )
    if report.lanes:
        done = f"{report.replayed:,} dirty rows replayed, {report.purged:,} purged"
        done += f", {report.brought_in:,} late rows brought in" if report.brought_in else ""
        write(f"lanes       {report.lanes:>12,}  {done} {_word(report, 'lane')}\n")
    how = "size, rows and checksum" if report.deep else "size and rows"
    files = report.files + report.dirty_files + report.late_files
    write(f"files       {files:>12,}  {how} {_word(report, 'file')}\n")
    if report.let_go:
        write(f"let go      {report.let_go:>12,}  files of which lanes have read all rows\n")
    _print_places(report)
    if report.moved:
        command = typed("sluiceway files JOB", job_file)
        moved = counted(report.moved, "partition")
        write(
            f"note: a pattern of folders misses {moved} that compaction moved: "
            f"read by the catalog's partitions, or by `{command}`\n"
        )
    for note in report.unchecked[:_SHOWN]:
        write(f"note: {note}\n")
    if report.foreign:
        foreign = counted(len(report.foreign), "file")
        are = "is" if len(report.foreign) == 1 else "are"
        write(f"note: {foreign} {are} not of this job's making, not judged:\n")
        for path in report.foreign[:_SHOWN]:
            write(f"  {path}\n")
    for problem in report.problems[:_SHOWN]:
        write(f"PROBLEM {problem.kind} {problem.where}: {problem.message}\n")
    if len(report.problems) > _SHOWN:
        write(f"... and {len(report.problems) - _SHOWN} more (-o json lists all)\n")
    write("verified\n" if report.verified else "NOT VERIFIED\n")


def _print_places(report: "VerifyReport") -> None:
    """What the catalog and the broker said, where they were asked."""
    write = sys.stdout.write
    if report.lake:
        write(f"lake        {'':>12}  property and snapshots {_word(report, 'lake')}\n")
        return
    catalog = _word(report, "partition")
    shown = report.partitions - report.unannounced
    waiting = f", {report.unannounced:,} not announced yet" if report.unannounced else ""
    write(f"partitions  {shown:>12,}  in the catalog{waiting} {catalog}\n")
    if report.late_table is not None:
        word = _word(report, "late table")
        write(f"late rows   {report.late_rows:>12,}  shown by {report.late_table} {word}\n")
    write(f"source      {'':>12}  identities and log ends {_word(report, 'source')}\n")


def _word(report: "VerifyReport", kind: str) -> str:
    bad = sum(problem.kind.startswith(kind) for problem in report.problems)
    if not bad:
        return "ok"
    return "1 PROBLEM" if bad == 1 else f"{bad} PROBLEMS"
