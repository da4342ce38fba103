"""What a DATA record says of the route's watermark, and of the log ends that it was made from."""

from dataclasses import dataclass
from typing import ClassVar

from sluiceway.types.log_key import LogKey
from sluiceway.types.strict_json import BigInt

MAX_HELD_BY = 8
"""Most source partitions that a record names as holding the watermark, the earliest first."""


@dataclass(frozen=True, slots=True)
class SourceName:
    """A source partition."""

    topic: str
    partition: LogKey


@dataclass(frozen=True, slots=True)
class HeldByRecord:
    """A source partition that holds the watermark, as it was seen after the epoch.

    Attributes:
        log_end: Last stable offset; None when no leader has answered.
        high_watermark: Read in the same moment.
    """

    topic: str
    partition: LogKey
    log_end: BigInt | None
    high_watermark: BigInt | None


@dataclass(frozen=True, slots=True)
class WatermarkRecord:
    """How far a route's event time is complete. Fields at their defaults are left out.

    Attributes:
        read_at_us: When the log ends were read, after the epoch. No row counts for more than it.
        us: The route's watermark from now on; None when it stays.
        by: `all_idle` when no row has moved it; else empty.
        idle: Source partitions that have become idle: the log of each ended, with nothing open,
            where its committed end is.
        woken: Source partitions that were idle and have more to read, without a row in this record.
        held_by: Source partitions that hold the watermark.
        bound_us: With prefixes that are closed: the greatest end + lateness among them.
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
