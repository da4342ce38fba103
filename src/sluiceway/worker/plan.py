"""What a task is told and what it answers. Values only; they cross process borders."""

from dataclasses import dataclass, field

from sluiceway import errors
from sluiceway.eventtime.partition_values import TimeKind
from sluiceway.formats.registry import FormatChoice
from sluiceway.ledger.file_records import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.records import RowCounts
from sluiceway.sinks.files.contract import FileChoice
from sluiceway.sources.contract import Split
from sluiceway.sources.registry import SourceAccess
from sluiceway.types.schema import Field, Schema
from sluiceway.types.strict_json import BigInt


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
    """One partition column: by a time (`pattern`), a column of the row, or a constant.

    Attributes:
        kind: Which time.
        timezone: Of a time that is no event time; None is that of the event time, or UTC.
    """

    name: str
    pattern: str | None
    column: str | None
    constant: str | None = None
    kind: TimeKind = TimeKind.EVENT
    timezone: str | None = None


@dataclass(frozen=True, slots=True)
class MetaColumn:
    """A column of what the queue has beside the payload; kinds as in `META_TYPES`."""

    kind: str
    column: str


@dataclass(frozen=True, slots=True)
class RowColumn:
    """A column of the rows and where its values come from: the payload, if nothing else is said.

    Attributes:
        field: Name, type, and the place in the payload.
        constant: JSON of the one value that all rows have.
        default: JSON of the value that stands for a missing one.
        expression: What it is computed from.
        written: False for a column that is only there for others to be made from.
    """

    field: Field
    constant: str | None = None
    default: str | None = None
    expression: str | None = None
    written: bool = True


@dataclass(frozen=True, slots=True)
class RowChoices:
    """What is made of decoded rows.

    Attributes:
        columns: All columns in their order; none means those of the payload as they are.
        where: Condition that a row has to meet to be written.
    """

    columns: tuple[RowColumn, ...] = ()
    where: str | None = None


NO_CHOICES = RowChoices()
"""Rows are as the payload has them."""


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """What is the same for all tasks of a route while its driver lives.

    Attributes:
        schema: Columns that come from the payload.
        choices: What the rows are made of them.
        schema_version: Fingerprint of the schema, kept with dirty rows and records.
        files: How clean rows are written; dirty ones always as Parquet.
    """

    ledger: str
    term: int
    layout: LedgerLayout
    source: SourceAccess
    format: FormatChoice
    schema: Schema
    schema_version: str
    meta: tuple[MetaColumn, ...]
    event_time: EventTimeRule | None
    partitions: tuple[PartitionRule, ...]
    files: FileChoice
    choices: RowChoices = NO_CHOICES

    @property
    def owner_token(self) -> str:
        """Whose consumers a worker may use again: this ledger's, in this term."""
        return f"{self.ledger}-{self.term}"


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """One task of one epoch.

    Attributes:
        deadline_s: Reading time from the task's start, on its own monotonic clock.
        clock_us: The driver's clock when the epoch was planned, never before that of an epoch that
            is committed (commit rule 23). 0 is the clock of the task's machine.
    """

    route: RoutePlan
    epoch: int
    task: int
    splits: tuple[Split, ...]
    deadline_s: float
    clock_us: int = 0

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


@dataclass(frozen=True, slots=True)
class SplitResult:
    """How far one split was read."""

    topic: str
    partition: int
    start: BigInt
    end: BigInt
    rows: BigInt
    gaps: BigInt
    leader_epoch: int | None
    max_event_time_us: BigInt | None
    offset_sum: str


@dataclass(frozen=True, slots=True)
class DirtySample:
    """A dirty row to show to a person: where it is and why, without its payload."""

    topic: str
    partition: int
    offset: BigInt
    stage: str
    reason: str
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """An error of our tree that ended a task, as a value."""

    kind: str
    message: str
    where: str
    hint: str

    @classmethod
    def of(cls, error: errors.SluicewayError) -> "TaskFailure":
        """Describe an error."""
        return cls(type(error).__name__, error.message, error.where, error.hint)

    def to_error(self) -> errors.SluicewayError:
        """The error again, on the driver."""
        kind = getattr(errors, self.kind, errors.TaskFailedError)
        failure: errors.SluicewayError = kind(self.message, where=self.where, hint=self.hint)
        return failure


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one attempt read and wrote for one route; small.

    Attributes:
        ledger: The route's ledger; a bundle answers for several.
        attempt: Its folder under stage/; the folder exists only when it wrote a file.
        dirty_reasons: Rows by names of `types.dirty.counted_as`.
        consumer_reused: The consumer of an earlier epoch went on.
        dirty_samples: A few dirty rows of each reason.
        notes: What the format has counted besides.
    """

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

    def moved(self) -> bool:
        """Whether any end moved."""
        return any(split.end > split.start for split in self.splits)
