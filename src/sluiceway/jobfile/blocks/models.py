"""The job file as frozen values. Only the loader builds them, and it also checks across blocks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    model_validator,
)

from sluiceway.errors import JobFileError
from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.columns import ColumnSpec
from sluiceway.jobfile.blocks.connections import ConnectionSpec, KafkaConnection
from sluiceway.jobfile.blocks.dirty import DirtySpec
from sluiceway.jobfile.blocks.event_time import EventTimeSpec
from sluiceway.jobfile.blocks.formats import FormatSpec
from sluiceway.jobfile.blocks.lineage import LineageSpec
from sluiceway.jobfile.blocks.metastore import KerberosSpec
from sluiceway.jobfile.blocks.metrics import MetricsSpec
from sluiceway.jobfile.blocks.ready import ReadySpec
from sluiceway.jobfile.blocks.retention import RetentionSpec
from sluiceway.jobfile.blocks.rooms import RoomsSpec
from sluiceway.jobfile.blocks.start import (
    EARLIEST,
    LATEST,
    StartAt,
    parse_start_offsets,
    parse_start_time_ms,
)
from sluiceway.jobfile.blocks.table import TableSpec
from sluiceway.jobfile.blocks.topic_pattern import compile_topic_pattern
from sluiceway.jobfile.blocks.transform import SqlPlaces, TransformSpec
from sluiceway.jobfile.blocks.values import (
    ColumnName,
    DottedPath,
    ExpressionText,
    JobName,
    Line,
    Master,
    Option,
    PlainTableName,
    Port,
    Rate,
    SourceTopicName,
    duration,
    size,
    wrong,
)
from sluiceway.jobfile.positions import Places
from sluiceway.ledger.file_names import PREFIX, SUFFIX
from sluiceway.sources.contract import TABLE_TOPIC
from sluiceway.types.log_key import LogKey

_MOST_OPEN = 4096


def _check_max_open(number: int) -> int:
    if not 0 < number <= _MOST_OPEN:
        raise wrong(f"a number of files, 1 to {_MOST_OPEN}", "choose one")
    return number


def _check_prefix(text: str) -> str:
    if text and not PREFIX.fullmatch(text):
        raise wrong(
            "1 to 32 of A-Z, a-z, 0-9, `.`, `_`, `-`, a letter or digit first",
            "readers leave out files whose names begin with `_` or `.`",
        )
    return text


def _check_suffix(text: str) -> str:
    if text and not SUFFIX.fullmatch(text):
        raise wrong("1 to 32 of A-Z, a-z, 0-9, `.`, `_`, `-`", "leave the file's ending to us")
    return text


class FilesSpec(Block):
    """How rows become files.

    Attributes:
        target_size_bytes: Size at which a task closes a file and begins another.
        roll_interval_ms: Time after its first row at which a task closes a file.
        idle_close_ms: Time without a row after which a task closes a file.
        max_open: Most files that a task has open for a route at once.
        prefix: Text before the names of data files; empty adds none.
        suffix: Text after these names, before the ending of the format; empty adds none.
        compact: Whether small files of a partition are merged before it is announced.
    """

    target_size_bytes: Annotated[int, *size("64KiB", "16GiB")] = Field(
        default=128 << 20, alias="target_size"
    )
    roll_interval_ms: Annotated[int, *duration("1s", "1d")] = Field(
        default=600_000, alias="roll_interval"
    )
    idle_close_ms: Annotated[int, *duration("1s", "1d")] = Field(default=30_000, alias="idle_close")
    max_open: Annotated[int, AfterValidator(_check_max_open)] = 64
    prefix: Annotated[str, AfterValidator(_check_prefix)] = ""
    suffix: Annotated[str, AfterValidator(_check_suffix)] = ""
    compact: Literal["before_ready", "never"] = "before_ready"


class StartSpec(Block):
    """A start that is no word; exactly one of the keys is given.

    Attributes:
        timestamp: Time of the first record to read, for example `2026-11-20T08:00:00Z`.
        offsets: Topic -> source partition -> first offset to read.
        group: Consumer group whose committed offsets are the start.
    """

    ONE_OF = ("timestamp", "offsets", "group")
    timestamp: Annotated[int | None, BeforeValidator(parse_start_time_ms)] = None
    offsets: Annotated[
        tuple[tuple[str, LogKey, int], ...] | None, BeforeValidator(parse_start_offsets)
    ] = None
    group: Line | None = None

    def start(self) -> StartAt:
        """The start as a value."""
        if self.timestamp is not None:
            return StartAt("timestamp", timestamp_ms=self.timestamp)
        if self.offsets is not None:
            return StartAt("offsets", offsets=self.offsets)
        return StartAt("group", group=self.group or "")


def _start(value: object) -> StartAt:
    if isinstance(value, dict):
        return StartSpec.model_validate(value).start()
    found = {"earliest": EARLIEST, "latest": LATEST}.get(str(value))
    if found is None:
        kinds = "`earliest`, `latest`, or a mapping with timestamp, offsets or group"
        raise wrong(kinds, "choose one")
    return found


_MAX_TOPICS = 1000
_TOPIC_NAMES = TypeAdapter(
    tuple[SourceTopicName, ...], config=ConfigDict(strict=True, defer_build=True)
)


def _topics(value: object) -> tuple[str, ...] | str:
    if isinstance(value, str):
        compile_topic_pattern(value)
        return value
    if isinstance(value, tuple) and not 0 < len(value) <= _MAX_TOPICS:
        todo = "add one" if not value else "split the route"
        raise wrong("at least one item" if not value else f"{_MAX_TOPICS} items at most", todo)
    return _TOPIC_NAMES.validate_python(value)


class BootstrapSpec(Block):
    """A table that a new route reads first, filled from the same topics.

    Attributes:
        table: `database.table` that a job of ours fills from the topics of the route.
        connection: Its metastore or folder; None is that of the route's own table.
        then: What is read after it.
    """

    table: PlainTableName
    connection: str | None = None
    then: Literal["topics"] = "topics"


class SourceSpec(Block):
    """What is read.

    Attributes:
        connection: Name of a Kafka or RocketMQ connection. With `table` it is a catalog's, and
            without the key that of the route's own table.
        topics: List of topic names, or one pattern that must match a whole name.
        table: `database.table` of yours or of Iceberg, whose rows are read; None reads topics.
        start: Where source partitions begin that the ledger does not have; None is `earliest`, or
            what the format needs.
        max_rate_per_s: Most records per second of the route; None sets no limit of its own.
        bootstrap: A table with the rows of the topics so far, which a new route reads before them;
            None reads the topics alone.
        mode: How rows of `table` become rows of the route's table: `append` carries each over once,
            `recompute` runs `transform.sql` over a unit and replaces what the unit had.
        unit: Leading partition columns of `table`; one value of each is what `recompute` runs over.
        when: When a unit is computed: `ready` once `table` has announced it, `success` once a file
            `_SUCCESS` lies in its folder, `settled` once it has not changed for `settle`; None is
            `ready`.
        settle_ms: Time without a change after which a unit is settled; None is 10 minutes.
        on_correction: What becomes of rows that `sluiceway backfill` or a recompute has replaced in
            `table` before they were read. `follow` leaves them out and rebuilds their partition,
            `halt` ends the route, `ignore` leaves them out. Of an Iceberg table: a snapshot that
            removes rows ends the route (`halt`, the default), or is passed over (`ignore`).
        keep_tail: Whether records keep a fingerprint of the last rows, for
            `offsets reset --by-tail`. Rooms with a cluster each keep it anyway.
    """

    connection: str
    topics: Annotated[tuple[str, ...] | str, BeforeValidator(_topics)]
    start: Annotated[StartAt | StartSpec, BeforeValidator(_start)] | None = None
    max_rate_per_s: Rate | None = Field(default=None, alias="max_rate")
    table: PlainTableName | None = None
    bootstrap: BootstrapSpec | None = None
    mode: Literal["append", "recompute"] = "append"
    unit: Annotated[tuple[ColumnName, ...], Field(max_length=8)] = ()
    when: Literal["ready", "success", "settled"] | None = None
    settle_ms: Annotated[int, *duration("0s", "30d")] | None = Field(default=None, alias="settle")
    on_correction: Literal["follow", "halt", "ignore"] = "follow"
    keep_tail: bool = False

    @property
    def pattern(self) -> str:
        """The pattern; empty when topics are listed."""
        return self.topics if isinstance(self.topics, str) else ""

    @property
    def names(self) -> tuple[str, ...]:
        """The listed topics, or what stands for the table; none when there is a pattern."""
        if self.table is not None:
            return (f"{TABLE_TOPIC}{self.table.lower()}",)
        return () if isinstance(self.topics, str) else self.topics


class SlotsSpec(Block):
    """How many slots of a cluster the job asks for.

    Attributes:
        min: Number of slots that the job keeps when it has nothing to read.
        max: Largest number of slots, for times when the job lags.
        idle_ms: How long fewer slots must suffice before the job gives some back.
    """

    min: Annotated[int, Field(ge=1, le=10_000)] = 1
    max: Annotated[int, Field(ge=1, le=10_000)]
    idle_ms: Annotated[int, *duration("1s", "1d")] = Field(default=60_000, alias="idle")

    @model_validator(mode="after")
    def _in_order(self) -> "SlotsSpec":
        if self.min > self.max:
            raise wrong(f"a `min` of at most `max`, which is {self.max}", "change one of them")
        return self


class RunSpec(Block):
    """How the job runs.

    Attributes:
        interval_ms: Length of an epoch: how long tasks read before their rows are committed.
        straggler_timeout_ms: How long the driver waits for a slow task after the deadline of an
            epoch.
        discover_interval_ms: Time between two looks for topics of a pattern and new partitions.
        master: Spark master.
        spark_conf: Further Spark settings.
        max_rate_per_s: Most records per second of all routes together; None sets no limit.
        memory_per_task_bytes: Most memory for the rows that a task reads and writes.
        health_port: Port of metrics and health endpoints on the loopback address; 0 takes a free
            one, None serves none.
        max_unpublished: Most records of the ledger that a route may have committed and not
            published.
        slots: Number of slots of an elastic job on a cluster; None takes what Spark has.
    """

    interval_ms: Annotated[int, *duration("0.5s", "10m")] = Field(default=10_000, alias="interval")
    straggler_timeout_ms: Annotated[int, *duration("1s", "1h")] = Field(
        default=60_000, alias="straggler_timeout"
    )
    discover_interval_ms: Annotated[int, *duration("0.5s", "1h")] = Field(
        default=30_000, alias="discover_interval"
    )
    max_rate_per_s: Rate | None = Field(default=None, alias="max_rate")
    master: Master = "local"
    spark_conf: Mapping[str, Option] = Field(default_factory=dict)
    memory_per_task_bytes: Annotated[int, *size("128MiB", "64GiB")] = Field(
        default=512 << 20, alias="memory_per_task"
    )
    health_port: Port | None = None
    max_unpublished: Annotated[int, Field(ge=1, le=100_000)] = 100
    slots: SlotsSpec | None = None

    @model_validator(mode="after")
    def _slots_of_a_cluster(self) -> "RunSpec":
        if self.slots is not None and self.master.startswith("local"):
            raise wrong("`slots` for a cluster only", "remove it: `local[N]` says how many")
        return self


class JobBlocks(Block):
    """The blocks of a job file, but for its routes.

    Attributes:
        version: Version of the format of the job file; always 1.
        name: Name of the job. Its ledgers carry it, so it never changes.
        owner: Who answers for the job, for people only; None names no owner.
        connections: Name -> how to reach a cluster, metastore, catalog, registry or store.
        kerberos: Kerberos login of the job; None uses the tickets of the process.
        source: What the job reads.
        format: How payloads are read.
        table: Where rows go, and what its columns hold.
        where: Condition that a row must meet to be written; None writes every row.
        transform: SQL between what is decoded and what is written; None writes what is decoded.
        event_time: When a row happened, and which rows are late; None has no event time.
        files: How rows become files.
        dirty: Limits, retention and further stores of dirty rows.
        run: How the job runs.
        ready: When an hour is complete and who receives the announcement; None announces nothing.
        retention: How long partitions are kept; None for ever.
        metrics: Where metrics are served and how many series they have.
        lineage: Receiver of OpenLineage events; None sends none.
        rooms: Rooms between which the job moves; None has one place only.
        route_by: Place of a text in the payload that names the row's table, as `$.type`; `{value}`
            in the name of the table stands for it. None has one table for all rows.
        max_tables: Most tables that `route_by` makes; a row that names one more is dirty.
    """

    version: Literal[1]
    name: JobName
    owner: Line | None = None
    connections: Mapping[str, ConnectionSpec]
    kerberos: KerberosSpec | None = None
    source: SourceSpec
    format: FormatSpec
    table: TableSpec
    where: ExpressionText | None = None
    transform: TransformSpec | None = None
    event_time: EventTimeSpec | None = None
    files: FilesSpec = Field(default_factory=FilesSpec)
    dirty: DirtySpec = Field(default_factory=DirtySpec)
    run: RunSpec = Field(default_factory=RunSpec)
    ready: ReadySpec | None = None
    retention: RetentionSpec | None = None
    metrics: MetricsSpec = Field(default_factory=MetricsSpec)
    lineage: LineageSpec | None = None
    rooms: RoomsSpec | None = None
    route_by: DottedPath | None = None
    max_tables: Annotated[int, Field(ge=1, le=1_000)] = 100


class RouteEntry(Block):
    """A route as it is written: its topics, its table, and the blocks that it changes.

    Attributes:
        name: Name of the route; None is the name of its table.
        topics: List of topic names, or one pattern that must match a whole name; None where
            `source` names a table.
        table: `database.table`, or the keys that differ from the file's block.
        where: Condition of the route, in place of the file's; None takes the file's.
        transform: SQL of the route, over that of the file; None takes the file's.
        route_by: Place of a text in the payload that names the row's table; None takes the file's.
        max_tables: Most tables that `route_by` makes; None takes the file's.
    """

    name: JobName | None = None
    topics: tuple[str, ...] | str | None = None
    table: TableSpec | str
    source: SourceSpec | None = None
    format: FormatSpec | None = None
    where: ExpressionText | None = None
    transform: TransformSpec | None = None
    event_time: EventTimeSpec | None = None
    files: FilesSpec | None = None
    dirty: DirtySpec | None = None
    ready: ReadySpec | None = None
    retention: RetentionSpec | None = None
    route_by: DottedPath | None = None
    max_tables: Annotated[int, Field(ge=1, le=1_000)] | None = None


class JobFileBlocks(JobBlocks):
    """All keys of a job file.

    Attributes:
        routes: Topics and tables of a job with several routes; other blocks of the file are their
            defaults.
    """

    routes: tuple[RouteEntry, ...] = ()


class RouteSpec(JobBlocks):
    """A job file as one of its routes sees it, with every block, its own where it has one.

    Attributes:
        route: Name of the route; empty when its tables come from topics and name it.
        places: Where its table is written, for errors when columns are known only at the start;
            None where they are known before.
        sql_places: Where its SQL is written; without a place where there is none.
        room: The room of this process; empty without `rooms`.
        file_digest: Digest of the file without `rooms` and secrets; empty without `rooms`.
        shared_connections: Connections that are the same in two rooms or more.
    """

    route: str = ""
    room: str = ""
    file_digest: str = ""
    shared_connections: frozenset[str] = frozenset()
    places: Places | None = None
    sql_places: SqlPlaces = SqlPlaces()

    @property
    def columns(self) -> tuple[ColumnSpec, ...] | None:
        """Declared columns that are decoded; None takes them from a table or a registry."""
        return self.table.columns if self.transform is None else self.transform.columns

    @property
    def start_at(self) -> StartAt:
        """Where source partitions begin that the ledger does not know.

        Without a `start`, change logs and tables with a key begin at the first record. Else a row
        whose insert was not read would be wrong in the table. All other routes begin at the end.
        """
        given = self.source.start
        if given is None:
            return EARLIEST if self._wants_all else LATEST
        # The other half of the annotation only names the keys of a start.
        return given.start() if isinstance(given, StartSpec) else given

    @property
    def start_reason(self) -> str:
        """Why the default start is what it is; empty when the file gives the start."""
        if self.source.start is not None:
            return ""
        if self.format.is_change_log:
            return "change logs begin there"
        if self.source.table is not None:
            return "tables are read whole"
        return "tables with a key begin there" if self.table.keyed else "not given"

    def reading_table(self) -> "RouteSpec | None":
        """The route as long as it reads the table of `bootstrap`; None without one.

        Columns have the names of that table. So their paths into payloads do not count.
        """
        first = self.source.bootstrap
        if first is None:
            return None
        source = self.source.model_copy(
            update={
                "connection": first.connection or self.table.target.connection,
                "topics": (first.table,),
                "table": first.table,
                "bootstrap": None,
            }
        )
        columns = self.table.columns
        if columns is not None:
            columns = tuple(each.model_copy(update={"path": None}) for each in columns)
        table = self.table.model_copy(update={"told_columns": columns})
        return self.model_copy(update={"source": source, "table": table})

    @property
    def _wants_all(self) -> bool:
        """Whether a missing record makes the table wrong."""
        whole = self.format.is_change_log or self.table.keyed
        return whole or self.source.table is not None

    @property
    def kafka(self) -> KafkaConnection:
        """The source's connection to a Kafka cluster.

        Raises:
            JobFileError: The spec was not made by the loader and names no such connection.
        """
        kafka = self.source_connection.kafka
        if kafka is None:
            raise JobFileError("source.connection names no Kafka connection")
        return kafka

    @property
    def source_connection(self) -> ConnectionSpec:
        """The source's connection.

        Raises:
            JobFileError: The spec was not made by the loader and names no such connection.
        """
        return self._connection(self.source.connection, "source.connection")

    @property
    def table_connection(self) -> ConnectionSpec:
        """The table's connection.

        Raises:
            JobFileError: The spec was not made by the loader and names no such connection.
        """
        key = "table.hive" if self.table.hive is not None else "table.iceberg"
        return self._connection(self.table.target.connection, f"{key}.connection")

    def _connection(self, name: str, key: str) -> ConnectionSpec:
        connection = self.connections.get(name)
        if connection is None:
            raise JobFileError(f"{key} names no connection")
        return connection


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A whole job file.

    Attributes:
        name: Name of the job.
        owner: Who answers for the job; None where the file does not say.
        run: How the job runs.
        routes: The routes, at least one; a file without the block `routes` is one route.
        metrics: Where metrics are served.
    """

    name: str
    owner: str | None
    run: RunSpec
    routes: tuple[RouteSpec, ...]
    metrics: MetricsSpec = field(default_factory=MetricsSpec)
