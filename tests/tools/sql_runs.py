"""Runs a job with SQL: tasks in threads, the SQL in one Spark of the process."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark import SparkContext

from sluiceway.driver.spark.session import start_context
from sluiceway.driver.spark.spark_sql import SparkSql
from sluiceway.host.java import find_java
from sluiceway.schedule.sql_engine import SqlEngine
from sluiceway.schedule.unit_sql import UnitSql
from tools.inline_runner import InlineRunner
from tools.job_files import JobFile
from tools.route_runs import RouteRun


class SqlRunner(InlineRunner):
    """Tasks in threads, and an engine for SQL."""

    def __init__(self, engine: SqlEngine) -> None:
        super().__init__()
        self._engine = engine

    def sql(self) -> SqlEngine:
        """See `TaskRunner.sql`."""
        return self._engine


@dataclass(frozen=True, slots=True)
class SqlRouteRun(RouteRun):
    """A job whose routes have SQL."""

    engine: SqlEngine | None = field(default=None, kw_only=True)

    def runner(self, units: UnitSql | None = None) -> InlineRunner:
        """See `RouteRun.runner`."""
        del units
        assert self.engine is not None
        return SqlRunner(self.engine)


@pytest.fixture(scope="module")
def spark_sql() -> Iterator[SparkSql]:
    """SQL in a Spark of this process, which ends with the module's tests."""
    context, log = start_context(
        "sql-tests", "local[2]", {"spark.ui.enabled": "false"}, find_java()
    )
    assert isinstance(context, SparkContext)
    yield SparkSql(context, "sql-tests")
    context.stop()
    log.unlink(missing_ok=True)


SQL_JOB = """\
version: 1
name: {name}
connections:
  main: {{kafka: {{bootstrap_servers: "{bootstrap_servers}"}}}}
  hms: {{metastore: {{uri: "{metastore_uri}"}}}}
{connections}
source: {{connection: main, topics: [{topic}], start: earliest}}
format: {{json: {{tombstones: skip}}}}
transform:
  columns:
{columns}
  sql: |
{sql}
{more}
table:
  hive: {{connection: hms, name: {table}{hive}}}
  columns: from_sql
  partition_by: {partition_by}
  meta: {meta}
{event_time}
{rest}
run: {{interval: 0.5s, master: "local[2]"{run}}}
"""

SQL_COLUMNS = """\
  - {name: id, type: bigint, required: true}
  - {name: ts, type: timestamp, unit: ms, required: true}
  - {name: city, type: string}
  - {name: amount, type: "decimal(18,2)"}
  - {name: items, type: "array<struct<sku:string,n:int>>"}
"""


def write_sql_job(
    folder: Path, sql: str, *, bootstrap_servers: str, metastore_uri: str, topic: str, **more: str
) -> JobFile:
    """A small job whose table is what `sql` makes of `SQL_COLUMNS`."""
    table = f"ods.{topic.replace('-', '_')}"
    known = {
        "columns": SQL_COLUMNS,
        "more": "",
        "connections": "",
        "hive": "",
        "run": "",
        "partition_by": '[{name: dt, event_time: "yyyyMMdd"}]',
        "meta": "[partition, offset]",
        "event_time": "event_time: {field: ts}",
        "rest": "",
    }
    text = SQL_JOB.format(
        name=topic.replace("_", "-"),
        bootstrap_servers=bootstrap_servers,
        metastore_uri=metastore_uri,
        topic=topic,
        table=table,
        sql="\n".join(f"    {line}" for line in sql.splitlines()),
        **{**known, **more},
    )
    path = folder / f"{topic}.yaml"
    path.write_text(text)
    return JobFile(path, table)
