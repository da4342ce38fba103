"""Columns of a schema: the result of a walk over it, for all schema languages."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sluiceway.types.dirty import shown
from sluiceway.types.hive_types import MAX_PRECISION
from sluiceway.types.schema import DataType, DecimalType, Field, StructType, TimestampType

MAX_DEPTH = 50
"""Deepest nesting of a column's type."""
MOST_FIELDS = 10_000
"""Most fields of a column's type: records that hold each other twice would make millions."""

ANY_SCALE = DecimalType(MAX_PRECISION, 18)
"""Type of decimals whose schema has no scale: 20 digits before the point, 18 after it."""

Part = TypeVar("Part")

_NAME = re.compile(r"[A-Za-z_]\w{0,127}", re.ASCII)
_SHOWN_CHARS = 200


class NoColumnsError(ValueError):
    """A text is no schema, or not one of rows; says why."""


class UntypedFieldError(ValueError):
    """No column type holds a field's values; says which field and why.

    Attributes:
        as_text: Whether a column of text could keep them, by `on_lossy: text`.
    """

    def __init__(self, why: str, *, as_text: bool) -> None:
        super().__init__(why)
        self.as_text = as_text


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """A column by a schema.

    Attributes:
        name: Exact name of the field.
        type: Type for all of its values; None when there is none.
        refused: Why there is no type, with the path; empty when there is one.
        misnamed: Why no column can have its name; empty when one can.
        as_text: Whether a column of text could keep its values, by `on_lossy: text`.
        notes: Decisions that a person may want to change, in words.
        is_clock: Whether it holds local times, so that it needs a zone.
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
    """The state of a walk over a schema.

    Attributes:
        path: Names of the fields above, `[]` for items of an array and `{}` for values of a map.
        notes: Notes about the column that is walked over.
        fields: Number of steps so far.
        meant: Whether types follow Kafka Connect's meaning of values, even if that needs a zone or
            a person to confirm it; else they take each value as it stands.
        is_clock: Whether a local time was found.
    """

    path: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    fields: int = 0
    meant: bool = False
    is_clock: bool = False

    def clock(self) -> TimestampType:
        """The type of a local time, which is noted."""
        if not self.is_clock:
            self.add_note("a clock's on a wall: is its zone UTC?")
        self.is_clock = True
        return TimestampType()

    def any_scale(self) -> DecimalType:
        """The type of decimals whose schema has no scale."""
        self.add_note("decimals of any scale: say precision and scale; more digits are dirty")
        return ANY_SCALE

    def add_note(self, text: str) -> None:
        """Add a note about a decision that a person may want to change."""
        where = f"{self.where()}: " if len(self.path) > 1 else ""
        self.notes.append(where + text)

    def refusal(self, why: str, *, as_text: bool = True) -> UntypedFieldError:
        """Why the current field has no type."""
        return UntypedFieldError(f"{self.where()}: {printable(why)}", as_text=as_text)

    def where(self) -> str:
        """The path as people write it."""
        joined = "".join(step if step in ("[]", "{}") else f".{step}" for step in self.path)
        return shown(joined.removeprefix("."), _SHOWN_CHARS)[1:-1]

    def under(self, step: str, type_of: Callable[[Part], DataType], part: Part) -> DataType:
        """The type of a part of a schema one step below: a field, the items or the values.

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
            UntypedFieldError: There is no field, or a name that no field of a struct can have.
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
        fields: Names, and the schemas of the fields.
        type_of: Returns the type of one field, by a new walk; raises UntypedFieldError.
        meant: See `Walk`.
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
    """Why fields cannot have their names; fields with usable names are left out.

    Args:
        names: Names of the fields of one record.
    """
    spelt = Counter(name.lower() for name in names)
    problems = {}
    for name in names:
        if not _NAME.fullmatch(name):
            problems[name] = "is no name of a column"
        elif spelt[name.lower()] > 1:
            problems[name] = "differs from another in case only, which Hive does not see"
    return problems
