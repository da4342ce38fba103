"""Epochs of replays as Spark jobs beside the epochs', in the pool of low work (ADR 84)."""

from collections.abc import Sequence
from functools import partial

from pyspark.sql import SparkSession

from sluiceway.errors import SluicewayError, TaskFailedError
from sluiceway.job.background_jobs import JobFailedError, LowJobs
from sluiceway.job.hdfs_tokens import HdfsTokens
from sluiceway.job.spark_task import REPLAY_SCHEMA, packed_replay, replayed, run_replay
from sluiceway.schedule.spare_slots import SpareSlots
from sluiceway.worker.plan import TaskPlan, TaskResult

MOST_AT_ONCE = 4
"""Replays of all routes of a driver that run at the same time."""

_GRACE_S = 30.0


class SparkReplays:
    """A `ReplayTasks` of one SparkSession.

    Args:
        session: Of the epochs.
        name: Begins the name of its job group.
        spare: Slots that epochs leave.
        tokens: For tasks on other machines.
    """

    def __init__(
        self,
        session: SparkSession,
        name: str,
        spare: SpareSlots,
        tokens: HdfsTokens | None = None,
    ) -> None:
        self._spare = spare
        self._jobs = LowJobs(session, name, "replay", MOST_AT_ONCE, tokens)

    def run(self, plan: TaskPlan, paths: Sequence[str]) -> TaskResult | None:
        """See `ReplayTasks.run`."""
        executors = self._jobs.executors()
        if executors < 2:  # noqa: PLR2004 - one executor is for the epochs
            return None
        self._spare.set_least(executors)
        if not self._spare.acquire_now():
            return None
        try:
            return self._run(plan, paths)
        finally:
            self._spare.give_back(1)

    def close(self) -> None:
        """Nothing more is begun; Spark's end is the end of what runs."""
        self._jobs.close()

    def _run(self, plan: TaskPlan, paths: Sequence[str]) -> TaskResult:
        task = partial(run_replay, packed_replay(plan, paths))
        place = (plan.route.layout.table_root, plan.route.stores)
        about = f"{plan.route.layout.route}: replay of dirty rows, {len(paths)} files"
        job = self._jobs.begin(about, 1, task, REPLAY_SCHEMA, places=[place])
        longest_s = plan.deadline_s + _GRACE_S
        try:
            (row,) = job.wait(longest_s)
        except TimeoutError as error:
            job.cancel()
            raise TaskFailedError(
                f"a replay has not ended after {longest_s:.0f} s on the cluster: given up",
                hint="an executor hangs, or the store is slow; nothing was committed",
            ) from error
        except JobFailedError as error:
            raise TaskFailedError(
                f"the task of a replay has died: {error}",
                hint="see Spark's log for why; nothing was committed",
            ) from error
        answer = replayed(bytes(row.answer))
        if isinstance(answer, SluicewayError):
            raise answer
        return answer
