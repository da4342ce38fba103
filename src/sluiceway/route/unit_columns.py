"""Columns of a table that is made of a query's results: found out at each START."""

from dataclasses import replace

from sluiceway.chains.options import UpstreamOptions
from sluiceway.errors import SourceUnavailableError, TableNotFoundError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.route.clients import open_sink
from sluiceway.route.route_context import RouteParts
from sluiceway.sinks.registry import readable_table


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
    options = UpstreamOptions.of(dict(config.source.options))
    try:
        table = readable_table(options.table())
    except TableNotFoundError as error:
        raise SourceUnavailableError(
            "the table does not exist yet; it is looked for again",
            where=options.topic,
            hint="run the job that fills it",
        ) from error
    schema = runner.columns(sql, table)
    if config.table.schema == schema:
        return config, parts
    completed = replace(config, table=replace(config.table, schema=schema))
    parts.sink.close()
    return completed, replace(parts, sink=open_sink(completed))
