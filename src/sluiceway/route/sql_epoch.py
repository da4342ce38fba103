"""The SQL between landing and commit: from landed files to the answers that are committed.

It runs while the next epoch is read. A job that dies runs again over the same landed files; nothing
is read from the queue a second time.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sluiceway.errors import SluicewayError, TaskFailedError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.observe.failpoints import reach
from sluiceway.observe.log import Log
from sluiceway.route.sql_columns import decoded_columns
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.schedule.sql_engine import (
    NotGuardedError,
    SqlAnswer,
    SqlDataError,
    SqlEngine,
    SqlJob,
)
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import TaskPlan, TaskResult
from sluiceway.worker.sql_task import SqlTask

if TYPE_CHECKING:
    from sluiceway.sources.contract import Split

TRIES = 3
"""How often a job runs over the same landed files before the route waits."""


class SqlEpochs:
    """Runs a route's SQL over what its tasks have landed. Used by one thread at a time.

    Args:
        config: The route, with SQL.
        rule: Its SQL.
        engine: Runs it.
        log: The route's log.
        check: Asked again and again while a job runs; raises to give up.
    """

    def __init__(
        self,
        config: RouteConfig,
        rule: SqlRule,
        engine: SqlEngine,
        log: Log,
        check: Callable[[], None],
    ) -> None:
        self._config = config
        self._rule = rule
        self._engine = engine
        self._log = log
        self._check = check

    def transformed(self, planned: PlannedEpoch, results: Sequence[TaskResult]) -> list[TaskResult]:
        """The answers of an epoch with what the SQL has made of its landed rows.

        Called before PREPARE, once an epoch.

        Args:
            planned: What was asked for.
            results: Answers of the tasks that finished.

        Returns:
            The same answers, and one for each task of the SQL's job.

        Raises:
            TaskFailedError: The job died three times; the epoch is read again.
            SluicewayError: A task has failed with it.
        """
        rows = sum(int(file.rows) for result in results for file in result.landed)
        if not rows:
            return list(results)
        reach("sql.landed", planned.epoch)
        job = SqlJob(self._rule, decoded_columns(self._config), _task(planned, results))
        answers = self._answers(job, rows)
        reach("sql.done", planned.epoch)
        return [*results, *_counted(answers, rows)]

    def _answers(self, job: SqlJob, rows: int) -> list[TaskResult]:
        failure: SluicewayError | None = None
        for number in range(1, TRIES + 1):
            try:
                answer = self._engine.run(job, self._check)
                check_rows(answer, rows)
                _raise_failure(answer)
            except SqlDataError as error:
                if job.guarded:
                    raise _unguarded(self._rule, str(error)) from error
                self._log.info("sql_guarded", epoch=job.task.plan.epoch, error=str(error))
                return self._guarded(replace(job, guarded=True), rows, str(error))
            except TaskFailedError as error:
                failure = error
                self._log.warning("sql_failed", attempt=number, error=str(error))
            else:
                return list(answer.results)
        raise failure or TaskFailedError("the job of the SQL died")

    def _guarded(self, job: SqlJob, rows: int, message: str) -> list[TaskResult]:
        try:
            return self._answers(job, rows)
        except NotGuardedError as error:
            raise _unguarded(self._rule, message) from error


def _task(planned: PlannedEpoch, results: Sequence[TaskResult]) -> SqlTask:
    splits: list[Split] = []
    first_splits: dict[int, int] = {}
    for result in results:
        first_splits[result.task] = len(splits)
        splits += [each.split for each in planned.by_task[result.task]]
    layout = planned.route.layout
    plan = TaskPlan(
        route=planned.route,
        epoch=planned.epoch,
        task=max(planned.by_task) + 1,
        splits=tuple(splits),
        deadline_s=0.0,
        times=planned.dates.for_splits(tuple(splits), planned.told_closed),
    )
    landed = tuple(
        (result.task, layout.attempt(file.staged)) for result in results for file in result.landed
    )
    return SqlTask(plan, first_splits, landed)


def check_rows(answer: SqlAnswer, rows: int) -> None:
    """Require that Spark has read the landed rows, each once.

    Raises:
        TaskFailedError: It has not: an executor was lost, or a file is gone.
    """
    if answer.rows != rows:
        raise TaskFailedError(
            f"Spark has read {answer.rows} landed rows, and {rows} were landed",
            hint="the job runs again over the same files",
        )


def _raise_failure(answer: SqlAnswer) -> None:
    for result in answer.results:
        if result.failure is not None:
            raise result.failure.to_error()


def _counted(answers: Sequence[TaskResult], rows: int) -> list[TaskResult]:
    """The answers without the records that they began with; those without any row are filtered."""
    returned = sum(int(each.counts.read) for each in answers)
    if returned > rows:
        raise TaskFailedError(f"the SQL returned rows of {returned} records, {rows} were landed")
    left_out, found = rows - returned, []
    for answer in answers:
        counts = replace(answer.counts, read=BigInt(0), filtered=BigInt(left_out))
        found.append(replace(answer, counts=counts))
        left_out = 0
    return found


def _unguarded(rule: SqlRule, message: str) -> TaskFailedError:
    return TaskFailedError(
        f"the SQL fails at a value, and the row cannot be told apart: {message}",
        where=rule.places.place(None),
        hint="write the expression so that it cannot fail: try_cast, try_divide",
    )
