"""`at`: a table as it was at a slot: files with row spans, and offsets of its sources."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.cli.options import JobFile, OneRoute, Output, OutputFormat
from sluiceway.cli.views.answers import print_document
from sluiceway.cli.views.tables import print_table, printable

if TYPE_CHECKING:
    from sluiceway.audit.table_point import TablePoint

app = typer.Typer(add_completion=False)

_HEADS = ("PARTITION", "FIRST ROW", "ROWS", "PATH")
_NUMBERS = (1, 2)


@app.command()
def at(
    job_file: JobFile,
    slot: Annotated[
        int | None, typer.Option("--slot", help="A slot of the ledger, with its rows.", min=0)
    ] = None,
    time: Annotated[
        str | None, typer.Option("--time", help="A time with its zone, as 2026-11-28T08:00:00Z.")
    ] = None,
    route: OneRoute = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show what a table held at a slot or a time: files with row spans, offsets of its sources.

    Without a slot or a time it is the newest slot whose files are all published. The rows of then
    are read from today's files. The offsets are those at which Spark, Flink or a consumer group
    goes on without a gap.

    $ sluiceway at orders.yaml --slot 1204 -o json
    $ sluiceway at orders.yaml --time 2026-11-28T08:00:00Z
    """
    from sluiceway.audit.pick_route import pick_route, routes_without_brokers  # noqa: PLC0415
    from sluiceway.audit.table_point import point_request, table_point  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415

    asked = point_request(slot, time)
    spec = load_checked_job(job_file).spec
    config = pick_route(routes_without_brokers(spec, WarningsOnDemand(), route), route)
    found = table_point(config, asked)
    if output.is_document:
        print_document(_document(found), output)
        return
    sys.stdout.write(f"table {printable(found.table)}, slot {found.slot}, {found.rows:,} rows\n")
    rows = [
        (each.partition, f"{each.first_row:,}", f"{each.rows:,}", each.path) for each in found.files
    ]
    print_table([_HEADS, *rows], numbers=_NUMBERS)
    for line in found.group_offsets:
        sys.stdout.write(f"offset {printable(line)}\n")
    for each in found.let_go:
        sys.stderr.write(
            f"note: {printable(each.partition)}: its rows of then are gone since slot "
            f"{each.slot} ({printable(each.reason)})\n"
        )


def _document(found: "TablePoint") -> dict[str, Any]:
    return {
        "table": found.table,
        "ledger": found.ledger,
        "slot": found.slot,
        "rows": found.rows,
        "files": found.files,
        "let_go": found.let_go,
        "offsets": {
            "spark": found.spark_offsets,
            "flink": found.flink_offsets,
            "group": found.group_offsets,
        },
    }
