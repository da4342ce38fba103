"""Contract of what runs a route's SQL over landed files."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.ledger.data_parts import TablePin
from sluiceway.types.schema import Schema
from sluiceway.worker.plan import TaskResult

if TYPE_CHECKING:
    import pyarrow as pa

    from sluiceway.worker.sql_task import SqlTask


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """A small table that the SQL joins.

    Attributes:
        name: Its name in the SQL.
        pin: Which state of the table these rows are, as in `TablePin`.
        rows: All of its rows.
    """

    name: str
    pin: str
    rows: "pa.Table"


@dataclass(frozen=True, slots=True)
class SqlJob:
    """Landed files, and the SQL to run over them.

    Attributes:
        rule: The SQL.
        decoded: Columns of the landed rows that the SQL sees.
        task: What the job's tasks share.
        guarded: Whether to mark rows that fail, at a higher price.
        first: Number of the first record that is read.
        last: Number of the last one; None without a bound.
        tables: Small tables that it joins.
    """

    rule: SqlRule
    decoded: Schema
    task: "SqlTask"
    guarded: bool = False
    first: int = 0
    last: int | None = None
    tables: tuple[JoinedTable, ...] = ()


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """What a SQL job has answered.

    Attributes:
        results: One a task.
        rows: Landed rows that Spark has read.
    """

    results: tuple[TaskResult, ...]
    rows: int


class TransformedEpoch(NamedTuple):
    """An epoch after its SQL.

    Attributes:
        results: Answers of its tasks, and of those of the SQL.
        pins: States of the tables that the SQL has joined.
    """

    results: list[TaskResult]
    pins: tuple[TablePin, ...] = ()


class SqlDataError(Exception):
    """A value of some row makes the SQL fail; Spark's words are the message."""


class SqlEngine(ABC):
    """Runs SQL. Owned by one driver; any thread may call."""

    @abstractmethod
    def columns(
        self, rule: SqlRule, decoded: Schema, tables: tuple[JoinedTable, ...] = ()
    ) -> tuple[tuple[str, str], ...]:
        """Names and Hive types of the columns that the SQL returns. Called at each START.

        Args:
            rule: The SQL.
            decoded: Columns that it reads.
            tables: Small tables that it joins.

        Raises:
            JobFileError: The SQL is wrong, or does not work row by row; says where.
            RunnerLostError: Spark is gone.
        """

    @abstractmethod
    def run(self, job: SqlJob, check: Callable[[], None]) -> SqlAnswer:
        """Run the SQL over landed files. Called once per try; waits for its end.

        Args:
            job: What to run.
            check: Asked again and again; raises to give up.

        Raises:
            SqlDataError: A value makes the SQL fail.
            NotGuardedError: A guarded job was asked for, and this SQL cannot be guarded.
            TaskFailedError: The job died otherwise.
        """


class NotGuardedError(Exception):
    """The SQL has parts that cannot be tried row by row."""
