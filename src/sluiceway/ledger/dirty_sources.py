"""Names of files that lanes read: `dirty:<ledger>/<slot>/<file>`, `late:...` (commit rule 14)."""

import re
from dataclasses import dataclass
from typing import ClassVar, Self

_NAME = re.compile(
    r"(?P<kind>[a-z]+):(?P<ledger>[^/]+)/(?P<seq>0|[1-9][0-9]{0,19})/(?P<file>[^/]+)"
)


@dataclass(frozen=True, slots=True, order=True)
class DirtySource:
    """One committed dirty file; its offsets are its row numbers.

    Attributes:
        KIND: What its name begins with.
        ledger: Uuid of the ledger.
        seq: Slot of the record that committed it.
        file: Its name, without folders.
    """

    KIND: ClassVar[str] = "dirty"

    ledger: str
    seq: int
    file: str

    def __str__(self) -> str:
        return f"{self.KIND}:{self.ledger}/{self.seq}/{self.file}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a name.

        Raises:
            ValueError: It is none.
        """
        found = _NAME.fullmatch(text)
        if found is None or found["kind"] != cls.KIND:
            raise ValueError(f"no name of a {cls.KIND} file: {text[:200]!r}")
        return cls(found["ledger"], int(found["seq"]), found["file"])


@dataclass(frozen=True, slots=True, order=True)
class LateSource(DirtySource):
    """One committed file of the late place; lanes take it whole."""

    KIND: ClassVar[str] = "late"
