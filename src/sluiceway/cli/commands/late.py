"""`sluiceway late`: moves rows from the late place into their partitions."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.audit.format_times import counted
from sluiceway.cli.commands.dirty import DryRun, Why, check_why, only_route
from sluiceway.cli.options import JobFile, OneRoute, Output, OutputFormat, this_operator
from sluiceway.cli.views.answers import print_document
from sluiceway.cli.views.dirty_lanes import carry_out_and_tell

if TYPE_CHECKING:
    from sluiceway.audit.late_choice import LateChoice

app = typer.Typer(no_args_is_help=True, help="Bring rows that came late into their partitions.")


@app.callback()
def late() -> None:
    """Bring rows that came late into their partitions."""


@app.command()
def replay(
    job_file: JobFile,
    route: OneRoute = None,
    partition: Annotated[
        list[str] | None,
        typer.Option("--partition", help="Only rows of this folder, or below it; repeatable."),
    ] = None,
    why: Why = "",
    dry_run: DryRun = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Move late rows from the late place into their own partitions, unchanged; each once.

    An announced time is announced again, with the next version. A running driver does it between
    its epochs; without a driver, this process does. Safe to interrupt and to repeat: it goes on
    where it was. Rows of sealed times, and of dropped partitions, stay in the late place.

    $ sluiceway late replay orders.yaml --partition dt=20261120/hr=08 --dry-run
    """
    from sluiceway.audit.late_choice import LateFiles, choose_late  # noqa: PLC0415
    from sluiceway.audit.open_table import find_ledger, read_ledger  # noqa: PLC0415

    check_why(why)
    config = only_route(job_file, route)
    rows = LateFiles.read(read_ledger(find_ledger(config)).log)
    choice = choose_late(rows, [each.strip("/") for each in partition or ()])
    if dry_run:
        _print_plan(choice, output)
        return
    operator = this_operator()
    request = choice.request(rows, operator, why.strip())
    carry_out_and_tell(config, rows, choice, request, output)
    if not output.is_document:
        _print_what_stays(choice)


def _print_plan(choice: "LateChoice", output: OutputFormat) -> None:
    """Say what would happen; changes nothing."""
    if output.is_document:
        answer: dict[str, Any] = {"dry_run": True, "kind": "late", "rows": choice.rows}
        answer |= {"partitions": choice.partitions, "more": choice.left_out}
        print_document({**answer, "sealed": choice.sealed, "dropped": choice.dropped}, output)
        return
    write = sys.stdout.write
    partitions = counted(len(choice.partitions), "partition")
    write(f"{counted(choice.rows, 'late row')} would go into {partitions}\n")
    for name, rows in sorted(choice.partitions.items()):
        write(f"  {name or 'the table'}: {rows:,}\n")
    _print_what_stays(choice)
    if choice.left_out:
        write("there are more rows than one request holds; repeat it when it is done\n")
    write("nothing was changed\n")


def _print_what_stays(choice: "LateChoice") -> None:
    for rows, why in (
        (choice.sealed, "their time is sealed, and takes no row any more"),
        (choice.dropped, "their partition was dropped, by `partitions forget` or `retention`"),
    ):
        if rows:
            sys.stdout.write(f"{counted(rows, 'row')} aside stay there: {why}\n")
