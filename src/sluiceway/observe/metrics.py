"""Every metric of a job, defined once: page, boards, alert rules and the docs use it."""

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "sluiceway_"
JOB_LABEL = "job_name"
ROUTE_LABELS = (JOB_LABEL, "route", "table")
OTHER = "_other"
"""Stands for the values of a label that are beyond its bound."""


class MetricKind(StrEnum):
    """What a metric is to Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: Without the prefix; the unit stands last, but for `_total` of counters.
        help: One sentence, for a person.
        labels: Its own, after those of the route or of the job.
        bounds: Upper bounds of a histogram's buckets, rising, without infinity.
        of_route: Whether each route has its own; else there is one for the process.
    """

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    of_route: bool = True

    @property
    def full_name(self) -> str:
        """As it stands on the page."""
        return PREFIX + self.name

    @property
    def all_labels(self) -> tuple[str, ...]:
        """All of its labels, in their order."""
        return (*(ROUTE_LABELS if self.of_route else (JOB_LABEL,)), *self.labels)


_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_LATENCY = (
    *(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, _MINUTE, 2 * _MINUTE, 5 * _MINUTE),
    *(10 * _MINUTE, 30 * _MINUTE, _HOUR, 6 * _HOUR, _DAY),
)
_WORK = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_DELAY = (
    *(1, 5, 15, 30, _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 30 * _MINUTE, _HOUR, 2 * _HOUR),
    *(6 * _HOUR, 12 * _HOUR, _DAY, 3 * _DAY, 7 * _DAY, 30 * _DAY),
)


def _counter(name: str, told: str, *labels: str, of_route: bool = True) -> Metric:
    return Metric(name, MetricKind.COUNTER, told, labels, of_route=of_route)


def _gauge(name: str, told: str, *labels: str, of_route: bool = True) -> Metric:
    return Metric(name, MetricKind.GAUGE, told, labels, of_route=of_route)


def _histogram(name: str, told: str, bounds: tuple[float, ...], *labels: str) -> Metric:
    return Metric(name, MetricKind.HISTOGRAM, told, labels, bounds)


# Rows. Counted when they are committed: what is read twice is counted once.

RECORDS_READ = _counter("records_read_total", "Records that were read and committed.", "topic")
BYTES_READ = _counter("bytes_read_total", "Bytes of their payloads.", "topic")
RECORDS_WRITTEN = _counter("records_written_total", "Rows that were written to the table.")
BYTES_WRITTEN = _counter("bytes_written_total", "Bytes of the table's new files.")
FILES_WRITTEN = _counter("files_written_total", "New files of the table.")
RECORDS_DIRTY = _counter("records_dirty_total", "Rows that could not be converted.", "reason")
RECORDS_LATE = _counter("records_late_total", "Rows that came late.", "policy")
RECORDS_FILTERED = _counter("records_filtered_total", "Rows that `where` has left out.")
RECORDS_SKIPPED = _counter("records_skipped_total", "Tombstones that were passed over.")
DIRTY_ROWS_OPEN = _gauge("dirty_rows_open", "Dirty rows that were neither replayed nor purged.")
WRITE_FAILED_RECORDS = _counter(
    "write_failed_records_total",
    "Records that failed attempts had read; they are read again.",
)
WRITE_FAILED_BYTES = _counter("write_failed_bytes_total", "Bytes of their payloads.")
DUPLICATES_PREVENTED = _counter(
    "duplicates_prevented_total",
    "Records of finished tasks that were thrown away, as they are read once more.",
)

# Epochs

EPOCHS = _counter("epochs_total", "Epochs by what became of them.", "result")
EPOCH_DURATION = _histogram(
    "epoch_duration_seconds", "How long the phases of committed epochs took.", _WORK, "phase"
)
LAST_COMMIT = _gauge(
    "last_commit_timestamp_seconds", "When rows were committed last, seconds since 1970."
)
COMMIT_RETRIES = _counter(
    "commit_retries_total", "Puts of a ledger record that were repeated, as nothing was known."
)
RECOVERIES = _counter("recoveries_total", "What a start has picked up.", "kind")

# Source

SNAPSHOTS_PASSED_OVER = _counter(
    "source_snapshots_passed_over_total",
    "Snapshots that removed rows of the table that is read, and were passed over.",
)
LAG_RECORDS = _gauge("source_lag_records", "Records in the logs that are not committed.", "topic")
LAG_SECONDS = _gauge(
    "source_lag_seconds",
    "All records that are older than this are committed; until a driver has caught up once, at "
    "least so old is the oldest that is not.",
)
PARTITIONS_LEFT_OUT = _gauge(
    "source_partitions_left_out",
    "Source partitions that the route goes on without, as no leader answers or they are gone.",
)
COMMITTED_OFFSET = _gauge(
    "source_committed_offset",
    "First offset that is not committed; source partitions with the greatest lag.",
    *("topic", "partition"),
)

# Time

WATERMARK = _gauge(
    "watermark_seconds", "Event time up to which rows are complete, seconds since 1970."
)
SOURCE_WATERMARK = _gauge(
    "source_watermark_seconds",
    "Greatest event time of source partitions, seconds since 1970; those furthest behind.",
    *("topic", "partition"),
)
END_TO_END = _histogram(
    "end_to_end_latency_seconds", "From a record's append to its commit.", _LATENCY
)
READABLE_DELAY = _histogram(
    "readable_delay_seconds",
    "From a commit to the moment when readers of the table see its rows.",
    _WORK,
)
WRITE_LATENCY = _histogram(
    "write_latency_seconds", "Time that a task took to write and close its files.", _WORK
)
ARCHIVE_DELAY = _histogram(
    "archive_delay_seconds", "From a row's event time to its commit.", _DELAY
)

# Partitions of the table

READY_DELAY = _histogram(
    "partition_ready_delay_seconds", "From the end of an hour (or day) to its READY.", _DELAY
)
PARTITIONS = _gauge("partitions", "Partitions of the table that the ledger looks after.", "state")
PARTITIONS_OPEN = _gauge("partitions_open", "Partitions that take rows.")
PARTITIONS_OVERDUE = _gauge(
    "partitions_overdue",
    "Hours (or days) that are over by the clock and have no READY, those without a row too.",
)
PARTITION_OVERDUE_SINCE = _gauge(
    "partition_overdue_since_seconds",
    "When an overdue hour (or day) should have been announced, seconds since 1970; the oldest 20.",
    "prefix",
)
SMALL_FILES = _gauge(
    "small_files", "Files beyond as many as partitions of that size need at `files.target_size`."
)

# What works after the commit

FOLLOWER_BEHIND_SLOTS = _gauge(
    "follower_behind_slots", "Ledger slots that a follower has not followed yet.", "follower"
)
FOLLOWER_BEHIND_SECONDS = _gauge(
    "follower_behind_seconds", "For how long a follower has been behind.", "follower"
)
STORE_OPERATION = _histogram(
    "store_operation_seconds",
    "Time of the driver's calls to the table's store.",
    _WORK,
    "operation",
)

# The job

OPEN_WRITERS = _gauge("open_writers", "Most files that tasks of the last epoch held open at once.")
WORKER_MEMORY = _gauge(
    "worker_memory_bytes", "Largest resident memory of a worker in the last epoch."
)
JOB_STATE = _gauge("job_state", "1 for the state that a route is in, 0 for the others.", "state")
BUILD_INFO = _gauge("build_info", "1; says which version runs.", "version", of_route=False)
THREADS = _gauge("threads", "Threads of the driver's process.", of_route=False)
DRIVER_MEMORY = _gauge(
    "driver_memory_bytes", "Resident memory of the driver's process.", of_route=False
)
STARTED = _gauge(
    "start_timestamp_seconds", "When the process began, seconds since 1970.", of_route=False
)
BEAT_AGE = _gauge("loop_beat_age_seconds", "Since the loop went round last.", of_route=False)
CUT_OFF = _counter(
    "metrics_cut_off_total",
    "Values that bounds of the block `metrics` have put under `_other` or left out.",
    "label",
    of_route=False,
)

# Rooms. A standby says of its own room alone, the driver that has the route of all that report.

ROOM_READY = _gauge("room_ready", "1 where a room could take over, or has the route.", "room")
ROOM_NEEDS_CONFIRMATION = _gauge(
    "room_needs_confirmation", "1 where an operator has to confirm a switch to the room.", "room"
)
ROOMS_IN_ONE_PLACE = _gauge(
    "rooms_in_one_place", "1 where rows of the source may be in one room only."
)
ROOM_NOT_WAITED_FOR = _gauge(
    "room_not_waited_for", "1 where rows are read before the room has copies of them.", "room"
)
ROOM_POSITIONS = _gauge(
    "room_positions",
    "Source partitions that would continue in copies, by proof.",
    "room",
    "method",
)
MIRROR_LAG = _gauge(
    "mirror_lag_records",
    "Offsets without a copy in the room.",
    "room",
)
COPIES_DROPPED = _counter(
    "copies_dropped_total", "Copies of rows that the table had already.", "topic"
)
CUT_FILES_MOVED = _counter("cut_files_moved_total", "Files of cut slots that were moved aside.")
LAST_DRILL = _gauge("last_drill_timestamp_seconds", "When the last drill ended.")

METRICS: tuple[Metric, ...] = tuple(
    value for value in tuple(globals().values()) if isinstance(value, Metric)
)
"""All of them, in the order of the page."""


class EpochResult(StrEnum):
    """What becomes of an epoch."""

    COMMITTED = "committed"
    FAILED = "failed"
    THROWN_AWAY = "thrown_away"


class EpochPhase(StrEnum):
    """Phases of an epoch, in their order."""

    PLAN = "plan"
    RUN = "run"
    PREPARE = "prepare"
    COMMIT = "commit"
    PUBLISH = "publish"


class RecoveryKind(StrEnum):
    """What a start has picked up: the route itself, or files that a commit had left staged."""

    START = "start"
    PUBLISH = "publish"


class PartitionPhase(StrEnum):
    """Where a partition of the table is."""

    OPEN = "open"
    CLOSED = "closed"
    READY = "ready"
