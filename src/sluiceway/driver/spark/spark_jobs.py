"""A driver's jobs on Spark's pages: group, description, stage name, counters.

Groups and stage names stay the same from epoch to epoch and from run to run; the description
changes. Jobs are cancelled by tags, which no other run shares.

Each slot keeps its executor, and there its Python worker, in which the consumers of its source
partitions are kept. Spark itself gives tasks to executors at random, and to the Python worker that
has rested longest. So a task names the executor of its slot, which Spark takes if it is free.
Python workers are pooled by their environment: by one variable, each core but the first has a pool
of its own. That one serves jobs without places too.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark import RDD, SparkContext
from pyspark.serializers import NoOpSerializer
from pyspark.traceback_utils import SCCallSiteSync

from sluiceway.driver.spark.spark_task import COUNTED, RunTask
from sluiceway.schedule.runner import Bundle

POOL = "spark.scheduler.pool"
"""Spark's property for the pool of a thread's jobs."""

_NAMED_ROUTES = 3
_LONG_BYTES = 8
_CORE = "SLUICEWAY_CORE"
"""Variable of a Python worker: its pool, where that is not the first."""
# Spark reads the executor's id after the host, and needs no host to find it.
_EXECUTOR = "executor_any_"
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
    driver's Python process alone. So its answers begin with the numbers, and expressions of Spark
    SQL add these up in the JVM, as functions over an RDD, without a session (ADR 120). They are
    for people: nothing reads them, and a task that is repeated may be counted twice.

    Args:
        context: Context of the driver.

    Raises:
        Py4JError, AttributeError, TypeError: This Spark lacks what it needs.
    """

    def __init__(self, context: SparkContext) -> None:
        jvm: Any = context._jvm  # noqa: SLF001 - Python has no named ones
        catalyst = jvm.org.apache.spark.sql.catalyst
        answer = catalyst.expressions.BoundReference(0, _type(jvm, "Binary"), False)  # noqa: FBT003
        self._context = context
        self._sums = [context._jsc.sc().longAccumulator(name) for name in COUNTED]  # noqa: SLF001
        added = [_adding(jvm, total, answer, at) for at, total in enumerate(self._sums)]
        maker = catalyst.encoders
        self._row_of = getattr(maker, "ExpressionEncoder$Serializer")(_listed(jvm, answer, *added))
        self._bytes_of = getattr(maker, "ExpressionEncoder$Deserializer")(_listed(jvm, answer))
        self._any = _singleton(jvm.scala.reflect, "ClassTag").Any()

    @classmethod
    def of(cls, context: SparkContext) -> "StageCounters | None":
        """Those of a driver whose UI shows them; None where there is none, or no way."""
        try:
            return cls(context) if context.uiWebUrl is not None else None
        except (Py4JError, AttributeError, TypeError):
            return None

    def count(self, answers: RDD[bytes]) -> RDD[bytes]:
        """The same answers, counted from zero when they are collected. Called once per epoch."""
        for total in self._sums:
            total.reset()
        # To compile code for a few rows costs more than they do.
        self._context.setLocalProperty("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        # The JVM sees each answer by itself, not in a pickle.
        answers._jrdd_deserializer = NoOpSerializer()  # noqa: SLF001
        rows = answers._jrdd.rdd().map(self._row_of, self._any)  # noqa: SLF001
        counted = rows.map(self._bytes_of, self._any).toJavaRDD()
        return RDD(counted, self._context, answers._jrdd_deserializer)  # noqa: SLF001


def _adding(jvm: Any, total: Any, answer: Any, at: int) -> Any:
    """An expression that adds a number of an answer, and is the sum of this task so far."""
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    objects, types = expressions.objects, jvm.org.apache.spark.sql.types
    none, long = _listed(jvm), _type(jvm, "Long")
    buffer = jvm.java.lang.Class.forName("java.nio.ByteBuffer")
    wrapped = objects.StaticInvoke(
        buffer,
        types.ObjectType(buffer),
        "wrap",
        _listed(jvm, answer),
        none,
        True,  # noqa: FBT003
        False,  # noqa: FBT003
        True,  # noqa: FBT003
        _singleton(jvm.scala, "None"),
    )
    place = _listed(jvm, expressions.Literal(at * _LONG_BYTES, _type(jvm, "Integer")))
    value = objects.Invoke(wrapped, "getLong", long, place, none, True, False, True)  # noqa: FBT003
    constant = expressions.Literal(total, types.ObjectType(total.getClass()))
    # The one expression of Spark's own that calls a method without a result.
    setters = _singleton(jvm.scala.collection.immutable, "Map").empty().updated("add", value)
    added = objects.InitializeJavaBean(constant, setters)
    return objects.Invoke(added, "sum", long, none, none, True, True, True)  # noqa: FBT003


def _type(jvm: Any, name: str) -> Any:
    return _singleton(jvm.org.apache.spark.sql.types, f"{name}Type")


def _listed(jvm: Any, *items: Any) -> Any:
    """A Scala list of these items."""
    found = _singleton(jvm.scala.collection.immutable, "Nil")
    for item in reversed(items):
        found = getattr(found, "$colon$colon")(item)
    return found


def _singleton(package: Any, name: str) -> Any:
    """A Scala object by its name."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Where a task should run.

    Attributes:
        core: Number of the pool of Python workers in its executor.
        executor: Id of the executor; empty for any.
    """

    core: int = 0
    executor: str = ""


def task_places(context: SparkContext, slots: Sequence[int], *, owned: bool) -> list[TaskPlace]:
    """Places of an epoch's tasks. Called once per epoch.

    Args:
        context: The driver's.
        slots: Of each task the number of its slot.
        owned: Whether all jobs of this application are ours. Elsewhere a task might wait for its
            executor, as long as `spark.locality.wait` says.
    """
    executors = [""]
    if owned and not context.master.startswith("local"):
        text: str = context._jsc.sc().getExecutorIds().mkString(",")  # noqa: SLF001
        executors = sorted(text.split(","), key=int) if text else executors
    cores = max(int(context.defaultParallelism) // len(executors), 1)
    return [TaskPlace(slot % cores, executors[slot // cores % len(executors)]) for slot in slots]


def _placed_tasks(
    context: SparkContext, shares: Sequence[bytes], places: Sequence[TaskPlace], run: RunTask
) -> RDD[bytes]:
    """Make an RDD of one task a share. Called once per job with places.

    Args:
        context: That will run it.
        shares: Of each task, packed. A share travels with its own task alone.
        places: Of each task.
        run: What each runs.

    Returns:
        The answers; the JVM sees each by itself, not in a pickle.
    """
    by_core: dict[int, list[tuple[bytes, str]]] = {}
    for share, place in zip(shares, places, strict=True):
        by_core.setdefault(place.core, []).append((share, place.executor))
    parts = [_tasks_of_core(context, core, each, run) for core, each in by_core.items()]
    return parts[0] if len(parts) == 1 else context.union(parts)


def _tasks_of_core(
    context: SparkContext, core: int, shares: Sequence[tuple[bytes, str]], run: RunTask
) -> RDD[bytes]:
    jvm: Any = context._jvm  # noqa: SLF001 - Python has no tasks with places
    executors = {executor for _, executor in shares}
    lists = {one: _listed(jvm, *([_EXECUTOR + one] if one else [])) for one in executors}
    items = [jvm.scala.Tuple2(bytearray(share), lists[executor]) for share, executor in shares]
    tag = _singleton(jvm.scala.reflect, "ClassTag").Any()
    placed = context._jsc.sc().makeRDD(_listed(jvm, *items), tag)  # noqa: SLF001
    as_they_are = NoOpSerializer()
    tasks = RDD(placed.toJavaRDD(), context, as_they_are).mapPartitions(run)
    if core:
        tasks.ctx = _ContextOfCore(context, core)
    tasks._jrdd_deserializer = as_they_are  # noqa: SLF001
    return RDD(tasks._jrdd, context, as_they_are)  # noqa: SLF001


class _ContextOfCore:
    """A context whose Python workers have a variable more; all else is the context's."""

    def __init__(self, context: SparkContext, core: int) -> None:
        self._context = context
        self.environment = {**context.environment, _CORE: str(core)}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


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
    context: SparkContext,
    label: JobLabel,
    shares: Sequence[bytes],
    run: RunTask,
    counters: StageCounters | None = None,
    places: Sequence[TaskPlace] = (),
) -> list[bytes]:
    """Run one Spark job with one task a share. Called in a thread of ours; waits for its end.

    It is an RDD: to start Spark SQL takes seconds, and adds nothing to bytes.

    Args:
        context: That runs it.
        label: What the pages show of it.
        shares: Of each task, packed.
        run: What each runs.
        counters: Of an epoch; None counts nothing.
        places: Of each task; empty for any.

    Returns:
        What the tasks have answered.
    """
    with labelled(context, label):
        if any(place != TaskPlace() for place in places):
            answers = _placed_tasks(context, shares, places, run)
        else:
            answers = context.parallelize(shares, len(shares)).mapPartitions(run)
        found: list[bytes] = (answers if counters is None else counters.count(answers)).collect()
        return found


def ui_address(context: SparkContext) -> str:
    """Address of Spark's pages; empty where its UI is off."""
    return context.uiWebUrl or ""
