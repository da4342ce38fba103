"""The lab's own folder: its contents and its permissions."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.process import ProcessIdentity

_FORMAT_VERSION = 1
_STATE_FILE = "state.json"
_LOCK_FILE = ".lock"


@dataclass(frozen=True, slots=True)
class LabState:
    """State that must outlive the process that started the lab.

    Attributes:
        ports: Port of each listener, by name; kept over restarts.
        servers: Last started process of each server, by name; it may be dead.
    """

    ports: Mapping[str, int] = field(default_factory=dict)
    servers: Mapping[str, ProcessIdentity] = field(default_factory=dict)

    def with_server(self, name: str, identity: ProcessIdentity) -> "LabState":
        """This state after `name` was started as `identity`."""
        return replace(self, servers={**self.servers, name: identity})

    def without_server(self, name: str) -> "LabState":
        """This state after `name` was stopped on purpose."""
        return replace(self, servers={k: v for k, v in self.servers.items() if k != name})


def make_private_folder(folder: Path) -> None:
    """Create `folder` for this user only, and its missing parents.

    Raises:
        UnhealthyEnvironmentError: It cannot be created or written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise UnhealthyEnvironmentError(
            f"the lab's folder cannot be made: {reason}",
            where=str(error.filename or folder),
            hint="take another folder with --dir",
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UnhealthyEnvironmentError(
            "the lab's folder cannot be written: permission denied",
            where=str(folder),
            hint="check its permissions, or take another folder with --dir",
        )


def write_private_file(path: Path, content: str) -> None:
    """Replace `path` atomically by a file that only this user can read."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.touch(mode=0o600)
    temporary.write_text(content)
    temporary.replace(path)


def load_state(folder: Path) -> LabState | None:
    """Read the state of the lab in `folder`.

    Returns:
        The state, or None when `folder` holds no lab.

    Raises:
        UnhealthyEnvironmentError: This version did not write the state file.
    """
    path = folder / _STATE_FILE
    try:
        content = path.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return _parse(json.loads(content))
    except (ValueError, KeyError, TypeError) as error:
        raise UnhealthyEnvironmentError(
            f"the lab's state cannot be read: {error!r}",
            where=str(path),
            hint="end its servers by hand and remove the folder, or take another with --dir",
        ) from error


def save_state(folder: Path, state: LabState) -> None:
    """Replace the state of the lab in `folder`."""
    content = {
        "version": _FORMAT_VERSION,
        "ports": dict(state.ports),
        "servers": {name: asdict(identity) for name, identity in state.servers.items()},
    }
    write_private_file(folder / _STATE_FILE, json.dumps(content, indent=2) + "\n")


def remove_state(folder: Path) -> None:
    """Remove the state of the lab in `folder`."""
    (folder / _STATE_FILE).unlink(missing_ok=True)
    (folder / _LOCK_FILE).unlink(missing_ok=True)


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Keep other processes from changing the lab in `folder` in this block; waits for the lock."""
    path = folder / _LOCK_FILE
    while True:
        make_private_folder(folder)
        with path.open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # The last holder may have removed the whole lab, and the lock file with it.
            if path.exists() and os.path.samestat(path.stat(), os.fstat(lock.fileno())):
                yield
                return


def _parse(content: Any) -> LabState:
    if content["version"] != _FORMAT_VERSION:
        raise ValueError(f"version {content['version']!r}, expected {_FORMAT_VERSION}")
    return LabState(
        ports={str(name): int(port) for name, port in content["ports"].items()},
        servers={
            str(name): ProcessIdentity(**identity) for name, identity in content["servers"].items()
        },
    )
