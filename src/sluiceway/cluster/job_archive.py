"""The main program of a driver on a cluster: it carries the job file and its secrets.

A cluster hands an application's files to every container, but its main program to the driver alone.
So that program carries the job file, the variables and files that it refers to, and the keytab of
its login. No executor has them: tasks get what they need with their plans.
"""

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sluiceway.errors import SubmissionError
from sluiceway.host.copied_files import carry
from sluiceway.host.kerberos import KerberosLogin
from sluiceway.jobfile.references import REFERENCE
from sluiceway.jobfile.room_overlay import ROOM_VARIABLE

_PROGRAM = '''\
"""The driver of the job {job}; holds its secrets, so keep it private."""

import sys
from pathlib import Path

from sluiceway.cli.app import run_command
from sluiceway.cluster.job_archive import unpack

PARCEL = (
{lines}
)

if __name__ == "__main__":
    job_file = unpack(PARCEL, Path.cwd())
    sys.exit(run_command(["run", str(job_file), "--standby", "--log-format", "json"]))
'''
_LINE = 88
_FOLDER = "sluiceway-job"


@dataclass(frozen=True, slots=True)
class JobArchive:
    """What a driver needs from the machine that submitted it.

    Attributes:
        name: Name of the job file.
        text: Text of the job file.
        variables: Variables that it refers to, with their values.
        files: Path -> content of the files that it refers to.
        login_files: Path -> content of keytab and realm.
    """

    name: str
    text: str
    variables: Mapping[str, str]
    files: Mapping[str, str]
    login_files: Mapping[str, bytes]


def collect(
    job_file: Path,
    environment: Mapping[str, str],
    login: KerberosLogin | None = None,
    room: str = "",
) -> JobArchive:
    """Collect a job file and all that its references stand for. The file was checked before.

    Args:
        job_file: Its path.
        environment: Variables that it may refer to.
        login: Login of the job; None where it has none.
        room: Room of the driver; empty for a job without rooms.

    Raises:
        SubmissionError: A file cannot be read any more.
    """
    try:
        text = job_file.read_text("utf-8")
        variables, files = {ROOM_VARIABLE: room} if room else {}, {}
        for match in REFERENCE.finditer(text):
            kind, _, name = match[1].partition(":")
            if kind == "env" and name in environment:
                variables[name] = environment[name]
            elif kind == "file" and Path(name).is_file():
                files[name] = Path(name).read_text("utf-8")
        of_login = () if login is None else login.files
        login_files = {name: Path(name).read_bytes() for name in of_login}
    except (OSError, ValueError) as error:
        raise SubmissionError(
            f"what the job file refers to cannot be read: {error}", where=str(job_file)
        ) from error
    return JobArchive(job_file.name, text, variables, files, login_files)


def driver_program(job: str, archive: JobArchive) -> str:
    """A Python program that unpacks the archive where it runs, and runs the job."""
    fields = {
        "name": archive.name,
        "text": archive.text,
        "variables": dict(archive.variables),
        "files": dict(archive.files),
        "login_files": {
            path: base64.b64encode(content).decode()
            for path, content in archive.login_files.items()
        },
    }
    packed = base64.b64encode(json.dumps(fields).encode()).decode()
    pieces = [packed[at : at + _LINE] for at in range(0, len(packed), _LINE)]
    lines = "\n".join(f'    "{piece}"' for piece in pieces)
    return _PROGRAM.format(job=job, lines=lines)


def unpack(packed: str, folder: Path) -> Path:
    """Write the archive's files below `folder`, for this user alone; returns the job file's path.

    References to files become references to their copies. The variables are set in this process,
    and its logins use the copies of keytab and realm.
    """
    fields = json.loads(base64.b64decode(packed))
    place = folder.absolute() / _FOLDER
    place.mkdir(mode=0o700, exist_ok=True)
    text: str = fields["text"]
    for number, (path, content) in enumerate(sorted(fields["files"].items())):
        copy = place / f"file-{number}"
        _write_private(copy, content.encode())
        text = text.replace(f"${{file:{path}}}", f"${{file:{copy}}}")
    os.environ.update(fields["variables"])
    copies = {}
    for number, (path, packed_file) in enumerate(sorted(fields["login_files"].items())):
        copy = place / f"login-{number}"
        _write_private(copy, base64.b64decode(packed_file))
        copies[path] = str(copy)
    carry(copies)
    job_file = place / Path(fields["name"]).name
    _write_private(job_file, text.encode())
    return job_file


def _write_private(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as output:
        output.write(content)
