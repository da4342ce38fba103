"""From the job file to the values that a driver works with. No I/O."""

from sluiceway.errors import JobFileError
from sluiceway.job.config import RouteConfig
from sluiceway.sinks.hive.options import HiveTableOptions, PartitionColumn
from sluiceway.sources.kafka.settings import check_properties
from sluiceway.spec.models import ColumnSpec, JobSpec
from sluiceway.spec.values import Secret
from sluiceway.types.hive_types import format_hive_type, parse_hive_type
from sluiceway.types.schema import (
    DataType,
    Field,
    IntegerType,
    Schema,
    StringType,
    TimestampType,
)
from sluiceway.worker.plan import EventTimeRule, KafkaAccess, MetaColumn, PartitionRule

META_TYPES: dict[str, DataType] = {
    "topic": StringType(),
    "partition": IntegerType(32),
    "offset": IntegerType(64),
    "timestamp": TimestampType(),
}


def compile_route(spec: JobSpec) -> RouteConfig:
    """The job file's one route.

    Raises:
        JobFileError: A column type is not known, or a client property would break the protocol.
    """
    properties = {key: revealed(value) for key, value in spec.kafka.properties.items()}
    check_properties(properties)
    columns = declared_columns(spec)
    event_time = spec.event_time
    return RouteConfig(
        job=spec.name,
        route=spec.name,
        topics=spec.source.topics,
        start=spec.source.start,
        kafka=KafkaAccess(
            spec.kafka.bootstrap_servers,
            tuple(sorted(properties.items())),
        ),
        hive=_hive_options(spec, columns),
        columns=columns,
        extra=spec.format.json_.extra,
        tombstones=spec.format.json_.tombstones,
        meta=tuple(MetaColumn(column.field, column.name) for column in spec.table.meta),
        event_time=(
            EventTimeRule(tuple(event_time.field.split(".")), event_time.unit, event_time.timezone)
            if event_time is not None
            else None
        ),
        partitions=tuple(
            PartitionRule(part.name, part.event_time, part.column)
            for part in spec.table.partition_by
        ),
        interval_s=spec.run.interval_ms / 1000,
        straggler_timeout_s=spec.run.straggler_timeout_ms / 1000,
    )


def declared_columns(spec: JobSpec) -> Schema | None:
    """Columns of the job file as types; None when they come from the table."""
    if spec.table.columns is None:
        return None
    return Schema(tuple(_field(column) for column in spec.table.columns))


def _field(column: ColumnSpec) -> Field:
    try:
        kind = parse_hive_type(column.type)
    except ValueError as error:
        raise JobFileError(f"column {column.name}: {error}") from error
    return Field(
        name=column.name,
        type=kind,
        required=column.required,
        path=tuple(column.path.split(".")) if column.path else (),
        time_unit=column.unit,
    )


def _hive_options(spec: JobSpec, columns: Schema | None) -> HiveTableOptions:
    return HiveTableOptions(
        metastore=spec.metastore.uri,
        database=spec.table.hive.database,
        table=spec.table.hive.table,
        schema=_table_schema(spec, columns),
        partition_columns=tuple(
            PartitionColumn(part.name, _partition_type(part.column, columns))
            for part in spec.table.partition_by
        ),
        create=spec.table.hive.create == "if_missing",
        location=spec.table.hive.location,
        compression=spec.table.hive.compression,
    )


def _table_schema(spec: JobSpec, columns: Schema | None) -> Schema | None:
    """Columns of the table's files: payload without what its folders say, then meta columns."""
    if columns is None:
        return None
    folders = {part.name.lower() for part in spec.table.partition_by}
    payload = tuple(field for field in columns.fields if field.name.lower() not in folders)
    meta = tuple(Field(column.name, META_TYPES[column.field]) for column in spec.table.meta)
    return Schema((*payload, *meta))


def _partition_type(column: str | None, columns: Schema | None) -> str:
    if column is None or columns is None:
        return "string"
    types = {field.name.lower(): field.type for field in columns.fields}
    return format_hive_type(types[column.lower()])


def revealed(value: object) -> str:
    """An option's text, for the client it is meant for; never for a log."""
    return value.reveal() if isinstance(value, Secret) else str(value)
