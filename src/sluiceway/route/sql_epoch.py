"""The SQL between landing and commit: from landed files to the answers that are committed.

It runs while the next epoch is read. A job that dies runs again over the same landed files; nothing
is read from the queue a second time. Where a value makes the SQL fail, the guarded plan of that
epoch marks the records; where there is none, the epoch is halved until the records are alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from sluiceway.errors import SqlFailedError, TaskFailedError
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.ledger.data_parts import TablePin
from sluiceway.observe.log import Log
from sluiceway.route.route_plan import decoded_columns
from sluiceway.schedule.planner import PlannedEpoch
from sluiceway.schedule.sql_engine import (
    NotGuardedError,
    SqlAnswer,
    SqlDataError,
    SqlEngine,
    SqlJob,
    TransformedEpoch,
)
from sluiceway.schedule.sql_tables import SqlTables
from sluiceway.storage.contract import Storage
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.landing import first_number
from sluiceway.worker.plan import TaskPlan, TaskResult
from sluiceway.worker.sql_task import SqlTask, reject_records

if TYPE_CHECKING:
    from sluiceway.sources.contract import Split

TRIES = 3
"""How often a job runs over the same landed files before the route waits."""
MOST_PIECES = 20
"""Most jobs that look for records which the SQL cannot compute."""

_TASKS_OF_PIECE = 1000


@dataclass(frozen=True, slots=True)
class SqlEpochs:
    """Runs a route's SQL over what its tasks have landed. Used by one thread at a time.

    Attributes:
        config: The route, with SQL.
        rule: Its SQL.
        engine: Runs it.
        storage: The table's storage.
        log: The route's log.
        check: Asked again and again while a job runs; raises to give up.
        tables: Small tables that the SQL joins.
    """

    config: RouteConfig
    rule: SqlRule
    engine: SqlEngine
    storage: Storage
    log: Log
    check: Callable[[], None]
    tables: SqlTables

    def transformed(self, planned: PlannedEpoch, results: Sequence[TaskResult]) -> TransformedEpoch:
        """The answers of an epoch with what the SQL has made of its landed rows.

        Called before PREPARE, once an epoch.

        Args:
            planned: What was asked for.
            results: Answers of the tasks that finished.

        Returns:
            The same answers, and one for each task of the SQL's jobs.

        Raises:
            TaskFailedError: The job died three times; the epoch is read again.
            SqlFailedError: The SQL fails at a value, and the records cannot be found.
            SluicewayError: A task has failed with it.
        """
        return self._run(results, partial(_task, planned, results))

    def replayed(
        self, plan: TaskPlan, result: TaskResult, pins: Sequence[TablePin]
    ) -> TransformedEpoch:
        """As `transformed`, for the one task of a replay's epoch; tables as they were pinned."""
        landed = tuple(
            (plan.task, plan.route.layout.attempt(file.staged)) for file in result.landed
        )
        job = SqlTask(replace(plan, task=plan.task + 1), {plan.task: 0}, landed)
        return self._run([result], lambda: job, pins)

    def _run(
        self,
        results: Sequence[TaskResult],
        task: Callable[[], SqlTask],
        pins: Sequence[TablePin] = (),
    ) -> TransformedEpoch:
        landed = _Landed.of(results)
        if not landed.rows:
            return TransformedEpoch(list(results))
        tables = self.tables.read(pins)
        job = SqlJob(self.rule, decoded_columns(self.config), task(), tables=tables)
        answers = self._answers(job, landed)
        found = [*results, *counted(answers, landed.rows)]
        return TransformedEpoch(found, tuple(TablePin(each.name, each.pin) for each in tables))

    def _answers(self, job: SqlJob, landed: "_Landed") -> list[TaskResult]:
        try:
            return self._tried(job, landed.rows)
        except SqlDataError as error:
            message = str(error)
        self.log.info("sql_guarded", epoch=job.task.plan.epoch, error=message)
        try:
            return self._tried(replace(job, guarded=True), landed.rows)
        except (NotGuardedError, SqlDataError):
            return list(self._halved(job, landed, message))

    def _tried(self, job: SqlJob, rows: int) -> list[TaskResult]:
        """The answers of one job, which runs again where it dies."""
        for number in range(1, TRIES):
            try:
                return self._once(job, rows)
            except TaskFailedError as error:
                self.log.warning("sql_failed", attempt=number, error=str(error))
        return self._once(job, rows)

    def _once(self, job: SqlJob, rows: int) -> list[TaskResult]:
        answer = self.engine.run(job, self.check)
        check_rows(answer, rows)
        for result in answer.results:
            if result.failure is not None:
                raise result.failure.to_error()
        return list(answer.results)

    def _halved(self, job: SqlJob, landed: "_Landed", message: str) -> Iterator[TaskResult]:
        """The answers of parts of the epoch; records at which the SQL fails are dirty.

        All records below `begin` are through. Some record in [begin, bad_end) fails; nothing is
        known of those after it, nor where `bad_end` is None.
        """
        self._refuse_without_rows(job)
        begin = 0
        bad_end: int | None = landed.rows
        for number in range(1, MOST_PIECES + 1):
            piece = _piece(job, number)
            if bad_end is not None and bad_end - begin == 1:
                yield reject_records(piece.task, self.storage, [landed.number(begin)], message)
                begin, bad_end = bad_end, None
            if begin == landed.rows:
                return
            end = landed.rows if bad_end is None else (begin + bad_end) // 2
            part = replace(piece, first=landed.number(begin), last=landed.number(end - 1))
            try:
                yield from self._tried(part, end - begin)
                begin = end
            except SqlDataError as error:
                bad_end, message = end, str(error)
        raise SqlFailedError(
            f"the SQL fails at values, and {MOST_PIECES} jobs did not find all of the rows: "
            f"{message}",
            where=self.rule.places.place(None),
            hint="write expressions and functions that cannot fail: try_cast, try_divide",
        )

    def _refuse_without_rows(self, job: SqlJob) -> None:
        """Require that the SQL can be computed over no record: else no record is to blame.

        Raises:
            SqlFailedError: A small table has a value at which it fails.
        """
        try:
            self._tried(replace(_piece(job, MOST_PIECES + 1), last=-1), 0)
        except SqlDataError as error:
            raise SqlFailedError(
                f"the SQL fails whatever records it reads: {error}",
                where=self.rule.places.place(None),
                hint="a table that it joins has a value at which it fails: correct the value, or "
                "write expressions that cannot fail: try_cast, try_divide",
            ) from error


@dataclass(frozen=True, slots=True)
class _Landed:
    """Landed records of an epoch, counted through from 0.

    Attributes:
        tasks: (landing task, records before it, records after it), by rising task.
    """

    tasks: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, results: Sequence[TaskResult]) -> "_Landed":
        """Those of an epoch's answers."""
        rows = {each.task: sum(int(file.rows) for file in each.landed) for each in results}
        order = [task for task in sorted(rows) if rows[task]]
        ends = list(accumulate(rows[task] for task in order))
        return cls(tuple((t, end - rows[t], end) for t, end in zip(order, ends, strict=True)))

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.tasks[-1][2] if self.tasks else 0

    def number(self, place: int) -> int:
        """Number of a record, as landed files have it."""
        task, begin, _ = next(each for each in self.tasks if each[1] <= place < each[2])
        return first_number(task) + place - begin


def _piece(job: SqlJob, piece: int) -> SqlJob:
    """The job with task numbers that no other piece of the epoch has."""
    plan = job.task.plan
    plan = replace(plan, task=plan.task + piece * _TASKS_OF_PIECE)
    return replace(job, task=replace(job.task, plan=plan))


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


def counted(answers: Sequence[TaskResult], rows: int) -> list[TaskResult]:
    """The answers without the records that they began with; those without any row are filtered.

    Args:
        answers: Of all tasks of the SQL's jobs; `counts.read` is how many records each had.
        rows: Landed records of the epoch.

    Raises:
        TaskFailedError: They had more than were landed.
    """
    returned = sum(int(each.counts.read) for each in answers)
    if returned > rows:
        raise TaskFailedError(f"the SQL returned rows of {returned} records, {rows} were landed")
    left_out, found = rows - returned, []
    for answer in answers:
        counts = replace(answer.counts, read=BigInt(0), filtered=BigInt(left_out))
        found.append(replace(answer, counts=counts))
        left_out = 0
    return found
