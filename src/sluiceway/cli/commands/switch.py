"""`sluiceway switch`: move a job to another room."""

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.cli.options import JobFile, OnlyRoute, Output, OutputFormat, this_operator
from sluiceway.cli.views.answers import (
    error_fields,
    print_document,
    raise_code,
    read_each,
    route_answers,
)
from sluiceway.cli.views.tables import printable
from sluiceway.errors import SluicewayError, WrongUsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sluiceway.jobfile.compile.config import RouteConfig
    from sluiceway.ledger.room_files import HandPosition
    from sluiceway.operate.drain import LeftLog
    from sluiceway.operate.switch import RoutePlace, SwitchPlan
    from sluiceway.sources.contract import SourceClient

    # The lines are of before the switch, which reads the ledger on. Last is what it would lack.
    Moved = tuple[SwitchPlan, bool, list[str], list[SluicewayError]]

app = typer.Typer()

ToRoom = Annotated[str, typer.Option("--to", metavar="ROOM", help="Room that is to have the job.")]
_Drain = Annotated[
    str,
    typer.Option("--drain", metavar="ROOM", help="Room that is back: wait until no row is left."),
]
_GiveUp = Annotated[
    str,
    typer.Option("--give-up", metavar="ROOM", help="Room that was lost: announce without it."),
]
_Term = Annotated[
    list[str] | None,
    typer.Option(
        "--term",
        metavar="[ROUTE=]TERM",
        help="With --now: the term that may be replaced; repeatable.",
    ),
]
_Reason = Annotated[
    str,
    typer.Option("--reason", help="Why; --now, --confirm, --give-up need it.", show_default=False),
]
_Confirm = Annotated[
    list[str] | None,
    typer.Option(
        "--confirm",
        metavar="WHAT",
        help="What holds of the mirror: mirror_only, mirror_end or mirror_closed; repeatable.",
    ),
]


def _position(option: str, risk: str) -> Any:
    """An option for positions that an operator decides."""
    return typer.Option(
        option,
        metavar="TOPIC:N=OFFSET",
        help=f"Continue there, though rows may {risk}; repeatable.",
    )


_AcceptGap = Annotated[list[str] | None, _position("--accept-gap", "be left out")]
_AcceptDoubles = Annotated[list[str] | None, _position("--accept-doubles", "be in the table twice")]


@app.command()
def switch(  # noqa: PLR0913, PLR0917 - the command's options
    job_file: JobFile,
    to: ToRoom = "",
    drain: _Drain = "",
    give_up: _GiveUp = "",
    route: OnlyRoute = None,
    now: Annotated[
        bool, typer.Option("--now", help="The other room is lost: do not wait for its driver.")
    ] = False,
    term: _Term = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also to a room that is not ready.")
    ] = False,
    confirm: _Confirm = None,
    accept_gap: _AcceptGap = None,
    accept_doubles: _AcceptDoubles = None,
    reason: _Reason = "",
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it; without it only the plan is printed.")
    ] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Print what a switch to another room would do and what it lacks, or do it.

    When the room that has the job answers, its driver ends in order and releases each route to the
    other room. When it is silent, an operator who knows that it is lost gives --now and the term.

    Announcements wait for rows that only a lost room has. Once its mirror copies them, --drain says
    what is left there. --give-up ends the wait without them.

    $ sluiceway switch orders.yaml --to b
    $ sluiceway switch orders.yaml --to b --execute
    $ sluiceway switch orders.yaml --drain a --room a --execute
    """
    from sluiceway.cli.commands.run import parsed_terms  # noqa: PLC0415
    from sluiceway.operate.switch import await_switch, request_switch  # noqa: PLC0415

    if sum(map(bool, (to, drain, give_up))) != 1:
        raise WrongUsageError("expected one of --to, --drain and --give-up")
    if room := drain or give_up:
        lost = _Lost(room, bool(drain), reason.strip(), execute)
        _end_loss(chosen_routes(job_file, route), lost, output)
        return
    confirms = _confirmations(confirm or ())
    by_hand = (*_by_hand(accept_gap, "gap"), *_by_hand(accept_doubles, "twice"))
    unsaid = _unsaid(reason) if now or confirms or by_hand else []
    _raise_first(unsaid if execute else [])
    terms = parsed_terms(term or [], "--term")

    def move(config: "RouteConfig") -> "Moved":
        if (plan := plan_of(config, to)).is_done:
            return plan, True, [], []
        found = plan_lines(config.route, plan)
        named = terms.get(config.route, terms.get(""))
        lacks = plan.refusals(now=now, term=named, force=force, confirms=confirms, by_hand=by_hand)
        refused = [*lacks, *unsaid]
        if not execute:
            return plan, False, found, refused
        _raise_first(refused)
        who, why, mirror = this_operator(), reason.strip(), (confirms, by_hand)
        request_switch(plan, who, why, now=now, force=force, mirror=mirror)
        return plan, await_switch(plan, rows=False), found, []

    chosen = chosen_routes(job_file, route)
    found = read_each(chosen, move, output)
    if output.is_document:
        print_document({"to": to, "routes": route_answers(chosen, found, _as_json)}, output)
    else:
        sys.stdout.writelines(_texts(chosen, found, execute=execute))
    raise_code(found, lambda one: _code(one, execute=execute))


def _code(found: "Moved", *, execute: bool) -> int:
    """Exit code of a route: of a plan, that of what would be refused first."""
    _, done, _, refused = found
    if refused:
        return refused[0].exit_code
    return 0 if done or not execute else 1


@dataclass(frozen=True, slots=True)
class _Lost:
    """What is asked about a lost room."""

    room: str
    drains: bool
    reason: str
    execute: bool


def _end_loss(chosen: "tuple[RouteConfig, ...]", lost: _Lost, output: OutputFormat) -> None:
    if lost.execute and not lost.drains:
        _raise_first(_unsaid(lost.reason))
    found = read_each(chosen, lambda config: _lost_route(config, lost), output)
    if output.is_document:
        answers = route_answers(chosen, found, _lost_json)
        print_document({"room": lost.room, "routes": answers}, output)
    else:
        for config, one in zip(chosen, found, strict=True):
            sys.stdout.write(_lost_text(config.route, one, lost))
    raise_code(found, lambda one: 0 if one[1] or not lost.execute else 1)


def _lost_route(config: "RouteConfig", lost: _Lost) -> "tuple[tuple[LeftLog, ...], bool]":
    """What is left in the room, and whether announcements wait for it no more."""
    from sluiceway.operate.drain import await_drain, give_up, rows_left, waited_for  # noqa: PLC0415

    place, source = _place_of(config, lost.room)
    try:
        left: tuple[LeftLog, ...] = ()
        if lost.drains:
            drain = await_drain if lost.execute else rows_left
            left = drain(place, lost.room, source)
        drained = lost.drains and not any(each.rows for each in left)
        if not lost.execute:
            return left, waited_for(place, lost.room) is None
        if drained or not lost.drains:
            give_up(place, lost.room, this_operator(), lost.reason, drained=drained)
        return left, drained or not lost.drains
    finally:
        source.close()


def _lost_json(found: "tuple[tuple[LeftLog, ...], bool]") -> dict[str, Any]:
    left, done = found
    logs = [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "end": each.origin_end,
            "log_end": each.log_end,
            "rows": each.rows,
            "gone": each.gone,
        }
        for each in left
    ]
    return {"logs": logs, "done": done}


def _lost_text(
    route: str, found: "tuple[tuple[LeftLog, ...], bool] | SluicewayError", lost: _Lost
) -> str:
    if isinstance(found, SluicewayError):
        return f"{route}: NOT DONE [{found.code}] {printable(str(found))}\n"
    left, done = found
    lines = [f"{route}: room {lost.room}"]
    for each in left:
        text = f"  {each.partition.topic}/{each.partition.partition}: {each.rows:,} rows are left"
        gone = f", {each.gone:,} offsets are gone" if each.gone else ""
        lines.append(f"{text} from {each.origin_end} to {each.log_end}{gone}")
    if not lost.execute:
        waits = "no announcement waits for it" if done else "announcements wait for it"
        lines.append(f"  {waits}; nothing was changed")
    elif done:
        lines.append("  done: no announcement waits for it")
    else:
        lines.append("  rows are left: see that its mirror runs, then repeat it")
    return "\n".join([*lines, ""])


def _by_hand(given: "Iterable[str] | None", accepted: str) -> "tuple[HandPosition, ...]":
    """Positions that an operator decides, `TOPIC:PARTITION=OFFSET` each."""
    from sluiceway.ledger.room_files import HandPosition  # noqa: PLC0415
    from sluiceway.types.log_key import read_log_key  # noqa: PLC0415

    found = []
    for text in given or ():
        matched = re.fullmatch(r"([^:=]+):([^=]+)=([0-9]{1,18})", text)
        key = None if matched is None else read_log_key(matched[2])
        if matched is None or key is None:
            raise WrongUsageError(f"expected TOPIC:PARTITION=OFFSET, got `{text}`")
        found.append(HandPosition(matched[1], key, int(matched[3]), accepted))
    return tuple(found)


def _unsaid(reason: str) -> list[SluicewayError]:
    """What is missing where the log keeps a reason: nothing, or an error."""
    what = "--now, --confirm and --accept-... are kept in the log, with a reason"
    return [] if reason.strip() else [WrongUsageError(what, hint="say why with --reason")]


def _raise_first(errors: list[SluicewayError]) -> None:
    if errors:
        raise errors[0]


def _confirmations(given: "Iterable[str]") -> tuple[str, ...]:
    from sluiceway.rooms.positions import CONFIRMATIONS  # noqa: PLC0415

    unknown = sorted(set(given) - CONFIRMATIONS.keys())
    if unknown:
        known = "; ".join(f"`{name}`: {what}" for name, what in CONFIRMATIONS.items())
        raise WrongUsageError(f"--confirm does not know `{unknown[0]}`", hint=known)
    return tuple(sorted(set(given)))


def chosen_routes(job_file: "Path", route: str | None) -> "tuple[RouteConfig, ...]":
    """Routes of the job, or the named route."""
    from sluiceway.audit.pick_route import job_routes, pick_route  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415

    routes = tuple(job_routes(load_checked_job(job_file).spec, WarningsOnDemand()))
    return routes if route is None else (pick_route(routes, route),)


def plan_of(config: "RouteConfig", to: str) -> "SwitchPlan":
    """What a switch of a route would do."""
    from sluiceway.operate.switch import plan_switch  # noqa: PLC0415

    place, source = _place_of(config, to)
    try:
        return plan_switch(place, to, source)
    finally:
        source.close()


def _place_of(config: "RouteConfig", room: str) -> "tuple[RoutePlace, SourceClient]":
    """Where the route's ledger is, and a client of this room's queue."""
    from sluiceway.audit.open_table import open_place, read_ledger  # noqa: PLC0415
    from sluiceway.operate.switch import RoutePlace, room_rule_of  # noqa: PLC0415
    from sluiceway.route.clients import open_source  # noqa: PLC0415

    rule = room_rule_of(config, room)
    table = open_place(config)
    ledger = read_ledger(table)
    place = RoutePlace(config, rule, table.storage, table.layout, ledger.log, ledger.fold)
    return place, open_source(config)


def plan_as_json(plan: "SwitchPlan") -> dict[str, Any]:
    """The plan for programs."""
    standby = plan.standby
    return {
        "holder": plan.place.holder or None,
        "term": plan.place.fold.term,
        "holder_answers": plan.holder_lives,
        "standby_ready": standby is not None and standby.ready,
        "standby_reasons": ["no driver reports"] if standby is None else list(standby.reasons),
        "positions": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "end": each.end,
                "position": each.position,
                "proof": each.proof,
                "lag_rows": each.lag_rows,
            }
            for each in plan.positions
        ],
    }


def plan_lines(route: str, plan: "SwitchPlan") -> list[str]:
    """The plan for a person."""
    holder, standby = plan.place.holder or "none", plan.standby
    answers = "answers" if plan.holder_lives else "is silent"
    if standby is None:
        ready = "no driver reports"
    else:
        ready = "ready" if standby.ready else f"not ready: {'; '.join(standby.reasons)}"
    lines = [
        f"{route}: room {holder} has it, term {plan.place.fold.term}, and {answers}",
        f"  room {plan.to}: {printable(ready)}",
    ]
    for each in plan.positions:
        lag = "not known" if each.lag_rows is None else f"{each.lag_rows:,} rows"
        where = f"{each.partition.topic}/{each.partition.partition}"
        if each.position is None:
            lines.append(f"  {where} has no position from here: {printable(each.proof)}")
        else:
            lines.append(f"  {where} continues at {each.position} ({each.proof}), lag {lag}")
    return lines


def _as_json(found: "Moved") -> dict[str, Any]:
    plan, done, _, refused = found
    return {**plan_as_json(plan), "done": done, "refused": [error_fields(e) for e in refused]}


def _texts(
    chosen: "tuple[RouteConfig, ...]", found: "list[Moved | SluicewayError]", *, execute: bool
) -> list[str]:
    each = zip(chosen, found, strict=True)
    return [_text(config.route, one, execute=execute) for config, one in each]


def _text(route: str, found: "Moved | SluicewayError", *, execute: bool) -> str:
    if isinstance(found, SluicewayError):
        return f"{route}: NOT SWITCHED [{found.code}] {printable(str(found))}\n"
    plan, done, before, refused = found
    if not before:
        return f"{route}: room {plan.to} has it already\n"
    lines = [*before]
    if refused:
        lines += [f"  missing: {printable(e.message)}; {printable(e.hint)}" for e in refused]
        lines.append(f"  nothing was changed; --execute would be refused [{refused[0].code}]")
    elif not execute:
        lines.append("  nothing was changed; repeat it with --execute to do it")
    elif done:
        lines.append(f"  done: room {plan.to} has it, term {plan.place.fold.term}")
    else:
        lines.append(f"  asked for, and room {plan.to} has not taken it in time; see `status`")
    return "\n".join([*lines, ""])
