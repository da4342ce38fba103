"""`sluiceway demo`: the main job on real servers, killed once, verified."""

import importlib.util
import json
import shlex
import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.cli.own_command import exports, from_here, own_command
from sluiceway.cli.views.error_text import print_error
from sluiceway.errors import SluicewayError
from sluiceway.observe.progress import cut_to_columns

if TYPE_CHECKING:
    from sluiceway.lab.demo import DemoResult
    from sluiceway.lab.demo_store import DemoTable

app = typer.Typer()

_ERROR_CHARACTERS = 500


class Store(StrEnum):
    """Where the table lies."""

    LOCAL = "local"
    HDFS = "hdfs"
    S3 = "s3"


@app.command()
def demo(
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Folder of the demo's lab; a new one otherwise.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the lab running, to try things.")
    ] = False,
    store: Annotated[
        Store, typer.Option("--store", help="Where the table lies; the lab starts it.")
    ] = Store.LOCAL,
    rows: Annotated[
        int, typer.Option("--rows", min=1_000, help="How many orders are produced.")
    ] = 200_000,
) -> None:
    """Start Kafka and a metastore, fill a table, kill the driver once, verify every row.

    Takes two to three minutes after the downloads. The last line on stdout is the result as
    JSON; exit 0 when every row is in the table exactly once. After a failure its folder stays.
    """
    if importlib.util.find_spec("duckdb") is None:
        from sluiceway.errors import UnhealthyEnvironmentError  # noqa: PLC0415

        raise UnhealthyEnvironmentError(
            "the demo's independent reader needs DuckDB, which is not installed",
            hint="install sluiceway with its extra: pipx install 'sluiceway[demo]'",
        )
    from sluiceway.lab.demo import demo_folder  # noqa: PLC0415

    try:
        place = demo_folder(folder)
    except SluicewayError as error:
        code = print_error(error)
        _write_failure(error, folder)
        raise typer.Exit(code) from error
    try:
        result = _run(place, store, rows, keep=keep, temporary=folder is None)
    except Exception as error:
        code = print_error(error)
        _say_where(place, running=keep)
        _write_failure(error, place)
        raise typer.Exit(code) from error
    _show(result)
    if keep and result.table is not None:
        _say_how_to_look_around(place, result.table)
    elif result.ok():
        again = "" if store is Store.LOCAL else f" --store {store}"
        _say(f"to look around in it: {own_command()} demo{again} --keep")
    if not result.ok():
        _say_where(place, running=keep)
    sys.stdout.write(result.line() + "\n")
    if not result.ok():
        raise typer.Exit(1)


def _run(place: Path, store: Store, rows: int, *, keep: bool, temporary: bool) -> "DemoResult":
    from sluiceway.cli.commands.lab import progress_on_stderr  # noqa: PLC0415
    from sluiceway.lab.demo import DemoPrinter, run_demo  # noqa: PLC0415
    from sluiceway.lab.demo_store import DemoStore  # noqa: PLC0415

    shown = _Shown()
    try:
        with progress_on_stderr() as on_progress:
            printer = DemoPrinter(shown.say, shown.passing, on_progress)
            where = DemoStore(store.value)
            return run_demo(place, printer, where, events=rows, keep=keep, temporary=temporary)
    finally:
        shown.end()


class _Shown:
    """Lines on standard error; on a terminal the next line replaces a passing one."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()
        self._replace = False

    def say(self, text: str) -> None:
        self.end()
        _say(text)

    def passing(self, text: str) -> None:
        if not self._on_terminal:
            _say(text)
            return
        self.end()
        columns = shutil.get_terminal_size().columns
        sys.stderr.write(cut_to_columns(text, columns - 1))
        sys.stderr.flush()
        self._replace = True

    def end(self) -> None:
        if self._replace:
            sys.stderr.write("\r\033[K")
            self._replace = False


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _say_where(place: Path, *, running: bool) -> None:
    """After a failure: which files remain, and how to remove them."""
    _say(f"the demo's folder stays, its logs are in {place / 'logs'}")
    if running:
        _say("its servers go on")
    _say(f"to remove it: {own_command()} lab down --dir {shlex.quote(str(place))} --remove-data")


def _say_how_to_look_around(place: Path, table: "DemoTable") -> None:
    command, job = own_command(), shlex.quote(from_here(table.job_file))
    endpoints = table.endpoints
    lines = [
        "the lab goes on; to look around:",
        *exports(endpoints.bootstrap_servers, endpoints.metastore_uri),
        f"{command} status {job}",
        f"{command} ledger show {job}",
        f"{command} verify --deep {job}",
        f"{command} lab down --dir {shlex.quote(str(place))} --remove-data",
    ]
    _say("\n  ".join(lines))


def _write_failure(error: Exception, place: Path | None) -> None:
    failure = {
        "demo": "failed",
        "code": getattr(error, "code", "SW000"),
        "error": str(error).partition("\n")[0][:_ERROR_CHARACTERS],
        "folder": str(place) if place else None,
    }
    sys.stdout.write(json.dumps(failure) + "\n")


def _show(result: "DemoResult") -> None:
    write = sys.stdout.write
    write("\nods.orders, by partition (Spark SQL):\n")
    for dt, hr, rows in result.partitions:
        write(f"  dt={dt}/hr={hr}  {rows:>9,} rows\n")
    write("\na sample:\n")
    write(
        f"  {'order_id':>18} {'status':<10} {'amount':>12} {'cur':<4} {'city':<14} "
        f"{'items':>5} partition\n"
    )
    for order_id, status, amount, currency, city, items, dt, hr in result.sample:
        write(
            f"  {order_id!s:>18} {status!s:<10} {amount!s:>12} {currency!s:<4} {city!s:<14} "
            f"{items!s:>5} dt={dt}/hr={hr}\n"
        )
    for problem in result.verify.problems:
        write(f"PROBLEM {problem.kind} {problem.where}: {problem.message}\n")
    write("\n")
