"""Keys that no column reads: found, dirty, or kept in a column of their own."""

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
"""`evolve` is `dirty` for keys that a column could be made for: they hold something, in an object
that columns read as a whole. Objects that columns only reach into may hold others."""

WRAPPED_SCHEMA, WRAPPER = "schema", "payload"
"""Keys of what Kafka Connect's JSON converter writes: the row, and what its values are."""
_KEPT_IN = (StringType(), MapType(StringType(), StringType()))
Step = str | int


@dataclass(slots=True)
class Known:
    """What of a value is read.

    Attributes:
        everything: All that may be in it.
        whole: It is an object that a column, or the columns together, read as a whole.
        keys: Of an object; empty where it is none.
        items: Of the items of a list, or the values of a map.
        of_map: These are values of a map, which may come as an array of its entries.
    """

    everything: bool = False
    whole: bool = False
    keys: dict[str, "Known"] = field(default_factory=dict)
    items: "Known | None" = None
    of_map: bool = False


class ExtraKeys:
    """Settles keys that no column reads, on the slow path. Created once a task.

    Args:
        schema: Columns that are read by key.
        column: The one that keeps the others' keys; None: they make the row dirty.
        only_held: Only those do that `ExtraRule` names for `evolve`.

    Raises:
        ValueError: The column is of another type, or required.
    """

    def __init__(self, schema: Schema, column: Field | None, *, only_held: bool = False) -> None:
        self._known = known_of(schema)
        self._in_rows = known_of(schema, wrapped=True) if only_held else self._known
        self._only_held = only_held
        self._keep = None if column is None else _keeper(column)

    def column_value(self, holder: Mapping[str, object]) -> object:
        """What the column holds for a payload, None where there is none or no other key.

        Called once per payload.

        Args:
            holder: The payload's object.

        Raises:
            DirtyValueError: There is such a key, and no column for it; or one came twice.
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
                # `alt` below `geo` is `geo.alt`; the key `geo.alt` beside it is `['geo.alt']`.
                name = path_text(steps)
            if doubled or name in found:
                message = "the key came more than once"
                raise DirtyValueError(DirtyReason.DUPLICATE_KEY, message).under(*steps)
            found[name] = value
        return self._keep(found)


def _plain_name(steps: tuple[Step, ...]) -> str:
    """What a value is kept under: keys with dots between, whatever is in them."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".")


def kept_column(schema: Schema, rule: ExtraRule, name: str) -> Field | None:
    """The column that keeps other keys. Called where a decoder is made.

    Args:
        schema: All columns.
        rule: What happens to such keys.
        name: As the option says; may be empty.

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
    """Whether a payload has a row in it and beside it the row's schema, as Kafka Connect does."""
    return WRAPPER in holder and isinstance(holder.get(WRAPPED_SCHEMA), dict)


def known_of(schema: Schema, *, wrapped: bool = False) -> Known:
    """What columns read of a payload.

    Args:
        schema: The columns.
        wrapped: Of one for which `is_wrapped` is true, where columns read its row: they read the
            row as a whole then, and its schema is none of the data.
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
    """Values under keys that are not read, with their paths, and whether the key came twice.

    Args:
        value: As the slow path has it.
        known: What of it is read.
        steps: Path to it.
        only_held: Only those that `ExtraRule` names for `evolve`.
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
