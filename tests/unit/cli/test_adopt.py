"""`adopt` asks for what only an operator can know, and is refused where it makes no sense."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from sluiceway.cli.app import run_command
from sluiceway.cli.commands import adopt
from sluiceway.cli.options import OutputFormat
from sluiceway.errors import RequestRefusedError, SluicewayError
from sluiceway.rooms import adopt_table

if TYPE_CHECKING:
    from sluiceway.jobfile.compile.config import RouteConfig

JOB = """\
version: 1
name: orders
connections:
  main: {kafka: {bootstrap_servers: "127.0.0.1:9"}}
  lake: {folder: {path: FOLDER}}
source: {connection: main, topics: [orders]}
format: {json: {}}
table:
  hive: {connection: lake, name: ods.orders}
  columns: [{name: id, type: bigint}]
  partition_by: []
rooms:
  home: a
  storage: copied
  a: {location: FOLDER/a}
  b: {location: FOLDER/b}
"""
SURE = ("--confirm", "room_down", "--confirm", "copier_stopped", "--reason", "a is lost")


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "orders.yaml"
    path.write_text(JOB.replace("FOLDER", str(tmp_path)))
    return path


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--confirm", "room_down", "--reason", "x"), "add --confirm copier_stopped"),
        ((), "add --confirm copier_stopped, --confirm room_down"),
        (("--confirm", "all", "--reason", "x"), "nothing is called `all` that could be confirmed"),
        (SURE[:4], "say why with --reason"),
    ],
)
def test_what_only_an_operator_knows_has_to_be_confirmed(
    job: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], says: str
) -> None:
    assert run_command(["adopt", str(job), "--room", "b", *options]) == 2
    assert says in capsys.readouterr().err


def test_rooms_that_share_a_table_have_nothing_to_adopt(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = job.read_text().replace("storage: copied", "after: 4s")
    job.write_text(
        text.replace(f"location: {job.parent}/a", "").replace(f"location: {job.parent}/b", "")
    )
    assert run_command(["adopt", str(job), "--room", "b", "--dry-run"]) == 7
    assert "the rooms of this job share one table" in capsys.readouterr().err


def test_job_without_rooms_has_nothing_to_adopt(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(job.read_text().partition("rooms:")[0])
    assert run_command(["adopt", str(job), "--dry-run"]) == 7
    said = capsys.readouterr().err
    assert "the job has one place only" in said
    assert "`sluiceway switch" not in said


def test_copies_are_adopted_and_never_switched(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["switch", str(job), "--room", "a", "--to", "b"]) == 3
    assert "two copies of a table are not switched in this version" in capsys.readouterr().err
    assert run_command(["switch", str(job), "--room", "a", "--drain", "a"]) == 3
    # In room a there is nothing to adopt: it has written the table.
    assert "in the room that is left" in capsys.readouterr().err


def test_copies_of_all_routes_are_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    routes = [cast("RouteConfig", SimpleNamespace(route=name)) for name in ("raw", "paid", "gone")]

    def planned(config: "RouteConfig", *asked: object) -> Any:
        if config.route == "gone":
            raise RequestRefusedError("no slot of the copy has all its files")
        gaps = {"refuse_gaps": lambda *, accepted: done.append(f"gaps {accepted}")}
        plan = SimpleNamespace(cut=config.route, done=False, **gaps)
        return adopt._Copy(cast("Any", plan), cast("Any", None))

    monkeypatch.setattr(adopt, "_planned", planned)
    monkeypatch.setattr(adopt_table, "wait_quiet", lambda: done.append("wait"))
    monkeypatch.setattr(adopt_table, "refuse_changing", lambda plan: done.append(plan.cut))
    monkeypatch.setattr(adopt_table, "adopt_table", lambda plan, order, sink: len(plan.cut))
    order = adopt_table.AdoptOrder("ann@host", "a is lost", adopt_table.CONFIRMATIONS)
    found = adopt.adopt_routes(routes, None, order)
    assert done == ["wait", "gaps False", "raw", "gaps False", "paid"]
    slots = [each if isinstance(each, SluicewayError) else each[1] for each in found]
    assert slots[:2] == [3, 4]
    assert "no slot of the copy" in str(slots[2])
    adopt.adopt_routes(routes[2:], None, None, OutputFormat.JSON)
    assert done.count("wait") == 1


@pytest.mark.parametrize(
    ("denied", "says", "code"),
    [
        (True, "", 0),
        (None, "not checked: whether the store keeps copiers out", 0),
        (False, "the bucket's policy does not deny `s3:ReplicateObject`", 1),
    ],
)
def test_plan_says_what_is_known_of_copiers_that_the_store_keeps_out(
    job: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    denied: bool | None,  # noqa: FBT001
    says: str,
    code: int,
) -> None:
    place = cast("Any", SimpleNamespace(layout=SimpleNamespace(table_root="s3a://lake/orders")))
    cut = cast("Any", SimpleNamespace(kept=SimpleNamespace(next_seq=4), slots=1, to_place=[]))
    cut.to_move = []
    plan = adopt_table.AdoptPlan(place, 1, cut=cut, copies_denied=denied)
    monkeypatch.setattr(adopt, "adopt_routes", lambda *asked: [(plan, -1)])
    arguments = ["adopt", str(job), "--room", "b", "--dry-run"]
    assert run_command(arguments) == code
    shown = capsys.readouterr().out
    assert says in shown
    assert ("not checked" in shown, "does not deny" in shown) == (denied is None, denied is False)
    assert run_command([*arguments, "-o", "json"]) == code
    (route,) = json.loads(capsys.readouterr().out)["routes"]
    assert route["copies_denied"] is denied
