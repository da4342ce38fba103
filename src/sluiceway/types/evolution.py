"""How columns of a table may change under a route that goes on."""

from dataclasses import dataclass, replace
from enum import StrEnum

from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import (
    DataType,
    Field,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    StructType,
)

Columns = tuple[tuple[str, str], ...]
"""Name and Hive type text of each column, in the catalog's order."""


ELEMENT = "[]"
"""Stands for the elements of a list in the path of a field."""
VALUE = "{}"
"""Stands for the values of a map in the path of a field."""
CLOCK_ZONE = "UTC"
"""Zone of wall-clock times, in columns that are added for them: what the clock showed."""


class Evolution(StrEnum):
    """What a route does about columns that come, go or change, and fields that no column reads."""

    FAIL = "fail"
    FOLLOW_TABLE = "follow_table"
    ADD_COLUMNS = "add_columns"
    QUARANTINE = "quarantine"

    @property
    def follows(self) -> bool:
        """Whether further columns of the table are taken up."""
        return self in (Evolution.FOLLOW_TABLE, Evolution.ADD_COLUMNS)

    @property
    def refuses_unknown(self) -> bool:
        """Whether a row with a field that no column reads is dirty."""
        return self in (Evolution.ADD_COLUMNS, Evolution.QUARANTINE)


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """What differs between two readings of a table; names in lower case.

    Attributes:
        added: Name -> type.
        extended: Name -> (type before, type now): structs inside have further fields.
        removed: Name -> type.
        retyped: Name -> (type before, type now): any other change of the type.
        displaced: Columns that stand at another place than before.
    """

    added: dict[str, str]
    extended: dict[str, tuple[str, str]]
    removed: dict[str, str]
    retyped: dict[str, tuple[str, str]]
    displaced: tuple[str, ...] = ()

    def within(self, names: frozenset[str]) -> "ColumnChanges":
        """The changes of these columns alone."""
        return ColumnChanges(
            {name: kind for name, kind in self.added.items() if name in names},
            {name: kind for name, kind in self.extended.items() if name in names},
            {name: kind for name, kind in self.removed.items() if name in names},
            {name: kind for name, kind in self.retyped.items() if name in names},
            self.displaced,
        )

    def breaks(self, *, by_place: bool) -> bool:
        """Whether files of the columns before do not fit any more.

        Args:
            by_place: Readers find columns in files by their places, and not by their names.
        """
        return bool(self.removed or self.retyped or (by_place and self.displaced))

    def __bool__(self) -> bool:
        return bool(self.added or self.extended or self.removed or self.retyped)

    def evidence(self) -> dict[str, str]:
        """For a report: `column amount` -> what became of it."""
        return {
            **{f"column {name}": f"added as {kind}" for name, kind in self.added.items()},
            **{f"column {name}": f"{a} -> {b}" for name, (a, b) in self.extended.items()},
            **{f"column {name}": f"{kind} -> gone" for name, kind in self.removed.items()},
            **{f"column {name}": f"{a} -> {b}" for name, (a, b) in self.retyped.items()},
            **({"places": f"{', '.join(self.displaced)} moved"} if self.displaced else {}),
        }


def column_changes(before: Columns, now: Columns) -> ColumnChanges:
    """Compare two readings; letter case does not count. No I/O."""
    old = {name.lower(): kind for name, kind in before}
    new = {name.lower(): kind for name, kind in now}
    both = {name: (old[name], new[name]) for name in old if name in new}
    changed = {name: pair for name, pair in both.items() if not _same(*pair)}
    extended = {name: pair for name, pair in changed.items() if is_extension(*pair)}
    return ColumnChanges(
        added={name: kind for name, kind in new.items() if name not in old},
        extended=extended,
        removed={name: kind for name, kind in old.items() if name not in new},
        retyped={name: pair for name, pair in changed.items() if name not in extended},
        displaced=tuple(a for a, b in zip(old, new, strict=False) if a != b and a in new),
    )


def is_extension(before: str, now: str) -> bool:
    """Whether a type text is another one with further fields in structs, or the same one."""
    try:
        return extended(parse_hive_type(before), parse_hive_type(now)) is not None
    except ValueError:
        return _same(before, now)


def is_wider(before: str, now: str) -> bool:
    """Whether a type text is that of a number which holds all values of another one, exactly.

    Whole numbers with more bits, or `float` to `double`: readers of old files widen their values.
    """
    try:
        old, new = parse_hive_type(before), parse_hive_type(now)
    except ValueError:
        return False
    if isinstance(old, IntegerType) and isinstance(new, IntegerType):
        return old.bits < new.bits
    return isinstance(old, FloatType) and isinstance(new, FloatType) and old.bits < new.bits


def extended(before: DataType, now: DataType) -> DataType | None:
    """`before`, with its fields' settings, and the further fields that `now` has in structs.

    Returns:
        None when anything else is different: files of some formats have the fields of a struct by
        their places, so further ones come last. Letter case of names does not count.
    """
    match before, now:
        case StructType(old), StructType(new):
            return _extended_struct(old, new)
        case ListType(a), ListType(b):
            inner = extended(a, b)
            return None if inner is None else ListType(inner)
        case MapType(key, a), MapType(other_key, b) if key == other_key:
            inner = extended(a, b)
            return None if inner is None else MapType(key, inner)
        case _:
            return before if before == now else None


def with_field(of: DataType, path: tuple[str, ...], added: DataType) -> DataType | None:
    """A type with one more field in a struct inside.

    Args:
        of: Type of a column.
        path: Keys to the new field; `ELEMENT` and `VALUE` for what is in a list or a map.
        added: Type of the new field.

    Returns:
        None when there is no such struct, or it has a field of that name.
    """
    match of, path:
        case ListType(element), (step, *rest) if step == ELEMENT:
            inner = with_field(element, tuple(rest), added)
            return None if inner is None else ListType(inner)
        case MapType(key, value), (step, *rest) if step == VALUE:
            inner = with_field(value, tuple(rest), added)
            return None if inner is None else MapType(key, inner)
        case StructType(fields), (name,):
            taken = any(field.name.lower() == name.lower() for field in fields)
            return None if taken else StructType((*fields, Field(name, added)))
        case StructType(fields), (name, *rest):
            return _with_inner(fields, name, tuple(rest), added)
        case _:
            return None


def _with_inner(
    fields: tuple[Field, ...], name: str, rest: tuple[str, ...], added: DataType
) -> DataType | None:
    made = []
    for field in fields:
        if field.name == name:
            inner = with_field(field.type, rest, added)
            if inner is None:
                return None
            made.append(replace(field, type=inner))
        else:
            made.append(field)
    found = StructType(tuple(made))
    return None if found == StructType(fields) else found


def _extended_struct(old: tuple[Field, ...], new: tuple[Field, ...]) -> DataType | None:
    if len(new) < len(old):
        return None
    fields = []
    for known, field in zip(old, new, strict=False):
        inner = extended(known.type, field.type)
        if inner is None or known.name.lower() != field.name.lower():
            return None
        fields.append(replace(known, type=inner))
    return StructType((*fields, *new[len(old) :]))


def _same(one: str, other: str) -> bool:
    return "".join(one.lower().split()) == "".join(other.lower().split())
