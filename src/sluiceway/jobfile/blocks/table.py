"""The block `table` of a job file: the table, its columns and its partitions."""

import re
from collections.abc import Mapping
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
from sluiceway.jobfile.blocks.block import Block, PluginBlock
from sluiceway.jobfile.blocks.columns import ColumnsFrom, ColumnSpec, SubjectColumns
from sluiceway.jobfile.blocks.lake import (
    IcebergTable,
    TransformText,
    named_meta,
    named_partitions,
)
from sluiceway.jobfile.blocks.table_target import TableTarget
from sluiceway.jobfile.blocks.values import (
    ColumnName,
    FolderText,
    Line,
    TimeZone,
    duration,
    wrong,
)
from sluiceway.plugins import PluginGroup

_FIELDS = ("yyyy", "MM", "dd", "HH", "mm")
_PIECE = re.compile(r"([A-Za-z])\1*|.", re.DOTALL)
_LITERALS = frozenset("-_. ")
_MEANT = {
    "Y": "yyyy",
    "y": "yyyy",
    "M": "MM",
    "D": "dd",
    "d": "dd",
    "h": "HH",
    "H": "HH",
    "m": "mm",
}


def check_time_pattern(pattern: str) -> str:
    """Check that a pattern holds known fields, each once, and otherwise only plain literals.

    Returns:
        The pattern.

    Raises:
        PydanticCustomError: The pattern is not valid.
    """
    pieces = [match[0] for match in _PIECE.finditer(pattern)]
    fields = [piece for piece in pieces if piece not in _LITERALS]
    for piece in fields:
        if piece not in _FIELDS:
            meant = _MEANT.get(piece[0])
            todo = f"write `{meant}` for `{piece}`" if meant else f"remove `{piece}`"
            raise wrong("a pattern of yyyy MM dd HH mm and `-`, `_`, `.`, space", todo)
    if not fields or len(fields) != len(set(fields)) or pattern != pattern.strip():
        todo = "give each field at most once, no space at either end"
        raise wrong("a pattern with at least one of yyyy MM dd HH mm", todo)
    return pattern


MetaField = Literal[
    "topic", "partition", "offset", "timestamp", "key", "key_text", "headers", "headers_text"
]
FROM_REGISTRY = "from_registry"
FROM_SQL = "from_sql"
"""The table has the columns that `transform.sql` returns."""
ColumnsOfSql = Literal["from_sql"]
KeyOrigin = Literal["from_topic_key", "from_registry"]
KeyFormat = Literal["json", "text", "int32", "int64", "registry"]
KEYS_OF_ONE_COLUMN: Mapping[str, str] = {
    "text": "the text of it",
    "int32": "its four bytes",
    "int64": "its eight bytes",
}
"""Meaning of records' own keys when they have no column's name, by key format."""
FROM_TOPIC_KEY = "from_topic_key"
KEY_ORIGINS = (FROM_TOPIC_KEY, FROM_REGISTRY)
META_NAMES: Mapping[str, str] = {field: f"_{field}" for field in get_args(MetaField)}
_META_WORDS = ", ".join(META_NAMES)


class HiveTable(TableTarget):
    """A table of files in a Hive Metastore.

    Attributes:
        file_format: File format that an existing table must have and a created one gets; None is
            `parquet` for a created one.
        compression: Compression of data files; the table's own properties win. None is the usual
            one of the format, `zstd` for Parquet.
        parquet_timestamps: How Parquet files keep timestamps; None goes by the version of the
            metastore.
    """

    file_format: Literal["parquet", "orc", "text", "json", "csv", "avro"] | None = None
    compression: Literal["zstd", "snappy", "gzip", "lz4", "none"] | None = None
    parquet_timestamps: Literal["int96", "micros"] | None = None


class PartitionerSpec(PluginBlock):
    """The plug-in that gives a partition column its values, and its options."""

    PLUGINS = (PluginGroup.PARTITIONERS,)


class PartitionSpec(Block):
    """A partition column; exactly one of the kinds is given.

    Attributes:
        name: Name of the partition column, as in the folder `dt=20261120`.
        event_time: Pattern for the event time, for example `yyyyMMdd`, in the zone of the block
            `event_time`.
        column: Column of the row whose value is the partition value.
        constant: One value for all rows.
        processing_time: Pattern for the time at which the row is read.
        record_time: Pattern for the record's own time in the queue.
        partitioner: Plug-in that computes the value from the whole row, and its options.
        transform: Iceberg transform of `column`; None takes the value itself.
        timezone: Time zone of `processing_time` and `record_time`; None is that of the block
            `event_time`, or UTC without one.
    """

    ONE_OF = (
        *("event_time", "column", "constant", "processing_time", "record_time"),
        "partitioner",
    )
    name: ColumnName
    event_time: Annotated[str, AfterValidator(check_time_pattern)] | None = None
    column: ColumnName | None = None
    transform: TransformText | None = None
    constant: FolderText | None = None
    processing_time: Annotated[str, AfterValidator(check_time_pattern)] | None = None
    record_time: Annotated[str, AfterValidator(check_time_pattern)] | None = None
    timezone: TimeZone | None = None
    partitioner: PartitionerSpec | None = None


class MetaColumn(Block):
    """A column for a field of the record that is not in the payload.

    Attributes:
        field: What of the record it holds.
        name: Name of the column.
    """

    field: MetaField
    name: ColumnName


_DECLARED = TypeAdapter(tuple[ColumnSpec, ...], config=ConfigDict(strict=True, defer_build=True))


def _columns(value: object) -> tuple[ColumnSpec, ...] | ColumnsFrom | ColumnsOfSql | None:
    if value == "from_table":
        return None
    if value == FROM_SQL:
        return "from_sql"
    if value == FROM_REGISTRY:
        return ColumnsFrom(from_registry=SubjectColumns())
    if isinstance(value, dict):
        return ColumnsFrom.model_validate(value)
    if isinstance(value, tuple) and value:
        return _DECLARED.validate_python(value)
    choices = (
        "`from_table`, `from_registry`, `from_sql`, a list of columns, or {from_registry: changes}"
    )
    raise wrong(choices, "write one of them")


def takes_from_registry(table: Mapping[str, Any]) -> bool:
    """Whether a registry's schema gives the columns of a table, which may have a wrong shape."""
    columns = table.get("columns")
    return columns == FROM_REGISTRY or (isinstance(columns, Mapping) and FROM_REGISTRY in columns)


def _version(value: object) -> object:
    if value == "latest":
        return None
    if type(value) is not int or value < 1:
        raise wrong("`latest` or a version from 1 up", "write one of the two")
    return value


def _meta(value: object) -> object:
    """Both forms of `meta` as a tuple: a list of fields, or a mapping of fields to names."""
    if isinstance(value, tuple):
        if not all(isinstance(field, str) for field in value):
            raise wrong(f"a list of {_META_WORDS}", "list their names")
        return tuple({"field": field, "name": META_NAMES.get(field, "_")} for field in value)
    if isinstance(value, dict):
        return tuple({"field": field, "name": name} for field, name in value.items())
    raise wrong(f"a list of {_META_WORDS}, or a mapping to names", "list them")


def _key(value: object) -> object:
    if value in KEY_ORIGINS or (isinstance(value, tuple) and value):
        return value
    choices = "a list of columns, `from_topic_key` or `from_registry`"
    raise wrong(choices, "name those of the primary key: key: [id]")


class SubjectSpec(Block):
    """The registry's schema that gives the columns.

    Attributes:
        name: Name of the subject; None is `TOPIC-value` of the one topic.
        version: Version from 1 up, or `latest`; None is the newest at each start of the route.
        message: Full name of the message in a Protobuf schema with several; None if there is one.
    """

    name: Line | None = None
    version: Annotated[int | None, BeforeValidator(_version)] = None
    message: Line | None = None


class TableSpec(Block):
    """The table and what its columns hold.

    Attributes:
        told_columns: Declared columns, what differs from those of `subject`, or `from_sql`; None
            takes them from the table.
        hive: Hive table; None if `iceberg` is given.
        iceberg: Iceberg table; None if `hive` is given.
        subject: Schema of a registry that gives the columns; None without one.
        partition_by: Partition columns in the order of their folders; None makes no partitions.
        meta: Columns with topic, partition, offset or timestamp of the record; None adds none.
        evolution: What happens when columns of the table change while the route runs, or payloads
            have fields that no column reads.
        told_key: Columns that identify a row of an Iceberg table, or where they come from; without
            them every change is a row of its own.
        key_order: What keeps the changes of one key in order: the key of the record, a topic with
            one partition, or the producer.
        key_format: How the keys of records are written; None is `registry` if the format names one,
            else `json`.
        on_truncate: What a truncate at the source does to a table with a key.
        key_order_wait_ms: How long a new source partition of a keyed table waits before the
            others are read to their ends.
    """

    ONE_OF = ("hive", "iceberg")
    hive: HiveTable | None = None
    iceberg: IcebergTable | None = None
    subject: SubjectSpec | None = None
    told_columns: Annotated[
        tuple[ColumnSpec, ...] | ColumnsFrom | ColumnsOfSql | None, BeforeValidator(_columns)
    ] = Field(default=None, alias="columns")
    partition_by: tuple[PartitionSpec, ...]
    meta: Annotated[tuple[MetaColumn, ...], BeforeValidator(_meta)] = ()
    evolution: Literal["fail", "follow_table", "add_columns", "quarantine"] = "fail"
    told_key: Annotated[tuple[ColumnName, ...] | KeyOrigin, BeforeValidator(_key)] = Field(
        default=(), alias="key"
    )
    key_order: Literal["by_key", "one_partition", "by_partition"] = "by_key"
    key_format: KeyFormat | None = None
    on_truncate: Literal["halt", "apply"] = "halt"
    key_order_wait_ms: Annotated[int, *duration("0s", "1d")] = Field(
        default=600_000, alias="key_order_wait"
    )

    @model_validator(mode="before")
    @classmethod
    def _name_subject(cls, data: Any) -> Any:
        """Expand `from_registry` alone to the topic's subject; name a transform's field."""
        if isinstance(data, Mapping) and "iceberg" in data:
            data = {**data, "partition_by": named_partitions(data.get("partition_by"))}
            if "meta" in data:
                data = {**data, "meta": named_meta(data["meta"])}
        if isinstance(data, Mapping) and takes_from_registry(data):
            return {"subject": {}, **data}
        return data

    @property
    def target(self) -> TableTarget:
        """The table, of any kind.

        Raises:
            JobFileError: The spec was not made by the loader and has no table.
        """
        target = self.hive or self.iceberg
        if target is None:
            raise JobFileError("the block `table` names no table")
        return target

    @property
    def columns(self) -> tuple[ColumnSpec, ...] | None:
        """Declared columns; None takes them from the table, or from `subject`."""
        return self.told_columns if isinstance(self.told_columns, tuple) else None

    @property
    def columns_of_sql(self) -> bool:
        """Whether the table has the columns that `transform.sql` returns."""
        return self.told_columns == FROM_SQL

    @property
    def changes(self) -> SubjectColumns:
        """Differences from the columns of `subject`; none without it."""
        told = self.told_columns
        return told.from_registry if isinstance(told, ColumnsFrom) else SubjectColumns()

    @property
    def key(self) -> tuple[str, ...]:
        """Columns of the key; empty without one, and before the route's start has found them."""
        return self.told_key if isinstance(self.told_key, tuple) else ()

    @property
    def key_origin(self) -> KeyOrigin | None:
        """Source of the key's columns at the route's start; None where the job file lists them."""
        return None if isinstance(self.told_key, tuple) else self.told_key

    @property
    def keyed(self) -> bool:
        """Whether changes replace rows, by any columns."""
        return bool(self.told_key)

    def with_key(self, key: tuple[str, ...]) -> "TableSpec":
        """The same table with these columns as its key."""
        return self.model_copy(update={"told_key": key})

    def with_columns(self, columns: tuple[ColumnSpec, ...]) -> "TableSpec":
        """The same table with these columns declared."""
        return self.model_copy(update={"told_columns": columns})


_STRUCT = re.compile(r"\s*struct\s*<(.*)>\s*", re.IGNORECASE | re.DOTALL)
_INTEGERS = frozenset({"tinyint", "smallint", "int", "integer", "bigint"})
_NUMBER_UNITS: frozenset[str | None] = frozenset({"s", "ms", "us", "ns"})
_NESTED = re.compile(r"\s*(array|map|struct)\s*<", re.IGNORECASE)


_TIME_WORD = re.compile(r"\b(timestamp|date)\b", re.IGNORECASE)
_TIMESTAMPS = frozenset({"timestamp", "timestamp with local time zone"})


def is_timestamp(type_text: str) -> bool:
    """Whether the type is a timestamp."""
    return " ".join(type_text.lower().split()) in _TIMESTAMPS


def may_hold_times(type_text: str) -> bool:
    """Whether values of the type may hold days or instants."""
    return _TIME_WORD.search(type_text) is not None


def event_time_units(type_text: str) -> frozenset[str | None]:
    """Units of an event time in a value of the type; None is no unit."""
    kind = type_text.strip().lower()
    if kind in _INTEGERS:
        return _NUMBER_UNITS
    if kind == "string":
        return frozenset({None, "iso8601"})
    return frozenset({None, "iso8601", *_NUMBER_UNITS}) if is_timestamp(kind) else frozenset()


def is_nested(type_text: str) -> bool:
    """Whether the type is an array, map or struct."""
    return _NESTED.match(type_text) is not None


def struct_field(type_text: str, name: str) -> str | None:
    """Type of a struct's field, or None when the text is no struct with that field."""
    match = _STRUCT.fullmatch(type_text)
    if match is None:
        return None
    for part in _split_fields(match[1]):
        field, colon, inner = part.partition(":")
        if colon and field.strip().strip("`").lower() == name.lower():
            return inner
    return None


def _split_fields(text: str) -> list[str]:
    """Split at commas outside of `<>` and `()`."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
