"""The block `transform`: SQL between what is decoded and what is written, as frozen values."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, Field

from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.columns import ColumnSpec
from sluiceway.jobfile.blocks.values import (
    ColumnName,
    LakeName,
    TimeZone,
    TypeText,
    duration,
    wrong,
)
from sluiceway.jobfile.problems import Mark

INPUT = "input"
"""Name of the decoded rows in the SQL."""

_MAX_SQL = 64 * 1024
_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


def _check_sql(text: str) -> str:
    if not text.strip() or len(text) > _MAX_SQL:
        raise wrong(f"one query of Spark SQL, at most {_MAX_SQL} characters", "write a SELECT")
    return text


def _check_function(text: str) -> str:
    if not _FUNCTION.fullmatch(text):
        raise wrong("`module:function` of Python", "name both, as `acme.masks:mask`")
    return text


SqlText = Annotated[str, AfterValidator(_check_sql)]
FunctionPlace = Annotated[str, AfterValidator(_check_function)]


class SqlFunction(Block):
    """A Python function that the SQL may call; exactly one of the kinds is given.

    Attributes:
        python: `module:function`, called once for each row.
        pandas: `module:function`, called with a pandas series for each argument.
        returns: Hive type of what it returns.
    """

    ONE_OF = ("python", "pandas")
    python: FunctionPlace | None = None
    pandas: FunctionPlace | None = None
    returns: TypeText


class SqlTable(Block):
    """A small table that the SQL may join.

    Attributes:
        table: `database.table`.
        connection: Its metastore, folder or Iceberg catalog; None is that of the route's table.
        refresh_ms: How old its rows may be before the job reads it again.
    """

    table: LakeName
    connection: str | None = None
    refresh_ms: Annotated[int, *duration("1s", "7d")] = Field(default=600_000, alias="refresh")


class TransformSpec(Block):
    """Spark SQL that turns decoded rows into rows of the table.

    Attributes:
        columns: Columns that are decoded, the table `input` of the SQL; None are those of the table
            that a route reads.
        sql: One query of Spark SQL, over `input`.
        tables: Name in the SQL -> the small table that it stands for.
        functions: Name in the SQL -> the Python function that it calls.
        timezone: Time zone of the SQL.
    """

    columns: tuple[ColumnSpec, ...] | None = None
    sql: SqlText
    tables: Mapping[ColumnName, SqlTable] = Field(default_factory=dict)
    functions: Mapping[ColumnName, SqlFunction] = Field(default_factory=dict)
    timezone: TimeZone = "UTC"


@dataclass(frozen=True, slots=True)
class SqlPlaces:
    """Where the characters of the SQL stand in the job file. All are equal.

    Attributes:
        source: The path as the user gave it.
        runs: (number of a character, its place) where the place does not just move to the right.
    """

    source: str = field(default="", compare=False)
    runs: tuple[tuple[int, Mark], ...] = field(default=(), compare=False, repr=False)

    def place(self, index: int | None) -> str:
        """`file:line:column` of a character, counted from 0; of the SQL where None is known."""
        if not self.runs:
            return "transform.sql"
        first, mark = self.runs[0]
        for first_of_run, of_run in self.runs:
            if index is None or first_of_run > index:
                break
            first, mark = first_of_run, of_run
        return f"{self.source}:{mark.line}:{mark.column + ((index or first) - first)}"


def sql_places(content: str, text: str, mark: Mark, source: str) -> SqlPlaces:
    """Align the text of a YAML scalar with the file that holds it. Called once a route and load.

    Args:
        content: The whole file.
        text: The scalar's text, without quotes, indentation and escapes.
        mark: Where the scalar begins.
        source: The path as the user gave it.
    """
    lines = content.split("\n")
    line, column = mark.line - 1, mark.column - 1
    begins = lines[line][column : column + 1] if line < len(lines) else ""
    if begins in ("|", ">"):
        line, column = line + 1, 0
    elif begins in ("'", '"'):
        column += 1
    runs: list[tuple[int, Mark]] = []
    expected = (-1, -1)
    for index, character in enumerate(text):
        if character.isspace():
            continue
        while line < len(lines) and (found := lines[line].find(character, column)) < 0:
            line, column = line + 1, 0
        if line >= len(lines):
            return SqlPlaces(source, ((0, mark),))
        column = found
        if expected != (line, column - index):
            expected = (line, column - index)
            runs.append((index, Mark(line + 1, column + 1)))
        column += 1
    return SqlPlaces(source, tuple(runs) or ((0, mark),))
