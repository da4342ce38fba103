"""Requests as Spark jobs at the same time as epochs, in their own pool."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark import SparkContext

from sluiceway.driver.hdfs_tokens import HdfsTokens
from sluiceway.driver.spark.background_jobs import JobFailedError, LowJob, LowJobs
from sluiceway.driver.spark.spark_task import packed, run_work, unpacked_answer
from sluiceway.errors import SluicewayError, TaskFailedError
from sluiceway.schedule.spare_slots import SpareSlots
from sluiceway.work.request import WorkAnswer, WorkRequest

GROUPS_AT_ONCE = 2
"""Most groups of requests at the same time, for all routes of a driver together."""

SINGLES_AT_ONCE = 4
"""Most requests at once, for all routes of a driver together."""

_WAIT_S = 0.1
_LEAST_S = 600.0
_BYTES_PER_S = 1 << 20
_HINT = "see Spark's log for why the task died; nothing was changed"


@dataclass(frozen=True, slots=True)
class _Work:
    """A Spark job that carries out requests."""

    job: LowJob
    requests: int

    def wait(self, most_s: float) -> list[WorkAnswer]:
        """An answer to each request; see `LowJob.wait`."""
        found = dict(map(unpacked_answer, self.job.wait(most_s)))
        return [found[number] for number in range(self.requests)]


class SparkWork:
    """A `ClusterWork` of one Spark application.

    Args:
        context: Context of the epochs.
        name: Begins the names of its job groups.
        spare: Slots that epochs leave.
        tokens: For tasks on other machines.
    """

    def __init__(
        self,
        context: SparkContext,
        name: str,
        spare: SpareSlots,
        tokens: HdfsTokens | None = None,
    ) -> None:
        self._spare = spare
        self._turns = threading.BoundedSemaphore(GROUPS_AT_ONCE)
        self._groups = LowJobs(context, name, "compaction", GROUPS_AT_ONCE, tokens)
        self._singles = LowJobs(context, name, "replay", SINGLES_AT_ONCE, tokens)

    def is_usable(self) -> bool:
        """See `ClusterWork.is_usable`."""
        executors = self._groups.executors()
        self._spare.set_least(executors)
        return executors > 1

    def run(self, requests: Sequence[WorkRequest], check: Callable[[], None]) -> list[WorkAnswer]:
        """See `WorkRunner.run`. A request whose executor is lost is carried out once more."""
        check()
        while not self._turns.acquire(timeout=_WAIT_S):
            check()
        try:
            slots = self._spare.acquire(len(requests), check)
            try:
                return self._run(requests, slots, check)
            finally:
                self._spare.give_back(slots)
        finally:
            self._turns.release()

    def run_now(self, request: WorkRequest, longest_s: float) -> WorkAnswer | None:
        """See `ClusterWork.run_now`."""
        # One executor is for the epochs.
        if not self.is_usable() or not self._spare.acquire_now():
            return None
        try:
            work = _begin(self._singles, "replay of dirty rows", [request], 1)
            try:
                (answer,) = work.wait(longest_s)
            except TimeoutError as error:
                work.job.cancel()
                raise TaskFailedError(
                    f"a replay has not ended after {longest_s:.0f} s on the cluster: given up",
                    hint="an executor hangs, or the store is slow; nothing was committed",
                ) from error
            except JobFailedError as error:
                raise TaskFailedError(
                    f"the task of a replay has died: {error}",
                    hint="see Spark's log for why; nothing was committed",
                ) from error
        finally:
            self._spare.give_back(1)
        return answer

    def close(self) -> None:
        """Begin no more jobs; running ones end with Spark."""
        self._groups.close()
        self._singles.close()

    def _run(
        self, requests: Sequence[WorkRequest], slots: int, check: Callable[[], None]
    ) -> list[WorkAnswer]:
        try:
            return self._job(requests, slots, check)
        except JobFailedError as error:
            if len(requests) == 1:
                return [WorkAnswer(failure=TaskFailedError(str(error), hint=_HINT))]
        # A request that kills its worker must not keep the others from being carried out.
        return [self._run([request], 1, check)[0] for request in requests]

    def _job(
        self, requests: Sequence[WorkRequest], slots: int, check: Callable[[], None]
    ) -> list[WorkAnswer]:
        """One Spark job of at most `slots` tasks.

        Raises:
            JobFailedError: A task has failed as often as Spark retries it.
            TaskFailedError: The job was given up.
        """
        work = _begin(self._groups, f"compaction, {len(requests)} partitions", requests, slots)
        give_up_at = time.monotonic() + longest_s(requests)
        while True:
            try:
                return work.wait(_WAIT_S)
            except TimeoutError:
                try:
                    check()
                    if time.monotonic() >= give_up_at:
                        raise TaskFailedError(
                            f"no end after {longest_s(requests):.0f} s on the cluster: given up",
                            hint="an executor hangs, or the store is slow; nothing was changed",
                        )
                except SluicewayError:
                    work.job.cancel()
                    raise


def _begin(jobs: LowJobs, about: str, requests: Sequence[WorkRequest], slots: int) -> _Work:
    shares = dealt([request.size_bytes for request in requests], slots)
    numbered = packed([[(number, requests[number]) for number in share] for share in shares])
    places = [request.place for request in requests if request.place is not None]
    about = f"{requests[0].route}: {about}"
    job = jobs.begin(about, numbered, run_work, places=places)
    return _Work(job, len(requests))


def dealt(sizes: Sequence[int], slots: int) -> list[list[int]]:
    """Numbers of requests for each task; large requests first, each to the smallest share.

    Args:
        sizes: Bytes of each request.
        slots: Most tasks.

    Returns:
        As many shares as there are tasks; none is empty.
    """
    shares: list[list[int]] = [[] for _ in range(max(min(slots, len(sizes)), 1))]
    loads = [0] * len(shares)
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        task = loads.index(min(loads))
        shares[task].append(number)
        # An empty file takes its time, too.
        loads[task] += sizes[number] + 1
    return shares


def longest_s(requests: Sequence[WorkRequest]) -> float:
    """Seconds after which an executor with requests counts as hanging."""
    return _LEAST_S + sum(request.size_bytes for request in requests) / _BYTES_PER_S
