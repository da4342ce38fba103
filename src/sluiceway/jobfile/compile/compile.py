"""From the job file to the values that a driver works with. No I/O."""

import json
from collections.abc import Mapping
from dataclasses import replace

from sluiceway.chains.lake_upstream import LAKE_SOURCE, LakeUpstream
from sluiceway.chains.options import UpstreamOptions
from sluiceway.errors import JobFileError
from sluiceway.eventtime.partition_time import TimeKind
from sluiceway.formats.registry import FormatChoice
from sluiceway.jobfile.blocks.dirty import DirtySpec
from sluiceway.jobfile.blocks.event_time import DEFAULT_ARCHIVE_WINDOW_MS, UNLIMITED
from sluiceway.jobfile.blocks.metrics import MetricsSpec
from sluiceway.jobfile.blocks.models import JobSpec, RouteSpec
from sluiceway.jobfile.blocks.retention import duration_text
from sluiceway.jobfile.blocks.table import PartitionSpec
from sluiceway.jobfile.blocks.values import revealed
from sluiceway.jobfile.compile.choices import row_choices, row_columns, value_column
from sluiceway.jobfile.compile.config import CompiledJob, RouteConfig, RouteTemplate
from sluiceway.jobfile.compile.dirty_limits import DirtyLimits
from sluiceway.jobfile.compile.lake_choices import (
    catalog_settings,
    key_rule,
    lake_access,
    lake_options,
)
from sluiceway.jobfile.compile.ready_choice import ready_rule, side_topic, unit_announcements
from sluiceway.jobfile.compile.ready_rule import lineage_rule
from sluiceway.jobfile.compile.retention import RetentionRule
from sluiceway.jobfile.compile.room_rule import room_rule
from sluiceway.jobfile.compile.schema_formats import (
    avro_options,
    debezium_options,
    json_options,
    protobuf_options,
)
from sluiceway.jobfile.compile.sql_rule import sql_rule, unit_rule, unit_texts
from sluiceway.jobfile.compile.stores import login_options, route_stores, with_login
from sluiceway.observe.figures import FigureLimits
from sluiceway.partitioners.registry import PartitionerChoice
from sluiceway.sinks.files.contract import FileFormat
from sluiceway.sinks.lake_options import IDENTITY
from sluiceway.sinks.registry import CatalogAccess, why_not_created
from sluiceway.sinks.table_options import PartitionColumn, TableOptions
from sluiceway.sources.kafka.settings import QUEUED_KBYTES, wants_kerberos
from sluiceway.sources.kafka.source import BOOTSTRAP_SERVERS
from sluiceway.sources.registry import SourceAccess, check_access, has_text_keys
from sluiceway.sources.side_topics import SideTopic
from sluiceway.types.evolution import Evolution
from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.key_path import path_keys
from sluiceway.types.schema import (
    BinaryType,
    DataType,
    Field,
    IntegerType,
    ListType,
    Schema,
    StringType,
    StructType,
    TimestampType,
)
from sluiceway.worker.plan import (
    IN_TIME_ALWAYS,
    EventTimeRule,
    FileRules,
    LatePolicy,
    LateRule,
    PartitionRule,
    PlannedMetaColumn,
)
from sluiceway.worker.row_rules import RowColumn, payload_fields
from sluiceway.worker.task_memory import DEFAULT_BYTES, deal

_STORE = "dirty.store"


def dirty_topic(spec: RouteSpec) -> SideTopic | None:
    """The topic for dirty rows; None without one.

    Raises:
        JobFileError: The spec was not made by the loader, and names no Kafka connection.
    """
    store = spec.dirty.store
    if store is None or store.topic is None:
        return None
    return side_topic(spec, _STORE, store.topic, store.connection)


def dirty_table(spec: RouteSpec) -> str | None:
    """The table for dirty rows; None without one.

    Raises:
        JobFileError: The catalog is no metastore.
    """
    store = spec.dirty.store
    if store is None or store.table is None:
        return None
    if not spec.table_connection.catalog:
        raise JobFileError(
            "dirty rows go to a table of the route's own metastore, and its catalog is a plug-in",
            where=_STORE,
            hint="write `store: beside`",
        )
    return store.table


def dirty_limits(dirty: DirtySpec) -> DirtyLimits:
    """The numbers of dirty rows at which the route halts."""
    limits = DirtyLimits(
        rows=dirty.max_rows,
        reasons=tuple(sorted(dirty.reasons.items())),
        rows_window_ms=dirty.window_ms,
    )
    if dirty.max_rate is None:
        return limits
    return replace(
        limits,
        ratio=dirty.max_rate.ratio,
        ratio_window_ms=dirty.max_rate.window_ms,
        ratio_min_rows=dirty.max_rate.min_rows,
    )


def late_rule(spec: RouteSpec) -> LateRule:
    """Rule for late rows; without settings of lateness or readiness, no row is late."""
    rule = spec.event_time
    if rule is None:
        return IN_TIME_ALWAYS
    window_ms = rule.archive_window_ms
    if window_ms is None:
        asked = rule.asks_for_late or spec.ready is not None
        window_ms = DEFAULT_ARCHIVE_WINDOW_MS if asked else UNLIMITED
    return LateRule(
        # Records and metrics call it `side`.
        policy=LatePolicy.SIDE if rule.late in (None, "side_output") else LatePolicy(rule.late),
        window_us=None if isinstance(window_ms, str) else window_ms * 1000,
        out_of_orderness_us=rule.out_of_orderness_ms * 1000,
    )


def late_table(spec: RouteSpec) -> str | None:
    """The table over the late place, as the job file names it; None without one.

    Raises:
        JobFileError: The catalog is no metastore.
    """
    rule = spec.event_time
    if rule is None or rule.late_table is None:
        return None
    if not spec.table_connection.catalog:
        raise JobFileError(
            "late rows are shown in the route's own metastore, and its catalog is a plug-in",
            where="event_time.late_table",
            hint="remove it; late rows are put aside all the same",
        )
    return rule.late_table


def _headers_type(value: DataType) -> DataType:
    """Pairs in their order: a name may come more than once."""
    return ListType(StructType((Field("name", StringType()), Field("value", value))))


META_TYPES: dict[str, DataType] = {
    "topic": StringType(),
    "partition": IntegerType(32),
    "partition_text": StringType(),
    "offset": IntegerType(64),
    "timestamp": TimestampType(),
    "key": BinaryType(),
    "key_text": StringType(),
    "headers": _headers_type(BinaryType()),
    "headers_text": _headers_type(StringType()),
}


def compile_routes(spec: JobSpec) -> CompiledJob:
    """All routes of a job file: those with listed topics, and templates for the patterns.

    Raises:
        JobFileError: A column type is not known, or a client property would break the protocol.
    """
    compiled = [(route, compile_route(route)) for route in spec.routes]
    return CompiledJob(
        routes=tuple(config for route, config in compiled if not route.source.pattern),
        templates=tuple(
            RouteTemplate(config, route.table.target.name)
            for route, config in compiled
            if route.source.pattern
        ),
        discover_interval_s=spec.run.discover_interval_ms / 1000,
        max_rate_per_s=spec.run.max_rate_per_s,
    )


def compile_route(spec: RouteSpec) -> RouteConfig:
    """One route of a job file; one with a pattern has no topics yet.

    Raises:
        JobFileError: A column type is not known, or a client property would break the protocol.
    """
    columns = row_columns(spec)
    if spec.route_by is None:
        return _compiled(spec, columns)
    made = _compiled(spec, (*(columns or ()), value_column(spec.route_by)))
    return made.rest_of(spec.route_by, spec.table.target.name, spec.max_tables)


def _compiled(spec: RouteSpec, columns: tuple[RowColumn, ...] | None) -> RouteConfig:
    rooms = room_rule(spec)
    source = source_access(spec)
    if rooms is not None and rooms.topics:
        source = replace(source, topics=rooms.topics)
    text_keys = has_text_keys(source)
    first = spec.reading_table()
    if first is not None and text_keys:
        raise JobFileError(
            "a queue whose partitions have names cannot follow a table",
            where="source.bootstrap",
            hint="remove it: `start` says where the topics begin",
        )
    return RouteConfig(
        job=spec.name,
        route=spec.route,
        topics=spec.source.names,
        pattern=spec.source.pattern,
        start=spec.start_at,
        source=source,
        format=format_choice(spec),
        catalog=_catalog_access(spec),
        table=_table_options(spec, _written_columns(spec, columns), text_keys=text_keys),
        columns=None if columns is None else Schema(payload_fields(columns)),
        awaits_columns=None if spec.table.subject is None else spec,
        awaits_key=None if spec.table.key_origin is None else spec,
        choices=row_choices(columns, spec.where),
        sql=sql_rule(spec),
        units=unit_rule(spec),
        meta=_meta_columns(spec, text_keys=text_keys),
        event_time=_event_time_rule(spec),
        partitions=_partition_rules(spec),
        interval_s=spec.run.interval_ms / 1000,
        straggler_timeout_s=spec.run.straggler_timeout_ms / 1000,
        max_rate_per_s=spec.source.max_rate_per_s,
        max_unpublished=spec.run.max_unpublished,
        dirty=dirty_limits(spec.dirty),
        dirty_topic=dirty_topic(spec),
        dirty_table=dirty_table(spec),
        dirty_keep_ms=spec.dirty.retention_ms,
        evolution=Evolution(spec.table.evolution),
        retention=_retention_rule(spec),
        rolling=_file_rules(spec),
        compact_before_ready=spec.files.compact == "before_ready" and spec.table.iceberg is None,
        memory_bytes=spec.run.memory_per_task_bytes,
        figure_limits=figure_limits(spec.metrics),
        ready=ready_rule(spec),
        unit_announcements=unit_announcements(spec),
        lineage=lineage_rule(spec.lineage),
        late=late_rule(spec),
        late_table=late_table(spec),
        key=key_rule(spec),
        followed=None if first is None else compile_route(first),
        rooms=rooms,
        keep_tail=spec.source.keep_tail,
    )


def _written_columns(
    spec: RouteSpec, decoded: tuple[RowColumn, ...] | None
) -> tuple[RowColumn, ...] | None:
    """Columns of the table, before the SQL has said which they are."""
    return decoded if spec.transform is None else None


def figure_limits(spec: MetricsSpec) -> FigureLimits:
    """How many values the labels of a job's metrics may have."""
    return FigureLimits(spec.max_routes, spec.max_topics, spec.max_partitions)


def _retention_rule(spec: RouteSpec) -> RetentionRule | None:
    if spec.retention is None or spec.event_time is None:
        return None
    columns: list[tuple[str, str]] = []
    for part in spec.table.partition_by:
        if part.event_time is None:
            break
        columns.append((part.name, part.event_time))
    return RetentionRule(
        keep_us=spec.retention.partitions_ms * 1000,
        text=duration_text(spec.retention.partitions_ms),
        drop=spec.retention.drop,
        columns=tuple(columns),
        timezone=spec.event_time.timezone,
        announced=spec.ready is not None,
    )


def why_no_rows(spec: RouteSpec) -> str | None:
    """Why no task could make rows for the route's table, by the job file alone; or None.

    Called when a job file is checked, for routes without `choice_problems`. Columns from the table
    are checked when the route starts.
    """
    return _row_problem(spec, _rules_of_rows(spec))


def _rules_of_rows(spec: RouteSpec) -> tuple[PartitionRule, ...]:
    """Partition columns that decoded rows fill; the SQL fills those of columns."""
    rules = _partition_rules(spec)
    if spec.transform is None:
        return rules
    return tuple(each for each in rules if each.pattern is not None or each.constant is not None)


def unfit_partition(spec: RouteSpec) -> int | None:
    """Number of the only partition column that `why_no_rows` reports, counted from 0; or None."""
    if _row_problem(spec, ()) is not None:
        return None
    rules = _rules_of_rows(spec)
    unfit = (n for n, rule in enumerate(rules) if _row_problem(spec, (rule,)) is not None)
    return next(unfit, None)


def _row_problem(spec: RouteSpec, rules: tuple[PartitionRule, ...]) -> str | None:
    columns = row_columns(spec)
    if columns is None:
        return None
    from sluiceway.worker.row_check import row_problem  # noqa: PLC0415 - loads Arrow

    return row_problem(
        Schema(payload_fields(columns)),
        _event_time_rule(spec),
        rules,
        row_choices(columns, spec.where),
        format_choice(spec),
    )


def why_no_files(spec: RouteSpec) -> str | None:
    """Why no file of the route's table could hold its rows, by the job file alone; or None.

    Called when a job file is checked, together with `why_no_rows`. When the job file names no
    format, an existing table decides; field names are refused in all formats.
    """
    if spec.table.hive is None:
        return None
    text_keys = has_text_keys(source_access(spec))
    columns = _written_columns(spec, row_columns(spec))
    options = _table_options(spec, columns, text_keys=text_keys)
    named = options.file_format is not None
    return why_not_created(options if named else replace(options, compression=None))


def _file_rules(spec: RouteSpec) -> FileRules:
    files = spec.files
    return FileRules(
        target_bytes=files.target_size_bytes,
        roll_interval_s=files.roll_interval_ms / 1000,
        idle_close_s=files.idle_close_ms / 1000,
        max_open=files.max_open,
        prefix=files.prefix,
        suffix=files.suffix,
    )


def _event_time_rule(spec: RouteSpec) -> EventTimeRule | None:
    rule = spec.event_time
    if rule is None:
        return None
    return EventTimeRule(
        path=path_keys(rule.field),
        unit=rule.unit,
        timezone=rule.timezone,
        form=rule.format,
        max_future_us=rule.max_future_ms * 1000,
        min_us=rule.min_time_us,
    )


def _partition_rules(spec: RouteSpec) -> tuple[PartitionRule, ...]:
    rules = map(_partition_rule, spec.table.partition_by)
    if spec.table.iceberg is None:
        return tuple(rules)
    return tuple(replace(rule, in_files=True) for rule in rules)


def _partition_rule(part: PartitionSpec) -> PartitionRule:
    kinds = {
        TimeKind.EVENT: part.event_time,
        TimeKind.RECORD: part.record_time,
        TimeKind.PROCESSING: part.processing_time,
    }
    for kind, pattern in kinds.items():
        if pattern is not None:
            return PartitionRule(part.name, pattern, None, kind=kind, timezone=part.timezone)
    choice = None
    if part.partitioner is not None and part.partitioner.plugin is not None:
        name, options = part.partitioner.plugin
        choice = PartitionerChoice(name, _texts(options))
    return PartitionRule(
        part.name,
        None,
        part.column,
        part.constant,
        partitioner=choice,
        transform=None if part.transform in (None, IDENTITY) else part.transform,
    )


def source_access(spec: RouteSpec) -> SourceAccess:
    """How to reach a route's source, as a value that can be sent to the workers.

    Raises:
        JobFileError: The source refuses an option of the connection.
        UnhealthyEnvironmentError: No installed source has the name, or it fails.
    """
    plugin, rocketmq = spec.source_connection.plugin, spec.source_connection.rocketmq
    if spec.source.table is not None:
        return _table_access(spec, spec.source.table)
    if plugin is not None:
        access = SourceAccess(plugin[0], _texts(plugin[1]))
    elif rocketmq is not None:
        access = SourceAccess("rocketmq", _texts(rocketmq.options()))
    else:
        options = {
            **_queue_bound(spec),
            **spec.kafka.properties,
            BOOTSTRAP_SERVERS: spec.kafka.bootstrap_servers,
        }
        login = login_options(spec) if wants_kerberos(_plain(spec)) else ()
        access = SourceAccess("kafka", (*_texts(options), *login))
    try:
        check_access(access)
    except ValueError as error:
        where = f"connections.{spec.source.connection}"
        raise JobFileError(f"{where}: {error}", hint="correct the connection") from error
    return access


def _table_access(spec: RouteSpec, name: str) -> SourceAccess:
    """How a table is reached that a route reads; of its columns only the route's."""
    connection = spec.source_connection
    columns = spec.columns
    wanted: tuple[str, ...] = ()
    if columns is not None and not Evolution(spec.table.evolution).follows:
        fields = payload_fields(row_columns(spec) or ())
        wanted = tuple(sorted({(each.path or (each.name,))[0].lower() for each in fields}))
    if connection.iceberg is not None:
        start_ms = spec.start_at.timestamp_ms if spec.start_at.kind == "timestamp" else -1
        settings = catalog_settings(spec, connection.iceberg)
        rule = spec.source.on_correction
        lake = LakeUpstream(name, settings, wanted, start_ms=start_ms, on_correction=rule)
        return SourceAccess(LAKE_SOURCE, (*lake.texts(), *unit_texts(spec)))
    options = UpstreamOptions(
        name=name,
        metastore=connection.catalog,
        metastore_options=with_login(spec, connection.catalog_options),
        stores=route_stores(spec),
        columns=wanted,
        on_correction=spec.source.on_correction,
    )
    return SourceAccess("table", (*options.texts(), *unit_texts(spec)))


def _plain(spec: RouteSpec) -> dict[str, str]:
    """The source's client properties without secret values."""
    given = spec.kafka.properties.items()
    return {name: value for name, value in given if isinstance(value, str)}


def _queue_bound(spec: RouteSpec) -> dict[str, str]:
    """The queue's share of a task's memory; empty for a job with the default."""
    queue_bytes = deal(spec.run.memory_per_task_bytes).queue_bytes
    usual = queue_bytes == deal(DEFAULT_BYTES).queue_bytes
    return {} if usual else {QUEUED_KBYTES: str(queue_bytes >> 10)}


def _catalog_access(spec: RouteSpec) -> CatalogAccess:
    if spec.table.iceberg is not None:
        return lake_access(spec)
    plugin = spec.table_connection.plugin
    return CatalogAccess() if plugin is None else CatalogAccess(plugin[0], _texts(plugin[1]))


def format_choice(spec: RouteSpec) -> FormatChoice:
    """How to read a route's payloads, as a value that can be sent to the workers."""
    choice = _format_choice(spec)
    block = spec.format.rows_block
    if block is None or not spec.table.keyed:
        return choice
    # A null payload deletes the row of its key, unless the job file has another rule.
    said = "tombstones" in block.model_fields_set
    return replace(choice, whole_rows="keep" if said else "delete")


def _format_choice(spec: RouteSpec) -> FormatChoice:
    if spec.source.table is not None:
        return FormatChoice("table")
    if spec.format.plugin is not None:
        name, options = spec.format.plugin
        return FormatChoice(name, _texts(options))
    if spec.format.avro is not None:
        return FormatChoice("avro", avro_options(spec, spec.format.avro))
    if spec.format.protobuf is not None:
        return FormatChoice("protobuf", protobuf_options(spec, spec.format.protobuf))
    if spec.format.json_ is not None:
        told = dict(json_options(spec, spec.format.json_))
        if Evolution(spec.table.evolution).refuses_unknown:
            told["unknown_fields"] = "evolve"
        return FormatChoice("json", tuple(told.items()))
    return _change_log(spec)


def _change_log(spec: RouteSpec) -> FormatChoice:
    """A format with changes of rows, or one without its own options."""
    told = spec.format.debezium
    if told is not None:
        name, texts = "debezium", debezium_options(spec, told)
    else:
        name, texts = spec.format.built_in
    in_json = spec.format.maxwell is not None or (told is not None and told.registry is None)
    if in_json and Evolution(spec.table.evolution) is Evolution.ADD_COLUMNS:
        texts = (*texts, ("unknown_fields", "evolve"))
    if spec.table.keyed and spec.format.is_change_log:
        texts = (*texts, ("key", json.dumps(spec.table.key)))
        if spec.table.on_truncate == "apply":
            texts = (*texts, ("truncate", "apply"))
        if spec.format.canal is not None or spec.format.maxwell is not None:
            texts = (*texts, ("order", spec.table.key_order))
    return FormatChoice(name, texts)


def _texts(options: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, revealed(value)) for name, value in options.items()))


def _table_options(
    spec: RouteSpec, columns: tuple[RowColumn, ...] | None, *, text_keys: bool
) -> TableOptions:
    target, hive = spec.table.target, spec.table.hive
    return TableOptions(
        metastore=spec.table_connection.catalog,
        metastore_options=with_login(spec, spec.table_connection.catalog_options),
        database=target.database,
        table=target.table,
        schema=_table_schema(spec, columns, text_keys=text_keys),
        partition_columns=tuple(
            PartitionColumn(part.name, _partition_type(part.column, columns))
            for part in spec.table.partition_by
        ),
        create=target.create == "if_missing",
        location=target.location,
        create_location=target.create_location,
        file_format=_file_format(spec),
        compression=None if hive is None else hive.compression,
        parquet_timestamps=None if hive is None else hive.parquet_timestamps,
        follows=Evolution(spec.table.evolution).follows,
        stores=route_stores(spec),
        lake=lake_options(spec),
        columns_of_sql=spec.table.columns_of_sql,
        copied=spec.rooms is not None and spec.rooms.storage == "copied",
    ).named(target.name)


def _file_format(spec: RouteSpec) -> FileFormat | None:
    named = None if spec.table.hive is None else spec.table.hive.file_format
    return None if named is None else FileFormat(named)


def _meta_columns(spec: RouteSpec, *, text_keys: bool) -> tuple[PlannedMetaColumn, ...]:
    return tuple(
        PlannedMetaColumn(
            "partition_text" if text_keys and column.field == "partition" else column.field,
            column.name,
        )
        for column in spec.table.meta
    )


def _table_schema(
    spec: RouteSpec, columns: tuple[RowColumn, ...] | None, *, text_keys: bool
) -> Schema | None:
    """Columns of the table's files: the rows' without those in its folders, then meta columns."""
    if columns is None:
        return None
    in_files = spec.table.iceberg is not None
    folders = set() if in_files else {part.name.lower() for part in spec.table.partition_by}
    written = (column.field for column in columns if column.written)
    rows = tuple(field for field in written if field.name.lower() not in folders)
    kinds = _meta_columns(spec, text_keys=text_keys)
    meta = tuple(Field(each.column, META_TYPES[each.kind]) for each in kinds)
    return Schema((*rows, *meta))


def _partition_type(column: str | None, columns: tuple[RowColumn, ...] | None) -> str:
    if column is None or columns is None:
        return "string"
    types = {of.field.name.lower(): of.field.type for of in columns}
    return format_hive_type(types[column.lower()])
