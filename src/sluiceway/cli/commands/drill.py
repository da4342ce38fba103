"""`sluiceway drill`: switch a job to another room, timed, and back; `sluiceway mirror-jar`."""

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.cli.commands.switch import ToRoom, chosen_routes, plan_as_json, plan_lines, plan_of
from sluiceway.cli.options import JobFile, OnlyRoute, Output, OutputFormat, this_operator
from sluiceway.cli.views.answers import print_document, raise_code, read_each, route_answers
from sluiceway.cli.views.tables import printable
from sluiceway.errors import SluicewayError

if TYPE_CHECKING:
    from sluiceway.jobfile.compile.config import RouteConfig
    from sluiceway.ledger.room_files import DrillResult
    from sluiceway.operate.switch import SwitchPlan

    Drilled = tuple[SwitchPlan, tuple[DrillResult, ...], list[str]]

app = typer.Typer()
mirror_jar_app = typer.Typer()


@app.command()
def drill(
    job_file: JobFile,
    to: ToRoom,
    route: OnlyRoute = None,
    back: Annotated[
        bool, typer.Option("--back", help="Switch back afterwards, timed as well.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check all that a switch needs; change nothing.")
    ] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Switch a running job to another room, and say how long that took; exit with 1 when it failed.

    Both rooms have a live driver. Rows are counted before and after; `status` shows the last drill.

    $ sluiceway drill orders.yaml --to b --back
    """
    from sluiceway.operate.switch import run_drill  # noqa: PLC0415

    def practise(config: "RouteConfig") -> "Drilled":
        plan = plan_of(config, to)
        home = plan.place.holder
        if plan.is_done:
            return plan, (), []
        # As it is before the drill, which reads the ledger on.
        before = plan_lines(config.route, plan)
        plan.refuse(now=False, term=None, force=False)
        if dry_run:
            return plan, (), before
        results = [run_drill(plan, this_operator())]
        if back and results[0].ok:
            there = plan_of(config, home)
            there.refuse(now=False, term=None, force=False)
            results.append(run_drill(there, this_operator()))
        return plan, tuple(results), before

    chosen = chosen_routes(job_file, route)
    found = read_each(chosen, practise, output)
    if output.is_document:
        answers = route_answers(chosen, found, _as_json)
        print_document({"to": to, "dry_run": dry_run, "routes": answers}, output)
    else:
        for config, one in zip(chosen, found, strict=True):
            sys.stdout.write(_text(config.route, one, dry_run=dry_run))
    raise_code(found, lambda one: 0 if all(each.ok for each in one[1]) else 1)


def _as_json(found: "Drilled") -> dict[str, Any]:
    plan, results, _ = found
    return {**plan_as_json(plan), "drills": [asdict(each) for each in results]}


def _text(route: str, found: "Drilled | SluicewayError", *, dry_run: bool) -> str:
    if isinstance(found, SluicewayError):
        return f"{route}: NO DRILL [{found.code}] {printable(str(found))}\n"
    plan, results, before = found
    if not before:
        return f"{route}: room {plan.to} has it already\n"
    lines = [*before]
    if dry_run:
        lines.append("  nothing was changed; the switch could be made")
    for each in results:
        how = "switched" if each.ok else "FAILED"
        rows = f"rows {each.rows_before:,} before, {each.rows_after:,} after"
        lines.append(f"  {each.came_from} to {each.to}: {how} in {each.seconds:.1f} s; {rows}")
    return "\n".join([*lines, ""])


@mirror_jar_app.command()
def mirror_jar(
    to: Annotated[
        Path,
        typer.Option("--to", metavar="JAR", help="Where to write it."),
    ] = Path("sluiceway-mirror.jar"),
    output: Output = OutputFormat.TABLE,
) -> None:
    """Write the jar with which MirrorMaker 2 says of each row where it came from.

    The driver then knows copies from rows of its own room, however often the mirror repeats them.
    Put the jar on the mirror's class path, and name its class in the mirror's file. Needs a JDK.

    $ sluiceway mirror-jar --to libs/sluiceway-mirror.jar
    """
    from sluiceway.cli.commands.lab import progress_on_stderr  # noqa: PLC0415 - quick `--help`
    from sluiceway.host.java import find_java  # noqa: PLC0415
    from sluiceway.lab.jars import default_cache_folder  # noqa: PLC0415
    from sluiceway.lab.mirror_jar import TRANSFORM, build_mirror_jar  # noqa: PLC0415

    with progress_on_stderr() as on_progress:
        build_mirror_jar(to, default_cache_folder(os.environ), find_java(), on_progress)
    if output.is_document:
        print_document({"file": str(to), "transform": TRANSFORM}, output)
        return
    typer.echo(
        f"wrote {to}; in the mirror's file, with `kafka-cluster.sh cluster-id` of room a:\n"
        f"  a->b.transforms=origin\n  a->b.transforms.origin.type={TRANSFORM}\n"
        "  a->b.transforms.origin.cluster=CLUSTER_ID"
    )
