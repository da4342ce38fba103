"""Compaction as Spark jobs beside the epochs', in a pool of their own (ADR 74)."""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from pyspark.sql import SparkSession

from sluiceway.errors import SluicewayError, TaskFailedError
from sluiceway.job.background_jobs import JobFailedError, LowJobs
from sluiceway.job.hdfs_tokens import HdfsTokens
from sluiceway.job.spark_task import ANSWER_SCHEMA, packed_items, rewritten, run_rewrites
from sluiceway.schedule.spare_slots import SpareSlots
from sluiceway.worker.rewrite import RewriteAnswer, RewritePlan

MOST_AT_ONCE = 2
"""Groups of partitions that all routes of a driver together have rewritten at the same time."""

_WAIT_S = 0.1
_LEAST_S = 600.0
_BYTES_PER_S = 1 << 20


class SparkRewrites:
    """A `RewriteTasks` of one SparkSession.

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
        self._turns = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._jobs = LowJobs(session, name, "compaction", MOST_AT_ONCE, tokens)

    def usable(self) -> bool:
        """See `RewriteTasks.usable`."""
        executors = self._jobs.executors()
        self._spare.set_least(executors)
        return executors > 1

    def run(self, plans: Sequence[RewritePlan], check: Callable[[], None]) -> list[RewriteAnswer]:
        """See `RewriteTasks.run`."""
        check()
        while not self._turns.acquire(timeout=_WAIT_S):
            check()
        try:
            slots = self._spare.acquire(len(plans), check)
            try:
                return self._run(plans, slots, check)
            finally:
                self._spare.give_back(slots)
        finally:
            self._turns.release()

    def close(self) -> None:
        """Nothing more is begun; Spark's end is the end of what runs."""
        self._jobs.close()

    def _run(
        self, plans: Sequence[RewritePlan], slots: int, check: Callable[[], None]
    ) -> list[RewriteAnswer]:
        try:
            return self._job(plans, slots, check)
        except JobFailedError as error:
            if len(plans) == 1:
                return [RewriteAnswer((), 0.0, TaskFailedError(str(error), hint=_HINT))]
        # One partition that kills its worker must not keep the others from being compacted.
        return [self._run([plan], 1, check)[0] for plan in plans]

    def _job(
        self, plans: Sequence[RewritePlan], slots: int, check: Callable[[], None]
    ) -> list[RewriteAnswer]:
        """One Spark job of at most `slots` tasks.

        Raises:
            JobFailedError: A task has failed as often as Spark begins it again.
            TaskFailedError: It was given up.
        """
        shares = dealt([_bytes(plan) for plan in plans], slots)
        work = packed_items([[(number, plans[number]) for number in share] for share in shares])
        job = self._jobs.begin(
            f"{plans[0].layout.route}: compaction, {len(plans)} partitions",
            len(shares),
            partial(run_rewrites, work),
            ANSWER_SCHEMA,
            places=[(plan.layout.table_root, plan.stores) for plan in plans],
        )
        give_up_at = time.monotonic() + longest_s(plans)
        while True:
            try:
                rows = job.wait(_WAIT_S)
            except TimeoutError:
                try:
                    check()
                    if time.monotonic() >= give_up_at:
                        raise TaskFailedError(
                            f"no end after {longest_s(plans):.0f} s on the cluster: given up",
                            hint="an executor hangs, or the store is slow; nothing was changed",
                        )
                except SluicewayError:
                    job.cancel()
                    raise
            else:
                found = {int(row.plan): rewritten(bytes(row.answer)) for row in rows}
                return [found[number] for number in range(len(plans))]


_HINT = "see Spark's log for why the task died; nothing was changed"


def dealt(sizes: Sequence[int], slots: int) -> list[list[int]]:
    """Numbers of plans for each task, the largest ones first to whoever has least.

    Args:
        sizes: Bytes of each plan.
        slots: Tasks at most.

    Returns:
        As many shares as there are tasks; none is empty.
    """
    shares: list[list[int]] = [[] for _ in range(max(min(slots, len(sizes)), 1))]
    loads = [0] * len(shares)
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        task = loads.index(min(loads))
        shares[task].append(number)
        # Also an empty file takes its time.
        loads[task] += sizes[number] + 1
    return shares


def longest_s(plans: Sequence[RewritePlan]) -> float:
    """Seconds after which an executor that carries out plans is taken for one that hangs."""
    return _LEAST_S + sum(map(_bytes, plans)) / _BYTES_PER_S


def _bytes(plan: RewritePlan) -> int:
    return sum(int(record.size_bytes) for record in plan.files)
