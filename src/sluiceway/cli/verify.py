"""`sluiceway verify`: the ledger against files, metastore and broker."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sluiceway.audit.verify import VerifyReport

app = typer.Typer()

_NOT_AS_THE_LEDGER_SAYS = 7
_SHOWN = 20


@app.command()
def verify(
    job_file: Annotated[Path, typer.Argument(help="The job file.")],
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every file whole and compare its checksum.")
    ] = False,
    output: Annotated[str, typer.Option("-o", "--output", help="table or json.")] = "table",
) -> None:
    """Check that the table holds exactly what its ledger says; exit with 7 when not.

    Reads the whole log (chain, ranges without gap or overlap, sums), every file's footer, the
    metastore's partitions and the broker's log ends. Changes nothing; a live driver may go on.
    """
    from sluiceway.audit.run_verify import verify_job  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415

    if output not in ("table", "json"):
        raise typer.BadParameter("expected table or json", param_hint="-o")
    report = verify_job(load_checked_job(job_file).spec, deep=deep)
    if output == "json":
        sys.stdout.write(json.dumps({**asdict(report), "verified": report.verified}) + "\n")
    else:
        _print(report)
    if not report.verified:
        raise typer.Exit(_NOT_AS_THE_LEDGER_SAYS)


def _print(report: "VerifyReport") -> None:
    write = sys.stdout.write
    write(f"records     {report.records:>12,}  chain {_word(report, 'chain')}\n")
    write(
        f"offsets     {report.offsets:>12,}  = {report.rows:,} rows + {report.dirty_rows:,} dirty "
        f"+ {report.skipped:,} skipped + {report.gaps:,} gaps\n"
    )
    how = "size, rows and checksum" if report.deep else "size and rows"
    files = report.files + report.dirty_files
    write(f"files       {files:>12,}  {how} {_word(report, 'file')}\n")
    write(f"partitions  {report.partitions:>12,}  in the metastore {_word(report, 'partition')}\n")
    write(f"source      {'':>12}  identities and log ends {_word(report, 'source')}\n")
    for note in report.unchecked[:_SHOWN]:
        write(f"note: {note}\n")
    if report.foreign:
        write(f"note: {len(report.foreign)} files are not of this job's making, not judged:\n")
        for path in report.foreign[:_SHOWN]:
            write(f"  {path}\n")
    for problem in report.problems[:_SHOWN]:
        write(f"PROBLEM {problem.kind} {problem.where}: {problem.message}\n")
    if len(report.problems) > _SHOWN:
        write(f"... and {len(report.problems) - _SHOWN} more (-o json lists all)\n")
    write("verified\n" if report.verified else "NOT VERIFIED\n")


def _word(report: "VerifyReport", kind: str) -> str:
    bad = sum(problem.kind.startswith(kind) for problem in report.problems)
    return f"{bad} PROBLEMS" if bad else "ok"
