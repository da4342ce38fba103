"""`files`: which files of a table to read, for readers without a metastore."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.options import JobFile, OneRoute, Output, OutputFormat
from sluiceway.cli.views.answers import print_document
from sluiceway.cli.views.tables import print_table, printable
from sluiceway.cli.views.typed_commands import typed_text
from sluiceway.errors import WrongUsageError

if TYPE_CHECKING:
    from sluiceway.audit.table_files import TableFiles
    from sluiceway.jobfile.compile.config import RouteConfig

app = typer.Typer(add_completion=False)

_HEADS = ("PARTITION", "ROWS", "BYTES", "PATH")
_NUMBERS = (1, 2)


@app.command()
def files(
    job_file: JobFile,
    partition: Annotated[
        str, typer.Argument(help="A partition's folder, or one above some, as dt=20261120.")
    ] = "",
    route: OneRoute = None,
    unannounced: Annotated[
        bool,
        typer.Option("--unannounced", help="With `visible: on_ready`: what is not complete, too."),
    ] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """List the files of a table, or of a part of it, by its ledger: all rows, each once.

    Of a lake table, those of its newest snapshot.

    A pattern such as dt=*/hr=*/*.parquet misses compacted partitions. A listed file stays for at
    least an hour after it was replaced: list the files again before each later query.

    $ sluiceway files orders.yaml
    $ sluiceway files orders.yaml dt=20261120 -o json
    """
    from sluiceway.audit.pick_route import (  # noqa: PLC0415
        pick_route,
        routes_without_brokers,
        table_name,
    )
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415

    spec = load_checked_job(job_file).spec
    config = pick_route(routes_without_brokers(spec, WarningsOnDemand(), route), route)
    found, hidden = _list_files(config, partition, unannounced=unannounced)
    if not found.files:
        told = _why_no_files(config, partition.strip("/"), hidden)
        sys.stderr.write(f"note: {printable(typed_text(told, str(job_file)))}\n")
    if output.is_document:
        answer = {"table": table_name(config), "as_of_slot": found.as_of_slot}
        print_document({**answer, "files": found.files}, output)
        return
    rows = [
        (each.partition, f"{each.rows:,}", f"{each.size_bytes:,}", each.path)
        for each in found.files
    ]
    print_table([_HEADS, *rows], numbers=_NUMBERS)


def _list_files(
    config: "RouteConfig", partition: str, *, unannounced: bool
) -> "tuple[TableFiles, int]":
    """The files; without any, how many files are not announced."""
    from sluiceway.audit.open_table import find_ledger, read_ledger  # noqa: PLC0415
    from sluiceway.audit.table_files import table_files  # noqa: PLC0415

    if config.table.lake is not None:
        # Clients of lake catalogs take a second to import.
        from sluiceway.audit.lake_verify import lake_files  # noqa: PLC0415

        return lake_files(config, partition), 0
    on_ready = config.ready is not None and config.ready.on_ready and not unannounced
    ledger = read_ledger(find_ledger(config))
    found = table_files(ledger, partition, on_ready=on_ready)
    if found.files or not on_ready:
        return found, 0
    return found, len(table_files(ledger, partition).files)


def _why_no_files(config: "RouteConfig", name: str, unannounced: int) -> str:
    """The message when `files` has none to list: whether there is such a partition at all."""
    from sluiceway.audit.pick_route import table_name  # noqa: PLC0415

    where = f"{table_name(config)} {name}".strip()
    if unannounced:
        files = "1 file" if unannounced == 1 else f"{unannounced:,} files"
        return f"{where}: nothing is announced yet; --unannounced lists {files}"
    hint = "`sluiceway partitions list JOB` shows which there are"
    if not _may_be(config, name):
        raise WrongUsageError(f"no partition of {table_name(config)} is named {name}", hint=hint)
    if not name:
        return f"{where} has no file yet"
    return f"there is no such partition with a file: {where}; {hint}"


def _may_be(config: "RouteConfig", name: str) -> bool:
    """Whether a partition, or a folder above some, may have such a name."""
    if not name or config.table.lake is not None:
        return True  # Transforms name the folders of a lake table.
    parts, rules = name.split("/"), config.partitions
    if len(parts) > len(rules):
        return False
    if not all(part.startswith(f"{rule.name}=") for part, rule in zip(parts, rules, strict=False)):
        return False
    return _is_time(config, parts)


def _is_time(config: "RouteConfig", parts: list[str]) -> bool:
    from sluiceway.eventtime.prefix_periods import PrefixPeriods  # noqa: PLC0415

    columns = []
    for rule in config.partitions[: len(parts)]:
        if rule.pattern is None:
            break
        columns.append((rule.name, rule.pattern))
    zone = "UTC" if config.event_time is None else config.event_time.timezone
    try:
        periods = PrefixPeriods(columns, zone)
    except ValueError:
        return True
    return periods.of("/".join(parts)) is not None
