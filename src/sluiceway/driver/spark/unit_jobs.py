"""Queries over units of a table as Spark jobs: Spark reads, Spark computes, our writer writes."""

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDoneError
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any
from uuid import uuid4

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.functions import broadcast, lit
from pyspark.sql.functions import count as count_of

from sluiceway.chains.unit_tables import PartitionFiles, UnitFiles
from sluiceway.driver.hdfs_tokens import HdfsTokens
from sluiceway.driver.spark.spark_jobs import JobLabel, labelled
from sluiceway.driver.spark.sql_frames import job_failure, map_batches, refused_sql, sql_columns
from sluiceway.driver.spark.sql_functions import register_functions
from sluiceway.errors import JobFileError, SluicewayError, TableMismatchError, TaskFailedError
from sluiceway.host.hdfs_tokens import DelegationTokens, hold_tokens
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.schedule.sql_engine import JoinedTable
from sluiceway.schedule.unit_sql import UnitQuery, UnitResult
from sluiceway.sinks.files.contract import FileFormat
from sluiceway.sinks.table_options import ReadableTable
from sluiceway.types.hive_types import format_hive_type, parse_hive_type
from sluiceway.types.schema import Field, Schema
from sluiceway.worker.unit_files import UnitPlan, write_unit

UNITS_AT_ONCE = 2
"""Most units that are computed at the same time, for all routes of a driver together."""

_INPUT = "input"
_ROWS = "sluiceway_rows"
_WAIT_S = 0.1
_UPKEEP = "upkeep"


@dataclass(frozen=True, slots=True)
class _Frame:
    """A query over rows of its input, and what counts these.

    Attributes:
        exact: Whether each row of the input passes the counter once when the query runs whole.
    """

    rows: DataFrame
    counted: Observation
    exact: bool


class UnitJobs:
    """A `UnitSql` of one Spark application. Its SQL is started with the first query.

    Args:
        context: Context of the epochs.
        name: Begins the name of its job group.
        owned: Whether the application is ours: a borrowed one has no pools.
        tokens: For tasks on other machines; None where they need none.
    """

    def __init__(
        self,
        context: SparkContext,
        name: str,
        *,
        owned: bool = True,
        tokens: HdfsTokens | None = None,
    ) -> None:
        self._context = context
        self._tokens = tokens
        self._group = f"{name}-units"
        self._tag = f"{self._group}-{uuid4().hex[:8]}"
        self._pool = _UPKEEP if owned and not context.master.startswith("local") else ""
        self._threads = ThreadPoolExecutor(UNITS_AT_ONCE, thread_name_prefix="spark-units")
        self._numbers = count(1)

    def columns(
        self, sql: SqlRule, table: ReadableTable, tables: tuple[JoinedTable, ...] = ()
    ) -> Schema:
        """See `UnitSql.columns`."""
        frame = self._frame(sql, table, UnitFiles((), 0), tables)
        found = sql_columns(frame.rows, sql)
        return Schema(tuple(Field(name.lower(), parse_hive_type(kind)) for name, kind in found))

    def run(self, query: UnitQuery, check: Callable[[], None]) -> UnitResult:
        """See `UnitSql.run`."""
        plan = query.output
        prefix = "/".join(value or "null" for value in plan.values)
        label = JobLabel(
            self._group,
            f"{plan.route.layout.route}: unit {prefix}, {query.files.rows or 0} rows",
            f"{self._tag}-{next(self._numbers)}",
            self._pool,
        )
        work = self._threads.submit(self._run, query, label)
        try:
            return _awaited(work, check)
        except (NotDoneError, SluicewayError):
            self._context.cancelJobsWithTag(label.tag)
            raise

    def close(self) -> None:
        """Begin no more jobs; running ones end with Spark."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(self, query: UnitQuery, label: JobLabel) -> UnitResult:
        frame = self._frame(query.sql, query.table, query.files, query.tables)
        rows = _as_table(frame.rows, query.output)
        tokens = None
        if self._tokens is not None:
            layout = query.output.route.layout
            place = (layout.table_root, query.output.route.stores)
            tokens = self._tokens.delegation_tokens([place])
        written = map_batches(rows, partial(_write, query.output, tokens))
        try:
            with labelled(self._context, label):
                answers = [bytes(row[0]) for row in written.collect()]
        except PySparkException as error:
            raise _failed(error, query.sql) from error
        except (Py4JError, OSError) as error:
            raise TaskFailedError(f"Spark is gone: {type(error).__name__}") from error
        files = [file for raw in answers for file in pickle.loads(raw)]  # noqa: S301 - our own
        return UnitResult(self._rows_read(frame, query), tuple(files))

    def _rows_read(self, frame: _Frame, query: UnitQuery) -> int:
        """Rows of the input that were read; a query that needs not all is counted by itself."""
        wanted = query.files.rows
        read = _observed(frame.counted) if frame.exact else None
        if read is not None and (wanted is None or read >= wanted):
            return read
        rows = _input(frame.rows.sparkSession, query.table, query.files)
        return int(rows.count())

    def _frame(
        self,
        sql: SqlRule,
        table: ReadableTable,
        files: UnitFiles,
        tables: tuple[JoinedTable, ...],
    ) -> _Frame:
        """The query over exactly these files, in a session that shares nothing with others."""
        session = self._session(sql)
        counted = Observation(_ROWS)
        rows = _input(session, table, files).observe(counted, count_of(lit(1)).alias("n"))
        rows.createOrReplaceTempView(_INPUT)
        for each in tables:
            broadcast(session.createDataFrame(each.rows)).createOrReplaceTempView(each.name)
        try:
            found = session.sql(sql.sql)
            plan = found._jdf.queryExecution().optimizedPlan().toString()  # noqa: SLF001
            return _Frame(found, counted, plan.count(f"CollectMetrics {_ROWS}") == 1)
        except PySparkException as error:
            raise refused_sql(error, sql) from error

    def _session(self, sql: SqlRule) -> SparkSession:
        # Spark logs each error of a user's SQL with its whole stack; we say it in one line.
        for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(logger).setLevel("CRITICAL")
        session = SparkSession(self._context).newSession()
        session.conf.set("spark.sql.session.timeZone", sql.timezone)
        session.conf.set("spark.sql.ansi.enabled", "true")
        register_functions(session, sql)
        return session


def _observed(counted: Observation) -> int | None:
    """What the counter of a query that has run says; None where Spark has run it without one.

    It leaves the counter out once it finds that no row comes, as for a join with an empty side.
    """
    try:
        return int(counted.get["n"])
    except Py4JJavaError:
        return None


def _input(session: SparkSession, table: ReadableTable, files: UnitFiles) -> DataFrame:
    """Rows of these files with the columns of their partitions, as Hive's readers see them."""
    text = ", ".join(f"`{name}` {kind}" for name, kind in table.columns)
    reader = session.read.schema(text)
    read = reader.orc if table.file_format is FileFormat.ORC else reader.parquet
    parts = files.partitions or (PartitionFiles((None,) * len(table.partition_columns), ()),)
    frames = []
    for part in parts:
        frame = read(*part.paths) if part.paths else session.createDataFrame([], text)
        for (name, kind), value in zip(table.partition_columns, part.values, strict=True):
            frame = frame.withColumn(name, lit(value).cast(kind))
        frames.append(frame)
    rows = frames[0]
    for frame in frames[1:]:
        rows = rows.unionAll(frame)
    return rows


def _as_table(rows: DataFrame, plan: UnitPlan) -> DataFrame:
    """The columns of the table, in its order, as Spark would insert them.

    Raises:
        TableMismatchError: A column is missing, unknown, or does not fit.
    """
    given = {field.name.lower(): field for field in rows.schema.fields}
    wanted = {field.name.lower(): field for field in plan.route.schema.fields}
    where = plan.route.layout.table_root
    hint = "correct transform.sql, or the columns of the table"
    if len(given) < len(rows.schema.fields):
        raise TableMismatchError("the SQL returns two columns of one name", where=where, hint=hint)
    missing, unknown = sorted(wanted.keys() - given), sorted(given.keys() - wanted)
    if missing or unknown:
        says = [f"lacks {', '.join(missing)}"] if missing else []
        says += [f"has {', '.join(unknown)}, which the table does not have"] if unknown else []
        raise TableMismatchError(
            f"the SQL returns other columns: it {' and '.join(says)}", where=where, hint=hint
        )
    session = rows.sparkSession
    jvm: Any = session._jvm  # noqa: SLF001 - Python has no such question
    cast = jvm.org.apache.spark.sql.catalyst.expressions.Cast
    chosen = []
    for name, field in wanted.items():
        kind = format_hive_type(field.type)
        parser = session._jsparkSession.sessionState().sqlParser()  # noqa: SLF001
        into = parser.parseDataType(kind)
        have = session._jsparkSession.parseDataType(given[name].dataType.json())  # noqa: SLF001
        if not cast.canANSIStoreAssign(have, into):
            raise TableMismatchError(
                f"column {name}: the SQL returns {given[name].dataType.simpleString()}, "
                f"the table has {kind}",
                where=where,
                hint=hint,
            )
        chosen.append(rows[given[name].name].cast(kind).alias(field.name))
    return rows.select(*chosen)


def _write(
    plan: UnitPlan, tokens: DelegationTokens | None, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The task: one answer, the records of its files."""
    if tokens is not None:
        hold_tokens(tokens)
    files = write_unit(plan, batches)
    yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(files)], pa.binary())], ["answer"])


def _awaited(work: Future[UnitResult], check: Callable[[], None]) -> UnitResult:
    while True:
        try:
            return work.result(_WAIT_S)
        except NotDoneError:
            check()


def _failed(error: PySparkException, sql: SqlRule) -> SluicewayError:
    """An error of a value is the query's own, and comes again; all else may be tried again."""
    found = job_failure(error, sql)
    if isinstance(found, TaskFailedError):
        return found
    return JobFileError(
        f"the SQL has failed on a row: {found}",
        where=sql.places.place(None),
        hint="let it return null for such a value, for example with try_cast",
    )
