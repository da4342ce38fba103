"""SQL of routes in Spark: what it returns, and its jobs over landed files."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql import types as spark

from sluiceway import __version__
from sluiceway.driver.hdfs_tokens import HdfsTokens
from sluiceway.driver.spark.spark_errors import ended, lost, unreadable_store
from sluiceway.driver.spark.spark_jobs import JobLabel, labelled
from sluiceway.driver.spark.sql_frames import (
    arrow_batches,
    check_columns,
    job_failure,
    refused_sql,
    sql_columns,
)
from sluiceway.driver.spark.sql_functions import register_functions
from sluiceway.driver.spark.sql_plan import (
    NOT_BY_ROW,
    NoGuardError,
    RefusedSqlError,
    SqlPlans,
)
from sluiceway.driver.spark.sql_types import spark_type
from sluiceway.driver.spark.sql_write import write_batches
from sluiceway.errors import JobFileError
from sluiceway.jobfile.blocks.transform import INPUT
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.schedule.sql_engine import (
    JoinedTable,
    NotGuardedError,
    SqlAnswer,
    SqlEngine,
    SqlJob,
)
from sluiceway.types.schema import Schema
from sluiceway.types.strict_json import decode
from sluiceway.worker.landing import AT, carried_fields
from sluiceway.worker.plan import TaskResult
from sluiceway.worker.sql_task import SqlProblem, SqlTask

if TYPE_CHECKING:
    import pyarrow as pa

MOST_BROADCAST_BYTES = 256 << 20
"""Largest small table that is sent to all tasks."""

_OBSERVED = "sluiceway_rows"
_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    # Plans are small and known: no stage waits for another.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": str(MOST_BROADCAST_BYTES),
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    "spark.sql.shuffle.partitions": "1",
}
_WAIT_S = 0.1
_AT_ONCE = 4


class SparkSql(SqlEngine):
    """A `SqlEngine` of one Spark application. Spark SQL starts with the first route that has SQL.

    Args:
        context: Context of the epochs.
        name: Begins the names of its job groups.
        tokens: For tasks on other machines; None where they need none.
    """

    def __init__(self, context: SparkContext, name: str, tokens: HdfsTokens | None = None) -> None:
        self._context = context
        self._name = name
        self._tokens = tokens
        self._lock = threading.Lock()
        # Each thread has a connection to the JVM: few threads, which stay.
        self._jobs = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="spark-sql")
        # It would print each error of a query with its whole stack.
        logging.getLogger("SQLQueryContextLogger").disabled = True
        self._sessions: dict[SqlRule, SparkSession] = {}
        self._pins: dict[tuple[SqlRule, str], str] = {}
        self._checked: dict[SqlRule, tuple[tuple[str, str], ...]] = {}

    def columns(
        self, rule: SqlRule, decoded: Schema, tables: tuple[JoinedTable, ...] = ()
    ) -> tuple[tuple[str, str], ...]:
        """See `SqlEngine.columns`."""
        try:
            with self._lock:
                session = self.session(rule)
                self._show(session, rule, tables)
                rows = session.createDataFrame(self._context.emptyRDD(), _schema(decoded))
                frame = self._query(session, rule, _observed(rows), decoded)
                plans = SqlPlans(session)
                plan = self._checked_plan(plans, rule, frame, tables)
                _check_executed(plans, rule, _carrying(plans, rule, plan, ()))
                return sql_columns(frame, rule)
        except (Py4JNetworkError, Py4JError, OSError) as error:
            raise lost(error) from error

    def run(self, job: SqlJob, check: Callable[[], None]) -> SqlAnswer:
        """See `SqlEngine.run`."""
        tag = f"{self._name}-sql-{uuid4().hex[:8]}"
        work = self._jobs.submit(self._run, job, tag)
        try:
            while not wait([work], _WAIT_S).done:
                check()
        except BaseException:
            self._context.cancelJobsWithTag(tag)
            raise
        try:
            return work.result()
        except NoGuardError as error:
            raise NotGuardedError(str(error)) from error
        except (Py4JJavaError, PySparkException) as error:
            gone = ended(self._context, error) or unreadable_store(error)
            raise gone or job_failure(error, job.rule) from error
        except (Py4JNetworkError, Py4JError, OSError) as error:
            raise lost(error) from error

    def _run(self, job: SqlJob, tag: str) -> SqlAnswer:
        task, route = job.task, job.task.plan.route
        with self._lock:
            session = self.session(job.rule)
            self._show(session, job.rule, job.tables)
            carried = [each.name for each in carried_fields(route)]
            rows = _observed(self._landed(session, job))
            frame = self._query(session, job.rule, rows, job.decoded)
            check_columns(frame, job.rule, route.sql)
            plans = SqlPlans(session)
            plan = self._checked_plan(plans, job.rule, frame, job.tables)
            found = _carrying(plans, job.rule, plan, carried)
        # Without a guard, this plan is the one that runs: nothing is planned for the check alone.
        _check_executed(plans, job.rule, found)
        if job.guarded:
            found = plans.frame(plans.guarded(found))
            problems = tuple(
                SqlProblem(job.rule.places.place(each.index), f"`{each.text}` cannot be computed")
                for each in plans.may_fail
            )
            task = SqlTask(task.plan, task.first_splits, task.landed, problems)
        layout = route.layout
        about = f"{layout.route}: SQL of epoch {task.plan.epoch}"
        label = JobLabel(f"{self._name}-sql", about, tag)
        version, tokens = __version__, None
        if self._tokens is not None:
            tokens = self._tokens.delegation_tokens([(layout.table_root, route.stores)])
        batches, schema = arrow_batches(found)

        def write(parts: "Iterator[bytes]") -> "Iterator[bytes]":
            yield write_batches(version, tokens, task, schema, parts)

        with labelled(self._context, label):
            answers = batches.mapPartitions(write).collect()
        results = tuple(decode(each, TaskResult) for each in answers)
        return SqlAnswer(results, _rows_read(found))

    def session(self, rule: SqlRule) -> SparkSession:
        """The session of a route: its names and settings are its own."""
        found = self._sessions.get(rule)
        if found is None:
            found = SparkSession(self._context).newSession()
            for name, value in _SETTINGS.items():
                found.conf.set(name, value)
            found.conf.set("spark.sql.session.timeZone", rule.timezone)
            register_functions(found, rule)
            self._sessions[rule] = found
        return found

    def _show(self, session: SparkSession, rule: SqlRule, tables: Sequence[JoinedTable]) -> None:
        """Give a session small tables by their names; what it has already is kept."""
        for each in tables:
            if self._pins.get((rule, each.name)) != each.pin:
                rows = functions.broadcast(session.createDataFrame(each.rows))
                rows.createOrReplaceTempView(each.name)
                self._pins[rule, each.name] = each.pin

    def _landed(self, session: SparkSession, job: SqlJob) -> DataFrame:
        fields = [
            spark.StructField(each.name, spark_type(each.type)) for each in job.decoded.fields
        ]
        carried = [
            spark.StructField(each.name, _arrow_type(each.type))
            for each in carried_fields(job.task.plan.route)
        ]
        paths = [f"file://{path}" if path.startswith("/") else path for _, path in job.task.landed]
        rows = session.read.schema(spark.StructType([*fields, *carried])).parquet(*paths)
        if job.first:
            rows = rows.where(functions.col(AT) >= job.first)
        return rows if job.last is None else rows.where(functions.col(AT) <= job.last)

    def _query(
        self, session: SparkSession, rule: SqlRule, rows: DataFrame, decoded: Schema
    ) -> DataFrame:
        names = [f"`{each.name}`" for each in decoded.fields]
        rows.select(*names).createOrReplaceTempView(INPUT)
        try:
            return session.sql(rule.sql)
        except (ParseException, AnalysisException) as error:
            raise refused_sql(error, rule) from error

    def _checked_plan(
        self,
        plans: SqlPlans,
        rule: SqlRule,
        frame: DataFrame,
        tables: Sequence[JoinedTable],
    ) -> Any:
        """The analyzed plan; what it may read and call is checked once, with each state of tables.

        A walk through a plan costs a call of the JVM for each of its nodes.
        """
        plan, pins = plans.analyzed(frame), tuple((each.name, each.pin) for each in tables)
        if self._checked.get(rule) != pins:
            try:
                plans.check_analyzed(plan)
            except RefusedSqlError as error:
                raise _not_by_row(error, rule) from error
            self._checked[rule] = pins
        return plan


def _carrying(plans: SqlPlans, rule: SqlRule, plan: Any, carried: Sequence[str]) -> DataFrame:
    try:
        return plans.frame(plans.carrying(plan, carried))
    except RefusedSqlError as error:
        raise _not_by_row(error, rule) from error


def _check_executed(plans: SqlPlans, rule: SqlRule, frame: DataFrame) -> None:
    try:
        plans.check_executed(frame)
    except RefusedSqlError as error:
        raise _not_by_row(error, rule) from error


def _not_by_row(error: RefusedSqlError, rule: SqlRule) -> JobFileError:
    return JobFileError(error.message, where=rule.places.place(error.index), hint=NOT_BY_ROW)


def _observed(rows: DataFrame) -> DataFrame:
    """The same rows, counted while a job reads them."""
    return rows.observe(_OBSERVED, functions.count(functions.lit(1)).alias("rows"))


def _rows_read(frame: DataFrame) -> int:
    """How many rows a job has read that has ended."""
    found = frame._jdf.queryExecution().observedMetrics().get(_OBSERVED)  # noqa: SLF001
    return int(found.get().getLong(0)) if found.isDefined() else 0


def _schema(decoded: Schema) -> spark.StructType:
    return spark.StructType(
        [spark.StructField(each.name, spark_type(each.type)) for each in decoded.fields]
    )


def _arrow_type(kind: "pa.DataType") -> spark.DataType:
    import pyarrow as pa  # noqa: PLC0415 - loaded with the first landed file
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415 - likewise

    if pa.types.is_dictionary(kind):
        return spark.StringType()
    if pa.types.is_timestamp(kind):
        return spark.TimestampType()
    found: spark.DataType = from_arrow_type(kind)
    return found
