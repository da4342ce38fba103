"""Values with a schema of their own, as the code that proposes columns gets them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.types.schema import DataType


@dataclass(frozen=True, slots=True)
class Meaning:
    """What the schema of a value says about it.

    Attributes:
        type: Type of the column for values of this schema; None when there is none.
        value: The value as a column of that type reads it.
        is_clock: Whether a time in it is local time of an unknown zone.
        refused: Why there is no type; empty when there is one.
        unfit: Why the value does not fit its schema; None when it does.
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
    """An array; its items are like the values of a `MeantObject`."""

    def __init__(self, held: Sequence[object], meaning: Meaning) -> None:
        super().__init__(held)
        self.meaning = meaning


def meaning_of(value: object) -> Meaning | None:
    """The meaning by the value's own schema; None without a schema."""
    if isinstance(value, MeantObject | MeantArray):
        return value.meaning
    return value if isinstance(value, Meaning) else None
