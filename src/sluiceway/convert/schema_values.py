"""Values that came with a schema of their own, as who makes columns for them gets them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.types.schema import DataType


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a schema beside a value says of it.

    Attributes:
        type: Of the column that holds each value of this schema; None when there is none.
        value: As a column of that type reads it.
        is_clock: A time in it is that of a clock on a wall, of a zone that is not said.
        refused: Why there is no type; empty when there is one.
        unfit: Why the value is none of its schema; None when it is one.
    """

    type: DataType | None
    value: object
    is_clock: bool = False
    refused: str = ""
    unfit: DirtyValueError | None = None


class MeantObject(dict[str, object]):
    """An object; each value in it that has a schema is such an object, an array or a `Meaning`."""

    def __init__(self, held: Mapping[str, object], meaning: Meaning) -> None:
        super().__init__(held)
        self.meaning = meaning


class MeantArray(list[object]):
    """An array; its items are as the values of a `MeantObject`."""

    def __init__(self, held: Sequence[object], meaning: Meaning) -> None:
        super().__init__(held)
        self.meaning = meaning


def meaning_of(value: object) -> Meaning | None:
    """What the schema beside a value says; None of one that has none."""
    if isinstance(value, MeantObject | MeantArray):
        return value.meaning
    return value if isinstance(value, Meaning) else None
