"""From the job file's columns and `where` to what a worker makes rows by; every one checked."""

import json
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, fields
from functools import partial

from sluiceway.errors import JobFileError
from sluiceway.expressions.evaluate import compile_condition, compile_expression
from sluiceway.expressions.expression_error import ExpressionError
from sluiceway.expressions.syntax import parse_expression
from sluiceway.expressions.tree import Column, Node, children
from sluiceway.spec.columns import ColumnSpec
from sluiceway.spec.models import RouteSpec
from sluiceway.types.hive_types import format_hive_type, parse_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.policy_check import policy_problems
from sluiceway.types.schema import Field, FloatType, Schema
from sluiceway.worker.plan import RowChoices, RowColumn
from sluiceway.worker.row_choices import payload_fields, read_plain_value

# What says where a column's values come from, and what goes with it.
_ORIGINS = ("path", "constant", "expression")
_PAYLOAD_ONLY = ("unit", "default", "transient")
_POLICY = tuple(field.name for field in fields(Policy))


@dataclass(frozen=True, slots=True)
class ChoiceProblem:
    """What is wrong with a column or with `where`.

    Attributes:
        path: Of the value in the job file, as `("table", "columns", 2, "expression")`.
        expected: What it should be.
        todo: What the user does.
    """

    path: tuple[str | int, ...]
    expected: str
    todo: str


def row_columns(spec: RouteSpec) -> tuple[RowColumn, ...] | None:
    """Declared columns in their order; None when they come from the table.

    Called once per route.

    Raises:
        JobFileError: A type is not known, or a column or `where` is not what it has to be.
    """
    if spec.table.columns is None:
        return None
    columns = tuple(_row_column(column) for column in spec.table.columns)
    for problem in choice_problems(spec):
        place = ".".join(str(step) for step in problem.path)
        raise JobFileError(f"{place}: expected {problem.expected}; {problem.todo}")
    return columns


def row_choices(columns: tuple[RowColumn, ...] | None, where: str | None) -> RowChoices:
    """What a worker is told; says nothing of columns that are all as the payload has them."""
    plain = all(column == RowColumn(column.field) for column in columns or ())
    return RowChoices(() if plain else columns or (), where)


def choice_problems(spec: RouteSpec) -> Iterator[ChoiceProblem]:
    """What is wrong with the columns and `where` of a route.

    Called before a route starts. Columns whose types are not known are told elsewhere.

    Args:
        spec: The route.
    """
    columns = spec.table.columns
    yield from unread_policies(spec)
    yield from problems_of(None if columns is None else ReadColumns(columns), spec.where)


def unread_policies(spec: RouteSpec) -> Iterator[ChoiceProblem]:
    """Policies beside a plug-in's format, which has rules of its own that no policy changes."""
    if spec.format.plugin is None:
        return
    for index, column in enumerate(spec.table.columns or ()):
        for name, _ in _policy(column).settings():
            path = ("table", "columns", index, name)
            text = f"no `{name}` with the format {spec.format.plugin[0]}"
            yield ChoiceProblem(path, text, "remove it")


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """Declared columns as far as they can be read.

    Attributes:
        columns: In their order; None for one that is not valid, which is told elsewhere.
        unread: Names of these, in lower case.
        complete: Whether the names of all of them are known.
    """

    columns: Sequence[ColumnSpec | None]
    unread: Set[str] = frozenset()
    complete: bool = True


def problems_of(read: ReadColumns | None, where: str | None) -> Iterator[ChoiceProblem]:
    """What is wrong with columns and `where`, whatever else is wrong with the job file.

    A column that is not valid keeps nothing else from being checked but what refers to it.

    Args:
        read: The columns; None when they come from the table.
        where: Condition of the route.
    """
    if read is None:
        # What the columns are is known only once the table is open.
        if where is not None:
            yield from _told(("where",), "a condition", partial(parse_expression, where))
        return
    sound: dict[int, RowColumn] = {}
    unread = set(read.unread)
    for index, column in enumerate(read.columns):
        if column is None:
            continue
        clashes = list(_clashes(index, column))
        yield from clashes
        made = None if clashes else _readable(column)
        if made is None:
            unread.add(column.name.lower())
        else:
            sound[index] = made
    known = None if not read.complete else unread
    payload = Schema(payload_fields(tuple(sound.values())))
    for index, made in sound.items():
        yield from _column_problems(index, made, read.columns[index], payload, known)
    if sound and not unread and read.complete and not payload.fields:
        yield ChoiceProblem(
            ("table", "columns"), "a column of the payload", "declare one without constant"
        )
    if where is not None and (sound or unread or not read.complete):
        whole = Schema(tuple(column.field for column in sound.values()))
        check = partial(compile_condition, where, whole)
        yield from _told(("where",), "a condition", partial(_check_text, where, known, check))


def _readable(column: ColumnSpec) -> RowColumn | None:
    try:
        return _row_column(column)
    except (JobFileError, ValueError):
        return None


def _check_text(text: str, unread: Set[str] | None, check: Callable[[], object]) -> None:
    """Check an expression, its types only where it needs none of the columns that are unread."""
    tree = parse_expression(text)
    if unread is not None and not _names(tree) & unread:
        check()


def _names(root: Node) -> set[str]:
    """Columns that an expression refers to, in lower case."""
    waiting, names = [root], set[str]()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Column):
            names.add(node.path[0].lower())
        waiting.extend(children(node))
    return names


def _clashes(index: int, column: ColumnSpec) -> Iterator[ChoiceProblem]:
    given = [name for name in _ORIGINS if getattr(column, name) is not None]
    odd = given[1:]
    if given and given[0] != "path":
        odd += [name for name, _ in _policy(column).settings()]
        odd += [name for name in _PAYLOAD_ONLY if getattr(column, name) not in (None, False)]
    if "constant" in given:
        odd = [name for name in odd if name != "unit"]
    for name in odd:
        path = ("table", "columns", index, name)
        yield ChoiceProblem(path, f"no `{name}` beside `{given[0]}`", "remove one of them")


def _column_problems(
    index: int,
    column: RowColumn,
    wanted: ColumnSpec | None,
    payload: Schema,
    unread: Set[str] | None,
) -> Iterator[ChoiceProblem]:
    if wanted is None:
        return
    kind = format_hive_type(column.field.type)
    for found in policy_problems(column.field):
        yield ChoiceProblem(("table", "columns", index, found.key), found.expected, found.todo)
    for name, value in (("constant", wanted.constant), ("default", wanted.default)):
        if value is not None:
            check = partial(_check_value, column.field, value)
            yield from _told(("table", "columns", index, name), f"a value of type {kind}", check)
    if column.expression is not None:
        text = column.expression
        typed = partial(compile_expression, text, payload, column.field.type)
        yield from _told(
            ("table", "columns", index, "expression"),
            f"an expression of type {kind} over columns of the payload",
            partial(_check_text, text, unread, typed),
        )


def _told(
    path: tuple[str | int, ...], expected: str, check: Callable[[], object]
) -> Iterator[ChoiceProblem]:
    try:
        check()
    except (ExpressionError, ValueError) as error:
        yield ChoiceProblem(path, expected, f"correct it: {error}")


def _row_column(column: ColumnSpec) -> RowColumn:
    try:
        kind = parse_hive_type(column.type)
    except ValueError as error:
        raise JobFileError(f"column {column.name}: {error}") from error
    field = Field(
        name=column.name,
        type=kind,
        required=column.required,
        path=tuple(column.path.split(".")) if column.path else (),
        time_unit=column.unit,
        policy=_policy(column),
    )
    return RowColumn(
        field,
        constant=None if column.constant is None else json.dumps(column.constant),
        default=None if column.default is None else json.dumps(column.default),
        expression=column.expression,
        written=not column.transient,
    )


def _policy(column: ColumnSpec) -> Policy:
    return Policy(**{name: getattr(column, name) for name in _POLICY})


def _check_value(field: Field, value: object) -> None:
    if isinstance(value, float) and not isinstance(field.type, FloatType):
        # The reader of the job file has it as a float; the digits that were written are gone.
        raise ValueError("put the number into quotes, so that it stays exact")  # noqa: TRY004
    read_plain_value(field, json.dumps(value))
