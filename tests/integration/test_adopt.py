"""`adopt` on a real queue: room a's copy ends anywhere, and room b's driver has each row once."""

import json
import shutil
from pathlib import Path
from random import Random

import pytest

from sluiceway.cli.app import run_command
from sluiceway.ledger.placing import all_files
from sluiceway.ledger.records import FilesRecord
from sluiceway.rooms import adopt_table
from tools.driver_process import DriverProcess
from tools.job_files import event
from tools.lab_fixture import TopicFactory
from tools.lost_room import dice
from tools.route_faults import offsets
from tools.topic_writer import TopicWriter
from tools.two_rooms import CONFIRMED, TwoRooms, two_rooms


def copy(rooms: TwoRooms, rng: Random, delay: float) -> None:
    """Bring room a's objects in any order; the later a slot, the likelier something lacks."""
    source, target = rooms.table("a"), rooms.table("b")
    shutil.rmtree(rooms.root / "b", ignore_errors=True)
    (rooms.root / "b").mkdir()
    log = rooms.a.log()
    records = rooms.a.records()

    def bring(name: str, as_name: str, at: float) -> None:
        if at + rng.expovariate(1 / delay) <= len(records):
            (target / as_name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, target / as_name)

    for record in records:
        slot = str(Path(log.layout.record(record.seq)).relative_to(source))
        bring(slot, slot, record.seq)
        for file in all_files(record.body) if isinstance(record.body, FilesRecord) else ():
            if (source / file.final).is_file():
                route = log.layout.route
                bring(file.final, f"_sluiceway/{route}/stage/{file.staged}", record.seq)
                bring(file.final, file.final, record.seq)


@pytest.fixture
def rooms(
    bootstrap_servers: str,
    new_topic: TopicFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> TwoRooms:
    monkeypatch.setattr(adopt_table, "QUIET_S", 0.1)
    return two_rooms(tmp_path, bootstrap_servers, new_topic(2), files="{compact: never}")


def write(rooms: TwoRooms, writer: TopicWriter, span: range) -> None:
    for partition in range(2):
        writer.write(rooms.topic, [event(n * 300) for n in span], partition=partition)


def test_copies_that_end_anywhere_have_each_row_once(
    rooms: TwoRooms, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(6):
        write(rooms, writer, range(10 * number, 10 * number + 10))
        rooms.a.catch_up()
    write(rooms, writer, range(60, 70))
    cuts, rng, job = set(), dice(5), str(rooms.a.job.path)
    for delay in (0.5, 2.0, 4.0):
        copy(rooms, rng, delay)
        capsys.readouterr()
        assert rooms.adopt("--dry-run", "-o", "json") == 0
        (planned,) = json.loads(capsys.readouterr().out)["routes"]
        assert rooms.adopt(*CONFIRMED) == 0
        assert f"slots 0 to {planned['kept_slot']} are kept" in capsys.readouterr().out
        rooms.b.catch_up()
        assert rooms.b.rows() == [*offsets(0, range(70)), *offsets(1, range(70))]
        rooms.b.assert_verified()
        cuts.add(planned["kept_slot"])
        assert run_command(["ledger", "show", job, "--room", "b"]) == 0
        assert f": generation 1, {planned['slots_cut']} slots cut" in capsys.readouterr().out
        assert rooms.adopt(*CONFIRMED) == 0
        assert "room b has adopted it, generation 1" in capsys.readouterr().out
    assert len(cuts) > 1


def _refused(rooms: TwoRooms, room: str) -> str:
    """What a driver of a room ends with."""
    options = ("--room", room, "--until-caught-up")
    with DriverProcess(rooms.a.job, rooms.root, *options, module="tools.inline_driver") as driver:
        ended = driver.wait()
    assert ended.exit_code == 7, ended.stderr[-2000:]
    return ended.stderr


def test_room_b_waits_for_an_adopt_and_room_a_ends_for_ever(
    rooms: TwoRooms, writer: TopicWriter
) -> None:
    write(rooms, writer, range(10))
    rooms.a.catch_up()
    shutil.copytree(rooms.table("a"), rooms.table("b"))
    text = "this is a copy of the table of room a, and it was not adopted"
    assert text in _refused(rooms, "b")
    assert rooms.adopt(*CONFIRMED) == 0
    (claims,) = rooms.table("b").glob("_sluiceway/*/generations")
    shutil.copytree(claims, rooms.table("a") / claims.relative_to(rooms.table("b")))
    assert "SW451" in _refused(rooms, "a")
