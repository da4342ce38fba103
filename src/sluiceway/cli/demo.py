"""`sluiceway demo`: the main job on real servers, killed once, verified."""

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sluiceway.lab.demo import DemoResult

app = typer.Typer()


@app.command()
def demo(
    folder: Annotated[
        Path | None, typer.Option("--dir", help="Folder of the demo's lab; a new one otherwise.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the lab running, to try things.")
    ] = False,
) -> None:
    """Start Kafka and a metastore, fill a table, kill the driver once, verify every row.

    Takes two to three minutes after the downloads. The last line on stdout is the result as
    JSON; exit 0 when every row is in the table exactly once.
    """
    if importlib.util.find_spec("duckdb") is None:
        from sluiceway.errors import UnhealthyEnvironmentError  # noqa: PLC0415

        raise UnhealthyEnvironmentError(
            "the demo's independent reader needs DuckDB, which is not installed",
            hint="install sluiceway with its extra: pipx install 'sluiceway[demo]'",
        )
    from sluiceway.cli.lab import progress_on_stderr  # noqa: PLC0415
    from sluiceway.lab.demo import run_demo  # noqa: PLC0415

    with progress_on_stderr() as on_progress:
        result = run_demo(folder, _say, on_progress, keep=keep)
    _show(result)
    _say("try next: README.md, examples/orders.yaml, `sluiceway demo --keep`, then")
    _say("  `sluiceway ledger show examples/orders.yaml` and `sluiceway verify --deep ...`")
    sys.stdout.write(result.line() + "\n")
    if not result.ok():
        raise typer.Exit(1)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


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
