"""Has the files of partitions written anew by tasks of the cluster, where that has executors."""

from collections.abc import Sequence

from sluiceway.errors import SluicewayError, TaskFailedError
from sluiceway.ledger.file_records import FileRecord
from sluiceway.schedule.rewrite_tasks import RewriteTasks
from sluiceway.upkeep.rewriting import ProcessRewriter, Rewritten


class ClusterRewriter:
    """Rewrites on executors, else beside the driver; a `Rewriter`.

    Where it goes is decided anew for each group: executors come and go.

    Args:
        beside: Makes the plans, and does the work while there are not several executors.
        tasks: Of the job's runner.
    """

    def __init__(self, beside: ProcessRewriter, tasks: RewriteTasks) -> None:
        self._beside = beside
        self._tasks = tasks

    def rewrite(
        self, staged: Sequence[tuple[str, Sequence[FileRecord]]], *, until: float | None
    ) -> list[Rewritten | SluicewayError]:
        """See `Rewriter.rewrite`."""
        if not self._tasks.usable():
            return self._beside.rewrite(staged, until=until)
        plans = [self._beside.plan(folder, live) for folder, live in staged]
        try:
            answers = self._tasks.run(plans, lambda: self._beside.check(until))
        except TaskFailedError as error:
            return [error for _ in staged]
        return [
            answer.failure or Rewritten(answer.files, answer.wall_s, answer.cpu_s)
            for answer in answers
        ]

    def cancel(self) -> None:
        """See `Rewriter.cancel`."""
        self._beside.cancel()
