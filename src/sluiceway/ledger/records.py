"""Ledger records as values, and their canonical bytes.

The envelope carries what every record has; the body says what happened. Integers that can pass
2^53 are `BigInt` and stand as text in the JSON (commit rule 26).
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from sluiceway.errors import LedgerCorruptError
from sluiceway.ledger.counts_records import CountsRecord
from sluiceway.ledger.data_parts import NO_LATE_ROWS, LateRows, TablePin, WatermarkRecord
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.lane_records import LaneDataRecord, LaneRecord
from sluiceway.ledger.log_tail import NO_TAIL
from sluiceway.ledger.operator_records import OriginLog, ResetRecord, SourceChangeRecord
from sluiceway.ledger.partition_records import (
    AbandonRecord,
    ExpireRecord,
    IntentRecord,
    ReadyRecord,
    ReplaceRecord,
    SwapRecord,
)
from sluiceway.types.log_key import LogKey
from sluiceway.types.strict_json import (
    BigInt,
    StrictJsonError,
    encode,
    from_plain,
    loads,
    to_plain,
)

FORMAT = 1
"""Format of a ledger's records until one needs more, see `needed_format`."""

NEWEST_FORMAT = 3
"""The newest format that this version reads and writes. Since 2 there is SWAP; 3 adopts tables."""

ADOPTED_FORMAT = 3
"""Format of the log of a table that was adopted: an older reader would look for it elsewhere."""

MAX_RECORD_BYTES = 64 << 20
FIRST_PREV = "0" * 64
_NEVER = BigInt(0)


class RecordType(StrEnum):
    """Kinds of records."""

    FENCE = "FENCE"
    SOURCES = "SOURCES"
    DATA = "DATA"
    SNAPSHOT = "SNAPSHOT"
    RESET = "RESET"
    SOURCE_CHANGE = "SOURCE_CHANGE"
    INTENT = "INTENT"
    REPLACE = "REPLACE"
    ABANDON = "ABANDON"
    READY = "READY"
    EXPIRE = "EXPIRE"
    SWAP = "SWAP"
    COUNTS = "COUNTS"
    LANE = "LANE"
    LANE_DATA = "LANE_DATA"


@dataclass(frozen=True, slots=True)
class TableIdentityRecord:
    """The table that the ledger belongs to, as the catalog knew it.

    Attributes:
        catalog: Address of the catalog, or its folder.
        database: Database or namespace.
        name: Name in it.
        created_at_s: When the catalog says that it was created, s since the epoch.
        location: Folder of the table.
        uuid: UUID of a lake table, unlike that of another table of this name; empty elsewhere.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"uuid"})

    catalog: str
    database: str
    name: str
    created_at_s: BigInt
    location: str
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class AdoptedRecord:
    """How a table continues from a copy that another room has left.

    Attributes:
        generation: Number of the log that begins with this record.
        from_table: The table as the log before knew it.
        kept_term: Term of the last slot that is kept.
        kept_epoch: Last epoch of that term that is kept; -1 without one.
        slots: Number of slots in the copy after the last kept one.
        placed: Files that had come to staged folders only, and got their final names.
        moved: Files that no kept slot names, and were moved aside.
        operator: `user@host`.
        reason: In the operator's words.
        confirmed: What the operator has confirmed.
    """

    generation: int
    from_table: TableIdentityRecord
    kept_term: int
    kept_epoch: int
    slots: int
    placed: int
    moved: int
    operator: str
    reason: str
    confirmed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FenceRecord:
    """A driver's first record; it raises the term, and no older driver can commit any more.

    Attributes:
        ledger: Uuid of the ledger.
        job: Name of the job.
        route: Name of the route.
        table: The table, as START found it.
        driver: Uuid of the driver.
        host: Name of its host.
        boot_id: Id of the boot of that host.
        pid: Id of its process.
        site: Room of the driver; empty for a job without rooms.
        started_at_ms: When the driver began, by its clock, ms since the epoch.
        format: Format of this record, and the lowest one of all after it.
        min_reader: An engine whose newest format is lower must not read on.
        adopted: What was kept of a copy, where the record begins a generation; None in a driver's
            own records.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"adopted"})

    ledger: str
    job: str
    route: str
    table: TableIdentityRecord
    driver: str
    host: str
    boot_id: str
    pid: int
    site: str
    started_at_ms: BigInt
    format: int
    min_reader: int
    adopted: AdoptedRecord | None = None


@dataclass(frozen=True, slots=True)
class PinnedPartition:
    """Where the first read of a source partition starts, resolved once for ever.

    Attributes:
        topic: Its topic.
        partition: Key of its log in the topic: a number, or `broker/queue`.
        cluster_id: Id of the cluster that has the topic.
        topic_id: Id of the topic, which differs after it was created again.
        start: First offset that is read.
        how: `earliest`, `latest`, `timestamp` (first row not older than the start's time),
            `offsets` (as the start says), `group` (taken over from a consumer group),
            `discovered` (appeared under an unchanged subscription, starts at its own earliest
            offset), `resumed` (subscribed again, goes on at its committed end) or `handed_over`
            (begins where a table ends that was read until then).
        retired: No longer read: gone from the subscription or the cluster.
        newest_slot: Of a table: its newest slot then. Rows that it had let go of by then are gaps,
            and no loss.
        tail: Tail of the log before `start` (`ledger.log_tail`); empty where none is kept.
        origin: The log whose rows it may have copies of; None, and left out, without one.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"newest_slot", "tail", "origin"})

    topic: str
    partition: LogKey
    cluster_id: str
    topic_id: str
    start: BigInt
    how: str
    retired: bool
    newest_slot: int = -1
    tail: str = NO_TAIL
    origin: OriginLog | None = None


@dataclass(frozen=True, slots=True)
class HandOverCause:
    """Where a route has left a table whose job reads the same topics.

    Attributes:
        ledger: Uuid of the table's ledger.
        slot: All of its rows up to this slot were read, and no other. The topics begin where its
            job was at that slot.
    """

    ledger: str
    slot: int


@dataclass(frozen=True, slots=True)
class SourcesRecord:
    """The subscription and the source partitions that are new or retired.

    Attributes:
        topics: Listed in the job file, or the topics that matched `pattern` then.
        pattern: Pattern of topic names; empty when they are listed.
        start: Canonical text of the job file's start.
        partitions: Source partitions that are new, resumed or retired.
        operator: `user@host` who gives up what is retired here; empty in a driver's own records.
        reason: In the operator's words, or which rows of a table are passed over.
        because: Of a route that has followed a table; None of others.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"operator", "reason", "because"})

    topics: tuple[str, ...]
    pattern: str
    start: str
    partitions: tuple[PinnedPartition, ...]
    operator: str = ""
    reason: str = ""
    because: HandOverCause | None = None


@dataclass(frozen=True, slots=True)
class RangeRecord:
    """`[start, end)` of one source partition, as one epoch read it.

    Attributes:
        topic: Its topic.
        partition: Key of its log in the topic: a number, or `broker/queue`.
        cluster_id: Id of the cluster that has the topic.
        topic_id: Id of the topic, which differs after it was created again.
        start: First offset of the range.
        end: First offset after it.
        rows: Records read; `end - start == rows + gaps`.
        gaps: Offsets that were no row.
        leader_epoch: Versions before wrote that of the last row. It need not belong to `end`, so it
            decides nothing; None now.
        max_event_time_us: Greatest event time among the rows that are not dirty; none counts for
            more than the time when it was read (commit rule 23). None without such a row.
        offset_sum: Sum over the rows, 32 hex digits (see `ledger.offset_sum`).
        end_epoch: A leader epoch under which all below `end` was known to be committed; None when
            none is known.
        corrected: Gaps that were rows of a table, and were replaced before they were read; left out
            at zero.
        copies: Gaps that were copies of rows which the table had from another log; left out at
            zero.
        origin_end: First offset of that log whose row is not in the table afterwards; None, and
            left out, where no other log is copied.
        tail: Tail of the range's rows (`ledger.log_tail`); empty where none is kept.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset(
        {"end_epoch", "corrected", "copies", "origin_end", "tail"}
    )

    topic: str
    partition: LogKey
    cluster_id: str
    topic_id: str
    start: BigInt
    end: BigInt
    rows: BigInt
    gaps: BigInt
    leader_epoch: int | None
    max_event_time_us: BigInt | None
    offset_sum: str
    end_epoch: int | None = None
    corrected: BigInt = _NEVER
    copies: BigInt = _NEVER
    origin_end: BigInt | None = None
    tail: str = NO_TAIL


_NONE = BigInt(0)


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Where the rows went: `read + expanded = written + dirty + late + filtered + skipped` (P6).

    Attributes:
        read: Records read.
        written: Rows in files of the table.
        dirty: Rows in dirty files.
        late: Rows in the late place.
        filtered: Rows that `where` left out.
        skipped: Records that the format passes over, such as tombstones.
        expanded: Rows beyond the first of each record, of keyed tables; left out where there are
            none.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"expanded"})

    read: BigInt
    written: BigInt
    dirty: BigInt
    late: BigInt
    filtered: BigInt
    skipped: BigInt
    expanded: BigInt = _NONE

    def balanced(self) -> bool:
        """Whether every row read is accounted for."""
        outcome = self.written + self.dirty + self.late + self.filtered + self.skipped
        return self.read + self.expanded == outcome

    def plus(self, other: "RowCounts") -> "RowCounts":
        """Sum by class."""
        return RowCounts(
            BigInt(self.read + other.read),
            BigInt(self.written + other.written),
            BigInt(self.dirty + other.dirty),
            BigInt(self.late + other.late),
            BigInt(self.filtered + other.filtered),
            BigInt(self.skipped + other.skipped),
            BigInt(self.expanded + other.expanded),
        )


NO_ROWS = RowCounts(*(BigInt(0),) * 6)


@dataclass(frozen=True, slots=True)
class DataRecord:
    """An epoch: what was read, what was written, and where it is.

    Attributes:
        epoch: Number of the epoch within the term.
        ranges: What was read, one range for each source partition.
        files: Files of the table.
        dirty_files: Files of dirty rows.
        counts: Where the rows went.
        schema: Fingerprint of the columns that the rows were converted to.
        dirty_reasons: Reason -> dirty rows.
        timings_ms: Phase -> time that all tasks took for it, ms.
        closed: Prefixes of partitions that were closed when the epoch was planned, and in no
            earlier record. Epochs rise, so none that was planned before can land any more.
        late_in: Closed prefixes that rows have reached by the late policy.
        watermark: The route's watermark, when the job file has a block `ready`; None without one.
        late_files: Late rows in their own place, which readers of the table do not see.
        late_rows: All late rows, by what became of them.
        clock_us: Up to when rows were dated by the clock; 0 where no partition is by the clock.
        counted: Prefixes of `closed` that have all rows of their audited counts.
        pins: States of the tables that the SQL has joined; left out where there are none.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset(
        {"watermark", "late_files", "late_rows", "clock_us", "counted", "pins"}
    )
    epoch: int
    ranges: tuple[RangeRecord, ...]
    files: tuple[FileRecord, ...]
    dirty_files: tuple[FileRecord, ...]
    counts: RowCounts
    schema: str
    dirty_reasons: dict[str, int]
    timings_ms: dict[str, int]
    closed: tuple[str, ...] = ()
    late_in: tuple[str, ...] = ()
    watermark: WatermarkRecord | None = None
    late_files: tuple[FileRecord, ...] = ()
    late_rows: LateRows = NO_LATE_ROWS
    clock_us: BigInt = _NEVER
    counted: tuple[str, ...] = ()
    pins: tuple[TablePin, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """Where the fold of all slots below `through` lies ready, so that a start reads little.

    Attributes:
        through: The side file holds the fold up to and without this slot.
        side: Name of the side file. A missing, altered or unknown one is ignored.
        size_bytes: Size of the side file, bytes.
        sha256: SHA-256 of the side file, 64 hex digits.
        version: Version of the fold's content; a reader of another version ignores the side file.
        sealed: What is closed for ever from here on (`ledger.sealing`).
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"sealed"})

    through: int
    side: str
    size_bytes: BigInt
    sha256: str
    version: int
    sealed: tuple[str, ...] = ()


Body = (
    FenceRecord
    | SourcesRecord
    | DataRecord
    | SnapshotRecord
    | ResetRecord
    | SourceChangeRecord
    | IntentRecord
    | ReplaceRecord
    | AbandonRecord
    | ReadyRecord
    | ExpireRecord
    | SwapRecord
    | CountsRecord
    | LaneRecord
    | LaneDataRecord
)
EpochRecord = DataRecord | LaneDataRecord
"""What an epoch commits: files, of the stream or of a lane."""
MovingRecord = ReplaceRecord | SwapRecord
"""What gives partitions other files in another folder."""
FilesRecord = EpochRecord | MovingRecord
"""What names files that have to get their final names."""


_BODIES: dict[RecordType, type] = {
    RecordType.FENCE: FenceRecord,
    RecordType.SOURCES: SourcesRecord,
    RecordType.DATA: DataRecord,
    RecordType.SNAPSHOT: SnapshotRecord,
    RecordType.RESET: ResetRecord,
    RecordType.SOURCE_CHANGE: SourceChangeRecord,
    RecordType.INTENT: IntentRecord,
    RecordType.REPLACE: ReplaceRecord,
    RecordType.ABANDON: AbandonRecord,
    RecordType.READY: ReadyRecord,
    RecordType.EXPIRE: ExpireRecord,
    RecordType.SWAP: SwapRecord,
    RecordType.COUNTS: CountsRecord,
    RecordType.LANE: LaneRecord,
    RecordType.LANE_DATA: LaneDataRecord,
}
_TYPES = {kind: name for name, kind in _BODIES.items()}


def table_files(body: Body) -> tuple[FileRecord, ...]:
    """Files of the table that a record brings; none for most records."""
    if isinstance(body, EpochRecord):
        return body.files
    if isinstance(body, ReplaceRecord):
        return body.added
    return body.live if isinstance(body, SwapRecord) else ()


@dataclass(frozen=True, slots=True)
class Record:
    """One slot of the ledger.

    Attributes:
        engine: Version of the program that wrote it.
        seq: Its slot.
        term: Term of the driver that wrote it.
        prev: SHA-256 of the stored bytes of slot `seq - 1`; zeros in slot 0.
        id: Made new for each put, so that a reader of the slot knows whose it is.
        published_through: All files of all records below this slot are at their final names.
        effects_through: The catalog has what all records below this slot ask for.
        body: What it says, by its type.
        format: What it is written in.
    """

    engine: str
    seq: int
    term: int
    prev: str
    id: str
    published_through: int
    effects_through: int
    body: Body
    format: int = FORMAT

    @property
    def type(self) -> RecordType:
        """Kind of the body."""
        return _TYPES[type(self.body)]


def encode_record(record: Record) -> bytes:
    """Canonical bytes; made once for each put."""
    return encode_plain(
        {
            "format": record.format,
            "engine": record.engine,
            "seq": record.seq,
            "term": record.term,
            "prev": record.prev,
            "id": record.id,
            "published_through": record.published_through,
            "effects_through": record.effects_through,
            "type": record.type.value,
            "body": to_plain(record.body, type(record.body)),
        }
    )


def encode_plain(plain: dict[str, object]) -> bytes:
    """Canonical JSON bytes of plain values, with a final newline for people."""
    return encode(plain) + b"\n"


_ENVELOPE: dict[str, type] = {
    "format": int,
    "engine": str,
    "seq": int,
    "term": int,
    "prev": str,
    "id": str,
    "published_through": int,
    "effects_through": int,
    "type": str,
    "body": dict,
}


def decode_record(raw: bytes, where: str) -> Record:
    """Read a stored record.

    Args:
        raw: Stored bytes.
        where: Path, for the message.

    Raises:
        LedgerCorruptError: Not canonical, of a newer format, or with unknown parts.
    """
    try:
        return _decode(raw, where)
    except ValueError as error:
        text = str(error)[:200].encode("ascii", "backslashreplace").decode()
        raise LedgerCorruptError(f"not a ledger record: {text}", where=where) from error


def _decode(raw: bytes, where: str) -> Record:
    if len(raw) > MAX_RECORD_BYTES:
        raise LedgerCorruptError(f"record has {len(raw)} bytes", where=where)
    plain = from_plain(loads(raw), dict[str, object], "record")
    version = plain.get("format")
    if isinstance(version, int) and version < 1:
        raise StrictJsonError(f"record has format {version}, the first one is 1")
    if isinstance(version, int) and version > NEWEST_FORMAT:
        raise LedgerCorruptError(
            f"record has format {version}, this version reads up to {NEWEST_FORMAT}",
            where=where,
            hint="run the newer version of sluiceway that wrote it",
        )
    if plain.keys() != _ENVELOPE.keys():
        raise StrictJsonError(f"fields {sorted(plain.keys() ^ _ENVELOPE.keys())} do not fit")
    for name, kind in _ENVELOPE.items():
        from_plain(plain[name], kind if kind is not dict else dict[str, object], name)
    if plain["type"] not in RecordType.__members__:
        raise StrictJsonError(f"unknown record type {plain['type']!r}")
    found = RecordType(plain["type"])
    record = Record(
        engine=plain["engine"],
        seq=plain["seq"],
        term=plain["term"],
        prev=plain["prev"],
        id=plain["id"],
        published_through=plain["published_through"],
        effects_through=plain["effects_through"],
        body=from_plain(plain["body"], _BODIES[found], "body"),
        format=plain["format"],
    )
    if encode_record(record) != raw:
        raise StrictJsonError("bytes are not canonical")
    return record


def record_hash(raw: bytes) -> str:
    """SHA-256 of the stored bytes, the `prev` of the next record."""
    return hashlib.sha256(raw).hexdigest()
