"""What runs the SQL of a unit: who asks, and who answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sluiceway.chains.unit_tables import UnitFiles
from sluiceway.jobfile.compile.sql_rule import SqlRule
from sluiceway.ledger.file_names import FileRecord
from sluiceway.schedule.sql_engine import JoinedTable
from sluiceway.sinks.table_options import ReadableTable
from sluiceway.types.schema import Schema
from sluiceway.worker.unit_files import UnitPlan


@dataclass(frozen=True, slots=True)
class UnitQuery:
    """A query over one unit of a table.

    Attributes:
        sql: The query, with its tables and functions.
        table: The table that `input` stands for.
        files: Exactly the files that are read.
        output: Where the rows go.
        tables: Small tables that the query joins.
    """

    sql: SqlRule
    table: ReadableTable
    files: UnitFiles
    output: UnitPlan
    tables: tuple[JoinedTable, ...] = ()


@dataclass(frozen=True, slots=True)
class UnitResult:
    """What a query has done.

    Attributes:
        read: Rows of `input` that were observed while it ran.
        files: What was written; none for no rows.
    """

    read: int
    files: tuple[FileRecord, ...]


class UnitSql(Protocol):
    """Runs queries over units. Any thread may ask it."""

    def columns(
        self, sql: SqlRule, table: ReadableTable, tables: tuple[JoinedTable, ...] = ()
    ) -> Schema:
        """Columns that a query returns. Called before a table is made for them.

        Args:
            sql: The query.
            table: The table that `input` stands for.
            tables: Small tables that the query joins.

        Raises:
            JobFileError: The query cannot be run; says where it is wrong.
        """

    def run(self, query: UnitQuery, check: Callable[[], None]) -> UnitResult:
        """Run a query over a unit and write what it returns.

        Args:
            query: The query.
            check: Called again and again meanwhile; raises to give up.

        Raises:
            JobFileError: The query cannot be run; says where it is wrong.
            TableMismatchError: The table has no column for what it returns, or no value for one.
            TaskFailedError: It has failed, and may be run again.
        """
