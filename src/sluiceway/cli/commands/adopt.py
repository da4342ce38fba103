"""`sluiceway adopt`: continue a table from the copy that a lost room has left."""

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.cli.commands.switch import chosen_routes
from sluiceway.cli.options import JobFile, OnlyRoute, Output, OutputFormat, this_operator
from sluiceway.cli.views.answers import print_document, raise_code, read_each, route_answers
from sluiceway.cli.views.tables import printable
from sluiceway.errors import RequestRefusedError, SluicewayError, WrongUsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluiceway.jobfile.compile.config import RouteConfig
    from sluiceway.rooms.adopt_table import AdoptOrder, AdoptPlan
    from sluiceway.sinks.contract import TableSink

    Adopted = tuple[AdoptPlan, int]

app = typer.Typer()


@app.command()
def adopt(  # noqa: PLR0913, PLR0917 - the command's options
    job_file: JobFile,
    route: OnlyRoute = None,
    at: Annotated[
        int | None,
        typer.Option("--at", metavar="SLOT", help="Last slot to keep; else the last whole one."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the cut and what goes; change nothing.")
    ] = False,
    confirm: Annotated[
        list[str] | None,
        typer.Option(
            "--confirm",
            metavar="WHAT",
            help="`room_down`: the other room writes no more; `copier_stopped`. Both are needed.",
        ),
    ] = None,
    accept_gap: Annotated[
        bool, typer.Option("--accept-gap", help="Accept rows that the queue here lacks as lost.")
    ] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why, for the log.")] = "",
    output: Output = OutputFormat.TABLE,
) -> None:
    """Continue in this room from a copy of the table, when the room that wrote it is lost.

    The ledger is cut at the last slot whose files are all in the copy. Files of later slots are
    moved aside, and their rows are read from the queue again.

    $ sluiceway adopt orders.yaml --room b --dry-run
    $ sluiceway adopt orders.yaml --room b --confirm room_down --confirm copier_stopped --reason WHY
    """
    from sluiceway.rooms.adopt_table import CONFIRMATIONS, AdoptOrder  # noqa: PLC0415

    confirmed = tuple(sorted(set(confirm or ())))
    if wrong := [each for each in confirmed if each not in CONFIRMATIONS]:
        raise WrongUsageError(
            f"nothing is called `{wrong[0]}` that could be confirmed",
            hint=f"write {' and '.join(f'--confirm {each}' for each in CONFIRMATIONS)}",
        )
    if not dry_run and confirmed != CONFIRMATIONS:
        missing = ", ".join(f"--confirm {each}" for each in CONFIRMATIONS if each not in confirmed)
        raise WrongUsageError(
            "an adopt while the other room or the copier still writes would make two tables of one",
            hint=f"when you know that neither does, add {missing}; --dry-run needs none",
        )
    if not dry_run and not reason.strip():
        raise WrongUsageError("an adopt is kept in the log", hint="say why with --reason")
    order = AdoptOrder(this_operator(), reason.strip(), confirmed, accept_gap)
    chosen = chosen_routes(job_file, route)
    found = adopt_routes(chosen, at, None if dry_run else order, output)
    if output.is_document:
        print_document(
            {"dry_run": dry_run, "routes": route_answers(chosen, found, _as_json)}, output
        )
    else:
        for config, one in zip(chosen, found, strict=True):
            sys.stdout.write(_text(config.route, one, dry_run=dry_run))

    def is_refused(plan: "AdoptPlan") -> bool:
        return (bool(plan.gaps) and not accept_gap) or plan.copies_denied is False

    raise_code(found, lambda one: int(dry_run and is_refused(one[0])))


def adopt_routes(
    chosen: "Sequence[RouteConfig]",
    at: int | None,
    order: "AdoptOrder | None",
    output: OutputFormat = OutputFormat.TABLE,
) -> "list[Adopted | SluicewayError]":
    """Plan an adopt of each route, and carry it out unless `order` is None. Waits once for all.

    Returns:
        Plan and slot of the first record, -1 without one; or the error of the route.
    """
    from sluiceway.rooms.adopt_table import (  # noqa: PLC0415
        adopt_table,
        refuse_changing,
        wait_quiet,
    )

    with ExitStack() as stack:
        copies = read_each(chosen, lambda config: _planned(config, at, order, stack), output)
        if order is not None and any(isinstance(each, _Copy) and each.plan.cut for each in copies):
            wait_quiet()
        by_route = dict(zip((config.route for config in chosen), copies, strict=True))

        def carry_out(config: "RouteConfig") -> "Adopted":
            copy = by_route[config.route]
            if isinstance(copy, SluicewayError):
                raise copy
            if order is None or copy.plan.done:
                return copy.plan, -1
            copy.plan.refuse_gaps(accepted=order.accept_gap)
            refuse_changing(copy.plan)
            return copy.plan, adopt_table(copy.plan, order, copy.sink)

        return read_each(chosen, carry_out, output)


@dataclass(frozen=True, slots=True)
class _Copy:
    """A planned adopt, and the table that it is of."""

    plan: "AdoptPlan"
    sink: "TableSink"


def _planned(
    config: "RouteConfig", at: int | None, order: "AdoptOrder | None", stack: ExitStack
) -> _Copy:
    from sluiceway.audit.open_table import refuse_lakes  # noqa: PLC0415
    from sluiceway.ledger.layout import LedgerLayout  # noqa: PLC0415
    from sluiceway.rooms.adopt_table import CopiedPlace, plan_adopt  # noqa: PLC0415
    from sluiceway.route.clients import open_sink, open_source  # noqa: PLC0415
    from sluiceway.route.ownership import table_identity  # noqa: PLC0415
    from sluiceway.storage.registry import open_storage  # noqa: PLC0415

    rule = config.rooms
    if rule is None:
        raise RequestRefusedError(
            "the job has one place only, and no copy of its table",
            where=config.route,
            hint="`adopt` is for a job file with `rooms` and `storage: copied` in it",
        )
    if not rule.copied:
        raise RequestRefusedError(
            "the rooms of this job share one table",
            where=config.route,
            hint="`sluiceway switch JOB --to ROOM` moves it; `adopt` is for `storage: copied`",
        )
    refuse_lakes((config,), "adopt", "register the copied table, and read its topics from there")
    sink = open_sink(config)
    stack.callback(sink.close)
    source = open_source(config)
    stack.callback(source.close)
    state = sink.foresee().state if order is None else sink.open()
    storage, root = open_storage(state.identity.home, config.stores)
    layout = LedgerLayout(root, config.route)
    place = CopiedPlace(config, rule, storage, layout, table_identity(state), state)
    return _Copy(plan_adopt(place, source, at), sink)


def _as_json(found: "Adopted") -> dict[str, Any]:
    plan, slot = found
    cut = plan.cut
    return {
        "generation": plan.number,
        "done": plan.done or slot >= 0,
        "kept_slot": None if cut is None else plan.kept_slot,
        "slots_cut": None if cut is None else cut.slots,
        "placed": [] if cut is None else [file.final for file in cut.to_place],
        "moved": [] if cut is None else cut.to_move,
        "copies_denied": plan.copies_denied,
        "ranges": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "start": each.start,
                "known_end": each.known_end,
                "lost_before": each.lost,
            }
            for each in plan.ranges
        ],
    }


def _text(route: str, found: "Adopted | SluicewayError", *, dry_run: bool) -> str:
    if isinstance(found, SluicewayError):
        return f"{route}: NOT ADOPTED [{found.code}] {printable(str(found))}\n"
    plan, slot = found
    cut = plan.cut
    if cut is None:
        return f"{route}: room {plan.place.rule.room} has adopted it, generation {plan.number}\n"
    lines = [
        f"{route}: slots 0 to {plan.kept_slot} are kept, {cut.slots} later slots go",
        f"  {len(cut.to_place)} staged files get their final names, "
        f"{len(cut.to_move)} files are moved aside",
    ]
    if plan.copies_denied is None:
        lines.append(
            "  not checked: whether the store keeps copiers out. It has no rules for that, or this "
            f"login cannot read them. See that nothing is copied to {plan.place.layout.table_root}"
        )
    if plan.copies_denied is False:
        lines.append("  the bucket's policy does not deny `s3:ReplicateObject`: it is refused")
    for each in plan.ranges:
        rest = f", known to {each.known_end}" if each.known_end > each.start else ""
        lost = "" if each.lost is None else f"; LOST below {each.lost}"
        lines.append(f"  {each.partition} is read again from {each.start}{rest}{lost}")
    if dry_run:
        lines.append("  nothing was changed")
    else:
        lines.append(f"  done: generation {plan.number} begins in slot {slot}; start the job here")
    return "\n".join([*lines, ""])
