"""Keys that no column reads: ignored, dirty, or kept in a column of their own."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from sluiceway.convert.dirty_value import DirtyValueError, path_text
from sluiceway.convert.exact_values import Convert, compile_value
from sluiceway.convert.json_values import JsonObject, map_entry
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.schema import (
    DataType,
    Field,
    ListType,
    MapType,
    Schema,
    StringType,
    StructType,
)

ExtraRule = Literal["ignore", "dirty", "keep", "evolve"]
"""`evolve` is `dirty` for keys that could become columns.

Such keys hold a value, in an object that columns read as a whole. Objects that columns only reach
into may hold others."""

WRAPPED_SCHEMA, WRAPPER = "schema", "payload"
"""Keys of Kafka Connect's JSON converter: the row, and the schema of its values."""
_KEPT_IN = (StringType(), MapType(StringType(), StringType()))
Step = str | int


@dataclass(slots=True)
class Known:
    """The parts of a value that columns read.

    Attributes:
        everything: Whether all of it is read.
        whole: Whether it is an object that a column, or the columns together, read as a whole.
        keys: Keys of an object -> what is read of their values; empty for other values.
        items: What is read of the items of a list, or of the values of a map; None for other
            values.
        of_map: Whether `items` are values of a map, which may come as an array of its entries.
    """

    everything: bool = False
    whole: bool = False
    keys: dict[str, "Known"] = field(default_factory=dict)
    items: "Known | None" = None
    of_map: bool = False


class ExtraKeys:
    """Handles keys that no column reads, on the slow path. Created once a task.

    Args:
        schema: Columns that read the payload by key.
        column: The column that keeps other keys; None makes their rows dirty.
        only_held: Only keys that `ExtraRule` names for `evolve` make a row dirty.

    Raises:
        ValueError: The column is of another type, or required.
    """

    def __init__(self, schema: Schema, column: Field | None, *, only_held: bool = False) -> None:
        self._known = known_of(schema)
        self._in_rows = known_of(schema, wrapped=True) if only_held else self._known
        self._only_held = only_held
        self._keep = None if column is None else _keeper(column)

    def column_value(self, holder: Mapping[str, object]) -> object:
        """The column's value for a payload; None without the column or without other keys.

        Called once per payload.

        Args:
            holder: The payload's object.

        Raises:
            DirtyValueError: There is such a key and no column for it, or one came twice.
        """
        known = self._in_rows if is_wrapped(holder) else self._known
        extra = list(unread(holder, known, only_held=self._only_held))
        if not extra:
            return None
        if self._keep is None:
            message = "no column reads this key"
            raise DirtyValueError(DirtyReason.UNEXPECTED_FIELD, message).under(*extra[0][0])
        found: dict[str, object] = {}
        named = Counter(_plain_name(steps) for steps, _, _ in extra)
        for steps, value, doubled in extra:
            name = _plain_name(steps)
            if named[name] > 1:
                # `alt` below `geo` is `geo.alt`; the key `geo.alt` at the same level is
                # `['geo.alt']`.
                name = path_text(steps)
            if doubled or name in found:
                message = "the key came more than once"
                raise DirtyValueError(DirtyReason.DUPLICATE_KEY, message).under(*steps)
            found[name] = value
        return self._keep(found)


def _plain_name(steps: tuple[Step, ...]) -> str:
    """The name that a value is kept under: its keys, joined by dots."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".")


def kept_column(schema: Schema, rule: ExtraRule, name: str) -> Field | None:
    """The column that keeps other keys; None for none. Called where a decoder is made.

    Args:
        schema: All columns.
        rule: Rule for such keys.
        name: Name in the option; may be empty.

    Raises:
        ValueError: `keep` without such a column, or a column without `keep`.
    """
    if rule != "keep":
        if name:
            raise ValueError("extra_column goes with unknown_fields: keep")
        return None
    found = [column for column in schema.fields if column.name == name]
    if not found:
        raise ValueError(
            "unknown_fields: keep needs extra_column: the name of a column of type "
            "map<string,string> or string"
        )
    return found[0]


def _keeper(column: Field) -> Convert:
    if column.type not in _KEPT_IN or column.required:
        kind = format_hive_type(column.type)
        raise ValueError(
            f"extra_column is a map<string,string> or string that is not required, and "
            f"{column.name} is {'required' if column.required else kind}"
        )
    return compile_value(column.type, None, replace(column.policy, on_lossy="text"))


def is_wrapped(holder: Mapping[str, object]) -> bool:
    """Whether a payload holds a row and the row's schema, as Kafka Connect writes it."""
    return WRAPPER in holder and isinstance(holder.get(WRAPPED_SCHEMA), dict)


def known_of(schema: Schema, *, wrapped: bool = False) -> Known:
    """The parts of a payload that columns read.

    Args:
        schema: The columns.
        wrapped: Whether `is_wrapped` is true of the payload and columns read its row. Then they
            read the row as a whole, and its schema is no data.
    """
    top = Known(whole=True)
    for column in schema.fields:
        known = top
        for key in column.path or (column.name,):
            known = known.keys.setdefault(key, Known())
        _add(known, column.type)
    if wrapped and WRAPPER in top.keys:
        top.keys[WRAPPER].whole = True
        top.keys.setdefault(WRAPPED_SCHEMA, Known(everything=True))
    return top


def _add(known: Known, data_type: DataType) -> None:
    match data_type:
        case ListType(inner) | MapType(_, inner):
            known.of_map = isinstance(data_type, MapType)
            known.items = known.items or Known()
            _add(known.items, inner)
        case StructType(fields):
            known.whole = True
            for one in fields:
                _add(known.keys.setdefault(one.name, Known()), one.type)
        case _:
            known.everything = True


def unread(
    value: object, known: Known, steps: tuple[Step, ...] = (), *, only_held: bool = False
) -> Iterator[tuple[tuple[Step, ...], object, bool]]:
    """Values under keys that no column reads, with their paths, and whether the key came twice.

    Args:
        value: A value as on the slow path.
        known: The parts of it that columns read.
        steps: Path to it.
        only_held: Only keys that `ExtraRule` names for `evolve`.
    """
    if known.everything:
        return
    if isinstance(value, list) and known.items is not None:
        for place, item in enumerate(value):
            entry = map_entry(item) if known.of_map else None
            held = item if entry is None else entry[1]
            yield from unread(held, known.items, (*steps, place), only_held=only_held)
    elif isinstance(value, dict):
        doubled = value.doubled if isinstance(value, JsonObject) else ()
        for key, item in value.items():
            below = known.items or known.keys.get(key)
            if below is not None:
                yield from unread(item, below, (*steps, key), only_held=only_held)
            elif not only_held or (known.whole and item is not None):
                yield (*steps, key), item, key in doubled
