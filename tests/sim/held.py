"""Where the records are, as the monitor sees it: in slots or packs. Shares no code with the log."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Look:
    """How the monitor looks at the store, without a call.

    Attributes:
        content: Bytes of a file as processes see it; None without one.
        durable: Bytes that a power cut would leave for sure.
    """

    content: Callable[[str], bytes | None]
    durable: Callable[[str], bytes | None]


def lines_of(pack: bytes) -> list[bytes] | None:
    """Lines of a pack; None when it is not whole."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(pack)
    except zlib.error:
        return None
    return text.splitlines(keepends=True) if unpacker.eof else None


class Held:
    """Slots and packs of one route's ledger.

    Args:
        system: The route's folder.
        per_folder: Slots of a log folder.
    """

    def __init__(self, system: str, per_folder: int) -> None:
        self.log = f"{system}/log/"
        self.packs = f"{system}/pack/"
        self.per_folder = per_folder
        self.look = Look(lambda _: None, lambda _: None)

    def path(self, seq: int) -> str:
        """Of a slot."""
        return f"{self.log}{seq // self.per_folder:016d}/{seq:020d}.json"

    def slot_of(self, path: str) -> int:
        """Slot that a path in the log stands for; a very high one for another name."""
        name = path.rpartition("/")[2].removesuffix(".json")
        return int(name) if name.isdigit() else 1 << 60

    def pack(self, folder: int) -> str:
        """Of a log folder."""
        return f"{self.packs}{folder:016d}.jsonl.gz"

    def is_pack(self, path: str) -> bool:
        """Whether a pack has this name; others in its folder are temporary."""
        return path.startswith(self.packs) and not path.rpartition("/")[2].startswith(".")

    def slots_of(self, path: str) -> range:
        """Slots that a pack stands for."""
        folder = int(path.rpartition("/")[2].partition(".")[0])
        return range(folder * self.per_folder, (folder + 1) * self.per_folder)

    def _packed(self, seq: int, read: Callable[[str], bytes | None]) -> bytes | None:
        raw = read(self.pack(seq // self.per_folder))
        lines = None if raw is None else lines_of(raw)
        place = seq % self.per_folder
        return lines[place] if lines is not None and place < len(lines) else None

    def packed(self, seq: int) -> bytes | None:
        """The record in a pack that is durable."""
        return self._packed(seq, self.look.durable)

    def seen(self, seq: int) -> bytes | None:
        """The record as a process that follows the rules finds it."""
        found = self._packed(seq, self.look.content)
        return self.look.content(self.path(seq)) if found is None else found

    def durable(self, seq: int) -> bytes | None:
        """The record as it is after a power cut, for sure."""
        found = self.packed(seq)
        return self.look.durable(self.path(seq)) if found is None else found
