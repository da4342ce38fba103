"""`sluiceway partitions`: states of a table's partitions, from its ledger."""

import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.audit.format_times import counted
from sluiceway.cli.options import JobFile, OneRoute, OnlyRoute, Output, OutputFormat, this_operator
from sluiceway.cli.views.answers import print_document, raise_code, read_each, route_answers
from sluiceway.cli.views.tables import print_table, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluiceway.audit.partition_states import ObservedPrefix
    from sluiceway.audit.partition_wait import ReadyFacts
    from sluiceway.audit.partition_why import WaitExplanation
    from sluiceway.errors import SluicewayError
    from sluiceway.jobfile.compile.config import RouteConfig
    from sluiceway.operate.forget import PlannedForget

app = typer.Typer(no_args_is_help=True, help="Show partitions; wait for them; let go of them.")


_HEADS = ("PARTITION", "STATE", "VERSION", "ROWS", "FILES", "BYTES", "LATE", "DELAY", "WHERE")
_MAX_REASON = 500
_NUMBERS = range(2, 8)


@app.callback()
def partitions() -> None:
    """Show partitions; wait for them; forget them."""


@dataclass(frozen=True, slots=True)
class ListedPartitions:
    """What the ledger of a route says; `timezone` is that of its times."""

    config: "RouteConfig"
    as_of_slot: int
    forgotten_up_to: str
    sealed: int
    prefixes: "Sequence[ObservedPrefix]"
    timezone: str


@app.command("list")
def list_partitions(
    job_file: JobFile,
    route: OnlyRoute = None,
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
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show state, rows, files and place of each time of each table, oldest first.

    States: open; overdue, open for longer than it should be; closed, rows that still come are late;
        ready, announced; late, rows have come since; expired, dropped by its owner. Reads the
        ledgers alone: no broker, and no metastore where the job file gives the table's place. A
        ledger that cannot be read gives the exit code of its error.

    $ sluiceway partitions list orders.yaml --state overdue
    $ sluiceway partitions list orders.yaml --from dt=20261120 --to dt=20261121
    """
    from sluiceway.audit.partition_states import PartitionProgress  # noqa: PLC0415

    known = [each.value for each in PartitionProgress]
    if state not in (*known, "all"):
        expected = f"expected {', '.join(known)} or all"
        raise typer.BadParameter(expected, param_hint="--state")
    chosen = _routes(job_file, route)
    found = read_each(chosen, lambda config: list_route(config, state, start, stop), output)
    if output.is_document:
        print_document({"routes": route_answers(chosen, found, listed_document)}, output)
    else:
        for config, each in zip(chosen, found, strict=True):
            _print_route(config.route, each, job_file)
    raise_code(found)


@app.command()
def wait(
    job_file: JobFile,
    table: Annotated[str, typer.Argument(help="A route's name, or its table as ods.orders.")],
    partition: Annotated[str, typer.Argument(help="A time's folder, as dt=20261120/hr=08.")],
    timeout: Annotated[str, typer.Option("--timeout", help="Longest time, as 90s or 2h.")] = "1h",
    version: Annotated[int, typer.Option("--version", help="At least this one.", min=1)] = 1,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Wait until a time of a table is complete and announced; for schedulers.

    Exit with 0 when it is, and with 1 after the timeout. Exit at once with 2 when no time of this
    name is ever announced, and with 7 when it never will be: it was dropped, or is older than the
    first row. Reads the ledger alone, slot by slot; may be ended and repeated.

    $ sluiceway partitions wait orders.yaml ods.orders dt=20261120/hr=08 --timeout 2h
    """
    from sluiceway.audit.format_times import moment  # noqa: PLC0415
    from sluiceway.audit.partition_wait import PartitionWatch  # noqa: PLC0415

    timeout_s = _seconds(timeout)
    waited = PartitionWatch(_of_table(job_file, table), partition).wait(version, timeout_s)
    facts, why = waited.facts, with_commands(waited.why, job_file)
    if output.is_document:
        answer = {"ready": facts is not None, "why": asdict(why)}
        answer["announced"] = None if facts is None else _facts_json(facts)
        print_document(answer, output)
    elif facts is not None:
        when = "" if facts.at_us is None else f" at {moment(facts.at_us)}"
        counts = f"{counted(facts.rows, 'row')} in {counted(facts.files, 'file')}"
        sys.stdout.write(
            f"{printable(facts.prefix)}: ready{when}, version {facts.version}, {counts}\n"
        )
    if facts is None:
        if output is OutputFormat.TABLE:
            sys.stderr.write(f"not ready after {timeout}: {printable(why.text)}\n")
        raise typer.Exit(1)


def with_commands(why: "WaitExplanation", job_file: Path) -> "WaitExplanation":
    """The explanation, with commands that can be typed here."""
    from sluiceway.cli.views.typed_commands import typed_text  # noqa: PLC0415

    return replace(why, text=typed_text(why.text, str(job_file)))


def _facts_json(facts: "ReadyFacts") -> dict[str, Any]:
    names = ("partition", "version", "rows", "files")
    below = [dict(zip(names, each, strict=True)) for each in facts.partitions]
    return {**asdict(facts), "partitions": below}


def _seconds(text: str) -> float:
    from sluiceway.jobfile.blocks.values import parse_duration_ms  # noqa: PLC0415

    try:
        return parse_duration_ms(text) / 1000
    except ValueError as error:
        raise typer.BadParameter(
            "expected a duration as 90s or 2h", param_hint="--timeout"
        ) from error


@app.command()
def why(
    job_file: JobFile,
    partition: Annotated[str, typer.Argument(help="A time's folder, as dt=20261120/hr=08.")],
    route: OneRoute = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Say why a time of a table is announced or not: what holds it, since when, until when.

    The driver's own rules decide, from the ledger. Log ends in it are as old as the driver's last
    record; the answer shows that age.

    $ sluiceway partitions why orders.yaml dt=20261120/hr=08
    """
    from sluiceway.audit.format_times import ago, moment  # noqa: PLC0415
    from sluiceway.audit.partition_wait import PartitionWatch  # noqa: PLC0415
    from sluiceway.audit.pick_route import pick_route  # noqa: PLC0415

    watch = PartitionWatch(pick_route(_routes(job_file, route), route), partition)
    found = with_commands(watch.check_until_known(), job_file)
    if output.is_document:
        print_document(asdict(found), output)
        return
    write, now_us = sys.stdout.write, time.time_ns() // 1000
    state = "" if found.state is None else f"{found.state.value}. "
    write(f"{printable(found.prefix)}: {state}{printable(found.text)}\n")
    if found.expected_us is not None:
        expected = f"expected at {moment(found.expected_us)} at the present pace"
        if found.expected_us < now_us:
            expected = f"it was expected at {moment(found.expected_us)}; its driver is late"
        write(f"{expected}\n")
    if found.looked_at_us is not None and not found.version:
        looked = f"{moment(found.looked_at_us)}, {ago(now_us - found.looked_at_us)}"
        write(f"log ends were last read at {looked}\n")


@app.command()
def forget(  # noqa: PLR0913, PLR0917 - an operator's decision has that many parts
    job_file: JobFile,
    names: Annotated[
        list[str],
        typer.Argument(help="Folders, as dt=20261120; all partitions below.", metavar="PARTITION"),
    ],
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the ledger.")],
    route: OneRoute = None,
    drop: Annotated[
        bool,
        typer.Option("--drop", help="Remove their files too, an hour after readers lost them."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Forget partitions that their owner has dropped, or will: `verify` reports no loss of them.

    They leave the metastore; their files stay for their owner to remove, unless --drop is given.
    Rows that come for them later go into a new folder. A running driver does it between its epochs;
    without a driver, this process does. Safe to interrupt and to repeat.

    $ sluiceway partitions forget orders.yaml dt=20261120 --reason 'wrong' --dry-run
    """
    from sluiceway.audit.open_table import find_ledger, read_ledger, refuse_lakes  # noqa: PLC0415
    from sluiceway.audit.pick_route import pick_route  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415
    from sluiceway.operate.forget import carry_out, foresee, request_of  # noqa: PLC0415
    from sluiceway.sinks.partition_path import requested_folder  # noqa: PLC0415

    if not reason.strip() or len(reason) > _MAX_REASON or not reason.isprintable():
        most = f"expected one line of 1 to {_MAX_REASON} characters"
        raise typer.BadParameter(most, param_hint="--reason")
    config = pick_route(_routes(job_file, route), route)
    refuse_lakes(
        (config,),
        "partitions forget",
        "delete old rows with an engine, such as Spark's DELETE FROM",
    )
    ledger = read_ledger(find_ledger(config))
    wanted = sorted({requested_folder(name) for name in names})
    found = foresee(ledger.fold, wanted, drop=drop)
    operator = this_operator()
    request = request_of(ledger.fold, found, operator, reason.strip(), drop=drop)
    if output is OutputFormat.TABLE:
        _print_planned(found, drop=drop)
    if dry_run or not request.partitions:
        _print_forgotten(found, None, output)
        return
    if not yes and not typer.confirm(
        f"let go of {counted(len(request.partitions), 'partition')}?", err=True
    ):
        raise typer.Exit(1)
    done = carry_out(config, ledger.log, request, lambda _: None, WarningsOnDemand())
    _print_forgotten(found, done, output)


def _print_planned(found: "Sequence[PlannedForget]", *, drop: bool) -> None:
    for each in found:
        rows, files = counted(each.rows, "row"), counted(each.files, "file")
        counts = f"{rows} in {files}, {each.size_bytes:,} bytes"
        what = each.problem or f"{'are removed' if drop else 'stay'} in {each.location}"
        note = "; it is open: rows that still come create it again" if each.open else ""
        sys.stdout.write(f"{printable(each.partition)}: {counts}, {printable(what)}{note}\n")


def _print_forgotten(
    found: "Sequence[PlannedForget]", done: "dict[str, int] | None", output: OutputFormat
) -> None:
    if output.is_document:
        shown = [
            {**asdict(each), "slot": None if done is None else done.get(each.partition)}
            for each in found
        ]
        answer = {"executed": done is not None, "partitions": shown}
        print_document(answer, output)
    elif done is None:
        sys.stdout.write("nothing was changed\n")
    else:
        slots = ", ".join(str(slot) for slot in sorted(set(done.values())))
        where = f" in slot {slots} of the ledger" if slots else ""
        sys.stdout.write(f"done: let go of {counted(len(done), 'partition')}{where}\n")


def _of_table(job_file: Path, name: str) -> "RouteConfig":
    """The route of this name, or the one that fills this table."""
    from sluiceway.audit.pick_route import pick_route, table_name  # noqa: PLC0415

    routes = _routes(job_file, name, choose=False)
    filling = [each for each in routes if table_name(each) == name.lower()]
    return filling[0] if len(filling) == 1 else pick_route(routes, name)


def list_route(
    config: "RouteConfig", state: str = "all", start: str | None = None, stop: str | None = None
) -> ListedPartitions:
    """Read the times of a route's table; the arguments are the options of `list`."""
    from sluiceway.audit.late_choice import rows_aside  # noqa: PLC0415
    from sluiceway.audit.open_table import find_ledger, read_ledger  # noqa: PLC0415
    from sluiceway.audit.partition_states import TimeRule, is_within, listed_prefixes, parse_edge  # noqa: PLC0415  # noqa: PLC0415

    rule = TimeRule.of(config)
    edges = [None if text is None else parse_edge(text, rule) for text in (start, stop)]
    ledger = read_ledger(find_ledger(config))
    fold, aside = ledger.fold, rows_aside(ledger.log, ledger.fold)
    found = [
        replace(each, late_rows_aside=aside.get(each.prefix, 0))
        for each in listed_prefixes(fold, rule, time.time_ns() // 1000)
        if state in (each.state.value, "all") and is_within(each, *edges)
    ]
    sealed = len(fold.sealed)
    return ListedPartitions(
        config, fold.next_seq - 1, fold.forgotten_up_to, sealed, found, rule.timezone
    )


def listed_document(listed: ListedPartitions) -> dict[str, Any]:
    """The answer for programs; times have their internal units."""
    from sluiceway.audit.pick_route import table_name  # noqa: PLC0415

    return {
        "table": table_name(listed.config),
        "timezone": listed.timezone,
        "as_of_slot": listed.as_of_slot,
        "forgotten_up_to": listed.forgotten_up_to or None,
        "sealed": listed.sealed,
        "prefixes": [asdict(each) for each in listed.prefixes],
    }


def _print_route(name: str, listed: "ListedPartitions | SluicewayError", job_file: Path) -> None:
    from sluiceway.audit.pick_route import table_name  # noqa: PLC0415
    from sluiceway.cli.views.typed_commands import typed, typed_text  # noqa: PLC0415

    write = sys.stdout.write
    if isinstance(listed, Exception):
        told = typed_text(str(listed), str(job_file))
        write(f"{name}: NOT LOOKED AT [{listed.code}] {told}\n")
        return
    write(f"{name} -> {table_name(listed.config)}\n")
    if listed.prefixes:
        print_table([_HEADS, *map(_cells, listed.prefixes)], numbers=_NUMBERS)
    elif not listed.config.partitions:
        files = typed("sluiceway files JOB", str(job_file))
        write(f"the table has no partition columns: `{files}` lists its files\n")
    else:
        write("no partition: nothing is committed yet, or the options leave all of them out\n")
    if listed.sealed:
        files = typed("sluiceway files JOB", str(job_file))
        write(
            f"note: {listed.sealed:,} that were touched long ago are sealed: announced, and closed "
            f"for ever; `{files}` lists what is in them\n"
        )
    if listed.forgotten_up_to:
        verify = typed("sluiceway verify JOB", str(job_file))
        write(
            f"note: of partitions up to {listed.forgotten_up_to}, the ones that were changed long "
            f"ago are in the log only; `{verify}` checks them too\n"
        )


def _cells(each: "ObservedPrefix") -> tuple[str, ...]:
    from sluiceway.audit.format_times import span  # noqa: PLC0415

    at_least = "" if each.whole else ">="
    places = [one.location for one in each.partitions if not one.expired]
    where = places[0] if len(places) == 1 else f"{len(places):,} partitions"
    return (
        printable(each.prefix),
        each.describe,
        str(each.version or "-"),
        f"{at_least}{each.rows:,}",
        f"{at_least}{each.files:,}",
        f"{at_least}{each.size_bytes:,}",
        each.describe_late,
        "-" if each.delay_us is None else span(each.delay_us),
        printable(where) if places else "-",
    )


def _routes(job_file: Path, name: str | None, *, choose: bool = True) -> "Sequence[RouteConfig]":
    """The routes of a job; with `choose` only the named one."""
    from sluiceway.audit.pick_route import pick_route, routes_without_brokers  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415

    spec = load_checked_job(job_file).spec
    routes = routes_without_brokers(spec, WarningsOnDemand(), name)
    return (pick_route(routes, name),) if choose and name is not None else routes
