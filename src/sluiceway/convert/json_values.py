"""JSON values on the slow path. Numbers stay text, so that no digit is lost."""

import json
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal

from sluiceway.convert.typed_values import (
    Day,
    Instant,
    LocalTime,
    MeantRecord,
    TimeOfDay,
    TypedTime,
    number_text,
    time_text,
)
from sluiceway.types.dirty import shown
from sluiceway.types.matrix import JsonKind


class NumberText(str):
    """The text of a JSON number."""

    __slots__ = ()


class NonFiniteText(str):
    """NaN or an infinity without quotes: no JSON, but common."""

    __slots__ = ()


class JsonObject(dict[str, object]):
    """A JSON object in which some keys came more than once.

    Attributes:
        doubled: Those keys; the value kept is the last one.
    """

    __slots__ = ("doubled",)

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.doubled = frozenset(key for key, count in counts.items() if count > 1)


KINDS: dict[type, JsonKind] = {
    bool: JsonKind.BOOLEAN,
    NumberText: JsonKind.NUMBER,
    NonFiniteText: JsonKind.NON_FINITE,
    str: JsonKind.STRING,
    list: JsonKind.ARRAY,
    dict: JsonKind.OBJECT,
    JsonObject: JsonKind.OBJECT,
}
"""The Python types of values, except null."""

_ENTRY = frozenset({"key", "value"})
_QUOTE = json.encoder.encode_basestring


def object_of_pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Build an object that remembers doubled keys. Called by the JSON parser, once an object."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else JsonObject(pairs)


def map_entry(entry: object) -> tuple[object, object] | None:
    """Key and value of one entry of a map that came as an array; None where it is none.

    Kafka Connect writes maps with keys that are no text so: `[key, value]`, or an object of both.

    Args:
        entry: A JSON value, or one of `convert.typed_values`.
    """
    if isinstance(entry, list):
        return (entry[0], entry[1]) if len(entry) == len(_ENTRY) else None
    # A `JsonObject` has a key twice.
    if type(entry) is dict and entry.keys() == _ENTRY:
        return entry["key"], entry["value"]
    return None


def described(value: object, *, redacted: bool) -> str:
    """A value of a payload, for a message.

    Args:
        value: A JSON value; None is null.
        redacted: Whether to show only its kind.
    """
    match value:
        case NumberText() | NonFiniteText():
            return "a number" if redacted else f"the number {shown(str(value))}"
        case str():
            return "a string" if redacted else f"the string {shown(value)}"
        case bool():
            return "a boolean" if redacted else "true" if value else "false"
        case list():
            return "an array"
        case dict():
            return "an object"
        case None:
            return "null"
        case _:
            return _typed_described(value, redacted=redacted)


def _typed_described(value: object, *, redacted: bool) -> str:
    """As `described`, for kinds that JSON does not have."""
    match value:
        case int() | float() | Decimal():
            return "a number" if redacted else f"the number {shown(number_text(value) or value)}"
        case bytes():
            return "bytes" if redacted else f"the bytes {_shown_bytes(value)}"
        case Day() | Instant() | LocalTime() | TimeOfDay():
            return "a time" if redacted else f"the time {_shown_time(value)}"
        case _:
            return "a value"


def _shown_bytes(value: bytes) -> str:
    most = 24
    return f"0x{value[:most].hex()}{'...' if len(value) > most else ''}"


def _shown_time(value: TypedTime) -> str:
    """The time; where no calendar or no day has it, its number and unit."""
    try:
        return time_text(value)
    except ValueError:
        pass
    if isinstance(value, Day):
        return f"{value.number} days since 1970"
    since = "since midnight" if isinstance(value, TimeOfDay) else "since 1970"
    seconds = Decimal(value.ns).scaleb(-9).normalize()
    return f"{seconds:f} s {since}"


def json_text(value: object) -> str | None:
    """A value as JSON without blanks, numbers digit by digit as they came.

    Called for columns that accept any value as text. The reader's limit bounds the depth.

    Args:
        value: A JSON value that is not a string.

    Returns:
        None when JSON has no text for a part of it: NaN, an infinity, bytes.

    Raises:
        DoubledKeyError: An object in it has a key twice.
    """
    pieces: list[str] = []
    return "".join(pieces) if _write(value, pieces) else None


class DoubledKeyError(Exception):
    """An object has a key more than once. Never leaves this package."""


def _write(value: object, pieces: list[str]) -> bool:
    match value:
        case MeantRecord():
            return _write(value.meant, pieces)
        case NumberText():
            pieces.append(str(value))
        case NonFiniteText():
            return False
        case str():
            pieces.append(_QUOTE(value))
        case list():
            return _write_items(((None, item) for item in value), "[]", pieces)
        case JsonObject():
            raise DoubledKeyError(min(value.doubled))
        case dict():
            return _write_items(value.items(), "{}", pieces)
        case None | bool():
            pieces.append("null" if value is None else "true" if value else "false")
        case _:
            text = _typed_text(value)
            pieces.append(text or "")
            return text is not None
    return True


def _typed_text(value: object) -> str | None:
    match value:
        case int() | float() | Decimal():
            return number_text(value)
        case Day() | Instant() | LocalTime() | TimeOfDay():
            try:
                return _QUOTE(time_text(value))
            except ValueError:
                return None
        case _:
            return None


def _write_items(
    items: Iterable[tuple[str | None, object]], brackets: str, pieces: list[str]
) -> bool:
    pieces.append(brackets[0])
    for place, (key, item) in enumerate(items):
        pieces.append("," if place else "")
        if key is not None:
            pieces.append(f"{_QUOTE(key)}:")
        if not _write(item, pieces):
            return False
    pieces.append(brackets[1])
    return True
