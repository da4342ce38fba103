"""Tasks on Spark: one job an epoch, one Spark task a task."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDoneError
from functools import partial
from uuid import uuid4

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sluiceway.errors import RunnerLostError, StorageUnavailableError, TaskFailedError
from sluiceway.job.runner import Bundle, TaskRunner, finished_results
from sluiceway.job.spark_task import RESULT_SCHEMA, packed, run_spark_task
from sluiceway.job.spark_words import without_stack
from sluiceway.observe.log import Log
from sluiceway.types.strict_json import decode
from sluiceway.worker.plan import TaskResult

_WAIT_S = 0.05
_CANCEL_S = 10.0
_CAUSE_CHARACTERS = 500
_TOO_LATE = "cancelled after run.straggler_timeout"
_MORE_TIME = "is the machine overloaded, or the store slow? Else give it more time"


class SparkRunner(TaskRunner):
    """Runs epochs in one SparkSession.

    Args:
        session: Used by this runner, from a thread of its own.
        log: Told of tasks that were given up.
        owned: Whether `close` stops it.
    """

    def __init__(self, session: SparkSession, log: Log, *, owned: bool = True) -> None:
        self._session = session
        self._log = log
        self._owned = owned
        self._jobs = ThreadPoolExecutor(1, thread_name_prefix="spark-job")
        self._epoch = 0
        # A session that is borrowed has jobs of others, which must not be cancelled with ours.
        self._name = f"sluiceway-{uuid4().hex[:8]}"

    def slots(self) -> int:
        """See `TaskRunner.slots`."""
        try:
            return int(self._session.sparkContext.defaultParallelism)
        except (Py4JError, OSError) as error:
            raise _lost(error) from error

    def run(
        self, bundles: Sequence[Bundle], *, wait: Callable[[], None], give_up_after_s: float
    ) -> list[TaskResult]:
        """See `TaskRunner.run`."""
        self._epoch += 1
        group = f"{self._name}-epoch-{self._epoch}"
        future = self._jobs.submit(self._collect, bundles, group)
        give_up_at = time.monotonic() + give_up_after_s
        while True:
            try:
                return future.result(_WAIT_S)
            except NotDoneError:
                wait()
            except (Py4JJavaError, PySparkException) as error:
                return self._salvage(bundles, _cause(error))
            except (Py4JNetworkError, Py4JError, OSError) as error:
                raise _lost(error) from error
            if time.monotonic() >= give_up_at:
                return self._cancel(bundles, group, future)

    def close(self) -> None:
        """See `TaskRunner.close`."""
        self._jobs.shutdown(wait=False, cancel_futures=True)
        try:
            if self._owned:
                self._session.stop()
            else:
                self._session.sparkContext.cancelJobGroup(f"{self._name}-epoch-{self._epoch}")
        except (Py4JError, OSError):
            return

    def _collect(self, bundles: Sequence[Bundle], group: str) -> list[TaskResult]:
        context = self._session.sparkContext
        count = len(bundles)
        context.setJobGroup(group, f"{group}: {count} tasks", interruptOnCancel=True)
        tasks = self._session.range(0, count, 1, numPartitions=count)
        run = partial(run_spark_task, packed(bundles))
        rows = tasks.mapInArrow(run, RESULT_SCHEMA).collect()
        return [decode(bytes(row.result), TaskResult) for row in rows]

    def _cancel(
        self, bundles: Sequence[Bundle], group: str, future: Future[list[TaskResult]]
    ) -> list[TaskResult]:
        """Stop the stragglers and take what the others have put by name."""
        try:
            self._session.sparkContext.cancelJobGroup(group)
            future.result(_CANCEL_S)
        except (NotDoneError, Py4JJavaError, PySparkException):
            return self._salvage(bundles, _TOO_LATE)
        except (Py4JNetworkError, Py4JError, OSError) as error:
            raise _lost(error) from error
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


def _cause(error: BaseException) -> str:
    """The end of what was told, without the stack of the JVM, which comes last and says least."""
    return " | ".join(without_stack(str(error))[-3:])[:_CAUSE_CHARACTERS] or type(error).__name__


def _lost(error: BaseException) -> RunnerLostError:
    return RunnerLostError(
        f"Spark's JVM does not answer any more: {type(error).__name__}",
        hint="start the job again; it goes on from the ledger",
    )
