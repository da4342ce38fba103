"""Tables of a job file that no route fills: no table may have two uses.

A table of late rows shows one route's late place; routes may share a table of dirty rows.
"""

from collections.abc import Iterator, Mapping, Sequence

from sluiceway.jobfile.blocks.event_time import TABLE_IN_NAME, late_table_name
from sluiceway.jobfile.blocks.table_target import table_path
from sluiceway.jobfile.blocks.topic_pattern import groups_in
from sluiceway.jobfile.blocks.values import is_table_name
from sluiceway.jobfile.positions import Path, Positions
from sluiceway.jobfile.problems import JobFileProblem, Mark, quoted

_LATE: Path = ("event_time", "late_table")
_DIRTY: Path = ("dirty", "store", "table")

Table = tuple[str, str]
"""Name of the metastore's connection, and `database.table` in lower case."""


def check_table_names(routes: Sequence[Positions]) -> Iterator[JobFileProblem]:
    """Check late and dirty tables across all routes. Called once per load.

    Another check reports two routes that fill one table. Tables of a pattern's routes are known
    only when the job runs; they are compared then.

    Args:
        routes: Each route's whole tree; parts of the wrong shape are ignored.
    """
    # A problem that several routes inherit from the file's own blocks is reported once.
    told: set[tuple[Mark, str]] = set()
    for problem in _problems(routes):
        if (problem.mark, problem.todo) not in told:
            told.add((problem.mark, problem.todo))
            yield problem


def _problems(routes: Sequence[Positions]) -> Iterator[JobFileProblem]:
    own: dict[Table, Mark] = {}
    for positions in routes:
        if (table := _own(positions)) is not None:
            own.setdefault(table, positions.value(_own_name(positions)))
    late: dict[Table, Mark] = {}
    for positions in routes:
        problem = _late_problem(positions, own, late)
        if problem is not None:
            yield problem
        elif (table := _late(positions)) is not None:
            late[table] = positions.value(_LATE)
    for positions in routes:
        if (table := _named(positions, positions.text(_DIRTY))) in own:
            yield _taken(positions, _DIRTY, "dirty rows", own[table], "a route's own table")
        elif table in late:
            yield _taken(positions, _DIRTY, "dirty rows", late[table], "a table of late rows")


def _late_problem(
    positions: Positions, own: Mapping[Table, Mark], late: Mapping[Table, Mark]
) -> JobFileProblem | None:
    """The problem of a route's table of late rows, given the tables of earlier routes."""
    name, filled = positions.text(_LATE), positions.text(_own_name(positions))
    if name and TABLE_IN_NAME not in name and groups_in(filled):
        text = f"expected {quoted(TABLE_IN_NAME)} in the name: a pattern makes several routes"
        todo = f"write for example 'late.{TABLE_IN_NAME}', in quotes"
        return JobFileProblem(positions.value(_LATE), text, todo)
    if filled and _late_name(positions) == filled.lower():
        mark = positions.value(_own_name(positions))
        return _taken(positions, _LATE, "late rows", mark, "the route's own table")
    table = _late(positions)
    if table is not None and table in own:
        return _taken(positions, _LATE, "late rows", own[table], "a route's own table")
    if table is not None and table in late:
        text = f"expected each table of late rows in one route, got {quoted(table[1])} again"
        todo = f"name another one; {TABLE_IN_NAME} in it stands for the route's own table"
        return JobFileProblem(positions.value(_LATE), text, todo)
    return None


def _taken(positions: Positions, path: Path, rows: str, first: Mark, what: str) -> JobFileProblem:
    text = f"expected a table of its own for {rows}, got {positions.came(path)}: {what}"
    return JobFileProblem(positions.value(path), text, f"name another one (line {first.line})")


def _own_name(positions: Positions) -> Path:
    return table_path(positions, "name")


def _own(positions: Positions) -> Table | None:
    return _named(positions, positions.text(_own_name(positions)))


def _late(positions: Positions) -> Table | None:
    return _named(positions, _late_name(positions))


def _late_name(positions: Positions) -> str:
    table = positions.text(_own_name(positions)).partition(".")[2]
    return late_table_name(positions.text(_LATE), table)


def _named(positions: Positions, name: str) -> Table | None:
    """The table of a name; None for no name, and for a name that depends on topics."""
    connection = positions.text(table_path(positions, "connection"))
    return (connection, name.lower()) if is_table_name(name) else None
