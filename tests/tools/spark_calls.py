"""A SparkContext that only keeps what a driver says of its jobs."""

from collections.abc import Callable, Sequence
from typing import Any


class RecordedContext:
    """What a runner asks of a SparkContext; `said` has what it says of the jobs of a thread.

    Args:
        work: Done for each job, instead of its tasks, which are kept in `tasks`.
    """

    master = "local[1]"
    defaultParallelism = 1  # noqa: N815 - Spark's name

    def __init__(self, work: Callable[[], None] = lambda: None) -> None:
        self._work = work
        self.tasks: list[Any] = []
        self.said: list[tuple[str, ...]] = []
        self.cancelled: list[str] = []
        self.uiWebUrl: str | None = None
        self._jsc = self

    def parallelize(self, shares: Sequence[bytes], tasks: int) -> "RecordedContext":
        """A job of a task for each share."""
        assert len(shares) == tasks > 0
        return self

    def mapPartitions(self, task: Any) -> "RecordedContext":  # noqa: N802
        """What each runs."""
        self.tasks.append(task)
        return self

    def collect(self) -> list[bytes]:
        """No answer."""
        self._work()
        return []

    def stop(self) -> None:
        """Nothing runs."""

    def setCallSite(self, name: str | None) -> None:  # noqa: N802
        """The name of a stage."""
        if name is not None:
            self.said.append(("stage", name))

    def setJobGroup(self, *group: str, **_: Any) -> None:  # noqa: N802
        """A group and its description."""
        self.said.append(("group", *group))

    def setLocalProperty(self, *of: str) -> None:  # noqa: N802
        """A property."""
        self.said.append(("property", *of))

    def clearJobTags(self) -> None:  # noqa: N802
        """No tag of before."""

    def addJobTag(self, tag: str) -> None:  # noqa: N802
        """By which it is cancelled."""
        self.said.append(("tag", tag))

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802
        """The jobs with a tag."""
        self.cancelled.append(tag)
