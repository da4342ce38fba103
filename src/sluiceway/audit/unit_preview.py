"""A unit of a route with `mode: recompute` as its table would get it. Nothing is written."""

import time
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq

from sluiceway.audit.planned_route import PlannedRoute
from sluiceway.audit.row_preview import NOTHING, Preview, PreviewRow, plain_value
from sluiceway.audit.sql_preview import scratch, unit_engine
from sluiceway.chains.open_units import open_unit_table, unit_upstream
from sluiceway.chains.unit_tables import UnitTable, partition_values
from sluiceway.chains.units import complete_unit
from sluiceway.errors import InvariantError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.ledger.partition_records import SwapCounts
from sluiceway.ledger.records import NO_ROWS
from sluiceway.route.route_plan import LedgerTerm, table_plan
from sluiceway.schedule.sql_tables import SqlTables
from sluiceway.schedule.unit_sql import UnitQuery
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.recomputing import unit_counts
from sluiceway.worker.plan import RoutePlan
from sluiceway.worker.unit_files import UnitPlan

_ATTEMPT = "preview"


def preview_unit(route: PlannedRoute, *, newest: bool, most: int) -> Preview:
    """Run the SQL over a unit of the table that is read. Called by `preview`.

    Args:
        route: As a start would find it; it computes units.
        newest: Whether the last unit that has rows is chosen, not the first, by its prefix.
        most: Most rows to show.

    Raises:
        JobFileError: The SQL cannot be run; says where it is wrong.
        SluicewayError: The table that is read cannot be read now, or Spark does not start.
    """
    config = route.config
    rule, sql = config.units, config.sql
    if rule is None or sql is None:
        raise InvariantError("only routes with `mode: recompute` have units")
    source = config.source
    table = open_unit_table(unit_upstream(dict(source.options), source.kind), rule)
    table.read_on()
    whole = (each.prefix for each in table.states() if not each.lost)
    prefixes = [prefix for prefix in whole if table.files(prefix).partitions]
    if not prefixes:
        return NOTHING
    prefix = max(prefixes) if newest else min(prefixes)
    plan = table_plan(config, route.table.state, LedgerTerm("preview", 0, route.layout))
    read, made, rows = _computed(plan, sql, table, prefix, most)
    expanded, filtered = BigInt(max(made - read, 0)), BigInt(max(read - made, 0))
    return Preview(
        counts=replace(
            NO_ROWS,
            read=BigInt(read),
            written=BigInt(made),
            filtered=filtered,
            expanded=expanded,
        ),
        columns=tuple(rows[0]) if rows else (),
        rows=tuple(
            PreviewRow(config.topics[0], prefix, number, prefix, values)
            for number, values in enumerate(rows)
        ),
        dirty=(),
        reasons={},
        folders={prefix: made},
        unit=prefix,
    )


def count_unit(config: RouteConfig, plan: RoutePlan, prefix: str) -> SwapCounts:
    """Run the SQL over a unit and count the rows. Called by `backfill --dry-run`.

    Raises:
        RequestRefusedError: The unit is not there, not complete yet, or no longer whole.
        SluicewayError: The table that is read cannot be read now, or Spark does not start.
    """
    rule, sql, source = config.units, config.sql, config.source
    if rule is None or sql is None:
        raise InvariantError("only routes with `mode: recompute` have units")
    table = open_unit_table(unit_upstream(dict(source.options), source.kind), rule)
    table.read_on()
    complete_unit(table.states(), prefix, rule, time.time_ns() // 1_000_000)
    read, made, _ = _computed(plan, sql, table, prefix, 0)
    return unit_counts(read, made)


def _computed(
    route: RoutePlan, sql: SqlRule, table: UnitTable, prefix: str, most: int
) -> tuple[int, int, list[dict[str, Any]]]:
    """Rows that were read, rows that the SQL has made, and the first of these."""
    with scratch(route) as (plan, storage):
        storage.make_folders(plan.layout.attempt(_ATTEMPT))
        output = UnitPlan(plan, _ATTEMPT, partition_values(prefix))
        query = UnitQuery(sql, table.table, table.files(prefix), output, SqlTables(sql).read())
        result = unit_engine().run(query, lambda: None)
        rows: list[dict[str, Any]] = []
        for file in result.files:
            with storage.open_read(plan.layout.attempt(file.staged)) as handle:
                found = pq.read_table(handle).slice(0, most - len(rows)).to_pylist()
            rows += [{name: plain_value(value) for name, value in row.items()} for row in found]
        return result.read, sum(int(file.rows) for file in result.files), rows
