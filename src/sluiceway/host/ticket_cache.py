"""Reads how long the ticket in a Kerberos ticket cache is valid.

Source: MIT Kerberos, "Credential cache file format", version 4.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

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
