"""Queries of users in Spark: their columns, their errors, and what reads their rows."""

import re
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark import RDD
from pyspark.errors import PySparkException, PythonException
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from sluiceway.driver.spark.spark_errors import cause_of
from sluiceway.driver.spark.sql_types import NoHiveTypeError, hive_type
from sluiceway.errors import JobFileError, TaskFailedError
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.schedule.sql_engine import SqlDataError
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema

_PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)?)\]\s*(.*)")
# Classes of Spark's errors that a value in a row causes.
_BY_VALUES = ("22", "23", "21", "42K", "P0001")

MapBatches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_batches(rows: DataFrame, function: MapBatches) -> DataFrame:
    """`DataFrame.mapInArrow` to one column `answer`, without pandas, which that imports unused."""
    made = UserDefinedFunction(
        function, returnType="answer binary", evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    )
    column = made(*[rows[f"`{name}`"] for name in rows.columns])
    return DataFrame(rows._jdf.mapInArrow(column._jc, False, None), rows.sparkSession)  # noqa: FBT003, SLF001


def arrow_batches(rows: DataFrame) -> tuple["RDD[bytes]", bytes]:
    """Rows as an RDD of Arrow batches, and the message of their schema.

    `mapInArrow` never frees the buffers of a task whose rows fail (Spark 4.1): a few hundred epochs
    with dirty rows took all memory of a JVM. Called by the thread that runs the job: it gets the
    settings of the rows' session, as jobs of Spark SQL do.
    """
    session, context = rows.sparkSession, rows.sparkSession.sparkContext
    for name, value in session.conf.getAll.items():
        if name.startswith("spark.sql."):
            context.setLocalProperty(name, value)
    conf = session._jsparkSession.sessionState().conf()  # noqa: SLF001
    schema = session._jvm.org.apache.spark.sql.util.ArrowUtils.toArrowSchema(  # noqa: SLF001
        rows._jdf.schema(),  # noqa: SLF001
        conf.sessionLocalTimeZone(),
        conf.pandasStructHandlingMode() == "legacy",
        conf.arrowUseLargeVarTypes(),
    )
    batches = rows._jdf.toArrowBatchRdd().toJavaRDD()  # noqa: SLF001
    return RDD(batches, context, NoOpSerializer()), bytes(schema.serializeAsMessage())


def sql_columns(frame: DataFrame, rule: SqlRule) -> tuple[tuple[str, str], ...]:
    """Names and Hive types of what a query returns.

    Raises:
        JobFileError: No table can have such columns.
    """
    found: dict[str, tuple[str, str]] = {}
    where = rule.places.place(None)
    for each in frame.schema.fields:
        if each.name.lower() in found:
            raise JobFileError(
                f"the SQL returns two columns `{each.name}`",
                where=where,
                hint="rename one: AS name",
            )
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,127}", each.name):
            raise JobFileError(
                f"the SQL returns a column `{each.name[:100]}`, which no table can have",
                where=where,
                hint="give it a name of letters, digits and `_`: AS name",
            )
        try:
            found[each.name.lower()] = (each.name, hive_type(each.dataType))
        except NoHiveTypeError as error:
            raise JobFileError(
                f"the column `{each.name}` of the SQL has the type {error}, which no table has",
                where=where,
                hint=f"write CAST(... AS STRING) AS {each.name}, or another type",
            ) from error
    return tuple(found.values())


def check_columns(frame: DataFrame, rule: SqlRule, wanted: Schema | None) -> None:
    """Require that a query returns what it did at START. Called before each job.

    Files take columns by their order, so another column would fill those after it.

    Raises:
        JobFileError: A small table has other columns or types since.
    """
    found = [Field(name, parse_hive_type(kind)) for name, kind in sql_columns(frame, rule)]
    held = [] if wanted is None else [Field(each.name, each.type) for each in wanted.fields]
    if found != held:
        changed = sorted(
            {each.name for each in (*found, *held) if (each in found) != (each in held)}
        )
        raise JobFileError(
            "the SQL returns other columns than at the start of the job: "
            f"{', '.join(changed) or 'in another order'}",
            where=rule.places.place(None),
            hint="a table that it joins has changed: name columns instead of `*`, or start again",
        )


def refused_sql(error: PySparkException, rule: SqlRule) -> JobFileError:
    """The problem of a query that Spark does not run, at its place in the job file."""
    text = str(error)
    message = text.strip().partition("\n")[0].partition(" SQLSTATE")[0]
    return JobFileError(
        f"Spark refuses the SQL: {message[:400]}",
        where=rule.places.place(_index_of(rule.sql, error, text)),
        hint="correct it; `input` has the columns that are read, and other tables and functions "
        "are declared under `transform`",
    )


def _index_of(sql: str, error: PySparkException, text: str) -> int | None:
    contexts = error.getQueryContext() or []
    for context in contexts:
        return int(context.startIndex())
    if (found := _PLACE.search(text)) is not None:
        lines = sql.split("\n")[: int(found[1]) - 1]
        return sum(len(line) + 1 for line in lines) + int(found[2])
    return None


def job_failure(error: BaseException, rule: SqlRule) -> SqlDataError | TaskFailedError:
    """What the failure of a query's job means: a value, or its tasks."""
    text = str(error)
    found = _CONDITION.search(text)
    state = re.search(r"SQLSTATE: ([0-9A-Z]{5})", text)
    by_value = state is not None and state[1].startswith(_BY_VALUES)
    by_python = isinstance(error, PythonException) or "PythonException" in text
    if by_python and rule.functions:
        if "ModuleNotFoundError" in text:
            return TaskFailedError(
                f"executors lack a package that a function needs: {cause_of(error)}",
                hint="install it there, or name it in run.spark_conf: spark.submit.pyFiles",
            )
        # Our own tasks answer with their errors: it is one of the user's functions.
        by_value = True
    if by_value:
        message = cause_of(error) if found is None else f"[{found[1]}] {found[2]}"
        return SqlDataError(message[:300])
    return TaskFailedError(f"the job of the SQL died: {cause_of(error)}")
