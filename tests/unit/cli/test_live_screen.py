"""What the screen of a run shows, in terminals of all sizes."""

import time
from dataclasses import replace

import pytest
from rich.console import Console

from sluiceway.cli.views.live_screen import Message, Scene, draw
from sluiceway.driver.status_board import MeasuredRoute
from sluiceway.followers.runner import FollowerState
from sluiceway.observe import metrics
from sluiceway.observe.figures import Figures
from sluiceway.route.status import RouteState, RouteStatus

LONG = "The source does not answer: no broker of k1:9092, k2:9092 was reached within ten seconds"


def route(name: str, state: RouteState = RouteState.RUNNING, lag: int = 5) -> MeasuredRoute:
    figures = Figures()
    figures.add(metrics.RECORDS_READ, 1000, "orders")
    figures.add(metrics.RECORDS_LATE, 7, "side")
    figures.add(metrics.EPOCHS, 12, "committed")
    figures.put_one(metrics.PARTITIONS_OPEN, 3)
    figures.put_one(metrics.WATERMARK, 1_795_176_000)
    status = RouteStatus(
        route=name,
        table=f"ods.{name}",
        state=state,
        term=1,
        lag_records=lag,
        lag_ms=65_000,
        rows_per_s=250.0,
        dirty_reasons={"missing id": 2, "missing ts": 1, "broken": 9},
        last_commit_ms=int(time.time() * 1000) - 4000,
        followers=(FollowerState("catalog", 5, 4, 90.0, "", lags=True),),
    )
    announced = (("dt=20261120/hr=11", time.time() - 30),)
    return MeasuredRoute(status, figures.read(), announced, {"run": 2.04, "commit": 0.012})


def scene(*routes: MeasuredRoute, messages: tuple[Message, ...] = ()) -> Scene:
    reads = {each.status.route: 2500 for each in routes}
    return Scene("orders", 3725.0, "starting Spark", routes, reads, 99.0, messages)


def shown(of: Scene, width: int = 120, height: int = 40) -> list[str]:
    console = Console(width=width, height=height, force_terminal=False, color_system=None)
    with console.capture() as capture:
        console.print(draw(of, width, height))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_route_has_its_line_with_all_that_matters() -> None:
    lines = shown(scene(route("orders")))
    names = next(number for number, line in enumerate(lines) if line.startswith("ROUTE "))
    cells = lines[names + 1].split()
    assert cells[:9] == ["orders", "running", "2,500", "250", "1,000", "5", "1m", "12", "7"]
    assert cells[9:] == ["3", "11-20", "12:00", "4s", "ago"]
    text = "\n".join(lines)
    assert "orders  01:02:05  1 running" in text
    assert "q stops" in lines[0]
    assert "12 committed; the last one: run 2.0s  commit 12ms" in text
    assert "broken 9  missing 3" in text
    assert "catalog 4 behind for 2m" in text
    assert "dt=20261120/hr=11 (30s ago)" in text


def test_before_there_is_a_route_it_says_what_it_is_at() -> None:
    assert "starting Spark ..." in "\n".join(shown(scene()))


def test_records_read_show_before_the_first_commit() -> None:
    status = RouteStatus(route="a", state=RouteState.STARTING, term=1)
    fresh = MeasuredRoute(status, Figures().read())
    of = Scene("orders", 2.0, "", (fresh,), {"a": 1234})
    (line,) = [line for line in shown(of) if line.startswith("a ")]
    # It has its ledger, so it reads.
    assert line.split()[:3] == ["a", "running", "1,234"]


@pytest.mark.parametrize(
    ("read", "words"), [(0, "begins: its tasks are started"), (7, "the first one is read")]
)
def test_first_epoch_is_told_while_nothing_is_committed(read: int, words: str) -> None:
    status = RouteStatus(route="a", state=RouteState.STARTING, term=1, lag_records=9)
    fresh = MeasuredRoute(status, Figures().read())
    assert words in "\n".join(shown(Scene("orders", 2.0, "", (fresh,), {"a": read})))
    idle = MeasuredRoute(replace(status, lag_records=0), Figures().read())
    assert "first one" not in "\n".join(shown(Scene("orders", 2.0, "", (idle,), {"a": read})))


def test_routes_that_need_a_look_come_first() -> None:
    routes = [route("a"), route("b", RouteState.WAITING), route("c", RouteState.HALTED)]
    lines = [line.split()[0] for line in shown(scene(*routes)) if line[:2] in ("a ", "b ", "c ")]
    assert lines == ["c", "b", "a"]


def test_order_of_routes_that_are_well_does_not_jump() -> None:
    lines = shown(scene(route("a", lag=1), route("b", lag=99)))
    assert [line[0] for line in lines if line[:2] in ("a ", "b ")] == ["a", "b"]


@pytest.mark.parametrize("height", [8, 12, 24, 60])
@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_screen_never_grows_beyond_the_terminal(width: int, height: int) -> None:
    routes = [route(f"route-{number}", lag=number) for number in range(80)]
    messages = tuple(Message("12:00:00", "warning", f"{LONG} {n}") for n in range(30))
    lines = shown(scene(*routes, messages=messages), width, height)
    assert len(lines) <= max(height, 14)
    assert all(len(line) <= width for line in lines)


@pytest.mark.parametrize("width", [40, 60, 70, 80, 100, 120])
def test_narrow_terminal_shows_fewer_figures_and_never_half_of_one(width: int) -> None:
    routes = [route("a", lag=3_141_592), route("route-of-a-long-name", lag=2)]
    lines = shown(scene(*routes), width)
    names = next(number for number, line in enumerate(lines) if line.startswith("ROUTE "))
    assert {"STATE", "READ", "LAG"} <= set(lines[names].split())
    assert "…" not in lines[names] + lines[names + 1]
    assert lines[names + 1].split()[:3] == ["a", "running", "2,500"]
    assert "3,141,592" in lines[names + 1]
    assert ("COMMITTED" in lines[names]) == (width >= 80)


def test_many_routes_leave_room_and_the_rest_is_counted() -> None:
    routes = [route(f"route-{number}", lag=number) for number in range(80)]
    lines = shown(scene(*routes), height=24)
    named = [line for line in lines if line.startswith("route-") and "running" in line]
    assert named[0].startswith("route-79 ")
    assert f"and {80 - len(named)} more routes" in lines
    assert any(line.startswith("all: 200,000 read, 99/s, lag 3,160") for line in lines)


def test_messages_are_wrapped_at_words_and_the_newest_stay() -> None:
    messages = tuple(Message(f"12:00:{n:02}", "warning", f"a: {LONG}. {n}") for n in range(30))
    lines = shown(scene(route("a"), messages=messages), width=60, height=24)
    text = " ".join(" ".join(lines).split())
    assert f"12:00:29 a: {LONG}. 29" in text
    assert "12:00:00 a:" not in text
    words = {word for line in lines for word in line.split()}
    assert {*LONG.split()[:-1], "seconds."} <= words


def test_names_of_others_cannot_move_the_cursor() -> None:
    bad = Message("12:00:00", "error", "x\x1b[2J y")
    text = "\n".join(shown(scene(route("a\x1b[31mb"), messages=(bad,))))
    assert "\x1b" not in text


def test_stop_that_was_asked_for_is_told() -> None:
    of = Scene("orders", 1.0, "", (route("a"),), {}, stopping="stopping: the epoch ends early")
    assert shown(of)[1] == "stopping: the epoch ends early"


def test_follower_that_is_behind_for_less_than_an_epoch_is_up_to_date() -> None:
    status = RouteStatus(route="a", followers=(FollowerState("catalog", 1, 1, 12.0, ""),))
    text = "\n".join(shown(scene(MeasuredRoute(status, Figures().read()))))
    assert "catalog up to date" in text
