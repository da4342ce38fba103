"""A driver's jobs on Spark's pages: group, description, stage name, counters.

Groups and stage names stay the same from epoch to epoch and from run to run; the description
changes. Jobs are cancelled by tags, which no other run shares.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.classic.column import Column
from pyspark.traceback_utils import SCCallSiteSync

from sluiceway.job.spark_task import COUNTED, RunTask
from sluiceway.schedule.runner import Bundle

POOL = "spark.scheduler.pool"
"""Spark's property for the pool of a thread's jobs."""

_NAMED_ROUTES = 3
_UNITS = ((10**9, "G"), (10**6, "M"), (10**3, "k"))


@dataclass(frozen=True, slots=True)
class JobLabel:
    """Labels of a Spark job.

    Attributes:
        group: Its job group, and the name of its stage.
        description: Description on Spark's pages.
        tag: Tag by which it is cancelled.
        pool: Pool of Spark's scheduler; empty for the default one.
    """

    group: str
    description: str
    tag: str
    pool: str = ""


def epoch_description(bundles: Sequence[Bundle]) -> str:
    """Description of an epoch's job: `orders: epoch 1204, 8 splits, 1.2 M records waiting`.

    With several routes the first few are named, each with its epoch.
    """
    plans = [plan for bundle in bundles for plan in bundle]
    epochs = {plan.route.layout.route: plan.epoch for plan in plans}
    splits = sum(len(plan.splits) for plan in plans)
    waiting = sum(plan.waiting for plan in plans)
    work = f"{_counted(splits, 'split')}, {_short(waiting)} records waiting"
    if len(epochs) == 1:
        ((route, epoch),) = epochs.items()
        return f"{route}: epoch {epoch}, {work}"
    named = [f"{route} epoch {epoch}" for route, epoch in list(epochs.items())[:_NAMED_ROUTES]]
    more = len(epochs) - len(named)
    others = f" and {_counted(more, 'more route')}" if more else ""
    return f"{', '.join(named)}{others}: {work}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _short(number: int) -> str:
    for size, unit in _UNITS:
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return str(number)


class StageCounters:
    """Named accumulators of an epoch, which the stage page shows for the stage and for each task.

    A Python task cannot fill a named accumulator itself: Spark hands Python's updates to the
    driver's Python process alone. So the answers have the numbers as columns, and an expression in
    the JVM adds them up (ADR 118). They are for people: no code reads them, and a repeated task may
    count twice.

    Args:
        context: SparkContext of the session.

    Raises:
        Py4JError, AttributeError, TypeError: This Spark lacks what it needs.
    """

    def __init__(self, context: SparkContext) -> None:
        self._sums: list[Any] = []
        self._columns: list[Column] = []
        for column, name in COUNTED.items():
            total = context._jsc.sc().longAccumulator(name)  # noqa: SLF001 - Python has no named ones
            self._sums.append(total)
            self._columns.append(Column(_adding(context, total, column)).alias(column))

    @classmethod
    def of(cls, context: SparkContext) -> "StageCounters | None":
        """The counters of a session whose UI shows them; None without a UI, or where they fail."""
        try:
            return cls(context) if context.uiWebUrl is not None else None
        except (Py4JError, AttributeError, TypeError):
            return None

    def count(self, answers: DataFrame) -> DataFrame:
        """The same answers, counted from zero when they are collected. Called once per epoch."""
        for total in self._sums:
            total.reset()
        return answers.select("task", "result", *self._columns)


def _adding(context: SparkContext, total: Any, column: str) -> Any:
    """An expression that adds a column to an accumulator; its value is this task's sum so far."""
    jvm: Any = context._jvm  # noqa: SLF001
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    types, collection = jvm.org.apache.spark.sql.types, jvm.scala.collection.immutable
    bridge = jvm.org.apache.spark.sql.classic.ExpressionUtils
    constant = expressions.Literal(total, types.ObjectType(total.getClass()))
    value = bridge.expression(sql.col(column)._jc)  # noqa: SLF001
    # The only expression of Spark that calls a method without a result.
    setters = _singleton(collection, "Map").empty().updated("add", value)
    added = expressions.objects.InitializeJavaBean(constant, setters)
    nothing, long = _singleton(collection, "Nil"), _singleton(types, "LongType")
    invoke = expressions.objects.Invoke
    return bridge.column(invoke(added, "sum", long, nothing, nothing, True, True, True))  # noqa: FBT003


def _singleton(package: Any, name: str) -> Any:
    return getattr(getattr(package, f"{name}$"), "MODULE$")


@contextmanager
def labelled(context: SparkContext, label: JobLabel) -> Iterator[None]:
    """Label all jobs that this thread begins within the block."""
    context.setJobGroup(label.group, label.description, interruptOnCancel=True)
    context.clearJobTags()
    context.addJobTag(label.tag)
    if label.pool:
        context.setLocalProperty(POOL, label.pool)
    context._jsc.setCallSite(label.group)  # noqa: SLF001 - a line of our source is the name else
    SCCallSiteSync._spark_stack_depth += 1  # noqa: SLF001 - within another action it sets no name
    try:
        yield
    finally:
        SCCallSiteSync._spark_stack_depth -= 1  # noqa: SLF001
        context._jsc.setCallSite(None)  # noqa: SLF001


def collected(
    session: SparkSession,
    label: JobLabel,
    tasks: int,
    work: tuple[RunTask, str],
    counters: StageCounters | None = None,
) -> list[Any]:
    """Run one Spark job and return the rows of its tasks. Called in a thread of ours.

    Args:
        session: The session that runs it.
        label: Labels of the job.
        tasks: Number of tasks.
        work: Function of each task, and the schema of its result, as Spark writes one.
        counters: Counters of an epoch; None counts nothing.
    """
    run, schema = work
    with labelled(session.sparkContext, label):
        answers = session.range(0, tasks, 1, numPartitions=tasks).mapInArrow(run, schema)
        return list((answers if counters is None else counters.count(answers)).collect())


def ui_address(context: SparkContext) -> str:
    """Address of the session's pages; empty where its UI is off."""
    return context.uiWebUrl or ""
