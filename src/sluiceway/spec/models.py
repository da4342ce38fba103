"""The job file as frozen values. Built by the loader only, which also checks across blocks."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from sluiceway.errors import JobFileError
from sluiceway.spec.time_pattern import check_time_pattern
from sluiceway.spec.values import (
    BootstrapServers,
    ColumnName,
    DottedPath,
    JobName,
    Line,
    Location,
    Master,
    Option,
    TableName,
    ThriftUri,
    TimeZone,
    TopicName,
    TypeText,
    duration,
    not_yet,
    wrong,
)

TimeUnit = Literal["s", "ms", "us", "ns"]
MetaField = Literal["topic", "partition", "offset", "timestamp"]
META_NAMES: Mapping[str, str] = {
    "topic": "_topic",
    "partition": "_partition",
    "offset": "_offset",
    "timestamp": "_timestamp",
}


class Block(BaseModel):
    """A mapping of the job file.

    Attributes:
        LATER: Keys that the design has and this version does not.
        ONE_OF: Keys of which exactly one is given.
    """

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", arbitrary_types_allowed=True
    )
    LATER: ClassVar[frozenset[str]] = frozenset()
    ONE_OF: ClassVar[tuple[str, ...]] = ()


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


class ConnectionSpec(Block):
    """One named connection; exactly one kind is given."""

    LATER = frozenset({"rocketmq", "schema_registry", "hdfs", "s3"})
    ONE_OF = ("kafka", "metastore")
    kafka: KafkaConnection | None = None
    metastore: MetastoreConnection | None = None


def _check_start(value: object) -> object:
    if isinstance(value, dict) and value.keys() <= {"timestamp", "offsets", "group"}:
        raise not_yet("a start by timestamp, offsets or group", "write earliest or latest")
    return value


class SourceSpec(Block):
    """What is read.

    Attributes:
        connection: Name of a Kafka connection.
        topics: Literal names.
        start: Where source partitions begin that the ledger does not know.
    """

    LATER = frozenset({"pattern"})
    connection: str
    topics: tuple[TopicName, ...] = Field(min_length=1, max_length=1000)
    start: Annotated[Literal["earliest", "latest"], BeforeValidator(_check_start)] = "latest"


def _later(*values: str, todo: str) -> BeforeValidator:
    """Validator that names values of a later version as such."""

    def check(value: object) -> object:
        if isinstance(value, str) and value in values:
            raise not_yet(f"`{value}`", todo)
        return value

    return BeforeValidator(check)


class JsonFormat(Block):
    """JSON objects.

    Attributes:
        extra: What happens to keys that no column reads.
        tombstones: What happens to records without a value.
    """

    extra: Annotated[Literal["ignore"], _later("keep", "dirty", todo="write ignore")] = "ignore"
    tombstones: Literal["skip", "dirty"] = "dirty"


class FormatSpec(Block):
    """How payloads are read."""

    LATER = frozenset({"avro", "protobuf", "csv", "raw", "debezium", "canal", "maxwell"})
    json_: JsonFormat = Field(alias="json")


class HiveTable(Block):
    """Where rows go.

    Attributes:
        connection: Name of a metastore connection.
        name: `database.table`.
        create: Whether a missing table is created.
        location: Root folder of a table that is created.
    """

    connection: str
    name: TableName
    create: Literal["if_missing", "never"] = "if_missing"
    location: Location | None = None
    file_format: Annotated[
        Literal["parquet"], _later("orc", "text", "textfile", todo="write parquet")
    ] = "parquet"
    compression: Literal["zstd", "snappy", "gzip"] = "zstd"

    @property
    def database(self) -> str:
        """Database as Hive stores it: in lower case."""
        return self.name.partition(".")[0].lower()

    @property
    def table(self) -> str:
        """Table as Hive stores it: in lower case."""
        return self.name.partition(".")[2].lower()


class ColumnSpec(Block):
    """A declared column.

    Attributes:
        name: In the table.
        type: Hive type as text; parsed where the table's types are known.
        path: Dotted keys to the value; None means the name.
        required: A null or missing value makes the row dirty.
        unit: For a timestamp read from a number.
    """

    LATER = frozenset({"on_lossy", "on_overflow", "format", "timezone"})
    name: ColumnName
    type: TypeText
    path: DottedPath | None = None
    required: bool = False
    unit: TimeUnit | None = None


class PartitionSpec(Block):
    """A partition column: exactly one of `event_time` (a pattern) and `column` is given."""

    LATER = frozenset({"constant", "processing_time", "record_time"})
    ONE_OF = ("event_time", "column")
    name: ColumnName
    event_time: Annotated[str, AfterValidator(check_time_pattern)] | None = None
    column: ColumnName | None = None


class MetaColumn(Block):
    """A column that says where a row comes from."""

    field: Annotated[MetaField, _later("key", "headers", todo="remove it")]
    name: ColumnName


def _columns(value: object) -> object:
    if value == "from_table":
        return None
    if isinstance(value, str) or value == ():
        raise wrong("`from_table` or a list of columns", "write from_table or list them")
    return value


def _meta(value: object) -> object:
    """Both shapes of `meta` as a tuple: a list of fields, or a mapping of fields to names."""
    if isinstance(value, tuple):
        if not all(isinstance(field, str) for field in value):
            raise wrong("a list of topic, partition, offset, timestamp", "list their names")
        return tuple({"field": field, "name": META_NAMES.get(field, "_")} for field in value)
    if isinstance(value, dict):
        return tuple({"field": field, "name": name} for field, name in value.items())
    raise wrong("a list of topic, partition, offset, timestamp, or a mapping to names", "list them")


class TableSpec(Block):
    """The table and what its columns hold.

    Attributes:
        columns: Declared columns; None takes them from the table.
        partition_by: Partition columns in path order.
        meta: Columns that say where a row comes from, after the others.
    """

    LATER = frozenset({"iceberg", "files", "evolution"})
    hive: HiveTable
    columns: Annotated[tuple[ColumnSpec, ...] | None, BeforeValidator(_columns)] = None
    partition_by: tuple[PartitionSpec, ...]
    meta: Annotated[tuple[MetaColumn, ...], BeforeValidator(_meta)] = ()


def _check_field(value: object) -> object:
    if value in ("$record_time", "$processing_time"):
        raise not_yet(f"`{value}`", "name a field of the payload")
    return value


class EventTimeSpec(Block):
    """Event time of a row.

    Attributes:
        field: Dotted path that begins with a column.
        unit: Of a number, or `iso8601` for text with an offset.
        timezone: Zone in which partition values are written.
    """

    LATER = frozenset(
        {
            "out_of_orderness", "archive_window", "max_future", "min_time",
            "idle_after", "late", "format",
        }
    )  # fmt: skip
    field: Annotated[DottedPath, BeforeValidator(_check_field)]
    unit: Literal["s", "ms", "us", "ns", "iso8601"]
    timezone: TimeZone = "UTC"


class RunSpec(Block):
    """How the job runs.

    Attributes:
        interval_ms: Length of an epoch.
        straggler_timeout_ms: How long a slow task is waited for after an epoch's deadline.
        master: Spark master.
        spark_conf: Further Spark settings.
    """

    LATER = frozenset({"memory_per_task", "max_rate"})
    interval_ms: Annotated[int, *duration("0.5s", "10m")] = Field(default=10_000, alias="interval")
    straggler_timeout_ms: Annotated[int, *duration("1s", "1h")] = Field(
        default=60_000, alias="straggler_timeout"
    )
    master: Master = "local"
    spark_conf: Mapping[str, Option] = Field(default_factory=dict)


class ReadySpec(Block):
    """When partitions become visible."""

    LATER = frozenset({"lateness", "success_file", "webhook", "counts"})
    visible: Annotated[Literal["on_commit"], _later("on_ready", todo="write on_commit")]


class JobSpec(Block):
    """A whole job file."""

    LATER = frozenset({"files", "dirty", "transform", "routes", "retention"})
    version: Literal[1]
    name: JobName
    owner: Line | None = None
    connections: Mapping[str, ConnectionSpec]
    source: SourceSpec
    format: FormatSpec
    table: TableSpec
    event_time: EventTimeSpec | None = None
    run: RunSpec = Field(default_factory=RunSpec)
    ready: ReadySpec | None = None

    @property
    def kafka(self) -> KafkaConnection:
        """The source's connection.

        Raises:
            JobFileError: The spec was not made by the loader and names no such connection.
        """
        connection = self.connections.get(self.source.connection)
        if connection is None or connection.kafka is None:
            raise JobFileError("source.connection names no Kafka connection")
        return connection.kafka

    @property
    def metastore(self) -> MetastoreConnection:
        """The table's connection.

        Raises:
            JobFileError: The spec was not made by the loader and names no such connection.
        """
        connection = self.connections.get(self.table.hive.connection)
        if connection is None or connection.metastore is None:
            raise JobFileError("table.hive.connection names no metastore connection")
        return connection.metastore
