"""Runs the SQL of units by DuckDB: the same files, our writer, and no JVM."""

from collections.abc import Callable

import duckdb
import pyarrow as pa

from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.schedule.sql_engine import JoinedTable
from sluiceway.schedule.unit_sql import UnitQuery, UnitResult
from sluiceway.sinks.table_options import ReadableTable
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema
from sluiceway.worker.unit_files import write_unit

_HIVE = {"int64": "bigint", "string": "string", "timestamp[us]": "timestamp"}


class DuckUnits:
    """A `UnitSql` for tests of everything around it.

    Attributes:
        runs: Queries that were run, by the values of the unit.
        before: Called with these values before a query runs.
        read: Changes how many rows are observed.
    """

    def __init__(self) -> None:
        self.runs: list[tuple[str | None, ...]] = []
        self.before: Callable[[tuple[str | None, ...]], None] = lambda _: None
        self.read: Callable[[int], int] = lambda rows: rows

    def columns(
        self, sql: SqlRule, table: ReadableTable, tables: tuple[JoinedTable, ...] = ()
    ) -> Schema:
        """See `UnitSql.columns`."""
        with duckdb.connect() as base:
            kinds = ", ".join(
                f'"{name}" {kind}' for name, kind in (*table.columns, *table.partition_columns)
            ).replace("string", "varchar")
            base.execute(f"CREATE TABLE input ({kinds})")
            _join(base, tables)
            found = base.sql(sql.sql).to_arrow_table()
        return Schema(
            tuple(
                Field(field.name, parse_hive_type(_HIVE[str(field.type)])) for field in found.schema
            )
        )

    def run(self, query: UnitQuery, check: Callable[[], None]) -> UnitResult:
        """See `UnitSql.run`."""
        check()
        self.runs.append(query.output.values)
        self.before(query.output.values)
        with duckdb.connect() as base:
            parts, rows = [], 0
            for number, part in enumerate(query.files.partitions):
                base.execute(
                    f"CREATE VIEW part{number} AS FROM read_parquet("
                    f"{list(part.paths)}, hive_partitioning=false, union_by_name=true)"
                )
                count = base.execute(f"SELECT count(*) FROM part{number}").fetchone()  # noqa: S608
                rows += 0 if count is None else count[0]
                added = "".join(
                    f", '{value}' AS \"{name}\""
                    for (name, _), value in zip(
                        query.table.partition_columns, part.values, strict=True
                    )
                )
                parts.append(f"SELECT *{added} FROM part{number}")  # noqa: S608
            if parts:
                base.execute(f"CREATE VIEW input AS {' UNION ALL BY NAME '.join(parts)}")
            else:
                kinds = ", ".join(f'"{n}" {k}' for n, k in query.table.columns)
                base.execute(f"CREATE TABLE input ({kinds})".replace("string", "varchar"))
            _join(base, query.tables)
            found = base.sql(query.sql.sql).to_arrow_table()
        wanted = [field.name for field in query.output.route.schema.fields]
        batches = pa.table({name: found[name] for name in wanted}).to_batches()
        return UnitResult(self.read(rows), write_unit(query.output, batches))


def _join(base: duckdb.DuckDBPyConnection, tables: tuple[JoinedTable, ...]) -> None:
    for each in tables:
        base.register(each.name, each.rows)
