"""`sluiceway offsets`: show where routes are in their logs, move them, retire partitions."""

import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluiceway.audit.format_times import moment
from sluiceway.cli.options import JobFile, OneRoute, OnlyRoute, Output, OutputFormat, this_operator
from sluiceway.cli.views.answers import (
    error_fields,
    print_document,
    raise_code,
    read_each,
    route_answers,
)
from sluiceway.cli.views.error_text import print_error
from sluiceway.cli.views.tables import print_table
from sluiceway.errors import ResetRefusedError
from sluiceway.types.log_key import read_log_key

if TYPE_CHECKING:
    from sluiceway.audit.source_offsets import PartitionOffsets, RouteOffsets
    from sluiceway.errors import SluicewayError
    from sluiceway.jobfile.compile.config import RouteConfig
    from sluiceway.operate.offset_moves import OffsetMove, ResetRequest, ResetTarget
    from sluiceway.operate.retire_partitions import Retirement, RetireRequest
    from sluiceway.sources.contract import SourcePartition

app = typer.Typer(no_args_is_help=True, help="Show committed ends; move them; retire partitions.")

_Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the ledger.")]
_Partitions = Annotated[
    list[str] | None,
    typer.Option("--partition", metavar="TOPIC:N", help="Only this one; repeatable."),
]
_Execute = Annotated[
    bool, typer.Option("--execute", help="Do it; without this it only says what it would do.")
]

_HEADS = ("PARTITION", "START", "HOW", "COMMITTED", "LOG START", "LOG END", "LAG", "NEWEST EVENT")
_MAX_REASON = 500
_WOULD_HALT = 1


@app.callback()
def offsets() -> None:
    """Show committed ends; move them; retire partitions."""


@app.command()
def show(
    job_file: JobFile,
    route: OnlyRoute = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Show each source partition's start, committed end, log bounds and lag.

    The start and the committed end come from the ledger, the rest from the brokers; without brokers
    the rest is missing, with a note. Exit with 1 when the next start of a route would halt.
    """
    from sluiceway.audit.pick_route import job_routes, pick_route  # noqa: PLC0415
    from sluiceway.audit.source_offsets import route_offsets  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415

    routes = job_routes(load_checked_job(job_file).spec, WarningsOnDemand())
    chosen = routes if route is None else (pick_route(routes, route),)
    found = read_each(chosen, route_offsets, output)
    if output.is_document:
        print_document({"routes": route_answers(chosen, found, asdict)}, output)
    else:
        for config, one in zip(chosen, found, strict=True):
            _print_route(config.route, one)
    raise_code(found, _code)


def _code(found: "RouteOffsets") -> int:
    well = not found.problems and all(one.problem is None for one in found.partitions)
    return 0 if well else _WOULD_HALT


def _print_route(name: str, found: "RouteOffsets | SluicewayError") -> None:
    write = sys.stdout.write
    if isinstance(found, Exception):
        write(f"{name}: NOT LOOKED AT [{found.code}] {found}\n")
        return
    write(f"{found.route} -> {found.table}\n")
    print_table([_HEADS, *map(_cells, found.partitions)])
    for one in found.partitions:
        if one.problem is not None:
            write(f"PROBLEM {one.topic}[{one.partition}]: {one.problem}\n")
    for problem in found.problems:
        write(f"PROBLEM {problem}\n")
    if found.broker_error is not None:
        write(f"note: the brokers do not answer, by the ledger alone: {found.broker_error}\n")


def _cells(one: "PartitionOffsets") -> tuple[str, ...]:
    how = one.how if not one.generation else f"{one.how} (generation {one.generation})"
    newest = "-"
    if one.newest_event_us is not None:
        newest = moment(one.newest_event_us)
    return (
        f"{one.topic}[{one.partition}]",
        str(one.start),
        "retired" if one.retired else how,
        str(one.committed_end),
        *("-" if each is None else str(each) for each in (one.log_start, one.log_end, one.lag)),
        newest,
    )


@app.command()
def reset(  # noqa: PLR0913, PLR0917 - an operator's decision has that many parts
    job_file: JobFile,
    reason: _Reason,
    to: Annotated[
        str | None,
        typer.Option("--to", help="earliest, latest, an offset, or a time with a zone."),
    ] = None,
    by_tail: Annotated[
        bool, typer.Option("--by-tail", help="Where the last rows that were read are now.")
    ] = False,
    route: OneRoute = None,
    partition: _Partitions = None,
    accept_gap: Annotated[
        bool, typer.Option("--accept-gap", help="Offsets in between are never read.")
    ] = False,
    accept_doubles: Annotated[
        bool, typer.Option("--accept-doubles", help="Rows read again are in the table twice.")
    ] = False,
    accept_identity: Annotated[
        bool,
        typer.Option("--accept-identity", help="Read another log of the same name in its place."),
    ] = False,
    execute: _Execute = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Move committed ends of a stopped route; rows that are in the table stay there.

    Says what it would do, and exits with 7 when a consequence is not accepted yet. With --execute
    it fences the ledger as a driver would, and writes one record. The record holds the old and new
    ends, what was accepted, by whom and why.

    $ sluiceway offsets reset orders.yaml --to earliest --accept-gap --reason 'ticket 7'
    """
    # Imported here to keep `--help` quick.
    from sluiceway.operate.offset_moves import ResetRequest, refuse_unaccepted  # noqa: PLC0415
    from sluiceway.operate.reset_offsets import accepted_by  # noqa: PLC0415

    if (to is None) != by_tail:
        raise typer.BadParameter("expected --to or --by-tail, one of them", param_hint="--to")
    given = {"gap": accept_gap, "twice": accept_doubles, "identity": accept_identity}
    wish = ResetRequest(
        target=_target(to),
        reason=_reason(reason),
        operator=this_operator(),
        partitions=tuple(_partition(text) for text in partition or ()),
        accepted=frozenset(name for name, yes in given.items() if yes),
    )
    if wish.target.kind == "offset" and not wish.partitions:
        raise typer.BadParameter("an offset needs --partition", param_hint="--to")
    moves, seq = _reset(job_file, route, wish, execute=execute)
    needs = _needs(moves, wish)
    if output is OutputFormat.TABLE:
        _print_moves(moves, seq, needs)
    refused = None
    try:
        refuse_unaccepted(moves, accepted_by(wish))
    except ResetRefusedError as error:
        refused = error
    if output.is_document:
        shown = [{**asdict(move), "partition": _typed(move.partition)} for move in moves]
        answer = {"executed": seq is not None, "slot": seq, "moves": shown, "needs": needs}
        print_document({**answer, "error": refused and error_fields(refused)}, output)
    if refused is not None:
        raise typer.Exit(print_error(refused))


@app.command()
def retire(  # noqa: PLR0913, PLR0917 - like `reset`
    job_file: JobFile,
    reason: _Reason,
    route: OneRoute = None,
    partition: _Partitions = None,
    accept_gap: Annotated[
        bool, typer.Option("--accept-gap", help="What was not read of them is never read.")
    ] = False,
    execute: _Execute = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Give up partitions that the cluster no longer has; a stopped route goes on without them.

    They hold no hour open any more, and rows that are in the table stay there. A partition that
    comes back is read on from its end. Without --partition: all that are gone.

    $ sluiceway offsets retire orders.yaml --accept-gap --reason 'broker-b is no more'
    """
    from sluiceway.operate.retire_partitions import (  # noqa: PLC0415 - keeps `--help` quick
        RetireRequest,
        refuse_unaccepted,
    )

    wish = RetireRequest(
        reason=_reason(reason),
        operator=this_operator(),
        partitions=tuple(_partition(text) for text in partition or ()),
        accepts_gap=accept_gap,
    )
    gone, seq = _retire(job_file, route, wish, execute=execute)
    if output is OutputFormat.TABLE:
        _print_retired(gone, seq, accepted=accept_gap)
    refused = None
    try:
        refuse_unaccepted(gone, wish)
    except ResetRefusedError as error:
        refused = error
    if output.is_document:
        shown = [{"partition": _typed(each.partition), "committed_end": each.end} for each in gone]
        needs = [] if refused is None else ["--accept-gap"]
        answer = {"executed": seq is not None, "slot": seq, "retired": shown, "needs": needs}
        print_document({**answer, "error": refused and error_fields(refused)}, output)
    if refused is not None:
        raise typer.Exit(print_error(refused))


def _retire(
    job_file: Path, route: str | None, wish: "RetireRequest", *, execute: bool
) -> "tuple[tuple[Retirement, ...], int | None]":
    """The missing partitions, and the slot of the record when it was written."""
    from sluiceway.audit.open_table import open_ledger  # noqa: PLC0415
    from sluiceway.operate.retire_partitions import (  # noqa: PLC0415
        planned_retirements,
        retire_partitions,
    )
    from sluiceway.route.clients import open_source  # noqa: PLC0415

    config = _chosen_route(job_file, route)
    fold = open_ledger(config).fold
    source = open_source(config.at(fold))
    try:
        gone = planned_retirements(fold, wish, source)
        done = retire_partitions(config, wish, gone, source) if execute and gone else None
        return gone, done
    finally:
        source.close()


def _print_retired(gone: "tuple[Retirement, ...]", seq: int | None, *, accepted: bool) -> None:
    write = sys.stdout.write
    word = "accepted by" if accepted else "needs"
    for each in gone:
        what = f"what came from offset {each.end} on is never read"
        write(f"{each.partition}: gone; {what} ({word} --accept-gap)\n")
    if not gone:
        write("nothing to do: the cluster has all partitions that the route reads\n")
    elif seq is not None:
        write(f"done: slot {seq} of the ledger; start the job to go on without them\n")
    elif accepted:
        write("nothing was changed; it is accepted: repeat it with --execute to do it\n")
    else:
        write("nothing was changed; it needs --accept-gap\n")


def _chosen_route(job_file: Path, route: str | None) -> "RouteConfig":
    from sluiceway.audit.pick_route import job_routes, pick_route  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415

    routes = job_routes(load_checked_job(job_file).spec, WarningsOnDemand())
    return pick_route(routes, route)


def _reason(text: str) -> str:
    if not text.strip() or len(text) > _MAX_REASON or not text.isprintable():
        most = f"expected one line of 1 to {_MAX_REASON} characters"
        raise typer.BadParameter(most, param_hint="--reason")
    return text.strip()


def _needs(moves: "tuple[OffsetMove, ...]", wish: "ResetRequest") -> list[str]:
    """The options that are missing for the moves to be done."""
    from sluiceway.operate.offset_moves import OPTIONS  # noqa: PLC0415
    from sluiceway.operate.reset_offsets import accepted_by  # noqa: PLC0415

    missing = {move.accepts for move in moves} - accepted_by(wish)
    return [option for name, option in OPTIONS.items() if name in missing]


def _reset(
    job_file: Path, route: str | None, wish: "ResetRequest", *, execute: bool
) -> "tuple[tuple[OffsetMove, ...], int | None]":
    """The moves, and the slot of their record when it was written."""
    from sluiceway.audit.open_table import open_ledger  # noqa: PLC0415
    from sluiceway.operate.reset_offsets import planned_moves, reset_route  # noqa: PLC0415
    from sluiceway.route.clients import open_source  # noqa: PLC0415

    config = _chosen_route(job_file, route)
    fold = open_ledger(config).fold
    source = open_source(config.at(fold))
    try:
        moves = planned_moves(config, fold, wish, source)
        return moves, reset_route(config, wish, moves, source) if execute and moves else None
    finally:
        source.close()


def _target(text: str | None) -> "ResetTarget":
    from sluiceway.jobfile.blocks.start import parse_start_time_ms  # noqa: PLC0415
    from sluiceway.operate.offset_moves import ResetTarget  # noqa: PLC0415

    match text:
        case None:
            return ResetTarget("tail")
        case "earliest":
            return ResetTarget("earliest")
        case "latest":
            return ResetTarget("latest")
        case _:
            pass
    if re.fullmatch(r"[0-9]{1,18}", text):
        return ResetTarget("offset", offset=int(text))
    try:
        return ResetTarget("timestamp", timestamp_ms=parse_start_time_ms(text))
    except ValueError as error:
        raise typer.BadParameter(
            "expected earliest, latest, an offset, or a time such as 2026-11-20T08:00:00Z",
            param_hint="--to",
        ) from error


def _partition(text: str) -> "SourcePartition":
    from sluiceway.sources.contract import SourcePartition  # noqa: PLC0415

    topic, _, written = text.partition(":")
    key = read_log_key(written)
    if not topic or key is None:
        raise typer.BadParameter("expected TOPIC:PARTITION", param_hint="--partition")
    return SourcePartition(topic, key)


def _typed(one: "SourcePartition") -> str:
    return f"{one.topic}:{one.partition}"


def _print_moves(moves: "tuple[OffsetMove, ...]", seq: int | None, needs: list[str]) -> None:
    from sluiceway.operate.offset_moves import OPTIONS  # noqa: PLC0415

    write = sys.stdout.write
    for move in moves:
        way = f"{move.partition}: {move.old_end} -> {move.new_end}"
        log = f"the log runs from {move.log_start} to {move.log_end}"
        offsets = "1 offset is" if move.offsets == 1 else f"{move.offsets} offsets are"
        match move.accepts:
            case "gap" if not move.offsets:
                what = "the leader is another one; what came below when it was elected is not read"
            case "gap":
                what = f"{offsets} never read"
            case "twice":
                what = f"{offsets} read again; the rows stay in the table and come a second time"
            case _:
                what = "another log is read in its place"
        option = OPTIONS[move.accepts]
        word = f"needs {option}" if option in needs else f"accepted by {option}"
        write(f"{way}: {what} ({word}); {log}\n")
    if not moves:
        write("nothing to do: the committed ends are there already\n")
    elif seq is not None:
        write(f"done: slot {seq} of the ledger; start the job to go on from there\n")
    elif needs:
        write(f"nothing was changed; it needs {' '.join(needs)}\n")
    else:
        write("nothing was changed; it is accepted: repeat it with --execute to do it\n")
