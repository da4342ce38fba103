"""Parts of a DATA record: the watermark, the log ends it comes from, late rows, and pins."""

from dataclasses import dataclass, fields
from typing import ClassVar

from sluiceway.types.log_key import LogKey
from sluiceway.types.strict_json import BigInt

MAX_HELD_BY = 8
"""Most source partitions that a record names as holding the watermark, the earliest first."""


@dataclass(frozen=True, slots=True)
class SourceName:
    """A source partition.

    Attributes:
        topic: Its topic.
        partition: Key of its log in the topic: a number, or `broker/queue`.
    """

    topic: str
    partition: LogKey


@dataclass(frozen=True, slots=True)
class HeldByRecord:
    """A source partition that holds the watermark, as it was seen after the epoch.

    Attributes:
        topic: Its topic.
        partition: Key of its log in the topic: a number, or `broker/queue`.
        log_end: Last stable offset; None when no leader has answered.
        high_watermark: Read in the same moment; None likewise.
    """

    topic: str
    partition: LogKey
    log_end: BigInt | None
    high_watermark: BigInt | None


@dataclass(frozen=True, slots=True)
class WatermarkRecord:
    """How far a route's event time is complete. Fields at their defaults are left out.

    Attributes:
        read_at_us: When the log ends were read, after the epoch, us since the epoch of Unix. No row
            counts for more than it.
        us: The route's watermark from now on, us since the epoch of Unix; None when it stays.
        by: `all_idle` when no row has moved it; else empty.
        idle: Source partitions that have become idle: the log of each ended, with nothing open,
            where its committed end is.
        woken: Source partitions that were idle and have more to read, without a row in this record.
        held_by: Source partitions that hold the watermark.
        bound_us: Greatest end + lateness of the prefixes that are closed; None when none is.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset(
        {"us", "by", "idle", "woken", "held_by", "bound_us"}
    )
    read_at_us: BigInt
    us: BigInt | None = None
    by: str = ""
    idle: tuple[SourceName, ...] = ()
    woken: tuple[SourceName, ...] = ()
    held_by: tuple[HeldByRecord, ...] = ()
    bound_us: BigInt | None = None


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


@dataclass(frozen=True, slots=True)
class TablePin:
    """Which state of a small table the SQL of an epoch has joined.

    Attributes:
        name: Its name in the SQL.
        state: `ledger@slot`: uuid of its ledger, and the slot that changed its rows last.
    """

    name: str
    state: str
