"""Records of the jobs that were submitted from this machine.

One folder per job, for this user alone: the submission, the log of a driver that runs here, and the
state of that driver. Nothing in it decides about rows: ledger and lease do.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from sluiceway.errors import UnhealthyEnvironmentError, WrongUsageError
from sluiceway.host.kerberos import KerberosLogin
from sluiceway.host.process import ProcessIdentity, boot_id, is_alive

_APPLICATION = "application.json"
_DRIVER = "driver.json"
_LOG = "log"
_LOCK = "lock"

Deploy = Literal["client", "cluster"]


@dataclass(frozen=True, slots=True)
class Application:
    """A job that was submitted.

    Attributes:
        job: Name of the job.
        job_file: Absolute path of the file that it was submitted with.
        master: `run.master` of that file.
        deploy: Where the driver runs: `client` is this machine, `cluster` is the cluster.
        environment: Archive or its address that executors unpack; empty: they use their own.
        submitted_at_ms: Time of the submission, ms since 1970.
        supervisor: Process that keeps the driver running here; None where the cluster does.
        cluster_id: The cluster's id of it; empty for a driver of this machine.
        environment_named: Whether the submitter named the archive; else it was packed for this
            submission.
        hadoop_conf: HADOOP_CONF_DIR of the submission, to find the cluster again.
        login: Login of the job for calls to the cluster; None for the user's own ticket, if any.
        room: Room of its driver; empty for a job without rooms.
    """

    job: str
    job_file: str
    master: str
    deploy: Deploy
    environment: str
    submitted_at_ms: int
    supervisor: ProcessIdentity | None = None
    cluster_id: str = ""
    environment_named: bool = False
    hadoop_conf: str = ""
    login: KerberosLogin | None = None
    room: str = ""


@dataclass(frozen=True, slots=True)
class DriverState:
    """State of a driver of this machine; its supervisor writes it.

    Attributes:
        state: `running`; `waiting` for its next start; `ended` for good.
        starts: How often it was started.
        exit_code: Exit code of the last driver that ended; None before.
        since_ms: When this state began, ms since 1970.
        driver: Process of the driver; None when none runs.
    """

    state: Literal["running", "waiting", "ended"]
    starts: int
    exit_code: int | None
    since_ms: int
    driver: ProcessIdentity | None = None


_Record = TypeVar("_Record", Application, DriverState)


def applications_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Folder of all records: below XDG_STATE_HOME, else `~/.local/state`."""
    found = os.environ if environment is None else environment
    root = Path(found.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    return root.absolute() / "sluiceway" / "applications"


class ApplicationFolder:
    """The folder of one job.

    Args:
        job: Name of the job, which can be a file name.
        root: Folder of all records; None takes `applications_folder`.
    """

    def __init__(self, job: str, root: Path | None = None) -> None:
        self.path = (root or applications_folder()) / job

    @property
    def log(self) -> Path:
        """What supervisor and driver write to standard error."""
        return self.path / _LOG

    @property
    def spark_conf(self) -> Path:
        """The driver's SPARK_CONF_DIR."""
        return self.path / "spark-conf"

    def make(self) -> None:
        """Create it, for this user alone.

        Raises:
            UnhealthyEnvironmentError: It cannot be created.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            # An existing folder too, for example from a backup.
            self.path.chmod(0o700)
        except OSError as error:
            raise UnhealthyEnvironmentError(
                f"the folder of submitted jobs cannot be made: {error}",
                where=str(self.path),
                hint="set XDG_STATE_HOME to a folder that you may write to",
            ) from error

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder, which exists: no other command starts or ends the job meanwhile.

        Raises:
            WrongUsageError: Another command holds the lock.
            UnhealthyEnvironmentError: The file system supports no lock.
        """
        try:
            lock = (self.path / _LOCK).open("wb")
        except OSError as error:
            raise self._no_lock(error) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise WrongUsageError(
                    f"another command submits, restarts or ends the job {self.path.name} now",
                    hint="wait for its end, then look: `sluiceway list`",
                ) from error
            except OSError as error:
                raise self._no_lock(error) from error
            yield

    def _no_lock(self, error: OSError) -> UnhealthyEnvironmentError:
        return UnhealthyEnvironmentError(
            f"the folder of submitted jobs takes no lock: {error}",
            where=str(self.path),
            hint="set XDG_STATE_HOME to a folder on a disk of this machine",
        )

    def read(self) -> Application | None:
        """The last submission; None when there is none, or it cannot be read."""
        found = self._read(_APPLICATION)
        own = {"supervisor": ProcessIdentity, "login": KerberosLogin}
        return None if found is None else _made(Application, found, own)

    def write(self, application: Application) -> None:
        """Write the submission."""
        self._write(_APPLICATION, asdict(application))

    def read_driver(self) -> DriverState | None:
        """State of the driver; None before the first start."""
        found = self._read(_DRIVER)
        return None if found is None else _made(DriverState, found, {"driver": ProcessIdentity})

    def write_driver(self, state: DriverState) -> None:
        """Write the state of the driver."""
        self._write(_DRIVER, asdict(state))

    def forget_driver(self) -> None:
        """Remove the state that an earlier submission left."""
        (self.path / _DRIVER).unlink(missing_ok=True)

    def _read(self, name: str) -> dict[str, Any] | None:
        with suppress(OSError, ValueError):
            found = json.loads((self.path / name).read_text())
            if isinstance(found, dict):
                return found
        return None

    def _write(self, name: str, fields: dict[str, Any]) -> None:
        part = self.path / f".{name}.{os.getpid()}"
        part.write_text(json.dumps(fields) + "\n")
        part.replace(self.path / name)


def submitted(job: str) -> tuple[ApplicationFolder, Application]:
    """The last submission of a job.

    Raises:
        WrongUsageError: It was never submitted from here.
    """
    folder = ApplicationFolder(job)
    found = folder.read()
    if found is None:
        known = ", ".join(sorted(each.job for _, each in all_submitted())) or "none"
        raise WrongUsageError(
            f"the job {job} was not submitted by this user on this machine",
            hint=f"submitted: {known}. Submit it: `sluiceway submit JOB`",
        )
    return folder, found


def all_submitted() -> list[tuple[ApplicationFolder, Application]]:
    """All jobs, by name."""
    root = applications_folder()
    names = sorted(path.name for path in root.iterdir()) if root.is_dir() else []
    folders = [ApplicationFolder(name) for name in names]
    return [(folder, found) for folder in folders if (found := folder.read()) is not None]


def is_running(process: ProcessIdentity | None) -> bool:
    """Whether a recorded process is alive; false where that cannot be found out."""
    if process is None:
        return False
    here = boot_id()
    if here and process.boot_id == here:
        # This boot of this machine, even under another host name.
        process = replace(process, host=socket.gethostname())
    return bool(is_alive(process))


def machine_elsewhere(process: ProcessIdentity | None) -> str:
    """The host of a process when it is not this machine; else empty.

    Many machines may share a home folder, and processes of other machines are not visible.
    """
    if process is None or process.host == socket.gethostname() or process.boot_id == boot_id():
        return ""
    return process.host


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _made(
    kind: type[_Record], found: Mapping[str, Any], parts: Mapping[str, type]
) -> _Record | None:
    """The fields of a record; None when a field that this version needs is missing.

    Unknown fields come from a newer version.
    """
    known = {field.name for field in fields(kind)}
    values = {name: value for name, value in found.items() if name in known}
    try:
        for name, part in parts.items():
            if values.get(name) is not None:
                values[name] = part(**values[name])
        return kind(**values)
    except TypeError:
        return None
