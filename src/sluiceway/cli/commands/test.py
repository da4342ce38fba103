"""`sluiceway test`: compares the rows of sample records with expected ones, without servers."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.audit.format_times import counted
from sluiceway.cli.job_folders import TESTS_SUFFIX
from sluiceway.cli.options import JobFiles, Output, OutputFormat
from sluiceway.cli.views.answers import print_document
from sluiceway.cli.views.tables import printable
from sluiceway.errors import WrongUsageError

if TYPE_CHECKING:
    from sluiceway.audit.row_preview import Preview
    from sluiceway.audit.row_tests import RowTest
    from sluiceway.jobfile.blocks.models import JobSpec
    from sluiceway.jobfile.compile.config import RouteConfig

app = typer.Typer()


@app.command()
def try_records(
    job_file: JobFiles,
    tests: Annotated[
        Path | None,
        typer.Option(
            "--tests",
            help="The file of tests; by default the one next to the job file.",
            show_default=False,
        ),
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Make rows of sample records and compare them with wanted ones; exit with 1 when they differ.

    The tests of orders.yaml stand in orders.test.yaml: each has `records`, the expected `rows`, and
    the expected `dirty` records. The code of a run makes the rows, for the table that the job file
    would create. No broker and no catalog is asked, except for columns that come from a table.

    $ sluiceway test orders.yaml
    $ sluiceway test jobs/
    """
    from sluiceway.audit.given_records import preview_given  # noqa: PLC0415
    from sluiceway.audit.row_tests import differences, read_tests  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415

    spec = load_checked_job(job_file, opens=False).spec
    place = tests or job_file.with_name(f"{job_file.stem}{TESTS_SUFFIX}")
    if not place.exists():
        raise WrongUsageError(
            "there are no tests",
            where=str(place),
            hint="begin the file with `- records: ['{}']`; see docs/guides/operations.md",
        )
    answers: list[dict[str, Any]] = []
    for each in read_tests(place):
        config = _route_of(spec, each)
        found = preview_given(config, each.records)
        wrong = list(differences(each, found))
        told = {"test": each.name, "route": config.route, "ok": not wrong, "differences": wrong}
        answers.append({**told, "counts": found.counts})
        if not output.is_document:
            sys.stdout.write(_lines(each, found, wrong))
    failed = sum(not each["ok"] for each in answers)
    if output.is_document:
        print_document({"ok": not failed, "tests": answers}, output)
    else:
        sys.stdout.write(f"{counted(len(answers), 'test')}, {failed:,} failed\n")
    if failed:
        raise typer.Exit(1)


def _route_of(spec: "JobSpec", test: "RowTest") -> "RouteConfig":
    """The route of a test; for a pattern, as the topics of its records make it."""
    from sluiceway.audit.pick_route import pick_route  # noqa: PLC0415
    from sluiceway.jobfile.compile.compile import compile_routes  # noqa: PLC0415

    job = compile_routes(spec)
    topics = tuple(sorted({record.topic for record in test.records if record.topic}))
    made = [route for each in job.templates for route in each.expand(topics).routes]
    if job.templates and not (job.routes or made):
        raise WrongUsageError(
            f"{test.name}: the job reads topics of a pattern, and no record's topic matches it",
            hint="write it next to the value: `{json: {...}, topic: app_a}`",
        )
    return pick_route((*job.routes, *made), test.route or None)


def _lines(test: "RowTest", found: "Preview", wrong: list[str]) -> str:
    counts = found.counts
    told = f"{counted(counts.read, 'record')}, {counted(counts.written, 'row')}"
    told += f", {counts.dirty:,} dirty" if counts.dirty else ""
    head = f"{'FAILED' if wrong else 'ok':<7} {printable(test.name)}: {told}\n"
    return head + "".join(f"  {printable(line)}\n" for line in wrong)
