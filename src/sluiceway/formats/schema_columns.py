"""Columns that a schema says: what a walk over it gathers, whatever language it is written in."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sluiceway.types.dirty import shown
from sluiceway.types.hive_types import MAX_PRECISION
from sluiceway.types.schema import DataType, DecimalType, Field, StructType, TimestampType

MAX_DEPTH = 50
"""A column's type is nested no deeper."""
MOST_FIELDS = 10_000
"""A column's type has no more: a few records that hold each other twice would make millions."""

ANY_SCALE = DecimalType(MAX_PRECISION, 18)
"""Of decimals whose scale no schema says: 20 digits before the point, 18 after it."""

Part = TypeVar("Part")

_NAME = re.compile(r"[A-Za-z_]\w{0,127}", re.ASCII)
_SHOWN_CHARS = 200


class NoColumnsError(ValueError):
    """A text is no schema, or none of rows; says why."""


class UntypedFieldError(ValueError):
    """No column type holds a field's values; says which field and why.

    Attributes:
        as_text: A column of text could keep them, by `on_lossy: text`.
    """

    def __init__(self, why: str, *, as_text: bool) -> None:
        super().__init__(why)
        self.as_text = as_text


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """A column as a schema says it.

    Attributes:
        name: The field's own, letter for letter.
        type: What holds each of its values; None when nothing does.
        refused: Why nothing does, with the path; empty when `type` is there.
        misnamed: Why no column can have its name; empty when one can.
        as_text: One of text could keep them, by `on_lossy: text`.
        notes: What a person may want to decide otherwise, in words.
        is_clock: Times in it are those of a clock on a wall, so that it needs a zone.
    """

    name: str
    type: DataType | None
    refused: str = ""
    misnamed: str = ""
    as_text: bool = False
    notes: tuple[str, ...] = ()
    is_clock: bool = False


@dataclass(slots=True)
class Walk:
    """Where a walk over a schema is, and what it has noted there.

    Attributes:
        path: Names of the fields above, `[]` for items of an array and `{}` for values of a map.
        notes: Of the column that is walked over.
        fields: How many steps were taken.
        meant: A type is what Kafka Connect means by a value, even if that needs a zone or a person
            to confirm it; else the type that takes each value as it stands.
        is_clock: A time of a clock on a wall was met.
    """

    path: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fields: int = 0
    meant: bool = False
    is_clock: bool = False

    def clock(self) -> TimestampType:
        """The type of a time of a clock on a wall, which is noted."""
        if not self.is_clock:
            self.add_note("a clock's on a wall: is its zone UTC?")
        self.is_clock = True
        return TimestampType()

    def any_scale(self) -> DecimalType:
        """The type of decimals whose scale no schema says."""
        self.add_note("decimals of any scale: say precision and scale; more digits are dirty")
        return ANY_SCALE

    def add_note(self, text: str) -> None:
        """Keep what a person may want to decide otherwise."""
        where = f"{self.where()}: " if len(self.path) > 1 else ""
        self.notes.append(where + text)

    def refusal(self, why: str, *, as_text: bool = True) -> UntypedFieldError:
        """Why the field that the walk stands at has no type."""
        return UntypedFieldError(f"{self.where()}: {printable(why)}", as_text=as_text)

    def where(self) -> str:
        """The path as people write it."""
        joined = "".join(step if step in ("[]", "{}") else f".{step}" for step in self.path)
        return shown(joined.removeprefix("."), _SHOWN_CHARS)[1:-1]

    def under(self, step: str, type_of: Callable[[Part], DataType], part: Part) -> DataType:
        """The type of a part of a schema that is a step below: a field, the items or the values.

        Raises:
            UntypedFieldError: It has none, or is deeper than a column's type may be.
        """
        self.path.append(step)
        self.fields += 1
        if len(self.path) > MAX_DEPTH:
            raise self.refusal(f"it is nested deeper than {MAX_DEPTH} levels")
        if self.fields > MOST_FIELDS:
            raise self.refusal(f"its column has more than {MOST_FIELDS:,} fields")
        found = type_of(part)
        self.path.pop()
        return found

    def struct(self, fields: Iterable[tuple[str, DataType]]) -> StructType:
        """A struct of fields that have types.

        Raises:
            UntypedFieldError: There is none, or a name that no field of a struct can have.
        """
        found = [Field(name, of) for name, of in fields]
        if not found:
            raise self.refusal("it has no fields, and a struct has one at least")
        problems = name_problems([each.name for each in found])
        for name, problem in problems.items():
            raise self.refusal(f"its field {shown(name)} {problem}")
        return StructType(tuple(found))


def columns_of(
    fields: Sequence[tuple[str, Part]],
    type_of: Callable[[Walk, Part], DataType],
    *,
    meant: bool = False,
) -> tuple[SchemaColumn, ...]:
    """The columns of a record's fields, in their order.

    Args:
        fields: Names, and what the schema says of each.
        type_of: The type of one, by a walk that is new; raises UntypedFieldError.
        meant: As of `Walk`.
    """
    problems = name_problems([name for name, _ in fields])
    return tuple(
        _column(name, part, problems.get(name), type_of, Walk(meant=meant)) for name, part in fields
    )


def _column(
    name: str,
    part: Part,
    problem: str | None,
    type_of: Callable[[Walk, Part], DataType],
    walk: Walk,
) -> SchemaColumn:
    misnamed = "" if problem is None else f"its name {problem}"
    try:
        found = walk.under(name, lambda of: type_of(walk, of), part)
    except UntypedFieldError as error:
        return SchemaColumn(name, None, str(error), misnamed, error.as_text)
    notes = tuple(walk.notes)
    return SchemaColumn(name, found, misnamed=misnamed, notes=notes, is_clock=walk.is_clock)


def printable(text: str) -> str:
    """One line: names of a schema may hold anything, and stand in comments and logs."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def name_problems(names: list[str]) -> dict[str, str]:
    """Why fields cannot have the names they have; those of the others are left out.

    Args:
        names: Of the fields of one record.
    """
    spelt = Counter(name.lower() for name in names)
    problems = {}
    for name in names:
        if not _NAME.fullmatch(name):
            problems[name] = "is no name of a column"
        elif spelt[name.lower()] > 1:
            problems[name] = "differs from another in case only, which Hive does not see"
    return problems
