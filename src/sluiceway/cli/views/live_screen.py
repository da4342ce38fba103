"""The screen of a run, drawn from what observers see. Knows no terminal."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sluiceway.cli.views.tables import printable
from sluiceway.driver.status_board import MeasuredRoute
from sluiceway.followers.runner import FollowerState
from sluiceway.observe import metrics
from sluiceway.observe.metrics import EpochPhase, EpochResult
from sluiceway.route.status import RouteState, RouteStatus
from sluiceway.types.dirty import by_reason

_COLOURS = {
    RouteState.STARTING: "cyan",
    RouteState.RUNNING: "green",
    RouteState.CAUGHT_UP: "green",
    RouteState.WAITING: "yellow",
    RouteState.HALTED: "bold red",
    RouteState.STOPPED: "dim",
}
_WORST_FIRST = (RouteState.HALTED, RouteState.WAITING, RouteState.STARTING)
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_LEAST_MESSAGE_LINES = 4
_NARROW = 100
_LEAST_ROUTE, _STATE_WIDTH, _BETWEEN = 8, 9, 2
# On a terminal too narrow for all of a route's figures, the others stay.
_FIRST_TO_GO = ("WATERMARK", "OPEN", "LATE", "COMMITTED", "BEHIND", "ROWS/S", "COMMIT", "DIRTY")


@dataclass(frozen=True, slots=True)
class Message:
    """A message for the person at the terminal.

    Attributes:
        at: Local time, such as `12:00:05`.
        level: `warning`, `error` or `info`.
        text: A sentence or two.
    """

    at: str
    level: str
    text: str


@dataclass(frozen=True, slots=True)
class Scene:
    """All data of the screen, at one moment.

    Attributes:
        lead: What the driver does, in words.
        reads: Route -> records that tasks have read.
        read_per_s: Records per second that all routes have read over the last seconds.
        address: Where metrics are served; empty when nowhere.
        stopping: What the last signal does; empty before one came.
    """

    job: str
    running_s: float
    lead: str
    routes: tuple[MeasuredRoute, ...] = ()
    reads: Mapping[str, int] | None = None
    read_per_s: float = 0.0
    messages: Sequence[Message] = ()
    address: str = ""
    stopping: str = ""


def draw(scene: Scene, width: int, height: int) -> RenderableType:
    """The screen for a terminal of this size, in characters and lines.

    What does not fit is left out from below: routes that are well first, then older messages.
    """
    parts: list[RenderableType] = [_head(scene, width)]
    if scene.stopping:
        parts.append(Text(scene.stopping, "bold yellow", no_wrap=True, overflow="ellipsis"))
    left = height - len(parts)
    if not scene.routes:
        parts += [Text(), *_wrapped(f"{scene.lead} ...", width)]
        left -= 2
        return Group(*parts, *_messages(scene.messages, width, left))
    details = _details(scene, width)
    room = left - len(details) - min(_LEAST_MESSAGE_LINES, len(scene.messages) + 1) - 3
    parts += _routes(scene, width, max(1, room))
    left = height - len(parts) - _table_lines(scene, max(1, room)) - len(details)
    return Group(*parts, *details, *_messages(scene.messages, width, left))


def _head(scene: Scene, width: int) -> RenderableType:
    states: dict[RouteState, int] = {}
    for route in scene.routes:
        states[_state(route)] = states.get(_state(route), 0) + 1
    left = Text.assemble((scene.job, "bold"), f"  {_clock(scene.running_s)}")
    for state, count in states.items():
        left.append(f"  {count} {state.value.replace('_', ' ')}", _COLOURS.get(state, ""))
    if scene.address and width >= _NARROW:
        left.append(f"  {scene.address}", "dim")
    grid = Table.grid(expand=True)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(left, Text("q stops", "dim"))
    return grid


# The routes


def _state(route: MeasuredRoute) -> RouteState:
    """State of a route; it counts as running once its ledger is read, before its first epoch."""
    status = route.status
    started = status.state is RouteState.STARTING and status.term is not None
    return RouteState.RUNNING if started else status.state


def _rank(route: MeasuredRoute) -> int:
    state = _state(route)
    return _WORST_FIRST.index(state) if state in _WORST_FIRST else len(_WORST_FIRST)


def _ordered(routes: Sequence[MeasuredRoute]) -> list[MeasuredRoute]:
    """Routes that need attention first; the others keep their order."""
    return sorted(routes, key=_rank)


def _shown(scene: Scene, room: int) -> list[MeasuredRoute]:
    """All routes; if they do not fit, those to look at first and the slowest ones."""
    if len(scene.routes) <= room:
        return _ordered(scene.routes)
    by_lag = sorted(scene.routes, key=lambda route: -(route.status.lag_records or 0))
    return _ordered(by_lag)[: max(1, room - 1)]


def _table_lines(scene: Scene, room: int) -> int:
    shown = _shown(scene, room)
    # A line above, the names of the columns, perhaps a line for the others, and the total.
    return len(shown) + (len(shown) < len(scene.routes)) + (len(scene.routes) > 1)


def _routes(scene: Scene, width: int, room: int) -> list[RenderableType]:
    table = Table(box=None, pad_edge=False, expand=False, header_style="dim", padding=(0, 2, 0, 0))
    shown = _shown(scene, room)
    cells = [_cells(scene, route) for route in shown]
    widths = _fitting(cells, width)
    longest = max(_LEAST_ROUTE, *(len(printable(route.status.route)) for route in shown))
    name_width = min(longest, _route_room(widths, width))
    table.add_column("ROUTE", no_wrap=True, overflow="ellipsis", width=name_width)
    table.add_column("STATE", no_wrap=True)
    for name in widths:
        table.add_column(name, justify="right", no_wrap=True)
    for route, numbers in zip(shown, cells, strict=True):
        state = Text(_state(route).value.replace("_", " "), _COLOURS.get(_state(route), ""))
        row = [numbers[name] for name in widths]
        table.add_row(Text(printable(route.status.route)), state, *row)
    parts: list[RenderableType] = [Text(), table]
    if len(shown) < len(scene.routes):
        parts.append(Text(f"and {len(scene.routes) - len(shown)} more routes", "dim"))
    if len(scene.routes) > 1:
        parts.append(_total(scene))
    return parts


def _fitting(rows: Sequence[Mapping[str, Text]], width: int) -> dict[str, int]:
    """Columns that have room, with their widths: a number is never cut."""
    names = list(rows[0]) if rows else []
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in names}
    for name in _FIRST_TO_GO:
        if _route_room(widths, width) >= _LEAST_ROUTE:
            break
        widths.pop(name, None)
    return widths


def _route_room(widths: Mapping[str, int], width: int) -> int:
    """Width that is left for the name of a route."""
    taken = sum(each + _BETWEEN for each in (_STATE_WIDTH, *widths.values()))
    return max(1, width - taken)


def _cells(scene: Scene, route: MeasuredRoute) -> dict[str, Text]:
    """The cells of a route, in the order of the columns."""
    status = route.status
    read = (scene.reads or {}).get(status.route, 0)
    dirty = sum(status.dirty_reasons.values())
    committed = int(sum(route.figures.numbers.get(metrics.RECORDS_READ.name, {}).values()))
    return {
        "READ": Text(f"{max(read, committed):,}"),
        "ROWS/S": Text(f"{status.rows_per_s:,.0f}"),
        "COMMITTED": Text(f"{committed:,}"),
        "LAG": Text(_number(status.lag_records)),
        "BEHIND": Text(_behind(status)),
        "DIRTY": Text(f"{dirty:,}", "yellow" if dirty else ""),
        "LATE": Text(f"{_late_of(route):,}"),
        "OPEN": Text(_number(route.value(metrics.PARTITIONS_OPEN))),
        "WATERMARK": Text(_watermark(route)),
        "COMMIT": Text(_ago(status.last_commit_ms)),
    }


def _behind(status: RouteStatus) -> str:
    if status.lag_ms is not None:
        return span(status.lag_ms / 1000)
    return "-" if status.lag_at_least_ms is None else f">={span(status.lag_at_least_ms / 1000)}"


def _late_of(route: MeasuredRoute) -> int:
    return int(sum(route.figures.numbers.get(metrics.RECORDS_LATE.name, {}).values()))


def _watermark(route: MeasuredRoute) -> str:
    seconds = route.value(metrics.WATERMARK)
    if seconds is None:
        return "-"
    return time.strftime("%m-%d %H:%M", time.gmtime(seconds))


def _total(scene: Scene) -> Text:
    read = sum((scene.reads or {}).values())
    lag = sum(route.status.lag_records or 0 for route in scene.routes)
    text = f"all: {read:,} read, {scene.read_per_s:,.0f}/s, lag {lag:,}"
    return Text(text, "dim", no_wrap=True, overflow="ellipsis")


# More of one route


def _details(scene: Scene, width: int) -> list[RenderableType]:
    """Phases, reasons, followers and announcements of the route that needs attention first."""
    first = _ordered(scene.routes)[0]
    told = [
        _phase_words(first, (scene.reads or {}).get(first.status.route, 0)),
        _reason_words(scene.routes),
        _follower_words(first),
        _announced_words(scene.routes),
    ]
    lines: list[RenderableType] = [Text()]
    if len(scene.routes) > 1:
        lines.append(Text(f"{printable(first.status.route)}:", "dim"))
    for title, words in told:
        if words:
            line = Text.assemble((f"{title:<11}", "dim"), words)
            line.truncate(max(1, width), overflow="ellipsis")
            line.no_wrap = True
            lines.append(line)
    return lines if len(lines) > 1 else []


def _phase_words(route: MeasuredRoute, read: int) -> tuple[str, str]:
    phases = {phase: route.phases[phase] for phase in EpochPhase if phase in route.phases}
    words = "  ".join(f"{name} {_short(seconds)}" for name, seconds in phases.items())
    counts = [
        f"{int(count):,} {result.value.replace('_', ' ')}"
        for result in EpochResult
        if (count := route.value(metrics.EPOCHS, result.value))
    ]
    told = [", ".join(counts), f"the last one: {words}" if words else ""]
    words = "; ".join(part for part in told if part)
    if not words and _state(route) is RouteState.RUNNING and route.status.lag_records:
        # Spark starts its workers with the first one; on a busy machine that takes a while.
        words = "the first one is read" if read else "the first one begins: its tasks are started"
    return "epochs", words


def _reason_words(routes: Sequence[MeasuredRoute]) -> tuple[str, str]:
    """Dirty rows of all routes by reason, most first."""
    reasons: Counter[str] = Counter()
    for route in routes:
        reasons.update(by_reason(route.status.dirty_reasons))
    ordered = reasons.most_common()
    return "dirty", "  ".join(f"{name} {rows:,}" for name, rows in ordered)


def _follower_words(route: MeasuredRoute) -> tuple[str, str]:
    def told(one: FollowerState) -> str:
        if not one.lags:
            return f"{one.name} up to date"
        return f"{one.name} {one.behind_slots:,} behind for {span(one.behind_s)}"

    return "followers", "  ".join(map(told, route.status.followers))


def _announced_words(routes: Sequence[MeasuredRoute]) -> tuple[str, str]:
    """The latest announced hours of all routes, the newest first."""
    several = len(routes) > 1
    found = sorted(
        ((at, route.status.route, prefix) for route in routes for prefix, at in route.announced),
        reverse=True,
    )
    words = [
        f"{f'{name} ' if several else ''}{prefix} ({span(max(0.0, time.time() - at))} ago)"
        for at, name, prefix in found[:4]
    ]
    return "announced", printable("  ".join(words))


# Messages


def _messages(messages: Sequence[Message], width: int, room: int) -> list[RenderableType]:
    """The newest messages that fit, oldest of them first, wrapped at words."""
    lines: list[Text] = []
    for message in reversed(messages):
        wrapped = _message_lines(message, width)
        if len(lines) + len(wrapped) + 1 > room:
            break
        lines = wrapped + lines
    return [Text(), *lines] if lines else []


def _message_lines(message: Message, width: int) -> list[Text]:
    colour = {"warning": "yellow", "error": "red", "critical": "red"}.get(message.level, "")
    indent = len(message.at) + 1
    words = _wrapped(printable(message.text), max(20, width - indent))
    head = Text.assemble((f"{message.at} ", "dim"), words[0])
    head.stylize(colour, indent)
    return [head, *(Text(" " * indent + line.plain, colour) for line in words[1:])]


def _wrapped(text: str, width: int) -> list[Text]:
    """Lines of at most so many columns, broken between words."""
    return [Text(line) for line in wrap(" ".join(text.split()), max(10, width))] or [Text()]


# Numbers


def span(seconds: float) -> str:
    """A length of time in one unit: `45s`, `12m`, `3.5h`, `2.0d`."""
    if seconds < _MINUTE_S:
        return f"{seconds:.0f}s"
    if seconds < _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f}m"
    return f"{seconds / _HOUR_S:.1f}h" if seconds < _DAY_S else f"{seconds / _DAY_S:.1f}d"


def _short(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms" if seconds < 1 else f"{seconds:.1f}s"


def _clock(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // _HOUR_S:02d}:{whole % _HOUR_S // 60:02d}:{whole % 60:02d}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{int(value):,}"


def _ago(at_ms: int | None) -> str:
    if at_ms is None:
        return "-"
    return f"{span(max(0.0, time.time() - at_ms / 1000))} ago"
