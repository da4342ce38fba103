"""`adopt` asks for what only an operator can know, and is refused where it makes no sense."""

from pathlib import Path

import pytest

from sluiceway.cli.app import run_command

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


def test_copies_are_adopted_and_never_switched(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["switch", str(job), "--room", "a", "--to", "b"]) == 3
    assert "two copies of a table are not switched in this version" in capsys.readouterr().err
