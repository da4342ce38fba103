"""Keys of payloads that could become columns, and the places of those columns."""

from collections.abc import Mapping
from dataclasses import dataclass

from sluiceway.convert.extra_keys import Known, Step, is_wrapped, known_of, unread
from sluiceway.types.evolution import ELEMENT, VALUE
from sluiceway.types.schema import ListType, MapType, Schema, StructType


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A key with a value that is not null.

    Attributes:
        column: The column that holds the key; empty for a key at the payload's top.
        path: Keys from there; `ELEMENT` and `VALUE` for elements of a list and values of a map.
        value: A JSON value with numbers as `NumberText`, or one of `convert.typed_values`.
    """

    column: str
    path: tuple[str, ...]
    value: object


class UnknownFields:
    """Reads payloads of one schema. Created once a task, used by one thread.

    Objects that columns only reach into by their `path` may hold other keys: the job file chose
    some of them. A key with null holds no value, and keys of maps are no fields.

    Args:
        schema: Columns that come from the payload.
    """

    def __init__(self, schema: Schema) -> None:
        self._known = known_of(schema)
        self._in_rows = known_of(schema, wrapped=True)
        self._columns = {
            column.path or (column.name,): column.name
            for column in schema.fields
            if isinstance(column.type, StructType | ListType | MapType)
        }

    def of(self, holder: Mapping[str, object]) -> list[UnknownField]:
        """Unknown fields of a payload, in its order.

        Args:
            holder: Its fields; see `RowDecoder.fields_of`.
        """
        known = self._in_rows if is_wrapped(holder) else self._known
        return [
            self._placed(_general(known, steps), value)
            for steps, value, _ in unread(holder, known, only_held=True)
        ]

    def _placed(self, path: tuple[str, ...], value: object) -> UnknownField:
        for length in range(1, len(path)):
            column = self._columns.get(path[:length])
            if column is not None:
                return UnknownField(column, path[length:], value)
        return UnknownField("", path, value)


def _general(known: Known, steps: tuple[Step, ...]) -> tuple[str, ...]:
    """A path without parts that differ from row to row: places in lists, and keys of maps."""
    path: list[str] = []
    at: Known | None = known
    for step in steps:
        if at is None:
            path.append(str(step))
        elif at.items is not None:
            is_element = isinstance(step, int) and not at.of_map
            path.append(ELEMENT if is_element else VALUE)
            at = at.items
        else:
            path.append(str(step))
            at = at.keys.get(str(step))
    return tuple(path)
