"""`sluiceway partitions`: how far the partitions of a table are, told from its ledger."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sluiceway.audit.partition_states import SeenPrefix
    from sluiceway.errors import SluicewayError
    from sluiceway.job.config import RouteConfig

app = typer.Typer(no_args_is_help=True, help="Show partitions; wait for them; let go of them.")

_JobFile = Annotated[Path, typer.Argument(help="The job file.")]
_Route = Annotated[str | None, typer.Option("--route", help="Only this route.", show_default=False)]
_Output = Annotated[str, typer.Option("-o", "--output", help="table or json.")]

_HEADS = ("PARTITION", "STATE", "VERSION", "ROWS", "FILES", "BYTES", "DELAY", "WHERE")
_NUMBERS = range(2, 7)
_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3_600, 60


@app.callback()
def partitions() -> None:
    """Show partitions; wait for them; let go of them."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """What the ledger of a route says."""

    config: "RouteConfig"
    as_of_slot: int
    forgotten_up_to: str
    prefixes: "Sequence[SeenPrefix]"


@app.command("list")
def list_partitions(
    job_file: _JobFile,
    route: _Route = None,
    state: Annotated[
        str,
        typer.Option("--state", help="open, overdue, closed, ready, late, expired or all."),
    ] = "all",
    start: Annotated[
        str | None,
        typer.Option("--from", help="A folder or a time: what begins there or later."),
    ] = None,
    stop: Annotated[
        str | None,
        typer.Option("--to", help="A folder or a time: what begins before it."),
    ] = None,
    output: _Output = "table",
) -> None:
    """Show state, rows, files and place of each time of each table, oldest first.

    States: open; overdue, open for longer than it should be; closed, rows that still come are
    late; ready, announced; late, rows have come since; expired, dropped by its owner. Asks the
    ledgers alone: no broker, and no metastore where the job file says where the table lies.
    Exit with 1 when a ledger cannot be read.
    """
    from sluiceway.audit.partition_states import Stand  # noqa: PLC0415
    from sluiceway.errors import SluicewayError  # noqa: PLC0415

    _check_output(output)
    known = [each.value for each in Stand]
    if state not in (*known, "all"):
        expected = f"expected {', '.join(known)} or all"
        raise typer.BadParameter(expected, param_hint="--state")
    found: dict[str, _Listed | SluicewayError] = {}
    configs = _routes(job_file, route)
    for config in configs:
        try:
            found[config.route] = _list(config, state, start, stop)
        except SluicewayError as error:
            if len(configs) == 1:
                raise
            found[config.route] = error
    if output == "json":
        sys.stdout.write(json.dumps({"routes": {k: _as_json(v) for k, v in found.items()}}) + "\n")
    else:
        for name, each in found.items():
            _print_route(name, each)
    if any(isinstance(each, Exception) for each in found.values()):
        raise typer.Exit(1)


def _list(config: "RouteConfig", state: str, start: str | None, stop: str | None) -> _Listed:
    from sluiceway.audit.open_table import find_ledger, read_ledger  # noqa: PLC0415
    from sluiceway.audit.partition_range import is_within, parse_edge  # noqa: PLC0415
    from sluiceway.audit.partition_states import TimeRule, seen_prefixes  # noqa: PLC0415

    rule = TimeRule.of(config)
    edges = [None if text is None else parse_edge(text, rule) for text in (start, stop)]
    fold = read_ledger(find_ledger(config)).fold
    found = [
        each
        for each in seen_prefixes(fold, rule, time.time_ns() // 1000)
        if state in (each.state.value, "all") and is_within(each, *edges)
    ]
    return _Listed(config, fold.next_seq - 1, fold.forgotten_up_to, found)


def _as_json(listed: "_Listed | SluicewayError") -> dict[str, Any]:
    from sluiceway.audit.pick_route import table_name  # noqa: PLC0415

    if isinstance(listed, Exception):
        return {"error": listed.code, "message": str(listed)}
    return {
        "table": table_name(listed.config),
        "as_of_slot": listed.as_of_slot,
        "forgotten_up_to": listed.forgotten_up_to or None,
        "prefixes": [asdict(each) for each in listed.prefixes],
    }


def _print_route(name: str, listed: "_Listed | SluicewayError") -> None:
    from sluiceway.audit.pick_route import table_name  # noqa: PLC0415

    write = sys.stdout.write
    if isinstance(listed, Exception):
        write(f"{name}: NOT LOOKED AT [{listed.code}] {listed}\n")
        return
    write(f"{name} -> {table_name(listed.config)}\n")
    if listed.prefixes:
        _print_table([_HEADS, *map(_cells, listed.prefixes)])
    else:
        write("no partition is meant\n")
    if listed.forgotten_up_to:
        write(
            f"note: of partitions up to {listed.forgotten_up_to}, those that were touched long ago "
            "are in the log only; `sluiceway verify` looks at them too\n"
        )


def _cells(each: "SeenPrefix") -> tuple[str, ...]:
    at_least = "" if each.whole else ">="
    places = [one.location for one in each.partitions if not one.expired]
    where = places[0] if len(places) == 1 else f"{len(places):,} partitions"
    return (
        _printable(each.prefix),
        each.state.value,
        str(each.version or "-"),
        f"{at_least}{each.rows:,}",
        f"{at_least}{each.files:,}",
        f"{at_least}{each.size_bytes:,}",
        "-" if each.delay_us is None else _span(each.delay_us / 1_000_000),
        _printable(where) if places else "-",
    )


def _span(seconds: float) -> str:
    if seconds < _MINUTE_S:
        return f"{seconds:.0f}s"
    if seconds < _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f}m"
    return f"{seconds / _HOUR_S:.1f}h" if seconds < _DAY_S else f"{seconds / _DAY_S:.1f}d"


def _printable(text: str) -> str:
    """One line without control characters: parts of it are values that others chose."""
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def _routes(job_file: Path, name: str | None) -> "Sequence[RouteConfig]":
    from sluiceway.audit.pick_route import pick_route, routes_without_brokers  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.observe.log import stderr_log  # noqa: PLC0415

    spec = load_checked_job(job_file).spec
    routes = routes_without_brokers(spec, stderr_log(level="warning"), name)
    return routes if name is None else (pick_route(routes, name),)


def _check_output(output: str) -> None:
    if output not in ("table", "json"):
        raise typer.BadParameter("expected table or json", param_hint="-o")


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.rjust(width) if column in _NUMBERS else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
