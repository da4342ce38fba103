"""Columns that a route's SQL returns: put into the route at each START."""

from collections.abc import Callable
from dataclasses import replace

from sluiceway.chains.open_units import readable_unit_table, unit_upstream
from sluiceway.chains.options import missing_yet
from sluiceway.errors import (
    JobFileError,
    TableNotFoundError,
    UnhealthyEnvironmentError,
)
from sluiceway.jobfile.compile.compile import META_TYPES
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.route.clients import open_sink
from sluiceway.route.route_context import RouteParts
from sluiceway.route.route_plan import decoded_columns
from sluiceway.schedule.sql_engine import SqlEngine, TransformedEpoch
from sluiceway.schedule.sql_tables import SqlTables
from sluiceway.schedule.unit_sql import UnitSql
from sluiceway.sinks.contract import TableState
from sluiceway.types.hive_types import format_hive_type, parse_hive_type
from sluiceway.types.schema import Field, Schema, StringType


def with_unit_columns(config: RouteConfig, parts: RouteParts) -> tuple[RouteConfig, RouteParts]:
    """A route as it starts: with the columns that its SQL returns for units of another table.

    Other routes, and tables that say their columns themselves, stay as they are.

    Raises:
        SourceUnavailableError: The table that is read does not exist yet.
        MetastoreUnavailableError: Its catalog does not answer.
        JobFileError: The SQL cannot be run; says where it is wrong.
    """
    sql, runner = config.sql, parts.unit_sql
    if config.units is None or sql is None or sql.of_table or runner is None:
        return config, parts
    try:
        completed = unit_columns(config, sql, lambda: runner)
    except TableNotFoundError as error:
        if _has_table(parts):
            # It has its columns. The client says that the table that is read was dropped.
            return config, parts
        raise missing_yet(config.topics[0]) from error
    if completed == config:
        return config, parts
    parts.sink.close()
    return completed, replace(parts, sink=open_sink(completed))


def unit_columns(config: RouteConfig, rule: SqlRule, runner: Callable[[], UnitSql]) -> RouteConfig:
    """The route with the columns that its SQL returns for units; see `with_unit_columns`.

    Args:
        config: The route.
        rule: Its SQL.
        runner: Called once the table that is read is found: some start Spark for it.

    Raises:
        TableNotFoundError: The table that is read does not exist.
    """
    source = config.source
    table = readable_unit_table(unit_upstream(dict(source.options), source.kind))
    schema = runner().columns(rule, table, SqlTables(rule).read())
    return replace(config, table=replace(config.table, schema=schema))


def _has_table(parts: RouteParts) -> bool:
    try:
        return parts.sink.foresee().exists
    except TableNotFoundError:
        return False


def with_sql_columns(config: RouteConfig, parts: RouteParts) -> tuple[RouteConfig, RouteParts]:
    """A route as it starts: with the columns that its SQL returns now.

    Called at each START. A route without SQL, or with SQL over units, stays as it is. So does the
    route of a command, which has no Spark: see `with_table_columns`.

    Raises:
        JobFileError: The SQL is wrong, does not work row by row, or returns what no table has.
        UnhealthyEnvironmentError: What runs the tasks cannot run SQL.
    """
    if config.sql is None or config.units is not None:
        return config, parts
    if parts.sql is None and parts.slots is None:
        return config, parts
    if parts.sql is None:
        raise UnhealthyEnvironmentError(
            "the route has SQL, and its tasks do not run in Spark",
            where=config.sql.places.place(None),
            hint="run it with `sluiceway run JOB`, or remove `transform`",
        )
    completed = sql_columns(config, config.sql, parts.sql)
    if completed == config:
        return config, parts
    sink = open_sink(completed)
    parts.sink.close()
    return completed, replace(parts, sink=sink)


def with_table_columns(config: RouteConfig, state: TableState) -> RouteConfig:
    """The route of a command, whose SQL nothing runs: with the columns that its table has.

    Called at a START after fencing. Other routes stay as they are.
    """
    if config.sql is None or config.units is not None or config.sql_columns is not None:
        return config
    known = {each.name for each in state.schema.fields}
    folders = (Field(name, StringType()) for name in state.partition_columns if name not in known)
    return replace(config, sql_columns=Schema((*state.schema.fields, *folders)))


def refuse_replay(*_: object) -> TransformedEpoch:
    """Stands for `SqlEpochs.replayed` in a command.

    Raises:
        UnhealthyEnvironmentError: Always.
    """
    raise UnhealthyEnvironmentError(
        "the rows of this route pass SQL, and only its job has a Spark that runs it",
        hint="the request is kept: start the job with `sluiceway run JOB`, which replays them",
    )


def sql_columns(config: RouteConfig, rule: SqlRule, engine: SqlEngine) -> RouteConfig:
    """The route with the columns of its SQL; see `with_sql_columns`."""
    if config.columns is None:
        raise JobFileError(
            "the columns that the SQL reads are not declared",
            where=rule.places.place(None),
            hint="list them: transform.columns",
        )
    found = engine.columns(rule, decoded_columns(config), SqlTables(rule).read())
    schema = Schema(tuple(Field(name, parse_hive_type(kind)) for name, kind in found))
    _check_partitions(config, rule, schema)
    if rule.of_table:
        return replace(config, sql_columns=schema)
    folders = {each.name.lower() for each in config.table.partition_columns}
    in_files = config.table.lake is not None
    rows = (each for each in schema.fields if in_files or each.name.lower() not in folders)
    meta = (Field(each.column, META_TYPES[each.kind]) for each in config.meta)
    kinds = {each.name.lower(): format_hive_type(each.type) for each in schema.fields}
    columns = {rule.name: rule.column for rule in config.partitions}
    table = replace(
        config.table,
        schema=Schema((*rows, *meta)),
        partition_columns=tuple(
            replace(each, hive_type=kinds.get((columns[each.name] or "").lower(), "string"))
            for each in config.table.partition_columns
        ),
    )
    return replace(config, sql_columns=schema, table=table)


def _check_partitions(config: RouteConfig, rule: SqlRule, schema: Schema) -> None:
    names = {each.name.lower() for each in schema.fields}
    for part in config.partitions:
        if part.column is not None and part.column.lower() not in names:
            raise JobFileError(
                f"the table is partitioned by {part.column}, which the SQL does not return",
                where=rule.places.place(None),
                hint=f"add it to the SELECT; it returns {', '.join(sorted(names))}"[:400],
            )
    for meta in config.meta:
        if meta.column.lower() in names:
            raise JobFileError(
                f"the SQL returns a column {meta.column}, and so is a meta column called",
                where=rule.places.place(None),
                hint="rename one of them",
            )
