"""The option `--room`, which each command with a job file has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluiceway.cli.app import VERBS, run_command, verb_command
from sluiceway.cli.room_option import choose_room
from sluiceway.cli.views.typed_commands import OWN_ROOM
from sluiceway.cluster.job_archive import collect
from sluiceway.errors import WrongUsageError

ROOMS = ("a", "b")
JOB = """\
version: 1
name: orders
connections:
  main: {kafka: {bootstrap_servers: "k:9092"}}
  hms: {metastore: {uri: "thrift://m:9083"}}
source: {connection: main, topics: [orders]}
format: {json: {}}
table:
  hive: {connection: hms, name: ods.orders}
  columns: [{name: id, type: bigint}]
  partition_by: []
rooms:
  home: a
  a: {}
  b: {connections: {main: {kafka: {bootstrap_servers: "${env:ROOM_B_SERVERS}"}}}}
"""


@pytest.fixture(autouse=True)
def _no_room(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SLUICEWAY_ROOM", raising=False)
    yield
    OWN_ROOM.set("")


@pytest.fixture
def job(tmp_path: Path) -> str:
    path = tmp_path / "orders.yaml"
    path.write_text(JOB)
    return str(path)


def _with_job_file(command: Any) -> Iterator[Any]:
    if any(param.name == "job_file" for param in command.params):
        yield command
    for inner in getattr(command, "commands", {}).values():
        yield from _with_job_file(inner)


def test_every_command_with_a_job_file_has_the_option_once() -> None:
    found = [each for verb in VERBS for each in _with_job_file(verb_command(verb))]
    assert len(found) > 25
    assert {sum(param.name == "room" for param in each.params) for each in found} == {1}


def test_a_room_is_named_by_the_option_else_by_the_variable() -> None:
    assert choose_room(ROOMS, "a", opens=True, environ={"SLUICEWAY_ROOM": "b"}) == "b"
    OWN_ROOM.set("a")
    assert choose_room(ROOMS, "a", opens=True, environ={"SLUICEWAY_ROOM": "b"}) == "a"


def test_a_command_that_reaches_servers_needs_a_room_and_others_are_of_the_home() -> None:
    with pytest.raises(WrongUsageError, match="no room is named") as refused:
        choose_room(ROOMS, "a", opens=True, environ={})
    assert (
        refused.value.hint == "name the room of this machine, such as --room a or SLUICEWAY_ROOM=a"
    )
    assert choose_room(ROOMS, "a", opens=False, environ={}) == "a"


@pytest.mark.parametrize("room", ["c", "all"])
def test_a_room_that_the_job_does_not_have_is_refused(room: str) -> None:
    OWN_ROOM.set(room)
    with pytest.raises(WrongUsageError, match=f"no room `{room}`"):
        choose_room(ROOMS, "a", opens=True, environ={})


def test_a_job_without_rooms_goes_by_no_variable_and_refuses_the_option() -> None:
    assert not choose_room((), "", opens=True, environ={"SLUICEWAY_ROOM": "b"})
    OWN_ROOM.set("b")
    with pytest.raises(WrongUsageError, match="no block `rooms`"):
        choose_room((), "", opens=True, environ={})


def test_validate_reads_references_of_the_own_room_or_of_all(
    job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["validate", job]) == 0
    assert run_command(["validate", job, "--room", "all"]) == 3
    assert f"{job}:15:55" in capsys.readouterr().err
    assert run_command(["status", job]) == 2
    assert "error[SW480]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (
            "",
            "home a, b: one cluster spans them, one table spans them; a standby takes over when "
            "an operator confirms it",
        ),
        ("  switch: auto\n", "one table spans them; a standby takes over by itself"),
        (
            "  queue: mirrored\n  mirror: {copies: exactly_once}\n",
            "home a, b: the other room has copies of the topics, with other offsets, one table",
        ),
        ("  queue: linked\n", "copies of the topics, with their offsets, one table spans them"),
        ("  storage: copied\n", "each has a copy of the table; another room continues by"),
    ],
)
def test_validate_names_the_rooms_and_what_only_a_room_can_check(
    job: str, capsys: pytest.CaptureFixture[str], keys: str, says: str
) -> None:
    text = Path(job).read_text().replace("  home: a\n", f"  home: a\n{keys}")
    if "copied" in keys:
        text = text.replace("  a: {", "  a: {location: /a, ").replace(
            "  b: {", "  b: {location: /b, "
        )
    Path(job).write_text(text)
    assert run_command(["validate", job]) == 0
    shown = capsys.readouterr().out
    assert says in shown
    assert "\nnot read    references of room b: `" in shown
    assert "\nnot checked addresses, topics and table of each room: `" in shown
    for_copies = "a whole slot of the copy" in shown
    for_replicas = "replicas of each row in two rooms" in shown
    for_positions = "a resume position of each source partition" in shown
    is_copied, is_stretched = "copied" in keys, "queue" not in keys and "copied" not in keys
    found = (for_copies, for_replicas, for_positions)
    assert found == (is_copied, is_stretched, "queue" in keys)
    assert run_command(["validate", job, "-o", "json"]) == 0
    unchecked = json.loads(capsys.readouterr().out)["rooms"]["not_checked"]
    assert [each["what"] in shown for each in unchecked] == [True] * shown.count("\nnot checked ")
    assert run_command(["validate", job, "-o", "json"]) == 0
    rooms = json.loads(capsys.readouterr().out)["rooms"]
    assert (rooms["home"], rooms["names"], rooms["references_read"]) == ("a", ["a", "b"], ["a"])


def test_validate_of_all_rooms_leaves_no_reference_unread(
    job: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(job).write_text(re.sub(r"\$\{[^}]+\}", "kb:9092", Path(job).read_text()))
    for options in (["--room", "all"], []):
        assert run_command(["validate", job, *options]) == 0
        assert "not read" not in capsys.readouterr().out
        OWN_ROOM.set("")
        monkeypatch.setenv("SLUICEWAY_ROOM", "all")


def test_a_driver_on_a_cluster_gets_its_room_with_the_job(job: str) -> None:
    assert collect(Path(job), {}, room="b").variables == {"SLUICEWAY_ROOM": "b"}
    assert collect(Path(job), {}).variables == {}


def test_validate_shows_the_names_that_the_room_reads(
    job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = "  queue: mirrored\n  mirror: {copies: exactly_once}\n"
    text = JOB.replace("  home: a\n", f"  home: a\n{queue}")
    Path(job).write_text(text[: text.index("  b: {")] + "  b: {topics: {orders: a.orders}}\n")
    for room, there in (("a", {}), ("b", {"orders": "a.orders"})):
        assert run_command(["validate", job, "--room", room, "-o", "json"]) == 0
        (route,) = json.loads(capsys.readouterr().out)["routes"]
        assert (route["topics"], route["topics_in_room"]) == (["orders"], there)
    assert run_command(["validate", job, "--room", "b"]) == 0
    assert "topics      orders (in room b orders is a.orders) from" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("uri", "more", "warned"),
    [
        ("thrift://m:9083", "", True),
        ("thrift://m:9083", "connections: {hms: {metastore: {uri: 'thrift://b:1'}}}, ", False),
        ("${env:METASTORE}", "", False),
    ],
)
def test_validate_warns_of_copies_in_one_catalog(
    uri: str,
    more: str,
    warned: bool,  # noqa: FBT001
    job: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("METASTORE", "thrift://m:9083")
    text = JOB[: JOB.index("  a: {}")].replace("  home: a\n", "  home: a\n  storage: copied\n")
    rooms = f"  a: {{location: /a}}\n  b: {{{more}location: /b}}\n"
    Path(job).write_text(text.replace("thrift://m:9083", uri) + rooms)
    assert run_command(["validate", job]) == 0
    shown = capsys.readouterr().out
    assert ("warning     rooms share the catalog `hms`, which has one copy" in shown) is warned
    assert run_command(["validate", job, "-o", "json"]) == 0
    assert bool(json.loads(capsys.readouterr().out)["rooms"]["warnings"]) is warned
