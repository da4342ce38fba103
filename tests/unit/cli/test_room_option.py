"""The option `--room`, which each command with a job file has."""

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


def test_a_driver_on_a_cluster_gets_its_room_with_the_job(job: str) -> None:
    assert collect(Path(job), {}, room="b").variables == {"SLUICEWAY_ROOM": "b"}
    assert collect(Path(job), {}).variables == {}
