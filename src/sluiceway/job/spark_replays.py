"""Epochs of replays as Spark jobs beside the epochs', in the pool of low work (ADR 84)."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDoneError
from functools import partial
from itertools import count

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sluiceway.errors import SluicewayError, TaskFailedError
from sluiceway.job.spark_rewrites import POOL, UPKEEP, executors_up
from sluiceway.job.spark_task import REPLAY_SCHEMA, packed_replay, replayed, run_replay
from sluiceway.job.spark_words import cause_of
from sluiceway.schedule.spare_slots import SpareSlots
from sluiceway.worker.plan import TaskPlan, TaskResult

_MOST_AT_ONCE = 4
_GRACE_S = 30.0
_CANCEL_S = 10.0
_numbers = count(1)


class SparkReplays:
    """A `ReplayTasks` of one SparkSession.

    Args:
        session: Of the epochs.
        name: Begins the names of its job groups.
        spare: Slots that epochs leave.
    """

    def __init__(self, session: SparkSession, name: str, spare: SpareSlots) -> None:
        self._session = session
        self._name = name
        self._spare = spare
        self._jobs = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="spark-replay")

    def run(self, plan: TaskPlan, paths: Sequence[str]) -> TaskResult | None:
        """See `ReplayTasks.run`."""
        executors = executors_up(self._session)
        if executors < 2:  # noqa: PLR2004 - one executor is for the epochs
            return None
        self._spare.seen(executors)
        if not self._spare.take_now():
            return None
        try:
            return self._run(plan, paths)
        finally:
            self._spare.give_back(1)

    def close(self) -> None:
        """Nothing more is begun; Spark's end is the end of what runs."""
        self._jobs.shutdown(wait=False, cancel_futures=True)

    def _run(self, plan: TaskPlan, paths: Sequence[str]) -> TaskResult:
        group = f"{self._name}-replay-{next(_numbers)}"
        work = self._jobs.submit(self._collect, packed_replay(plan, paths), group)
        longest_s = plan.deadline_s + _GRACE_S
        try:
            answer = work.result(longest_s)
        except NotDoneError as error:
            self._cancel(group, work)
            raise TaskFailedError(
                f"a replay has not ended after {longest_s:.0f} s on the cluster: given up",
                hint="an executor hangs, or the store is slow; nothing was committed",
            ) from error
        except (Py4JJavaError, PySparkException) as error:
            raise TaskFailedError(
                f"the task of a replay has died: {cause_of(error)}",
                hint="see Spark's log for why; nothing was committed",
            ) from error
        except (Py4JError, OSError) as error:
            # The loop is told too, and ends.
            raise TaskFailedError(f"Spark is gone: {type(error).__name__}") from error
        if isinstance(answer, SluicewayError):
            raise answer
        return answer

    def _collect(self, packed: bytes, group: str) -> TaskResult | SluicewayError:
        context = self._session.sparkContext
        context.setJobGroup(group, f"{group}: dirty rows", interruptOnCancel=True)
        context.setLocalProperty(POOL, UPKEEP)
        one = self._session.range(0, 1, 1, numPartitions=1)
        rows = one.mapInArrow(partial(run_replay, packed), REPLAY_SCHEMA).collect()
        return replayed(bytes(rows[0].answer))

    def _cancel(self, group: str, work: Future[TaskResult | SluicewayError]) -> None:
        """End its task; the slot is free for epochs only when it has ended."""
        try:
            self._session.sparkContext.cancelJobGroup(group)
            work.result(_CANCEL_S)
        except (NotDoneError, Py4JError, PySparkException, OSError):
            # Cancelled as asked, or Spark is gone; a task that does not end holds a slot longer.
            return
