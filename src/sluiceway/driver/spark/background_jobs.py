"""Spark jobs of low priority that run at the same time as epochs, in their own pool."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDoneError
from dataclasses import dataclass
from itertools import count
from uuid import uuid4

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from sluiceway.driver.hdfs_tokens import HdfsTokens, Place
from sluiceway.driver.spark.spark_errors import cause_of
from sluiceway.driver.spark.spark_jobs import JobLabel, collected
from sluiceway.driver.spark.spark_task import RunTask, require_same_version, with_tokens
from sluiceway.errors import TaskFailedError

_UPKEEP = "upkeep"
_CANCEL_S = 10.0


class JobFailedError(Exception):
    """A task has failed as often as Spark retries it; holds the reason."""


@dataclass(frozen=True, slots=True)
class LowJob:
    """A job that has begun."""

    _context: SparkContext
    _tag: str
    _work: Future[list[bytes]]

    def wait(self, most_s: float) -> list[bytes]:
        """What its tasks have answered.

        Args:
            most_s: Longest wait, in seconds.

        Raises:
            TimeoutError: The job has not ended.
            JobFailedError: A task has died.
            TaskFailedError: Spark is gone.
        """
        try:
            return self._work.result(most_s)
        except (Py4JJavaError, PySparkException) as error:
            raise JobFailedError(cause_of(error)) from error
        except NotDoneError:
            raise
        except (Py4JError, OSError) as error:
            # The loop gets the error too, and ends.
            raise TaskFailedError(f"Spark is gone: {type(error).__name__}") from error

    def cancel(self) -> None:
        """End its tasks; their slots are free for epochs only when they have ended."""
        try:
            self._context.cancelJobsWithTag(self._tag)
            self._work.result(_CANCEL_S)
        except (NotDoneError, Py4JError, PySparkException, OSError):
            # Cancelled as requested, or Spark is gone; a task that does not end holds a slot
            # longer.
            return


class LowJobs:
    """Jobs of one kind.

    Args:
        context: Context of the epochs.
        name: Begins the name of their job group.
        kind: Kind of the jobs, the last part of that name.
        most_at_once: So many run at the same time; more wait.
        tokens: For tasks on other machines; None where they need none.
    """

    def __init__(
        self,
        context: SparkContext,
        name: str,
        kind: str,
        most_at_once: int,
        tokens: HdfsTokens | None = None,
    ) -> None:
        self._context = context
        self._tokens = tokens
        self._group = f"{name}-{kind}"
        self._tag = f"{self._group}-{uuid4().hex[:8]}"
        self._threads = ThreadPoolExecutor(most_at_once, thread_name_prefix=f"spark-{kind}")
        self._numbers = count(1)

    def executors(self) -> int:
        """How many executors the application has now; 0 also when Spark is gone."""
        try:
            ids: str = self._context._jsc.sc().getExecutorIds().mkString(",")  # noqa: SLF001
        except (Py4JError, OSError):
            # The loop gets the error too, and ends.
            return 0
        return len(ids.split(",")) if ids else 0

    def begin(
        self, about: str, shares: Sequence[bytes], run: RunTask, *, places: Iterable[Place]
    ) -> LowJob:
        """Begin a job.

        Args:
            about: What Spark's page says of it.
            shares: Of each task, packed.
            run: Called in each.
            places: Places of the tables that it reads and writes.
        """
        run = require_same_version(run)
        if self._tokens is not None:
            run = with_tokens(self._tokens.delegation_tokens(places), run)
        label = JobLabel(self._group, about, f"{self._tag}-{next(self._numbers)}", _UPKEEP)
        work = self._threads.submit(collected, self._context, label, shares, run)
        return LowJob(self._context, label.tag, work)

    def close(self) -> None:
        """Begin no more jobs; running ones end with Spark."""
        self._threads.shutdown(wait=False, cancel_futures=True)
