"""`sluiceway dirty`: show rows that could not be converted; replay them, or give them up."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluiceway.audit.format_times import counted, moment
from sluiceway.cli.options import JobFile, OneRoute, Output, OutputFormat, this_operator
from sluiceway.cli.views.answers import print_document, raise_code, read_each, route_answers
from sluiceway.cli.views.dirty_lanes import carry_out_and_tell, print_plan
from sluiceway.cli.views.tables import print_table, printable
from sluiceway.cli.views.typed_commands import typed
from sluiceway.types.log_key import LogKey, read_log_key

if TYPE_CHECKING:
    from sluiceway.audit.dirty_rows import DirtyFilter, DirtyGroup, DirtyRows, Lane
    from sluiceway.errors import SluicewayError
    from sluiceway.jobfile.compile.config import RouteConfig

app = typer.Typer(no_args_is_help=True, help="Show dirty rows; replay or purge them.")

_Reasons = Annotated[
    list[str] | None, typer.Option("--reason", help="Only rows of this reason; repeatable.")
]
_Fields = Annotated[
    list[str] | None, typer.Option("--field", help="Only rows dirty for this field; repeatable.")
]
_Partitions = Annotated[
    list[str] | None,
    typer.Option("--partition", metavar="TOPIC:N", help="Only rows from there; repeatable."),
]
_Slots = Annotated[
    str | None,
    typer.Option("--slots", metavar="A-B", help="Only rows that these slots committed."),
]
_Older = Annotated[
    str | None,
    typer.Option("--older-than", help="Only rows whose record time is longer ago, as 30d."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Why = Annotated[str, typer.Option("--why", help="Kept in the ledger.")]

_MAX_WHY = 500
_MOST_PATH_CHARS = 80
_HEADS = ("REASON", "FIELD", "STATE", "ROWS", "FILES", "SLOTS", "RECORD TIMES")


@app.callback()
def dirty() -> None:
    """Show dirty rows; replay or purge them."""


@app.command("list")
def list_rows(
    job_file: JobFile,
    route: OneRoute = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Count the dirty rows of each route by reason, field and state, and show its lanes.

    States: open; under_way in a lane that is not finished; replayed; purged. Rows that were
    dirty again in a replay are new rows, and open.
    """
    chosen = _routes(job_file, route)
    found = read_each(chosen, count_rows, output)
    if output.is_document:
        print_document({"routes": route_answers(chosen, found, counted_document)}, output)
    else:
        for config, one in zip(chosen, found, strict=True):
            _print_list(config.route, one)
    raise_code(found)


def count_rows(config: "RouteConfig") -> "tuple[DirtyRows, Sequence[DirtyGroup]]":
    """Read the dirty rows of a route, and count them."""
    from sluiceway.audit.dirty_rows import DirtyFilter, grouped, matching  # noqa: PLC0415

    rows = _read(config)
    return rows, grouped(list(matching(rows, DirtyFilter())))


def counted_document(found: "tuple[DirtyRows, Sequence[DirtyGroup]]") -> dict[str, Any]:
    """The answer for programs."""
    rows, groups = found
    return {
        "open": rows.fold.dirty_rows_open,
        "groups": [asdict(each) for each in groups],
        "lanes": [_lane_json(each) for each in rows.lanes],
    }


def _print_list(
    route: str, found: "tuple[DirtyRows, Sequence[DirtyGroup]] | SluicewayError"
) -> None:
    write = sys.stdout.write
    if isinstance(found, Exception):
        write(f"{route}: NOT LOOKED AT [{found.code}] {found}\n")
        return
    rows, groups = found
    write(f"{route}: {_rows(rows.fold.dirty_rows_open)} open; dirty files: {len(rows.files):,}\n")
    if groups:
        print_table([_HEADS, *map(_cells, groups)])
    for lane in rows.lanes:
        write(f"{_lane_text(lane)}\n")


def _cells(each: "DirtyGroup") -> tuple[str, ...]:
    times = "-"
    if each.first_ms is not None and each.last_ms is not None:
        times = f"{_at(each.first_ms)} to {_at(each.last_ms)}"
    slots = f"{each.first_seq}-{each.last_seq}"
    rows, files = f"{each.rows:,}", f"{each.files:,}"
    return (each.reason, _cut(each.path) or "-", each.state, rows, files, slots, times)


def _lane_text(lane: "Lane") -> str:
    state, record = lane.state, lane.record
    counts = state.counts
    became = f"{counts.written:,} written, {counts.dirty:,} dirty again"
    if counts.superseded:
        became += f", {counts.superseded:,} superseded by later changes"
    if counts.filtered or counts.skipped:
        became += f", {counts.filtered:,} filtered, {counts.skipped:,} skipped"
    if state.kind == "purge":
        became = f"{counts.purged:,} purged"
    if state.kind == "late":
        became = f"{counts.written:,} brought in"
    how = "done" if state.finished else f"{int(counts.read):,} of {_rows(state.rows)} so far"
    why = f": {record.reason}" if record.reason else ""
    return (
        f"{state.kind} {state.lane[:8]} in slot {state.seq} by {record.operator}: "
        f"{_rows(state.rows)}, {how}; {became}{why}"
    )


def _lane_json(lane: "Lane") -> dict[str, Any]:
    state, record = lane.state, lane.record
    return {
        "lane": state.lane,
        "kind": state.kind,
        "slot": state.seq,
        "rows": state.rows,
        "finished": state.finished,
        "operator": record.operator,
        "why": record.reason,
        **asdict(state.counts),
    }


@app.command()
def show(  # noqa: PLR0913, PLR0917 - one option a filter
    job_file: JobFile,
    route: OneRoute = None,
    reason: _Reasons = None,
    field: _Fields = None,
    partition: _Partitions = None,
    offset: Annotated[
        list[int] | None, typer.Option("--offset", help="Only this offset; repeatable.")
    ] = None,
    slots: _Slots = None,
    older_than: _Older = None,
    state: Annotated[
        str, typer.Option("--state", help="open, under_way, replayed, purged or all.")
    ] = "open",
    limit: Annotated[int, typer.Option(help="At most so many rows.", min=1)] = 20,
    values: Annotated[
        bool, typer.Option("--values", help="Show keys, values and headers too.")
    ] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Print dirty rows with where they came from and why they are dirty, oldest commit first.

    Messages obey the columns' `redact`; keys, values and headers are shown only with --values.

    $ sluiceway dirty show orders.yaml --reason overflow --values
    """
    from dataclasses import replace  # noqa: PLC0415

    from sluiceway.audit.dirty_rows import DirtyState  # noqa: PLC0415

    known = [each.label for each in DirtyState]
    if state not in (*known, "all"):
        expected = f"expected {', '.join(known)} or all"
        raise typer.BadParameter(expected, param_hint="--state")
    wanted = _filter(reason, field, partition, slots, older_than)
    states = {each for each in DirtyState if state in (each.label, "all")}
    wanted = replace(wanted, offsets=frozenset(offset or ()), states=frozenset(states))
    rows = _read(only_route(job_file, route))
    found = chosen_rows(rows, wanted)
    shown = 0
    for row in islice(found, limit):
        plain = plain_row(row, values=values)
        if output.is_document:
            print_document(plain, output)
        else:
            sys.stdout.write(row_text(plain))
        shown += 1
    if output is OutputFormat.TABLE and not shown:
        what = "dirty" if state == "all" else state
        list_them = typed("sluiceway dirty list JOB", str(job_file))
        sys.stdout.write(f"there is no such {what} row; `{list_them}` counts all of them\n")
    elif output is OutputFormat.TABLE and next(found, None) is not None:
        sys.stdout.write(f"{_rows(shown)} shown, and there are more: --limit\n")


def chosen_rows(rows: "DirtyRows", wanted: "DirtyFilter") -> Iterator[dict[str, object]]:
    """The selected rows, whole, oldest commit first."""
    from sluiceway.audit.dirty_rows import matching, whole_rows  # noqa: PLC0415

    return (row for each in matching(rows, wanted) for row in whole_rows(rows.log, each))


def plain_row(row: dict[str, object], *, values: bool) -> dict[str, Any]:
    """A row for JSON; bytes as text where they are UTF-8, else in hexadecimal digits."""
    hidden = ("key", "value", "headers")
    plain: dict[str, Any] = {name: each for name, each in row.items() if name not in hidden}
    if values:
        headers: Any = row["headers"] or ()
        plain["key"], plain["value"] = _text(row["key"]), _text(row["value"])
        plain["headers"] = [[each["name"], _text(each["value"])] for each in headers]
    return plain


def _text(content: object) -> Any:
    if not isinstance(content, bytes):
        return content
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"hex": content.hex()}


def _cut(path: str) -> str:
    """The beginning of a field's name: it may be a key of a payload, of any length."""
    return path if len(path) <= _MOST_PATH_CHARS else f"{path[:_MOST_PATH_CHARS]}..."


def row_text(row: dict[str, Any]) -> str:
    """A row for a terminal, as `plain_row` made it: keys of payloads are among its texts."""
    at = "-" if row["timestamp_ms"] is None else _at(row["timestamp_ms"])
    field = f" {printable(_cut(row['path']))}" if row["path"] else ""
    lines = [
        f"{row['topic']}[{row['partition']}] offset {row['offset']} of {at}: "
        f"{row['reason']}{field} ({row['stage']}), {row['state']}",
        f"  {printable(row['message'])}",
        f"  slot {row['slot']}, row {row['row']} of {row['file']}, schema {row['schema_version']}",
    ]
    # As JSON, so that no character of a payload reaches the terminal as it is.
    named = ("key", "value", "headers")
    lines += [f"  {name} {json.dumps(row[name])}" for name in named if name in row]
    return "\n".join(lines) + "\n"


@app.command()
def replay(  # noqa: PLR0913, PLR0917 - one option a filter
    job_file: JobFile,
    route: OneRoute = None,
    reason: _Reasons = None,
    field: _Fields = None,
    partition: _Partitions = None,
    slots: _Slots = None,
    older_than: _Older = None,
    why: Why = "",
    dry_run: DryRun = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Read open dirty rows once more, through the job file as it is now; each row once, ever.

    Clean rows go into the table, and the same commit marks them as replayed. Rows that are dirty
    again are kept as new dirty rows. A running driver does it between its epochs; without a driver,
    this process does. Safe to interrupt and to repeat: it goes on where it was.

    $ sluiceway dirty replay orders.yaml --reason overflow --dry-run
    """
    _lane(job_file, route, "replay", why, output, dry_run=dry_run, yes=True, wanted=_filter(
        reason, field, partition, slots, older_than
    ))  # fmt: skip


@app.command()
def purge(  # noqa: PLR0913, PLR0917 - one option a filter
    job_file: JobFile,
    route: OneRoute = None,
    reason: _Reasons = None,
    field: _Fields = None,
    partition: _Partitions = None,
    slots: _Slots = None,
    older_than: _Older = None,
    why: Why = "",
    dry_run: DryRun = False,
    yes: _Yes = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Give up open dirty rows: they count as purged and can never be replayed.

    The dirty files stay where they are. The driver or this process does it, as with `replay`.
    """
    _lane(job_file, route, "purge", why, output, dry_run=dry_run, yes=yes, wanted=_filter(
        reason, field, partition, slots, older_than
    ))  # fmt: skip


def _lane(  # noqa: PLR0913 - what both commands have
    job_file: Path,
    route: str | None,
    kind: str,
    why: str,
    output: OutputFormat,
    *,
    dry_run: bool,
    yes: bool,
    wanted: "DirtyFilter",
) -> None:
    from sluiceway.cli.views.dirty_lanes import choose  # noqa: PLC0415

    check_why(why)
    config = only_route(job_file, route)
    rows = _read(config)
    choice = choose(rows, wanted)
    operator = this_operator()
    request = choice.request(rows, kind, operator, why.strip())
    if dry_run:
        print_plan(config, rows, choice, request, output)
        return
    if choice.rows and not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter(
                "no person can be asked here; repeat it with --yes, or look with --dry-run",
                param_hint="--yes",
            )
        typer.confirm(f"give up {_rows(choice.rows)}?", abort=True)
    carry_out_and_tell(config, rows, choice, request, output)


def _filter(
    reason: list[str] | None,
    field: list[str] | None,
    partition: list[str] | None,
    slots: str | None,
    older_than: str | None,
) -> "DirtyFilter":
    from sluiceway.audit.dirty_rows import DirtyFilter  # noqa: PLC0415
    from sluiceway.types.dirty import DirtyReason  # noqa: PLC0415

    known = {each.value for each in DirtyReason}
    for name in reason or ():
        if name not in known:
            expected = f"no reason `{name}`; known: {', '.join(sorted(known))}"
            raise typer.BadParameter(expected, param_hint="--reason")
    return DirtyFilter(
        reasons=frozenset(reason or ()),
        fields=frozenset(field or ()),
        partitions=frozenset(_each(_partition, partition)),
        before_ms=None if older_than is None else _before_ms(older_than),
        slots=(0, None) if slots is None else _slots(slots),
    )


def _each(
    read: Callable[[str], tuple[str, LogKey]], texts: list[str] | None
) -> Iterator[tuple[str, LogKey]]:
    return (read(text) for text in texts or ())


def _partition(text: str) -> tuple[str, LogKey]:
    topic, _, written = text.partition(":")
    key = read_log_key(written)
    if not topic or key is None:
        raise typer.BadParameter("expected TOPIC:PARTITION", param_hint="--partition")
    return topic, key


def _slots(text: str) -> tuple[int, int | None]:
    found = re.fullmatch(r"([0-9]{1,18})(-([0-9]{1,18})?)?", text)
    if found is None:
        raise typer.BadParameter(
            "expected a slot, A-B, or A- for all after it", param_hint="--slots"
        )
    first = int(found[1])
    if found[2] is None:
        return first, first
    last = None if found[3] is None else int(found[3])
    if last is not None and last < first:
        raise typer.BadParameter("expected A-B, with A not above B", param_hint="--slots")
    return first, last


def _before_ms(text: str) -> int:
    from sluiceway.jobfile.blocks.values import parse_duration_ms  # noqa: PLC0415

    try:
        age_ms = parse_duration_ms(text)
    except ValueError as error:
        raise typer.BadParameter(
            "expected a time as 12h or 30d", param_hint="--older-than"
        ) from error
    return int(datetime.now(UTC).timestamp() * 1000) - age_ms


def _routes(job_file: Path, route: str | None) -> "Sequence[RouteConfig]":
    from sluiceway.audit.pick_route import job_routes, pick_route  # noqa: PLC0415
    from sluiceway.cli.job_file import load_checked_job  # noqa: PLC0415
    from sluiceway.observe.log import WarningsOnDemand  # noqa: PLC0415

    routes = job_routes(load_checked_job(job_file).spec, WarningsOnDemand())
    return routes if route is None else (pick_route(routes, route),)


def check_why(why: str) -> None:
    """Refuse a reason that the ledger would not keep as one line.

    Raises:
        typer.BadParameter: Says what is expected.
    """
    if len(why) > _MAX_WHY or (why and not why.isprintable()):
        most = f"expected one line of at most {_MAX_WHY} characters"
        raise typer.BadParameter(most, param_hint="--why")


def only_route(job_file: Path, route: str | None) -> "RouteConfig":
    """The route that a command works on.

    Raises:
        SluicewayError: The job file is not valid, or there are several routes and none is named.
    """
    from sluiceway.audit.pick_route import pick_route  # noqa: PLC0415

    return pick_route(_routes(job_file, route), route)


def _read(config: "RouteConfig") -> "DirtyRows":
    from sluiceway.audit.dirty_rows import DirtyRows  # noqa: PLC0415
    from sluiceway.audit.open_table import open_ledger  # noqa: PLC0415

    return DirtyRows.read(open_ledger(config).log)


def _rows(number: int) -> str:
    return counted(number, "row")


def _at(moment_ms: int) -> str:
    return moment(moment_ms * 1000)
