"""The job file as frozen values. Built by the loader only, which also checks across blocks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    model_validator,
)

from sluiceway.errors import JobFileError
from sluiceway.plugins import PluginGroup
from sluiceway.spec.block import Block
from sluiceway.spec.columns import ColumnsFrom, ColumnSpec, SubjectColumns
from sluiceway.spec.dirty import DirtySpec
from sluiceway.spec.event_time import EventTimeSpec
from sluiceway.spec.files import FilesSpec
from sluiceway.spec.formats import FormatSpec
from sluiceway.spec.plugin_block import PluginBlock
from sluiceway.spec.positions import Places
from sluiceway.spec.ready import ReadySpec
from sluiceway.spec.retention import RetentionSpec
from sluiceway.spec.schema_formats import SchemaRegistryConnection
from sluiceway.spec.start import (
    EARLIEST,
    LATEST,
    StartAt,
    parse_start_offsets,
    parse_start_time_ms,
)
from sluiceway.spec.time_pattern import check_time_pattern
from sluiceway.spec.topic_pattern import compile_topic_pattern, groups_in
from sluiceway.spec.values import (
    BootstrapServers,
    ColumnName,
    ExpressionText,
    FolderText,
    JobName,
    Line,
    Location,
    Master,
    Option,
    Port,
    Rate,
    TableName,
    ThriftUri,
    TimeZone,
    TopicName,
    duration,
    size,
    wrong,
)

MetaField = Literal[
    "topic", "partition", "offset", "timestamp", "key", "key_text", "headers", "headers_text"
]
FROM_REGISTRY = "from_registry"
META_NAMES: Mapping[str, str] = {field: f"_{field}" for field in get_args(MetaField)}
_META_WORDS = ", ".join(META_NAMES)


class KafkaConnection(Block):
    """How to reach a Kafka cluster.

    Attributes:
        bootstrap_servers: `host:port` with commas between.
        properties: Further options of librdkafka.
    """

    LATER = frozenset({"schema_registry"})
    bootstrap_servers: BootstrapServers
    properties: Mapping[str, Option] = Field(default_factory=dict)


class MetastoreConnection(Block):
    """How to reach a Hive Metastore: `thrift://host:port`."""

    uri: ThriftUri


class ConnectionSpec(PluginBlock):
    """One named connection; exactly one kind is given."""

    LATER = frozenset({"rocketmq", "hdfs", "s3"})
    ONE_OF = ("kafka", "metastore", "schema_registry")
    PLUGINS = (PluginGroup.SOURCES, PluginGroup.SINKS)
    kafka: KafkaConnection | None = None
    metastore: MetastoreConnection | None = None
    schema_registry: SchemaRegistryConnection | None = None


class StartSpec(Block):
    """A start that is no word; exactly one of the keys is given."""

    ONE_OF = ("timestamp", "offsets", "group")
    timestamp: Annotated[int | None, BeforeValidator(parse_start_time_ms)] = None
    offsets: Annotated[
        tuple[tuple[str, int, int], ...] | None, BeforeValidator(parse_start_offsets)
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
_TOPIC_NAMES = TypeAdapter(tuple[TopicName, ...], config=ConfigDict(strict=True))


def _topics(value: object) -> tuple[str, ...] | str:
    if isinstance(value, str):
        compile_topic_pattern(value)
        return value
    if isinstance(value, tuple) and not 0 < len(value) <= _MAX_TOPICS:
        todo = "add one" if not value else "split the route"
        raise wrong("at least one item" if not value else f"{_MAX_TOPICS} items at most", todo)
    return _TOPIC_NAMES.validate_python(value)


class SourceSpec(Block):
    """What is read.

    Attributes:
        connection: Name of a Kafka connection.
        topics: Literal names, or one pattern that has to match a whole name.
        start: Where source partitions begin that the ledger does not know.
        max_rate_per_s: Records that the route may read a second; None sets no bound of its own.
    """

    connection: str
    topics: Annotated[tuple[str, ...] | str, BeforeValidator(_topics)]
    start: Annotated[StartAt | StartSpec, BeforeValidator(_start)] = LATEST
    max_rate_per_s: Rate | None = Field(default=None, alias="max_rate")

    @property
    def start_at(self) -> StartAt:
        """The start; the other half of the annotation only tells which keys it has."""
        return self.start.start() if isinstance(self.start, StartSpec) else self.start

    @property
    def pattern(self) -> str:
        """The pattern; empty when topics are listed."""
        return self.topics if isinstance(self.topics, str) else ""

    @property
    def names(self) -> tuple[str, ...]:
        """The listed topics; none when there is a pattern."""
        return () if isinstance(self.topics, str) else self.topics


class HiveTable(Block):
    """Where rows go.

    Attributes:
        connection: Name of a metastore connection.
        name: `database.table`; may hold groups of the topic pattern, as `ods.app_{1}`.
        create: Whether a missing table is created.
        location: Root folder of a table that is created.
        file_format: Of a table that is created; one that exists must have it.
        compression: Where the table's own properties name none.
        parquet_timestamps: How Parquet files keep timestamps; None: by the metastore's version.
    """

    connection: str
    name: TableName
    create: Literal["if_missing", "never"] = "if_missing"
    location: Location | None = None
    file_format: Literal["parquet", "orc", "text", "json", "csv", "avro"] | None = None
    compression: Literal["zstd", "snappy", "gzip", "lz4", "none"] | None = None
    parquet_timestamps: Literal["int96", "micros"] | None = None

    @property
    def is_template(self) -> bool:
        """Whether the name is made from a topic's."""
        return bool(groups_in(self.name))

    @property
    def database(self) -> str:
        """Database as Hive stores it: in lower case."""
        return self.name.partition(".")[0].lower()

    @property
    def table(self) -> str:
        """Table as Hive stores it: in lower case."""
        return self.name.partition(".")[2].lower()


class PartitionerSpec(PluginBlock):
    """Who gives a partition column its values: a plug-in by its name, and its options."""

    PLUGINS = (PluginGroup.PARTITIONERS,)


class PartitionSpec(Block):
    """A partition column; exactly one of the kinds is given.

    Attributes:
        event_time: Pattern for the event time, in the zone of the block `event_time`.
        column: A column of the row.
        constant: One value for all rows.
        processing_time: Pattern for the time at which the row is read.
        record_time: Pattern for the record's own time in the queue.
        partitioner: A plug-in that looks at whole rows.
        timezone: Of the last two; None is that of the block `event_time`, or UTC without one.
    """

    ONE_OF = (
        *("event_time", "column", "constant", "processing_time", "record_time"),
        "partitioner",
    )
    name: ColumnName
    event_time: Annotated[str, AfterValidator(check_time_pattern)] | None = None
    column: ColumnName | None = None
    constant: FolderText | None = None
    processing_time: Annotated[str, AfterValidator(check_time_pattern)] | None = None
    record_time: Annotated[str, AfterValidator(check_time_pattern)] | None = None
    timezone: TimeZone | None = None
    partitioner: PartitionerSpec | None = None


class MetaColumn(Block):
    """A column of what the queue has beside the payload."""

    field: MetaField
    name: ColumnName


_DECLARED = TypeAdapter(tuple[ColumnSpec, ...], config=ConfigDict(strict=True))


def _columns(value: object) -> tuple[ColumnSpec, ...] | ColumnsFrom | None:
    if value == "from_table":
        return None
    if value == FROM_REGISTRY:
        return ColumnsFrom(from_registry=SubjectColumns())
    if isinstance(value, dict):
        return ColumnsFrom.model_validate(value)
    if isinstance(value, tuple) and value:
        return _DECLARED.validate_python(value)
    choices = "`from_table`, `from_registry`, a list of columns, or {from_registry: changes}"
    raise wrong(choices, "write one of them")


def takes_from_registry(table: Mapping[str, Any]) -> bool:
    """Whether a registry's schema says the columns of a table, which may be of the wrong shape."""
    columns = table.get("columns")
    return columns == FROM_REGISTRY or (isinstance(columns, Mapping) and FROM_REGISTRY in columns)


def _version(value: object) -> object:
    if value == "latest":
        return None
    if type(value) is not int or value < 1:
        raise wrong("`latest` or a version from 1 up", "write one of the two")
    return value


def _meta(value: object) -> object:
    """Both shapes of `meta` as a tuple: a list of fields, or a mapping of fields to names."""
    if isinstance(value, tuple):
        if not all(isinstance(field, str) for field in value):
            raise wrong(f"a list of {_META_WORDS}", "list their names")
        return tuple({"field": field, "name": META_NAMES.get(field, "_")} for field in value)
    if isinstance(value, dict):
        return tuple({"field": field, "name": name} for field, name in value.items())
    raise wrong(f"a list of {_META_WORDS}, or a mapping to names", "list them")


class SubjectSpec(Block):
    """Which schema of a registry says the columns.

    Attributes:
        name: Of the subject; None is that of the values of the one topic.
        version: From 1 up; None is the newest at each start of the route.
        message: Full name of the message, in a Protobuf schema that declares several.
    """

    name: Line | None = None
    version: Annotated[int | None, BeforeValidator(_version)] = None
    message: Line | None = None


class TableSpec(Block):
    """The table and what its columns hold.

    Attributes:
        told_columns: Declared columns, or what is different from those of `subject`; None takes
            them from the table. `columns` and `changes` are the two.
        subject: The schema that says the columns; None where none does.
        partition_by: Partition columns in path order.
        meta: Columns of what the queue has beside the payload, after the others.
        evolution: What happens when columns of the table come, go or change while the route runs,
            and to fields of payloads that no column reads.
    """

    LATER = frozenset({"iceberg"})
    hive: HiveTable
    subject: SubjectSpec | None = None
    told_columns: Annotated[
        tuple[ColumnSpec, ...] | ColumnsFrom | None, BeforeValidator(_columns)
    ] = Field(default=None, alias="columns")
    partition_by: tuple[PartitionSpec, ...]
    meta: Annotated[tuple[MetaColumn, ...], BeforeValidator(_meta)] = ()
    evolution: Literal["fail", "follow_table", "add_columns", "quarantine"] = "fail"

    @model_validator(mode="before")
    @classmethod
    def _name_subject(cls, data: Any) -> Any:
        """`from_registry` alone means the subject of the topic."""
        if isinstance(data, Mapping) and takes_from_registry(data):
            return {"subject": {}, **data}
        return data

    @property
    def columns(self) -> tuple[ColumnSpec, ...] | None:
        """Declared columns; None takes them from the table, or from `subject`."""
        return self.told_columns if isinstance(self.told_columns, tuple) else None

    @property
    def changes(self) -> SubjectColumns:
        """What is different from the columns of `subject`; nothing where none says them."""
        told = self.told_columns
        return told.from_registry if isinstance(told, ColumnsFrom) else SubjectColumns()

    def with_columns(self, columns: tuple[ColumnSpec, ...]) -> "TableSpec":
        """The same table with these columns declared."""
        return self.model_copy(update={"told_columns": columns})


class RunSpec(Block):
    """How the job runs.

    Attributes:
        interval_ms: Length of an epoch.
        straggler_timeout_ms: How long a slow task is waited for after an epoch's deadline.
        discover_interval_ms: How often topic patterns and new partitions are looked for.
        master: Spark master.
        spark_conf: Further Spark settings.
        max_rate_per_s: Records that all routes together may read a second; None sets no bound.
        memory_per_task_bytes: What a task may hold of the rows that it reads and writes.
        health_port: Port of the health endpoints on the loopback address; 0 takes a free one.
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


class JobBlocks(Block):
    """The blocks of a job file, but for its routes."""

    LATER = frozenset({"transform"})
    version: Literal[1]
    name: JobName
    owner: Line | None = None
    connections: Mapping[str, ConnectionSpec]
    source: SourceSpec
    format: FormatSpec
    table: TableSpec
    where: ExpressionText | None = None
    event_time: EventTimeSpec | None = None
    files: FilesSpec = Field(default_factory=FilesSpec)
    dirty: DirtySpec = Field(default_factory=DirtySpec)
    run: RunSpec = Field(default_factory=RunSpec)
    ready: ReadySpec | None = None
    retention: RetentionSpec | None = None


class RouteEntry(Block):
    """A route as it is written: its topics, its table, and the blocks that it changes."""

    LATER = JobBlocks.LATER
    name: JobName | None = None
    topics: tuple[str, ...] | str
    table: TableSpec | str
    source: SourceSpec | None = None
    format: FormatSpec | None = None
    where: ExpressionText | None = None
    event_time: EventTimeSpec | None = None
    files: FilesSpec | None = None
    dirty: DirtySpec | None = None
    ready: ReadySpec | None = None
    retention: RetentionSpec | None = None


class JobFileBlocks(JobBlocks):
    """All keys of a job file."""

    routes: tuple[RouteEntry, ...] = ()


class RouteSpec(JobBlocks):
    """A job file as one of its routes sees it: every block is there, its own where it has one.

    Attributes:
        route: The route's name; empty when its tables are made from topics and name it.
        places: Where its table is written, when columns are known only as the route starts.
    """

    route: str = ""
    places: Places | None = None

    @property
    def kafka(self) -> KafkaConnection:
        """The source's connection, when it is a Kafka cluster.

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
        return self._connection(self.table.hive.connection, "table.hive.connection")

    def _connection(self, name: str, key: str) -> ConnectionSpec:
        connection = self.connections.get(name)
        if connection is None:
            raise JobFileError(f"{key} names no connection")
        return connection


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A whole job file.

    Attributes:
        routes: At least one; a file without the block `routes` is one route.
    """

    name: str
    owner: str | None
    run: RunSpec
    routes: tuple[RouteSpec, ...]
