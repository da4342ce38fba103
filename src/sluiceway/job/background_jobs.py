"""Spark jobs of low priority that run at the same time as epochs, in their own pool (ADR 74)."""

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDoneError
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sluiceway.errors import TaskFailedError
from sluiceway.job.hdfs_tokens import HdfsTokens, Place
from sluiceway.job.spark_errors import cause_of
from sluiceway.job.spark_jobs import JobLabel, collected
from sluiceway.job.spark_task import RunTask, require_same_version, with_tokens

_UPKEEP = "upkeep"
_CANCEL_S = 10.0


class JobFailedError(Exception):
    """A task has failed as often as Spark retries it; holds the reason."""


@dataclass(frozen=True, slots=True)
class LowJob:
    """A job that has begun."""

    _session: SparkSession
    _tag: str
    _work: Future[list[Any]]

    def wait(self, most_s: float) -> list[Any]:
        """Rows of its tasks, as Spark returns them.

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
            self._session.sparkContext.cancelJobsWithTag(self._tag)
            self._work.result(_CANCEL_S)
        except (NotDoneError, Py4JError, PySparkException, OSError):
            # Cancelled as requested, or Spark is gone; a task that does not end holds a slot
            # longer.
            return


class LowJobs:
    """Jobs of one kind.

    Args:
        session: Session of the epochs.
        name: First part of the name of their job group.
        kind: Kind of the jobs, the last part of that name.
        most_at_once: Most jobs at the same time; more wait.
        tokens: Tokens for tasks on other machines; None where they need none.
    """

    def __init__(
        self,
        session: SparkSession,
        name: str,
        kind: str,
        most_at_once: int,
        tokens: HdfsTokens | None = None,
    ) -> None:
        self._session = session
        self._tokens = tokens
        self._group = f"{name}-{kind}"
        self._tag = f"{self._group}-{uuid4().hex[:8]}"
        self._threads = ThreadPoolExecutor(most_at_once, thread_name_prefix=f"spark-{kind}")
        self._numbers = count(1)

    def executors(self) -> int:
        """How many executors the application has now; 0 also when Spark is gone."""
        try:
            ids: str = self._session.sparkContext._jsc.sc().getExecutorIds().mkString(",")  # noqa: SLF001
        except (Py4JError, OSError):
            # The loop gets the error too, and ends.
            return 0
        return len(ids.split(",")) if ids else 0

    def begin(
        self, about: str, tasks: int, run: RunTask, schema: str, *, places: Iterable[Place]
    ) -> LowJob:
        """Begin a job.

        Args:
            about: Description on Spark's page.
            tasks: Number of tasks.
            run: Called in each task.
            schema: Schema of its result, as Spark writes one.
            places: Locations of the tables that it reads and writes.
        """
        run = require_same_version(run)
        if self._tokens is not None:
            run = with_tokens(self._tokens.delegation_tokens(places), run)
        label = JobLabel(self._group, about, f"{self._tag}-{next(self._numbers)}", _UPKEEP)
        work = self._threads.submit(collected, self._session, label, tasks, (run, schema))
        return LowJob(self._session, label.tag, work)

    def close(self) -> None:
        """Begin no more jobs; running ones end with Spark."""
        self._threads.shutdown(wait=False, cancel_futures=True)
