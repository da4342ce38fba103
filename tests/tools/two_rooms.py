"""A job whose table is copied from room a to room b; each room has its own folder and catalog."""

from dataclasses import dataclass
from pathlib import Path

from sluiceway.cli.app import run_command
from sluiceway.jobfile.blocks.models import JobSpec
from sluiceway.jobfile.loader import inspect_job
from tools.job_files import JobFile, write_job
from tools.route_runs import RouteRun

CONFIRMED = ("--confirm", "room_down", "--confirm", "copier_stopped", "--reason", "room a burns")
_ROOMS = """\
rooms:
  home: a
  storage: copied
  a: {{connections: {{hms: {{folder: {{path: "{0}/a"}}}}}}, location: "{0}/a/orders"}}
  b: {{connections: {{hms: {{folder: {{path: "{0}/b"}}}}}}, location: "{0}/b/orders"}}
"""
_METASTORE = '{metastore: {uri: "thrift://none:1"}}'


@dataclass(frozen=True, slots=True)
class RoomJob(JobFile):
    """The job file as one of its rooms sees it."""

    room: str = ""

    @property
    def spec(self) -> JobSpec:
        found = inspect_job(self.path.read_bytes(), self.path, {}, room=self.room)
        assert found.problems == ()
        assert found.job is not None
        return found.job.spec


@dataclass(frozen=True, slots=True)
class TwoRooms:
    """The job in both rooms.

    Attributes:
        topic: What it reads.
        root: Folder with a folder for each room; the table is `orders` in there.
    """

    topic: str
    a: RouteRun
    b: RouteRun
    root: Path

    def table(self, room: str) -> Path:
        """Folder of the table in a room."""
        return self.root / room / "orders"

    def adopt(self, *options: str) -> int:
        """Run the command in room b."""
        return run_command(["adopt", str(self.a.job.path), "--room", "b", *options])


def two_rooms(folder: Path, bootstrap_servers: str, topic: str, **changes: str) -> TwoRooms:
    """Write the job file; `changes` are those of `write_job`."""
    job = write_job(
        folder,
        bootstrap_servers=bootstrap_servers,
        metastore_uri="thrift://none:1",
        topic=topic,
        **changes,
    )
    text = job.path.read_text()
    assert _METASTORE in text
    text = text.replace(_METASTORE, f'{{folder: {{path: "{folder}"}}}}')
    job.path.write_text(text + _ROOMS.format(folder))
    for room in ("a", "b"):
        (folder / room).mkdir()
    a, b = (RouteRun(RoomJob(job.path, job.table, room)) for room in ("a", "b"))
    return TwoRooms(topic, a, b, folder)
