"""Names of dirty files as sources of lanes: `dirty:<ledger>/<slot>/<file>` (commit rule 14)."""

import re
from dataclasses import dataclass

_NAME = re.compile(r"dirty:(?P<ledger>[^/]+)/(?P<seq>0|[1-9][0-9]{0,19})/(?P<file>[^/]+)")


@dataclass(frozen=True, slots=True, order=True)
class DirtySource:
    """One committed dirty file; its offsets are its row numbers.

    Attributes:
        ledger: Uuid of the ledger.
        seq: Slot of the record that committed it.
        file: Its name, without folders.
    """

    ledger: str
    seq: int
    file: str

    def __str__(self) -> str:
        return f"dirty:{self.ledger}/{self.seq}/{self.file}"

    @classmethod
    def parse(cls, text: str) -> "DirtySource":
        """Read a name.

        Raises:
            ValueError: It is none.
        """
        found = _NAME.fullmatch(text)
        if found is None:
            raise ValueError(f"no name of a dirty file: {text[:200]!r}")
        return cls(found["ledger"], int(found["seq"]), found["file"])
