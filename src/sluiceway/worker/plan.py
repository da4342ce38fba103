"""What a task gets and what it answers. Values only; they cross process borders."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Literal, NamedTuple

from sluiceway import errors
from sluiceway.eventtime.partition_time import TimeKind
from sluiceway.formats.registry import FormatChoice
from sluiceway.ledger.data_parts import NO_LATE_ROWS, LateRows
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log_tail import NO_TAIL
from sluiceway.ledger.records import RowCounts
from sluiceway.partitioners.registry import PartitionerChoice
from sluiceway.sinks.files.contract import FileChoice
from sluiceway.sources.contract import Split
from sluiceway.sources.registry import SourceAccess
from sluiceway.storage.access import NO_STORES, Stores
from sluiceway.storage.contract import NO_REQUESTS, RequestCount
from sluiceway.types.key_path import path_text
from sluiceway.types.log_key import LogKey
from sluiceway.types.schema import Schema
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.row_rules import NO_CHOICES, RowChoices


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """Figures of one attempt; what its rows say is committed or discarded with them.

    Attributes:
        bytes_read: Bytes of payloads by topic.
        appended: Milliseconds since 1970 and how many records were appended about then, in turns.
        happened: As `appended`, for the event times of rows that are not dirty.
        open_files: Most files that were open at once.
        memory_bytes: Resident memory of its process at the end.
        rows_read: Rows read by an attempt that has failed; else the counts say it.
    """

    bytes_read: dict[str, int] = field(default_factory=dict)
    appended: tuple[int, ...] = ()
    happened: tuple[int, ...] = ()
    open_files: int = 0
    memory_bytes: int = 0
    rows_read: int = 0


NO_FIGURES = TaskFigures()
"""Figures of an attempt that has begun nothing."""


@dataclass(frozen=True, slots=True)
class EventTimeRule:
    """Where a row's event time is and how it is written.

    Attributes:
        path: Keys from the top of the decoded row; or `RECORD_TIME` or `PROCESSING_TIME` alone.
        unit: `s`, `ms`, `us`, `ns` or `iso8601`; None reads text as `iso8601` and no number.
        timezone: IANA name of the zone that the partitions' hours are in, and texts without an
            offset.
        form: How texts are written (`TimeText`), instead of a unit.
        max_future_us: A row whose time is further beyond the clock is dirty.
        min_us: A row whose time is before it is dirty; None sets no bound.
    """

    path: tuple[str, ...]
    unit: str | None
    timezone: str
    form: str | None = None
    max_future_us: int = 3_600_000_000
    min_us: int | None = None

    @property
    def name(self) -> str:
        """The path as it is written."""
        return ".".join(self.path)


RECORD_TIME = "$record_time"
PROCESSING_TIME = "$processing_time"


@dataclass(frozen=True, slots=True)
class PartitionRule:
    """One partition column: by a time (`pattern`), a column of the row, a constant, a plug-in.

    Attributes:
        kind: Which time.
        timezone: Zone of a time that is no event time; None is that of the event time, or UTC.
        partitioner: Columns with an equal one get their values from one partitioner.
        transform: Transform of `column`, as lake tables have it; None is the column's own value.
        in_files: Files hold the column too: that of the rows, or a column made of the values.
    """

    name: str
    pattern: str | None
    column: str | None
    constant: str | None = None
    kind: TimeKind = TimeKind.EVENT
    timezone: str | None = None
    partitioner: PartitionerChoice | None = None
    transform: str | None = None
    in_files: bool = False

    @property
    def is_stored(self) -> bool:
        """Whether files hold a column of text that is made of the partition's value."""
        return self.in_files and self.column is None


class LatePolicy(StrEnum):
    """What becomes of late rows (commit rule 17)."""

    SIDE = "side"
    REDIRECT = "redirect"
    REOPEN = "reopen"
    DIRTY = "dirty"


@dataclass(frozen=True, slots=True)
class LateRule:
    """When rows are late and what becomes of them.

    Attributes:
        policy: What becomes of them.
        window_us: A row older by more than this than its source partition's newest is late; None
            leaves any row in time whose partition is open.
        out_of_orderness_us: How far the route's watermark stays below the greatest event times.
    """

    policy: LatePolicy = LatePolicy.SIDE
    window_us: int | None = None
    out_of_orderness_us: int = 0


IN_TIME_ALWAYS = LateRule()
"""Rows are late only when their partition is closed."""


@dataclass(frozen=True, slots=True)
class EpochTimes:
    """What an epoch knows of time when it is planned.

    Attributes:
        clock_us: The driver's clock, never before that of an epoch that is committed (commit
            rule 23). 0 is the clock of the task's machine.
        closed: Prefixes that rows reach by the late policy only, and what ends before one of them
            does: no more than it takes to say so.
        late_before_us: By split: a row before it is late; None bounds nothing. One for each split,
            or none at all.
        watermark_us: The route's watermark; None before there is one.
    """

    clock_us: int = 0
    closed: tuple[str, ...] = ()
    late_before_us: tuple[int | None, ...] = ()
    watermark_us: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedMetaColumn:
    """A column of what the queue has in addition to the payload; kinds as in `META_TYPES`."""

    kind: str
    column: str

    @property
    def part(self) -> str:
        """The part of a record that it shows: `partition`, whether its key is number or text."""
        return "partition" if self.kind == "partition_text" else self.kind


@dataclass(frozen=True, slots=True)
class FileRules:
    """How a task cuts the rows of a partition into files.

    Attributes:
        target_bytes: A file that has grown to this is closed, and another is begun.
        roll_interval_s: So is one whose first row came so long ago.
        idle_close_s: An open file to which no row came for so long is closed.
        max_open: Files that are open at one time.
        prefix: Prefix of their names.
        suffix: Suffix of their names, before the format's ending.
    """

    target_bytes: int = 128 << 20
    roll_interval_s: float = 600.0
    idle_close_s: float = 30.0
    max_open: int = 64
    prefix: str = ""
    suffix: str = ""


PLAIN_FILES = FileRules()
"""Files are cut as they are when the job file says nothing."""


class KeyForm(StrEnum):
    """How the records' own keys hold the columns of a row's key."""

    CONNECT = "connect"
    """As JSON, by name; with its schema, under `payload`."""
    PREFIXED = "prefixed"
    """As JSON, by name after `pk.`."""
    RECORD = "record"
    """As a record of a format of their own, by name."""
    TEXT = "text"
    """As the text of the one column."""
    INT32 = "int32"
    """As the four bytes of the one column's number, the highest first."""
    INT64 = "int64"
    """As its eight bytes."""


@dataclass(frozen=True, slots=True)
class KeyRule:
    """By what changes find their rows.

    Attributes:
        columns: Key columns of the rows.
        form: Form of the records' keys, which have to hold the same values; None where they are
            not read.
        drain_s: How long a new source partition waits, in seconds. Then the ends of the others are
            read, and they are read up to these first.
        format: Format of the records' keys; None for JSON.
        one_partition: The topic has no more, which keeps the order.
        fills: The records' keys fill columns of the row's key that a payload lacks or has null.
    """

    columns: tuple[str, ...]
    form: KeyForm | None
    drain_s: float = 600.0
    format: FormatChoice | None = None
    one_partition: bool = False
    fills: bool = False


@dataclass(frozen=True, slots=True)
class RowShare:
    """The rows of a shared source that a route writes, where a value of theirs names the table.

    Attributes:
        column: Decoded column with the value.
        path: The value's place, as the job file has it.
        pattern: Name of the tables, with `{value}` in it.
        table: Rows that name this table are written; None for the rest, which writes none, finds
            values without a table, and has the dirty rows of all.
        known: For the rest: tables that there are.
        room: For the rest: how many more there may be.
    """

    column: str
    path: str
    pattern: str
    table: str | None = None
    known: frozenset[str] = frozenset()
    room: int = 0


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """The part of a task's plan that stays the same while a route's driver lives.

    Attributes:
        schema: Columns that come from the payload.
        choices: What the rows are made of them.
        schema_version: Fingerprint of the schema, kept with dirty rows and records.
        files: How clean rows are written; dirty ones always as Parquet.
        samples: Rows in which tasks search for fields that no column reads: rows that are dirty for
            one, a few of all, or none.
        rolling: How their rows are cut into files.
        memory_bytes: What a task may hold of rows; the same for all routes of a job.
        late: When rows are late and what becomes of them.
        stores: How the table's store is reached.
        text_keys: Whether keys of source partitions are texts; else numbers.
        key: By what changes find their rows; None where all rows are appended.
        sql: Columns that SQL makes of the rows; None where rows are written as they are decoded.
        tails: Whether the last rows of each split are kept, to find them in a copy of the log.
        share: Which rows are the route's; None for all.
    """

    ledger: str
    term: int
    layout: LedgerLayout
    source: SourceAccess
    format: FormatChoice
    schema: Schema
    schema_version: str
    meta: tuple[PlannedMetaColumn, ...]
    event_time: EventTimeRule | None
    partitions: tuple[PartitionRule, ...]
    files: FileChoice
    choices: RowChoices = NO_CHOICES
    samples: Literal["none", "dirty", "few"] = "none"
    rolling: FileRules = PLAIN_FILES
    memory_bytes: int = 512 << 20
    late: LateRule = IN_TIME_ALWAYS
    stores: Stores = NO_STORES
    text_keys: bool = False
    key: KeyRule | None = None
    sql: Schema | None = None
    tails: bool = False
    share: RowShare | None = None

    @property
    def owner_token(self) -> str:
        """Whose consumers a worker may use again: this ledger's, in this term."""
        return f"{self.ledger}-{self.term}"


@dataclass(frozen=True, slots=True)
class StagedPrefix:
    """The one prefix whose rows a task stages; others are counted and dropped.

    Attributes:
        attempt: Name of the staged folder.
    """

    prefix: str
    attempt: str


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """One task of one epoch.

    Attributes:
        deadline_s: Reading time from the task's start, on its own monotonic clock.
        times: What is late, and by which clock rows are read.
        tally: File of the driver's machine in which the task writes how far it is; empty when
            no terminal shows it.
        waiting: Records of its splits that were in the logs when it was planned; for people only.
        prefix: What is staged; None for rows of all partitions.
    """

    route: RoutePlan
    epoch: int
    task: int
    splits: tuple[Split, ...]
    deadline_s: float
    times: EpochTimes = EpochTimes()
    tally: str = ""
    waiting: int = 0
    prefix: StagedPrefix | None = None

    @property
    def result_path(self) -> str:
        """Where the first attempt that finishes puts its result."""
        route = self.route
        return f"{route.layout.results(route.term, self.epoch)}/{self.task}.json"

    @property
    def stop_path(self) -> str:
        """A file whose presence ends the reading early."""
        return stop_path(self.route.layout, self.route.term, self.epoch)


def stop_path(layout: LedgerLayout, term: int, epoch: int) -> str:
    """Name of the file that ends the reading of an epoch early."""
    return f"{layout.results(term, epoch)}/stop"


_NO_COPIES = BigInt(0)


@dataclass(frozen=True, slots=True)
class SplitResult:
    """How far one split was read.

    Attributes:
        end_epoch: Leader epoch of the record just below `end`; None when it is not known.
        copies: See `SplitEnd.copies`.
        origin_end: See `SplitEnd.origin_end`.
        tail: Tail of its rows; empty where none is kept.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"copies", "origin_end", "tail"})

    topic: str
    partition: LogKey
    start: BigInt
    end: BigInt
    rows: BigInt
    gaps: BigInt
    end_epoch: int | None
    max_event_time_us: BigInt | None
    offset_sum: str
    copies: BigInt = _NO_COPIES
    origin_end: BigInt | None = None
    tail: str = NO_TAIL


@dataclass(frozen=True, slots=True)
class ObservedField:
    """A field of payloads that no column reads.

    Attributes:
        column: The struct column that it is inside of; empty for one at the payload's top.
        path: Keys from there; `[]` stands for the elements of a list.
        type: Hive type that takes the sampled values; empty when none does.
        untyped: Why no type takes them; empty when one does.
        rows: Sampled rows in which it was seen.
        is_clock: Times in it are wall-clock times, of an unknown zone.
        unfit: Why none of the sampled values fits their type; empty when one does.
    """

    column: str
    path: tuple[str, ...]
    type: str
    untyped: str = ""
    rows: int = 1
    is_clock: bool = False
    unfit: str = ""

    @property
    def name(self) -> str:
        """As a job file's `path` has it, with lists marked: `geo.lat`, `items[].sku`."""
        keys = [self.column, *self.path] if self.column else self.path
        return path_text(keys).replace(".[]", "[]")


@dataclass(frozen=True, slots=True)
class DirtySample:
    """A dirty row to show to a person: where it is and why, without its payload."""

    topic: str
    partition: LogKey
    offset: BigInt
    stage: str
    reason: str
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """An error of our tree that ended a task, as a value."""

    SPARSE: ClassVar[frozenset[str]] = frozenset({"evidence"})

    kind: str
    message: str
    where: str
    hint: str
    evidence: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, error: errors.SluicewayError) -> "TaskFailure":
        """Describe an error."""
        return cls(type(error).__name__, error.message, error.where, error.hint, error.evidence)

    def to_error(self) -> errors.SluicewayError:
        """The error again, on the driver."""
        kind = getattr(errors, self.kind, errors.TaskFailedError)
        failure: errors.SluicewayError = kind(self.message, where=self.where, hint=self.hint)
        return failure.with_report(self.evidence)


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one attempt read and wrote for one route; small.

    Attributes:
        ledger: The route's ledger; a bundle answers for several.
        attempt: Its folder under stage/; the folder exists only when it wrote a file.
        dirty_reasons: Rows by names of `types.dirty.counted_as`.
        consumer_reused: The consumer of an earlier epoch went on.
        dirty_samples: A few dirty rows of each reason.
        notes: What the format has counted in addition.
        unknown_fields: Fields that no column reads, when the route samples them.
        late_files: Late rows in their own place.
        late_rows: All late rows, by what became of them.
        unfilled: Payload columns that no row has filled, and whose key no sampled row has as null.
            None when no row was decoded, or the route does not sample.
        store_requests: Requests that its process has sent since its last answer.
        figures: For metrics alone.
        landed: Files of rows that wait for the SQL; its job counts what becomes of them.
        tables: Tables that rows name and that are not there yet, in the order of their rows.
    """

    SPARSE: ClassVar[frozenset[str]] = frozenset({"landed", "tables"})

    ledger: str
    term: int
    epoch: int
    task: int
    attempt: str
    splits: tuple[SplitResult, ...]
    files: tuple[FileRecord, ...]
    dirty_files: tuple[FileRecord, ...]
    counts: RowCounts
    dirty_reasons: dict[str, int]
    timings_ms: dict[str, int]
    consumer_reused: bool
    failure: TaskFailure | None
    dirty_samples: tuple[DirtySample, ...] = ()
    notes: dict[str, int] = field(default_factory=dict)
    unknown_fields: tuple[ObservedField, ...] = ()
    late_files: tuple[FileRecord, ...] = ()
    late_rows: LateRows = NO_LATE_ROWS
    unfilled: tuple[str, ...] | None = None
    store_requests: RequestCount = NO_REQUESTS
    figures: TaskFigures = NO_FIGURES
    landed: tuple[FileRecord, ...] = ()
    tables: tuple[str, ...] = ()

    def moved(self) -> bool:
        """Whether any end moved."""
        return any(split.end > split.start for split in self.splits)


Values = tuple[str | None, ...]
"""Values of the partition columns."""


class LatePlace(NamedTuple):
    """Where late rows of a partition go: a folder that readers of the table do not see."""

    values: Values


Place = Values | LatePlace
