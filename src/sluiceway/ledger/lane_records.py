"""Records of lanes: dirty rows read once more or given up, late rows brought in (rule 14)."""

from dataclasses import dataclass
from typing import ClassVar

from sluiceway.ledger.data_parts import TablePin
from sluiceway.ledger.file_names import FileRecord
from sluiceway.types.strict_json import BigInt

REPLAY = "replay"
PURGE = "purge"
LATE = "late"
LANE_KINDS = (REPLAY, PURGE, LATE)

_NONE = BigInt(0)


@dataclass(frozen=True, slots=True)
class LaneRange:
    """Rows `[start, stop)` of one dirty file, or all of a late one.

    Attributes:
        source: A `DirtySource` as text; in a lane of the kind `late` a `LateSource`.
        start: First row.
        stop: First row after them.
    """

    source: str
    start: BigInt
    stop: BigInt


@dataclass(frozen=True, slots=True)
class LaneRecord:
    """A lane is opened: these rows are its own from here on, and no other lane's ever.

    Attributes:
        lane: Its id, made of what was asked for; the same request never opens a second one.
        kind: `replay` (through the job file as it is now), `purge` (given up, no output) or `late`
            (from the late place, unchanged, into their own partitions).
        operator: `user@host`.
        reason: In the operator's words.
        ranges: Its rows, in the order of reading.
    """

    lane: str
    kind: str
    operator: str
    reason: str
    ranges: tuple[LaneRange, ...]


@dataclass(frozen=True, slots=True)
class LaneSpan:
    """Rows `[start, end)` that one epoch of a lane consumed; there are no gaps in a file.

    Attributes:
        source: As in `LaneRange`.
        start: First row.
        end: First row after them.
    """

    source: str
    start: BigInt
    end: BigInt


@dataclass(frozen=True, slots=True)
class LaneCounts:
    """Where a lane's rows went, all of them (P6).

    `read + expanded = written + dirty + filtered + skipped + purged + late + superseded`.

    Attributes:
        read: Rows read of the files.
        written: Rows in files of the table.
        dirty: Rows that are dirty again.
        filtered: Rows that `where` left out.
        skipped: Records that the format passes over.
        purged: Rows that were given up.
        late: In the late place, as their partition is sealed; left out at zero.
        expanded: Rows beyond the first of each record, in a table with a key; likewise.
        superseded: Changes that a later change of their key has overtaken; likewise.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"late", "expanded", "superseded"})
    read: BigInt
    written: BigInt
    dirty: BigInt
    filtered: BigInt
    skipped: BigInt
    purged: BigInt
    late: BigInt = _NONE
    expanded: BigInt = _NONE
    superseded: BigInt = _NONE

    def balanced(self) -> bool:
        """Whether every row read is accounted for."""
        outcome = self.written + self.dirty + self.filtered + self.skipped + self.purged
        return self.read + self.expanded == outcome + self.late + self.superseded

    def plus(self, other: "LaneCounts") -> "LaneCounts":
        """Sum by class."""
        return LaneCounts(
            BigInt(self.read + other.read),
            BigInt(self.written + other.written),
            BigInt(self.dirty + other.dirty),
            BigInt(self.filtered + other.filtered),
            BigInt(self.skipped + other.skipped),
            BigInt(self.purged + other.purged),
            BigInt(self.late + other.late),
            BigInt(self.expanded + other.expanded),
            BigInt(self.superseded + other.superseded),
        )


NO_LANE_ROWS = LaneCounts(*(BigInt(0),) * 6)


@dataclass(frozen=True, slots=True)
class LaneDataRecord:
    """DATA of a lane: what one of its epochs consumed, and what became of it.

    It moves the ends of its lane alone: no committed end of a source partition, no watermark and
    no reported offset.

    Attributes:
        lane: Id of the lane.
        epoch: Number of the epoch within the term.
        ranges: Rows that it consumed.
        files: Files of the table.
        dirty_files: Rows that are dirty again; a later lane may replay them.
        counts: Where the rows went.
        schema: Fingerprint of the columns that the rows were converted to.
        dirty_reasons: Reason -> rows that are dirty again.
        timings_ms: Phase -> time that all tasks took for it, ms.
        late_in: Closed prefixes that rows have reached by the late policy.
        late_files: Rows of sealed partitions; all others go to their own (commit rule 14).
        pins: As in `DataRecord`.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"late_files", "pins"})

    lane: str
    epoch: int
    ranges: tuple[LaneSpan, ...]
    files: tuple[FileRecord, ...]
    dirty_files: tuple[FileRecord, ...]
    counts: LaneCounts
    schema: str
    dirty_reasons: dict[str, int]
    timings_ms: dict[str, int]
    late_in: tuple[str, ...]
    late_files: tuple[FileRecord, ...] = ()
    pins: tuple[TablePin, ...] = ()

    @property
    def closed(self) -> tuple[str, ...]:
        """A lane closes nothing."""
        return ()
