"""`switch --drain` and `--give-up`, and what a planned switch needs no confirmation for."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.cli.app import run_command
from sluiceway.cli.commands import drill, switch
from sluiceway.cli.views.typed_commands import OWN_ROOM
from sluiceway.errors import RequestRefusedError, WrongUsageError
from sluiceway.jobfile.compile.room_rule import MirrorRule
from sluiceway.ledger.folding.fold_state import SourceState
from sluiceway.ledger.room_files import DrillResult, RoomReport
from sluiceway.operate import switch as operate_switch
from sluiceway.operate.drain import LeftLog
from sluiceway.operate.switch import RoutePlace, SwitchPlan
from sluiceway.rooms.positions import (
    MIRROR_CLOSED,
    MIRROR_END,
    MIRROR_ONLY,
    CopiedLog,
    PositionMethod,
    ResumePosition,
)
from sluiceway.rooms.resume import Resume
from sluiceway.schedule.source_view import SourceView
from sluiceway.sources.contract import LogBounds, SourceClient, SourceIdentity, SourcePartition
from unit.cli.test_room_option import JOB

ONE = SourcePartition("orders", 0)
LEFT = (LeftLog(ONE, 200, 260, 50, 3),)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "orders.yaml"
    path.write_text(JOB.replace("${env:ROOM_B_SERVERS}", "kb:9092"))
    yield str(path)
    OWN_ROOM.set("")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "expected one of --to, --drain and --give-up"),
        (("--to", "b", "--drain", "a"), "expected one of --to"),
        (("--drain", "a", "--give-up", "a"), "expected one of --to"),
        (("--give-up", "a", "--execute"), "say why with --reason"),
    ],
)
def test_a_command_does_one_thing_and_says_why(
    options: tuple[str, ...], says: str, job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["switch", job, "--room", "a", *options]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["switch", "drill"])
def test_a_switch_that_was_made_says_so(
    verb: str, job: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = SimpleNamespace(holder="a", fold=SimpleNamespace(term=1))
    plan = SimpleNamespace(
        to="b", place=place, is_done=False, holder_lives=True, standby=None, positions=()
    )
    plan.refuse = lambda **_: None
    plan.refusals = lambda **_: iter(())

    def made(*_: object, **__: object) -> Any:
        # Waiting reads the ledger on, so the plan then has the room that it was to get.
        plan.is_done, place.holder, place.fold.term = True, "b", 2
        return DrillResult("a", "b", 0, 1.5, 7, 7, ok=True) if verb == "drill" else True

    monkeypatch.setattr(switch, "plan_of", lambda *_: plan)
    monkeypatch.setattr(drill, "plan_of", lambda *_: plan)
    monkeypatch.setattr(operate_switch, "request_switch", lambda *_, **__: None)
    monkeypatch.setattr(operate_switch, "await_switch", made)
    monkeypatch.setattr(operate_switch, "run_drill", made)
    options = ["--execute"] if verb == "switch" else []
    assert run_command([verb, job, "--to", "b", "--room", "a", *options]) == 0
    first, _, last = capsys.readouterr().out.splitlines()
    assert first == "orders: room a has it, term 1, and answers"
    done = "done: room b has it, term 2" if verb == "switch" else "a to b: switched in 1.5 s"
    assert last.strip().startswith(done)
    assert run_command([verb, job, "--to", "b", "--room", "a", *options]) == 0
    assert capsys.readouterr().out == "orders: room b has it already\n"


@pytest.mark.parametrize(
    ("options", "done", "code", "says"),
    [
        ((), False, 0, "announcements wait for it; nothing was changed"),
        ((), True, 0, "no announcement waits for it; nothing was changed"),
        (("--execute",), True, 0, "done: no announcement waits for it"),
        (("--execute",), False, 1, "rows are left: see that its mirror runs"),
    ],
)
def test_a_drain_says_what_is_left(  # noqa: PLR0913, PLR0917 - a case and its fixtures
    options: tuple[str, ...],
    done: bool,  # noqa: FBT001
    code: int,
    says: str,
    job: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = []

    def answer(config: object, lost: object) -> tuple[tuple[LeftLog, ...], bool]:
        asked.append(lost)
        return LEFT, done

    monkeypatch.setattr(switch, "_lost_route", answer)
    drain = ["switch", job, "--room", "a", "--drain", "a", *options]
    assert run_command(drain) == code
    shown = capsys.readouterr().out
    assert "orders/0: 50 rows are left from 200 to 260, 3 offsets are gone" in shown
    assert says in shown
    assert run_command([*drain, "-o", "json"]) == code
    (route,) = json.loads(capsys.readouterr().out)["routes"]
    assert (route["done"], route["logs"][0]["rows"], route["logs"][0]["gone"]) == (done, 50, 3)
    assert asked == [switch._Lost("a", True, "", bool(options))] * 2  # noqa: FBT003


def test_while_the_other_room_lives_its_last_rows_still_arrive() -> None:
    known = SourceState("c1", "t1", 0, "earliest", 20)
    log = CopiedLog(ONE, known, SourceIdentity("c2", "t2"), LogBounds(0, 9, 9))
    needs = (MIRROR_ONLY, MIRROR_END, MIRROR_CLOSED)
    position = ResumePosition(log, 9, PositionMethod.SHORT, needs)
    fold = SimpleNamespace(term=1, fence=SimpleNamespace(site="a"))
    place: Any = SimpleNamespace(fold=fold, holder="a", config=SimpleNamespace(route="orders"))
    ready = RoomReport("b", 1, "d", "h", 1, "d", False, True, (), 1, 1, 1)  # noqa: FBT003

    def plan(*, lives: bool) -> SwitchPlan:
        return SwitchPlan(cast("RoutePlace", place), "b", lives, ready, (), Resume((position,)))

    with pytest.raises(RequestRefusedError, match="need a confirmation") as refused:
        plan(lives=True).refuse(now=False, term=None, force=False)
    assert "mirror_closed: " not in refused.value.message
    only = (MIRROR_ONLY,)
    assert not list(plan(lives=True).refusals(now=False, term=None, force=False, confirms=only))
    (lost,) = plan(lives=False).refusals(now=True, term=1, force=False, confirms=only)
    assert "mirror_closed: " in lost.message


def test_a_plan_names_all_that_the_switch_lacks_and_ends_with_its_code(
    job: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fold = SimpleNamespace(term=1, fence=SimpleNamespace(site="a"))
    place: Any = SimpleNamespace(fold=fold, holder="a", config=SimpleNamespace(route="orders"))
    lost = SwitchPlan(cast("RoutePlace", place), "b", False, None, ())  # noqa: FBT003
    monkeypatch.setattr(switch, "plan_of", lambda *_: lost)
    asked = ["switch", job, "--room", "b", "--to", "b", "--now"]
    refused = RequestRefusedError.exit_code
    assert run_command([*asked, "--term", "7"]) == refused
    shown = capsys.readouterr().out.splitlines()
    assert [line.partition(";")[0] for line in shown[2:]] == [
        "  missing: no driver of room b reports",
        "  missing: term 7 is not the latest",
        "  missing: --now, --confirm and --accept-... are kept in the log, with a reason",
        "  nothing was changed",
    ]
    assert shown[-1].endswith("; --execute would be refused [SW470]")
    assert run_command([*asked, "--term", "7", "-o", "json"]) == refused
    (route,) = json.loads(capsys.readouterr().out)["routes"]
    assert [each["code"] for each in route["refused"]] == ["SW470", "SW470", "SW480"]
    assert run_command([*asked, "--term", "7", "--reason", "lost", "--execute"]) == refused
    assert "no driver of room b reports" in capsys.readouterr().err
    ready = RoomReport("b", 1, "d", "h", 1, "d", False, True, (), 1, 1, 1)  # noqa: FBT003
    lost = SwitchPlan(cast("RoutePlace", place), "b", False, ready, ())  # noqa: FBT003
    assert run_command([*asked, "--term", "1"]) == WrongUsageError.exit_code
    assert run_command([*asked, "--term", "1", "--reason", "lost"]) == 0
    assert "repeat it with --execute" in capsys.readouterr().out


def test_a_plan_asks_for_what_the_standby_will_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    known = SourceState("c1", "t1", 0, "earliest", 20)
    log = CopiedLog(ONE, known, SourceIdentity("c2", "t2"), LogBounds(0, 9, 9))
    inside = ResumePosition(log, 9, PositionMethod.INSIDE)
    report = RoomReport(
        *("b", 1, "d", "h", 1, "d", False, True, (), 1, 1, 1), unfaithful=("orders/0",)
    )
    monkeypatch.setattr(operate_switch, "_who_lives", lambda *_: (True, report))
    monkeypatch.setattr(operate_switch, "find_resume", lambda *_: Resume((inside,)))
    monkeypatch.setattr(operate_switch, "read_route_view", lambda *_: SourceView({}, {}, {}))
    mirror = MirrorRule(linked=False, exactly_once=True, origin=None, own_writers=True)
    place: Any = SimpleNamespace(
        fold=SimpleNamespace(sources={("orders", 0): known}),
        rule=SimpleNamespace(mirror=mirror, room="b"),
        config=SimpleNamespace(source=None),
        holder="a",
    )
    plan = operate_switch.plan_switch(place, "b", cast("SourceClient", None))
    assert plan.resume is not None
    assert plan.resume.missing(()) == (MIRROR_ONLY,)
    (moved,) = plan.positions
    assert (moved.position, moved.proof) == (9, "inside, needs mirror_only")
