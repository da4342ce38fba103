"""What a DATA record says of rows that came late."""

from dataclasses import dataclass, fields
from typing import ClassVar

from sluiceway.types.strict_json import BigInt

_NONE = BigInt(0)


@dataclass(frozen=True, slots=True)
class LateRows:
    """Late rows by what became of them. Fields at zero are left out.

    Attributes:
        side: In the late place; no others are counted as late among where rows went.
        redirect: Written to the partition of the watermark's hour.
        reopen: Written to their own partition, which was closed.
        dirty: In the dirty files, with the reason `late`.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"side", "redirect", "reopen", "dirty"})
    side: BigInt = _NONE
    redirect: BigInt = _NONE
    reopen: BigInt = _NONE
    dirty: BigInt = _NONE

    @property
    def total(self) -> int:
        """All late rows."""
        return int(self.side + self.redirect + self.reopen + self.dirty)

    def plus(self, other: "LateRows") -> "LateRows":
        """Sum by fate."""
        return LateRows(
            BigInt(self.side + other.side),
            BigInt(self.redirect + other.redirect),
            BigInt(self.reopen + other.reopen),
            BigInt(self.dirty + other.dirty),
        )

    def as_counts(self) -> dict[str, int]:
        """The counts that are not zero, by name."""
        found = {each.name: int(getattr(self, each.name)) for each in fields(self)}
        return {name: rows for name, rows in found.items() if rows}


NO_LATE_ROWS = LateRows()
