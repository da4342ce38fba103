"""How long a Kerberos ticket is valid, and the private folder of a process.

Source: MIT Kerberos, "Credential cache file format", version 4.
"""

import os
import stat
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sluiceway.errors import UnhealthyEnvironmentError

_VERSION = b"\x05\x04"
_TICKET_OF_THE_REALM = "krbtgt"
_CONFIGURATION_REALM = "X-CACHECONF:"


@dataclass(frozen=True, slots=True)
class Ticket:
    """The ticket-granting ticket, by which other tickets are requested.

    Attributes:
        principal: Its owner: `name@REALM`.
        start_s: When it becomes valid, in seconds since 1970.
        end_s: When it expires, in seconds since 1970.
    """

    principal: str
    start_s: int
    end_s: int

    def life_left(self, now_s: float) -> float:
        """The share of its lifetime that is left: 1 at its start, 0 and less after its end."""
        return (self.end_s - now_s) / max(1, self.end_s - self.start_s)


def read_ticket(cache: Path) -> Ticket | None:
    """The ticket in a cache that is a file.

    Args:
        cache: The file. A writer has to replace it as a whole.

    Returns:
        None when there is no such file, it holds no such ticket, or has another format.
    """
    try:
        content = cache.read_bytes()
    except OSError:
        return None
    try:
        return _ticket(_Reader(content))
    except (struct.error, IndexError, UnicodeDecodeError):
        return None


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._content)

    def read(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._content):
            raise IndexError(end)
        found, self._at = self._content[self._at : end], end
        return found

    def number(self, form: str) -> int:
        return int(struct.unpack(f">{form}", self.read(struct.calcsize(f">{form}")))[0])

    def data(self) -> bytes:
        return self.read(self.number("I"))

    def principal(self) -> tuple[list[str], str]:
        """Its parts, and its realm."""
        self.number("I")
        count = self.number("I")
        realm = self.data().decode()
        return [self.data().decode() for _ in range(count)], realm


def _ticket(reader: _Reader) -> Ticket | None:
    if reader.read(2) != _VERSION:
        return None
    reader.read(reader.number("H"))
    parts, realm = reader.principal()
    while reader:
        reader.principal()
        service, of = reader.principal()
        reader.number("H")
        reader.data()
        issued, start, end, _ = (reader.number("I") for _ in range(4))
        reader.read(1 + 4)
        for _ in range(2):
            for _ in range(reader.number("I")):
                reader.number("H")
                reader.data()
        reader.data()
        reader.data()
        if of != _CONFIGURATION_REALM and service == [_TICKET_OF_THE_REALM, realm]:
            return Ticket(f"{'/'.join(parts)}@{realm}", start or issued, end)
    return None


def private_folder() -> Path:
    """The driver's folder for files that are no part of a table: for its user alone, below TMPDIR.

    Raises:
        UnhealthyEnvironmentError: Another user made it, or others may read it.
    """
    folder = Path(tempfile.gettempdir()) / f"sluiceway-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise UnhealthyEnvironmentError(
            f"cannot make a folder for temporary files: {error}",
            where=str(folder),
            hint="set TMPDIR to a folder that you may write to",
        ) from error
    mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not mine or found.st_mode & 0o077:
        raise UnhealthyEnvironmentError(
            "the folder for temporary files is not this user's alone",
            where=str(folder),
            hint="remove it, or set TMPDIR to a folder of your own",
        )
    return folder
