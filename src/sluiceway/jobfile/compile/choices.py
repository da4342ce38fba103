"""From the job file's columns and `where` to a worker's choices, with all checks."""

import json
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, fields

from sluiceway.errors import JobFileError
from sluiceway.jobfile.blocks.columns import ColumnSpec
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.values import revealed
from sluiceway.types.hive_types import format_hive_type, parse_hive_type
from sluiceway.types.key_path import keys_below, path_keys
from sluiceway.types.policy import NO_POLICY, Policy
from sluiceway.types.schema import Field, Schema, StringType
from sluiceway.worker.row_rules import VALUE_COLUMN, RowChoices, RowColumn, payload_fields

# Keys for the source of a column's values, and keys that go with them.
_ORIGINS = ("path", "constant", "expression")
_PAYLOAD_ONLY = ("unit", "default", "transient")
_POLICY = tuple(field.name for field in fields(Policy))


@dataclass(frozen=True, slots=True)
class ChoiceProblem:
    """A problem of a column or of `where`.

    Attributes:
        path: Path of the value in the job file, such as `("table", "columns", 2, "expression")`.
        expected: The expected value.
        todo: What the user does.
    """

    path: tuple[str | int, ...]
    expected: str
    todo: str


def row_columns(spec: RouteSpec) -> tuple[RowColumn, ...] | None:
    """Declared columns that are decoded, in order; None when they come from the table.

    Called once per route.

    Raises:
        JobFileError: A type is unknown, or a column or `where` is not valid.
    """
    if spec.columns is None:
        return None
    keys = path_keys if spec.format.is_change_log else keys_below
    columns = tuple(_row_column(column, keys) for column in spec.columns)
    for problem in choice_problems(spec):
        place = ".".join(str(step) for step in problem.path)
        raise JobFileError(f"{place}: expected {problem.expected}; {problem.todo}")
    return columns


def value_column(path: str) -> RowColumn:
    """The column of a `route_by`, which no file holds."""
    keys = path_keys(path)
    field = Field(VALUE_COLUMN, StringType(), path=keys[1:] if keys[0] == "$" else keys)
    return RowColumn(field, written=False)


def row_choices(columns: tuple[RowColumn, ...] | None, where: str | None) -> RowChoices:
    """The choices for a worker; columns that are as in the payload are not among them."""
    plain = all(column == RowColumn(column.field) for column in columns or ())
    return RowChoices(() if plain else columns or (), where)


def choice_problems(spec: RouteSpec) -> Iterator[ChoiceProblem]:
    """Problems of a route's columns and `where`.

    Called before a route starts. Unknown types are reported elsewhere.

    Args:
        spec: The route.
    """
    columns = spec.columns
    yield from unread_policies(spec)
    yield from problems_of(None if columns is None else ReadColumns(columns), spec.where)


def unread_policies(spec: RouteSpec) -> Iterator[ChoiceProblem]:
    """Policies of a plug-in's format, which has its own rules and uses no policies."""
    if spec.format.plugin is None:
        return
    block = "table" if spec.transform is None else "transform"
    for index, column in enumerate(spec.columns or ()):
        for name, _ in _policy(column).settings():
            path = (block, "columns", index, name)
            text = f"no `{name}` with the format {spec.format.plugin[0]}"
            yield ChoiceProblem(path, text, "remove it")


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """Declared columns, as far as they can be read.

    Attributes:
        columns: Columns in order; None for an invalid one, which is reported elsewhere.
        unread: Names of the invalid columns, in lower case.
        complete: Whether the names of all invalid columns are known.
    """

    columns: Sequence[ColumnSpec | None]
    unread: Set[str] = frozenset()
    complete: bool = True


def problems_of(read: ReadColumns | None, where: str | None) -> Iterator[ChoiceProblem]:
    """Problems of columns and `where`, whatever else is wrong with the job file.

    An invalid column keeps only the expressions that refer to it from being checked.

    Args:
        read: The columns; None when they come from the table.
        where: Condition of the route.
    """
    if read is None:
        # The columns are known only once the table is open.
        if where is not None:
            from sluiceway.jobfile.compile.text_checks import syntax_problem  # noqa: PLC0415 - loads Arrow

            yield from _wrong(("where",), "a condition", syntax_problem(where))
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
        from sluiceway.jobfile.compile.text_checks import condition_problem  # noqa: PLC0415 - loads Arrow

        whole = Schema(tuple(column.field for column in sound.values()))
        yield from _wrong(("where",), "a condition", condition_problem(where, whole, known))


def _readable(column: ColumnSpec) -> RowColumn | None:
    try:
        return _row_column(column)
    except (JobFileError, ValueError):
        return None


def _clashes(index: int, column: ColumnSpec) -> Iterator[ChoiceProblem]:
    given = [name for name in _ORIGINS if getattr(column, name) is not None]
    odd = given[1:]
    if given and given[0] != "path":
        odd += [name for name, _ in _policy(column).settings()]
        odd += [name for name in _PAYLOAD_ONLY if getattr(column, name) not in (None, False)]
    if "constant" in given:
        odd = [name for name in odd if name != "unit"]
    if column.salt is not None and column.expression is None:
        path = ("table", "columns", index, "salt")
        yield ChoiceProblem(path, "an `expression` with `salt`", "add it or remove the salt")
    for name in odd:
        path = ("table", "columns", index, name)
        yield ChoiceProblem(path, f"no `{name}` with `{given[0]}`", "remove one of them")


def _column_problems(
    index: int,
    column: RowColumn,
    wanted: ColumnSpec | None,
    payload: Schema,
    unread: Set[str] | None,
) -> Iterator[ChoiceProblem]:
    if wanted is None:
        return
    if column.field.policy != NO_POLICY or column.field.time_unit:
        from sluiceway.types.policy_check import policy_problems  # noqa: PLC0415 - seldom needed

        for found in policy_problems(column.field):
            yield ChoiceProblem(("table", "columns", index, found.key), found.expected, found.todo)
    texts = (wanted.constant, wanted.default, column.expression)
    if any(text is not None for text in texts):
        yield from _text_problems(index, column, wanted, payload, unread)


def _text_problems(
    index: int, column: RowColumn, wanted: ColumnSpec, payload: Schema, unread: Set[str] | None
) -> Iterator[ChoiceProblem]:
    from sluiceway.jobfile.compile.text_checks import (  # noqa: PLC0415 - loads Arrow
        expression_problem,
        value_problem,
    )

    kind = format_hive_type(column.field.type)
    for name, value in (("constant", wanted.constant), ("default", wanted.default)):
        if value is not None:
            path = ("table", "columns", index, name)
            yield from _wrong(path, f"a value of type {kind}", value_problem(column.field, value))
    if column.expression is not None:
        yield from _wrong(
            ("table", "columns", index, "expression"),
            f"an expression of type {kind} over columns of the payload",
            expression_problem(column, payload, unread),
        )


def _wrong(path: tuple[str | int, ...], expected: str, why: str | None) -> Iterator[ChoiceProblem]:
    if why is not None:
        yield ChoiceProblem(path, expected, f"correct it: {why}")


def _row_column(
    column: ColumnSpec, keys: Callable[[str], tuple[str, ...]] = keys_below
) -> RowColumn:
    try:
        kind = parse_hive_type(column.type)
    except ValueError as error:
        raise JobFileError(f"column {column.name}: {error}") from error
    field = Field(
        name=column.name,
        type=kind,
        required=column.required,
        path=keys(column.path) if column.path else (),
        time_unit=column.unit,
        policy=_policy(column),
    )
    return RowColumn(
        field,
        constant=None if column.constant is None else json.dumps(column.constant),
        default=None if column.default is None else json.dumps(column.default),
        expression=column.expression,
        written=not column.transient,
        salt=None if column.salt is None else revealed(column.salt),
    )


def _policy(column: ColumnSpec) -> Policy:
    return Policy(**{name: getattr(column, name) for name in _POLICY})
