"""Fields of a registry's schema -> columns of a table, with the job file's differences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from sluiceway.formats.schema_columns import SchemaColumn, name_problems
from sluiceway.jobfile.blocks.columns import ColumnSpec, FieldOverride, SubjectColumns
from sluiceway.jobfile.blocks.written_columns import CHANGES, COLUMNS
from sluiceway.jobfile.compile.choices import ChoiceProblem
from sluiceway.jobfile.positions import Path
from sluiceway.jobfile.problems import quoted
from sluiceway.types.dirty import shown
from sluiceway.types.hive_types import MAX_TEXT_LENGTH, format_hive_type
from sluiceway.types.key_path import keys_below
from sluiceway.types.schema import DataType, MapType, StructType

_SHOWN_CHARS = 130
_MOST_NAMED = 10
_AS_IT_IS = FieldOverride()


@dataclass(frozen=True, slots=True)
class Misfit:
    """A difference in the job file that the schema does not allow.

    Attributes:
        path: Path of the wrong value in the job file.
        text: What was expected and what came.
        todo: What the user does.
    """

    path: Path
    text: str
    todo: str


@dataclass(frozen=True, slots=True)
class MadeColumns:
    """The columns of a table from a schema.

    Attributes:
        columns: The columns as if they were declared, in order.
        written: Paths in the job file of each column; empty where it does not mention the column.
        refused: Fields that no column can hold unchanged, each with its reason.
        misfits: Problems of the job file's part.
    """

    columns: list[ColumnSpec] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    misfits: list[Misfit] = field(default_factory=list)


def made_columns(
    fields: Sequence[SchemaColumn], changes: SubjectColumns, *, is_open: bool
) -> MadeColumns:
    """The columns of a schema's fields. Called each time a route starts.

    Args:
        fields: Fields of the schema, in their order.
        changes: Differences in the job file.
        is_open: Whether payloads may have fields that are not in the schema.
    """
    made = MadeColumns()
    by_name = {each.name: each for each in fields}
    made.misfits.extend(_unknown(changes, by_name))
    gone = set(changes.left_out)
    kept = [each for each in fields if each.name not in gone]
    made.refused.extend(_misnamed(kept, changes))
    for each in kept:
        _make(made, each, changes.override.get(each.name))
    for index, column in enumerate(changes.add):
        place = (*CHANGES, "add", index)
        made.columns.append(column)
        made.written.append(place)
        if column.path is not None and (why := _astray(column.path, by_name, is_open=is_open)):
            text = f"expected the path of a field, got {quoted(column.path)}: {why}"
            made.misfits.append(Misfit((*place, "path"), text, "correct it"))
    made.misfits.extend(_clashes(made))
    if not (made.columns or made.refused):
        text = "expected a field that is left, got none"
        made.misfits.append(Misfit((*CHANGES, "except"), text, "leave out fewer"))
    return made


def gone_names(changes: SubjectColumns) -> frozenset[str]:
    """Names, in lower case, by which no column is read from the payload any more."""
    renamed = (name for name, change in changes.override.items() if change.name is not None)
    return frozenset(name.lower() for name in (*changes.left_out, *renamed))


def where_written(problem: ChoiceProblem, written: Sequence[Path]) -> ChoiceProblem:
    """The problem of a column, at its place in the job file.

    Args:
        problem: The problem, with a path among declared columns.
        written: Paths in the job file of each of these, in order; empty for none.
    """
    if problem.path[:2] != COLUMNS or len(problem.path) <= len(COLUMNS):
        return problem
    index, *key = problem.path[len(COLUMNS) :]
    place = written[int(index)]
    return replace(problem, path=(*place, *key) if place else CHANGES)


def _unknown(changes: SubjectColumns, fields: Mapping[str, SchemaColumn]) -> Iterator[Misfit]:
    places: list[Path] = [("except", index) for index in range(len(changes.left_out))]
    places += [("override", name) for name in changes.override]
    for place, name in zip(places, (*changes.left_out, *changes.override), strict=True):
        if name not in fields:
            text = f"expected a field of the schema, got {quoted(name)}"
            yield Misfit((*CHANGES, *place), text, _nearest(name, list(fields)))


def _nearest(name: str, fields: list[str]) -> str:
    first = name.partition(".")[0]
    if first in fields:
        return f"for a part of {quoted(first)} override its type"
    close = get_close_matches(name, fields, n=1)
    if close:
        return f"did you mean {quoted(close[0])}?"
    more = ", ..." if len(fields) > _MOST_NAMED else ""
    return f"it has {', '.join(map(quoted, fields[:_MOST_NAMED]))}{more}"


def _misnamed(kept: Sequence[SchemaColumn], changes: SubjectColumns) -> Iterator[str]:
    """Fields whose names no column can have, or which are the same name for Hive."""
    renamed = {name for name, change in changes.override.items() if change.name is not None}
    plain = [each.name for each in kept if each.name not in renamed]
    for name, problem in name_problems(plain).items():
        yield f"{_line(name)}: its name {problem}"


def _make(made: MadeColumns, of: SchemaColumn, change: FieldOverride | None) -> None:
    told = change or _AS_IT_IS
    text = "" if of.type is None else format_hive_type(of.type)
    if told.type is None and not text:
        made.refused.append(of.refused)
    elif told.type is None and len(text) > MAX_TEXT_LENGTH:
        limit = f"{len(text):,} characters, of {MAX_TEXT_LENGTH:,} that a type can have"
        made.refused.append(f"{_line(of.name)}: its type has {limit}")
    elif told.name is not None or not name_problems([of.name]):
        made.columns.append(told.column(of.name, text))
        made.written.append(() if change is None else (*CHANGES, "override", of.name))


def _clashes(made: MadeColumns) -> Iterator[Misfit]:
    """Names of the job file that a field has too; the loader reports clashes within the file."""
    plain = {
        column.name.lower()
        for column, place in zip(made.columns, made.written, strict=True)
        if not place
    }
    for column, place in zip(made.columns, made.written, strict=True):
        if place and column.name.lower() in plain:
            text = f"expected a name that no field has, got {quoted(column.name)}"
            yield Misfit((*place, "name"), text, "name it otherwise, or leave the field out")


def _astray(path: str, fields: Mapping[str, SchemaColumn], *, is_open: bool) -> str:
    """Why a path leads to nothing in the schema; empty when it may lead to something."""
    first, *further = keys_below(path)
    if first not in fields:
        return "" if is_open else f"the schema has no field {quoted(first)}"
    of: DataType | None = fields[first].type
    name = first
    for key in further:
        if of is None or isinstance(of, MapType):
            return ""
        if not isinstance(of, StructType):
            return f"{quoted(name)} has no fields"
        of = next((inner.type for inner in of.fields if inner.name == key), None)
        if of is None:
            return "" if is_open else f"{quoted(name)} has no field {quoted(key)}"
        name = key
    return ""


def _line(name: str) -> str:
    return shown(name, _SHOWN_CHARS)[1:-1]
