"""`adopt` on a real queue: room a's copy ends anywhere, and room b's driver has each row once."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from sluiceway.cli.app import run_command
from sluiceway.jobfile.blocks.models import JobSpec
from sluiceway.jobfile.loader import inspect_job
from sluiceway.ledger.placing import all_files
from sluiceway.ledger.records import FilesRecord
from sluiceway.rooms import adopt_table
from tools.job_files import JobFile, event
from tools.lost_room import dice
from tools.route_faults import NewRun, offsets
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

ROOMS = """\
rooms:
  home: a
  storage: copied
  a: {{connections: {{hms: {{folder: {{path: "{0}/a"}}}}}}, location: "{0}/a/orders"}}
  b: {{connections: {{hms: {{folder: {{path: "{0}/b"}}}}}}, location: "{0}/b/orders"}}
"""
CONFIRMED = ("--confirm", "room_down", "--confirm", "copier_stopped", "--reason", "room a burns")


@dataclass(frozen=True, slots=True)
class RoomJob(JobFile):
    """The job file as one of its rooms sees it."""

    room: str = ""

    @property
    def spec(self) -> JobSpec:
        found = inspect_job(self.path.read_bytes(), self.path, {}, room=self.room)
        assert found.job is not None
        assert found.problems == ()
        return found.job.spec


@dataclass(frozen=True, slots=True)
class TwoRooms:
    """A job in two rooms with a catalog and a table in each."""

    topic: str
    a: RouteRun
    b: RouteRun
    root: Path

    def adopt(self, *options: str) -> int:
        return run_command(["adopt", str(self.a.job.path), "--room", "b", *options])

    def copy(self, rng: Random, delay: float) -> None:
        """Bring room a's objects in any order; the later a slot, the likelier something lacks."""
        source, target = self.root / "a/orders", self.root / "b/orders"
        shutil.rmtree(self.root / "b", ignore_errors=True)
        log = self.a.log()
        records = self.a.records()

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
def rooms(new_run: NewRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TwoRooms:
    monkeypatch.setattr(adopt_table, "QUIET_S", 0.1)
    run, topic = new_run(2, metastore_uri="thrift://none:1", files="{compact: never}")
    text = run.job.path.read_text()
    uri = '{metastore: {uri: "thrift://none:1"}}'
    assert uri in text
    text = text.replace(uri, f'{{folder: {{path: "{tmp_path}"}}}}')
    run.job.path.write_text(text + ROOMS.format(tmp_path))
    jobs = [RoomJob(run.job.path, run.job.table, room) for room in ("a", "b")]
    for room in ("a", "b"):
        (tmp_path / room).mkdir()
    return TwoRooms(topic, RouteRun(jobs[0]), RouteRun(jobs[1]), tmp_path)


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
    cuts, rng = set(), dice(5)
    for delay in (0.5, 2.0, 4.0):
        rooms.copy(rng, delay)
        (rooms.root / "b").mkdir(exist_ok=True)
        capsys.readouterr()
        assert rooms.adopt("--dry-run", "-o", "json") == 0
        (planned,) = json.loads(capsys.readouterr().out)["routes"]
        assert rooms.adopt(*CONFIRMED) == 0
        assert f"slots 0 to {planned['kept_slot']} are kept" in capsys.readouterr().out
        rooms.b.catch_up()
        assert rooms.b.rows() == [*offsets(0, range(70)), *offsets(1, range(70))]
        rooms.b.assert_verified()
        cuts.add(planned["kept_slot"])
        assert rooms.adopt(*CONFIRMED) == 0
        assert "room b has adopted it, generation 1" in capsys.readouterr().out
    assert len(cuts) > 1


def test_each_side_is_told_what_it_may_not_do(
    rooms: TwoRooms, writer: TopicWriter, capsys: pytest.CaptureFixture[str]
) -> None:
    write(rooms, writer, range(10))
    rooms.a.catch_up()
    shutil.copytree(rooms.root / "a/orders", rooms.root / "b/orders")
    job = str(rooms.a.job.path)
    assert run_command(["run", job, "--room", "b", "--until-caught-up"]) == 7
    assert (
        "this is a copy of the table of room a, and it was not adopted" in capsys.readouterr().err
    )
    assert rooms.adopt("--confirm", "room_down", "--reason", "x") == 2
    assert "add --confirm copier_stopped" in capsys.readouterr().err
    assert rooms.adopt(*CONFIRMED) == 0
    shutil.copytree(
        next((rooms.root / "b").glob("orders/_sluiceway/*/generations")),
        next((rooms.root / "a").glob("orders/_sluiceway/*/log")).parent / "generations",
    )
    assert run_command(["run", job, "--room", "a", "--until-caught-up"]) == 7
    assert "SW451" in capsys.readouterr().err
