"""Tasks on Spark: one job an epoch, one Spark task a task."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDoneError
from uuid import uuid4

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from sluiceway.driver.hdfs_tokens import HdfsTokens
from sluiceway.driver.spark.elastic_slots import ElasticSlots
from sluiceway.driver.spark.spark_errors import cause_of, ended, lost
from sluiceway.driver.spark.spark_jobs import (
    JobLabel,
    StageCounters,
    collected,
    epoch_description,
    task_places,
    ui_address,
)
from sluiceway.driver.spark.spark_task import (
    packed,
    require_same_version,
    run_spark_task,
    unpacked_result,
    warm_task,
    with_tokens,
)
from sluiceway.driver.spark.spark_work import SparkWork
from sluiceway.driver.spark.token_jvm import fetch_tokens
from sluiceway.errors import (
    StorageUnavailableError,
    TaskFailedError,
    UnhealthyEnvironmentError,
)
from sluiceway.observe.log import Log
from sluiceway.schedule.runner import Bundle, TaskRunner, finished_results
from sluiceway.schedule.spare_slots import SpareSlots
from sluiceway.schedule.sql_engine import SqlEngine
from sluiceway.schedule.unit_sql import UnitSql
from sluiceway.storage.hdfs.client import INVALID_TOKEN
from sluiceway.work.request import ClusterWork
from sluiceway.worker.plan import TaskResult

_WAIT_S = 0.05
_CANCEL_S = 10.0
_WARM_EVERY_S = 30.0
_TOO_LATE = "cancelled after run.straggler_timeout"
_MORE_TIME = "is the machine overloaded, or the store slow? Else give it more time"


class SparkRunner(TaskRunner):
    """Runs epochs in one Spark application.

    Args:
        context: Used by this runner, from a thread of its own.
        log: Log for tasks that were given up.
        owned: Whether `close` stops it.
        elastic: The executors of a job that asks for them; None takes what there is.
        name: Begins the names of its job groups, which are the same in each run.
        sql_slots: Slots that epochs leave to the SQL of routes, where there are more.
    """

    def __init__(
        self,
        context: SparkContext,
        log: Log,
        *,
        owned: bool = True,
        elastic: ElasticSlots | None = None,
        name: str = "sluiceway",
        sql_slots: int = 0,
    ) -> None:
        self._context = context
        self._elastic = elastic
        self._log = log
        self._owned = owned
        self._jobs = ThreadPoolExecutor(1, thread_name_prefix="spark-job")
        self._epoch = 0
        self._warming: Future[None] | None = None
        self._warm_due = 0.0
        self._name = name
        self._sql_slots = sql_slots
        # A borrowed context has jobs of others, which must not be cancelled with ours.
        self._tag = f"{name}-{uuid4().hex[:8]}"
        self._counters = StageCounters.of(context)
        self._spare = SpareSlots()
        local = context.master.startswith("local")
        # Tasks of this machine log in from the keytab as the driver does.
        self._tokens = (
            None if local else HdfsTokens(log, fetch_tokens, os.environ.get("HADOOP_CONF_DIR", ""))
        )
        self._sql: SqlEngine | None = None
        self._work = SparkWork(context, self._name, self._spare, self._tokens)
        self._units: UnitSql | None = None

    def slots(self) -> int:
        """See `TaskRunner.slots`."""
        try:
            elastic = self._elastic
            count = int(self._context.defaultParallelism) if elastic is None else elastic.count()
            return self._spare.left_of(max(count - self._sql_slots, 1))
        except (Py4JError, OSError) as error:
            raise lost(error) from error

    def ask_for(self, slots: int) -> None:
        """See `TaskRunner.ask_for`."""
        if self._elastic is None:
            return
        try:
            self._elastic.ask_for(slots + self._spare.lent)
        except (Py4JError, OSError) as error:
            raise lost(error) from error

    def work(self) -> ClusterWork | None:
        """See `TaskRunner.work`. A borrowed session has no pools, and jobs of others."""
        local = self._context.master.startswith("local")
        return self._work if self._owned and not local else None

    def sql(self) -> SqlEngine | None:
        """See `TaskRunner.sql`. Spark SQL is loaded with the first route that has SQL."""
        if self._sql is None:
            from sluiceway.driver.spark.spark_sql import SparkSql  # noqa: PLC0415 - seldom needed

            self._sql = SparkSql(self._context, self._name, self._tokens)
        return self._sql

    def unit_sql(self) -> UnitSql | None:
        """See `TaskRunner.unit_sql`. Spark's SQL is loaded where a route needs it."""
        if self._units is None:
            from sluiceway.driver.spark.unit_jobs import UnitJobs  # noqa: PLC0415

            owned = self._owned
            self._units = UnitJobs(self._context, self._name, owned=owned, tokens=self._tokens)
        return self._units

    def warm_up(self, stopped: Callable[[], bool]) -> None:
        """Wait until executors can run our tasks. Called once, before the first epoch.

        A cluster may take minutes to start the first executor, and that one to unpack its
        environment. In an epoch's time, tasks would seem to hang.

        Args:
            stopped: Returns whether to stop waiting.

        Raises:
            UnhealthyEnvironmentError: They cannot run our tasks.
            RunnerLostError: Spark is gone.
        """
        began = time.monotonic()
        future = self._jobs.submit(self._try_imports, "warm-up")
        while True:
            try:
                future.result(_WAIT_S)
            except NotDoneError:
                if stopped():
                    self._context.cancelJobsWithTag(f"{self._tag}-warm-up")
                    return
            except (Py4JJavaError, PySparkException) as error:
                if (gone := ended(self._context, error)) is not None:
                    raise gone from error
                raise UnhealthyEnvironmentError(
                    f"executors cannot run a task: {cause_of(error)}",
                    hint="do they have this program's Python packages? `sluiceway submit JOB` and "
                    "`sluiceway restart JOB` send them along",
                ) from error
            except (Py4JNetworkError, Py4JError, OSError) as error:
                raise lost(error) from error
            else:
                self._warm_due = time.monotonic() + _WARM_EVERY_S
                self._log.info("executors_ready", waited_s=round(time.monotonic() - began, 1))
                return

    def keep_warm(self) -> None:
        """See `TaskRunner.keep_warm`. Spark ends Python workers that were idle for a minute."""
        now = time.monotonic()
        if now < self._warm_due or (self._warming is not None and not self._warming.done()):
            return
        failure = None if self._warming is None else self._warming.exception()
        if isinstance(failure, Py4JError | OSError) and not isinstance(failure, Py4JJavaError):
            raise lost(failure) from failure
        # A task that failed fails again in the first epoch, where it matters.
        self._warm_due = now + _WARM_EVERY_S
        self._warming = self._jobs.submit(self._try_imports, "keep-warm")

    def _try_imports(self, kind: str) -> None:
        count = self.slots()
        label = JobLabel(f"{self._name}-{kind}", f"{kind} of {count} slots", f"{self._tag}-{kind}")
        places = task_places(self._context, range(count), owned=self._owned)
        warm = require_same_version(warm_task)
        collected(self._context, label, [b""] * count, warm, self._counters, places)

    def run(
        self, bundles: Sequence[Bundle], *, wait: Callable[[], None], give_up_after_s: float
    ) -> list[TaskResult]:
        """See `TaskRunner.run`."""
        self._epoch += 1
        future = self._jobs.submit(self._collect, bundles, self._epoch_tag())
        give_up_at = time.monotonic() + give_up_after_s
        while True:
            try:
                return future.result(_WAIT_S)
            except NotDoneError:
                wait()
            except (Py4JJavaError, PySparkException) as error:
                if (gone := ended(self._context, error)) is not None:
                    raise gone from error
                return self._salvage(bundles, cause_of(error))
            except (Py4JNetworkError, Py4JError, OSError) as error:
                raise lost(error) from error
            if time.monotonic() >= give_up_at:
                return self._cancel(bundles, future)

    def close(self) -> None:
        """See `TaskRunner.close`."""
        self._jobs.shutdown(wait=False, cancel_futures=True)
        self._work.close()
        if self._tokens is not None:
            self._tokens.close()
        try:
            if self._owned:
                self._context.stop()
            else:
                self._context.cancelJobsWithTag(self._epoch_tag())
        except (Py4JError, OSError):
            return

    def ui_address(self) -> str | None:
        """See `TaskRunner.ui_address`."""
        return ui_address(self._context)

    def _epoch_tag(self) -> str:
        return f"{self._tag}-epoch-{self._epoch}"

    def _collect(self, bundles: Sequence[Bundle], tag: str) -> list[TaskResult]:
        pool = "epochs" if self._owned else ""
        label = JobLabel(f"{self._name}-epochs", epoch_description(bundles), tag, pool)
        run = require_same_version(run_spark_task)
        if self._tokens is not None:
            stores = {
                (plan.route.layout.table_root, plan.route.stores)
                for bundle in bundles
                for plan in bundle
            }
            run = with_tokens(self._tokens.delegation_tokens(stores), run)
        slots = [next((plan.task for plan in bundle), 0) for bundle in bundles]
        places = task_places(self._context, slots, owned=self._owned)
        answers = collected(self._context, label, packed(bundles), run, self._counters, places)
        results = [unpacked_result(raw) for raw in answers]
        if self._tokens is not None and any(map(_token_refused, results)):
            self._tokens.refused()
        return results

    def _cancel(
        self, bundles: Sequence[Bundle], future: Future[list[TaskResult]]
    ) -> list[TaskResult]:
        """Stop the stragglers and take the results that the others have written."""
        try:
            self._context.cancelJobsWithTag(self._epoch_tag())
            future.result(_CANCEL_S)
        except (NotDoneError, Py4JJavaError, PySparkException):
            return self._salvage(bundles, _TOO_LATE)
        except (Py4JNetworkError, Py4JError, OSError) as error:
            raise lost(error) from error
        return self._salvage(bundles, _TOO_LATE)

    def _salvage(self, bundles: Sequence[Bundle], cause: str) -> list[TaskResult]:
        try:
            results = finished_results(bundles)
        except StorageUnavailableError as error:
            raise TaskFailedError(f"no result of a task can be read: {error}") from error
        if not results:
            hint = _MORE_TIME if cause == _TOO_LATE else ""
            raise TaskFailedError(f"no task finished: {cause}", hint=hint)
        self._log.warning("stragglers", answers=len(results), tasks=len(bundles), cause=cause)
        return results


def _token_refused(result: TaskResult) -> bool:
    return result.failure is not None and INVALID_TOKEN in result.failure.message
