"""`sluiceway verify`: the ledger against files, metastore and broker."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sluiceway.audit.verify import VerifyReport
    from sluiceway.errors import SluicewayError

app = typer.Typer()

_NOT_AS_THE_LEDGER_SAYS = 7
_SHOWN = 20


@app.command()
def verify(
    job_file: Annotated[Path, typer.Argument(help="The job file.", metavar="JOB")],
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every file whole and compare its checksum.")
    ] = False,
    route: Annotated[
        str | None, typer.Option("--route", help="Only this route.", show_default=False)
    ] = None,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="table|json", help="How to answer.")
    ] = "table",
) -> None:
    """Check that the tables hold exactly what their ledgers say; exit with 7 when not.

    Reads the whole log (chain, ranges without gap or overlap, sums), every file's footer, the
    metastore's partitions and the broker's log ends. Changes nothing; a live driver may go on.

    $ sluiceway verify orders.yaml --deep
    """
    from sluiceway.audit.pick_route import job_routes, pick_route  # noqa: PLC0415
    from sluiceway.audit.run_verify import verify_route, verify_routes  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.observe.log import stderr_log  # noqa: PLC0415

    if output not in ("table", "json"):
        raise typer.BadParameter("expected table or json", param_hint="-o")
    routes = job_routes(load_checked_job(job_file).spec, stderr_log(level="warning"))
    if route is not None or len(routes) == 1:
        report = verify_route(pick_route(routes, route), deep=deep)
        if output == "json":
            sys.stdout.write(json.dumps(_as_json(report)) + "\n")
        else:
            _print(report)
        code = _code(report)
    else:
        reports = verify_routes(routes, deep=deep)
        if output == "json":
            each = {name: _as_json(report) for name, report in reports.items()}
            verified = all(one["verified"] for one in each.values())
            sys.stdout.write(json.dumps({"routes": each, "verified": verified}) + "\n")
        else:
            _print_all(reports)
        code = max(map(_code, reports.values()), default=0)
    if code:
        raise typer.Exit(code)


def _code(report: "VerifyReport | SluicewayError") -> int:
    if isinstance(report, Exception):
        return report.exit_code
    return 0 if report.verified else _NOT_AS_THE_LEDGER_SAYS


def _as_json(report: "VerifyReport | SluicewayError") -> dict[str, Any]:
    if isinstance(report, Exception):
        return {"error": report.code, "message": str(report), "verified": False}
    return {**asdict(report), "verified": report.verified}


def _print_all(reports: "dict[str, VerifyReport | SluicewayError]") -> None:
    for name, report in reports.items():
        sys.stdout.write(f"route {name}\n")
        if isinstance(report, Exception):
            sys.stdout.write(f"NOT LOOKED AT [{report.code}] {report}\n\n")
        else:
            _print(report)
            sys.stdout.write("\n")
    good = sum(_code(report) == 0 for report in reports.values())
    routes = "route" if len(reports) == 1 else "routes"
    sys.stdout.write(f"{good} of {len(reports)} {routes} verified\n")


def _print(report: "VerifyReport") -> None:
    write = sys.stdout.write
    write(f"records     {report.records:>12,}  chain {_word(report, 'chain')}\n")
    late = f"+ {report.late_rows:,} late " if report.late_rows else ""
    write(f"identity    {'':>12}  OWNER, table and ledger {_word(report, 'identity')}\n")
    write(
        f"offsets     {report.offsets:>12,}  = {report.rows:,} rows + {report.dirty_rows:,} dirty "
        f"{late}+ {report.filtered:,} filtered + {report.skipped:,} skipped + {report.gaps:,} gaps"
        f"{f' - {report.replayed:,} replayed' if report.replayed else ''}\n"
    )
    if report.lanes:
        done = f"{report.replayed:,} dirty rows replayed, {report.purged:,} purged"
        write(f"lanes       {report.lanes:>12,}  {done} {_word(report, 'lane')}\n")
    how = "size, rows and checksum" if report.deep else "size and rows"
    files = report.files + report.dirty_files + report.late_files
    write(f"files       {files:>12,}  {how} {_word(report, 'file')}\n")
    if report.let_go:
        write(f"let go      {report.let_go:>12,}  dirty files of purged or replayed rows\n")
    write(f"partitions  {report.partitions:>12,}  in the metastore {_word(report, 'partition')}\n")
    if report.late_table is not None:
        word = _word(report, "late table")
        write(f"late rows   {report.late_rows:>12,}  shown by {report.late_table} {word}\n")
    write(f"source      {'':>12}  identities and log ends {_word(report, 'source')}\n")
    for note in report.unchecked[:_SHOWN]:
        write(f"note: {note}\n")
    if report.foreign:
        foreign = "1 file is" if len(report.foreign) == 1 else f"{len(report.foreign)} files are"
        write(f"note: {foreign} not of this job's making, not judged:\n")
        for path in report.foreign[:_SHOWN]:
            write(f"  {path}\n")
    for problem in report.problems[:_SHOWN]:
        write(f"PROBLEM {problem.kind} {problem.where}: {problem.message}\n")
    if len(report.problems) > _SHOWN:
        write(f"... and {len(report.problems) - _SHOWN} more (-o json lists all)\n")
    write("verified\n" if report.verified else "NOT VERIFIED\n")


def _word(report: "VerifyReport", kind: str) -> str:
    bad = sum(problem.kind.startswith(kind) for problem in report.problems)
    if not bad:
        return "ok"
    return "1 PROBLEM" if bad == 1 else f"{bad} PROBLEMS"
