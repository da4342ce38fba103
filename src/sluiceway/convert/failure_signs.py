"""What a failure of Arrow's parser says about other rows: signs to recognise them in advance.

The parser stops at the first value of the wrong kind. Bad values come in numbers, mostly in one
column and of one kind. So later blocks are searched for the bytes in front of such a value. Rows
with them go to the slow path without a failure each. A wrong sign costs time and changes no result.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sluiceway.types.schema import DataType, Field, ListType, Schema, StructType

MAX_SIGNS = 16
SIGN_BLOCKS = 64
# A sign in so large a part of a block is useless: it stands where no column reads.
COMMON_SHARE = 4
# For a text that starts like a number, so many of its bytes are the sign.
_DIGIT_TEXT_BYTES = 4

_NUMBER_STARTS = b"+-.0123456789"
_KIND_CHANGED = re.compile(r"Column\((?P<path>/.*)\) changed from \w+ to (?P<kind>\w+) in row \d+$")
_TEXT_IN_MESSAGE = re.compile(
    r"(?:couldn't parse:|The string '|^Failed to convert JSON to [^:]*: )"
    r"(?P<text>.*?)(?:' is not a valid \w+ number| requires .*)?$",
    re.DOTALL,
)
_EMPTY_TEXT = re.compile(r"^Empty string cannot be converted")
# First bytes of a value of each kind, by Arrow's names of the kinds.
_STARTS = {
    "string": b'"',
    "number": b"-0123456789",
    "boolean": b"tf",
    "object": b"{",
    "array": b"[",
}
_KEY_BEFORE = re.compile(rb'"([^"\\]*)"[ \t\r\n]*:[ \t\r\n]*\Z')
_ENDS = b",}] \t\r\n"
_KEY_BYTES = 256

Data = bytes | bytearray
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WrongKindPrefix:
    """Bytes in front of a value of the wrong kind.

    Attributes:
        prefix: The key, its colon, and the bytes that follow.
        wrong: First bytes that make a value wrong; None for any.
    """

    prefix: bytes
    wrong: bytes | None

    def find(self, data: Data) -> Iterator[int]:
        """Positions of the sign in `data`."""
        at = data.find(self.prefix)
        while at >= 0:
            end = at + len(self.prefix)
            if self.wrong is None or (end < len(data) and data[end] in self.wrong):
                yield at
            at = data.find(self.prefix, end)


class WrongKindPrefixes:
    """Learnt signs, for some blocks each. Used by one task."""

    def __init__(self) -> None:
        self._left: dict[WrongKindPrefix, int] = {}

    def learn(self, sign: WrongKindPrefix) -> None:
        """Search for a sign in the next `SIGN_BLOCKS` blocks."""
        self._left.pop(sign, None)
        if len(self._left) >= MAX_SIGNS:
            del self._left[next(iter(self._left))]
        self._left[sign] = SIGN_BLOCKS

    def find(self, data: Data, rows: int) -> Positions:
        """Positions of signs in a block; called once a block.

        Args:
            data: The block's payloads, one after the other.
            rows: Number of payloads.
        """
        found = [usual for sign in self._left if (usual := rare(sign, data, rows)) is not None]
        self._left = {sign: left - 1 for sign, left in self._left.items() if left > 1}
        return np.concatenate(found) if found else np.empty(0, np.int64)


def rare(sign: WrongKindPrefix, data: Data, rows: int) -> Positions | None:
    """Positions of a sign in a block of so many rows; None when it is too common there."""
    found = np.fromiter(sign.find(data), np.int64)
    return None if len(found) * COMMON_SHARE > rows else found


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """Place of a value in a block: its key, and its first byte."""

    key: bytes
    start: int
    value: int


class FailureReader:
    """Finds the values in the parser's error messages. Created once a task.

    Args:
        schema: The table's columns.
    """

    def __init__(self, schema: Schema) -> None:
        self._columns: dict[str, set[int]] = {}
        self._keys: dict[bytes, set[int]] = {}
        for index, field in enumerate(schema.fields):
            for path in _paths(field):
                self._columns.setdefault("/" + "/".join(path), set()).add(index)
                if path[-1] != "[]":
                    self._keys.setdefault(path[-1].encode(), set()).add(index)

    def columns_of(self, key: bytes) -> set[int]:
        """Numbers of the columns that a key may belong to."""
        return self._keys.get(key, set())

    def wrong_kind(self, message: str, payload: bytes) -> ValuePlace | None:
        """The value whose kind is not its column's, in the payload that the message names.

        Returns:
            None when the message has another subject, or the value is not certain.
        """
        found = _KIND_CHANGED.search(message)
        if found is None or found["path"] not in self._columns:
            return None
        key = found["path"].rpartition("/")[2].encode()
        starts = _STARTS.get(found["kind"], b"")
        for place in re.finditer(rb'"' + re.escape(key) + rb'"[ \t\r\n]*:[ \t\r\n]*', payload):
            if payload[place.end() : place.end() + 1] in _each(starts):
                return ValuePlace(key, place.start(), place.end())
        return None

    def unfit_text(self, message: str, data: Data) -> tuple[str, list[ValuePlace]] | None:
        """The text that could not be converted, and the values that it may be.

        Called for failures without a row number.

        Returns:
            None when the message names no text.
        """
        found = _TEXT_IN_MESSAGE.search(message)
        if found is None:
            return ("", self._values(b'""', data)) if _EMPTY_TEXT.match(message) else None
        text = found["text"].encode("utf-8", "surrogateescape")
        quoted = b'"' + text + b'"'
        return found["text"], self._values(quoted, data) or self._values(text, data)

    def _values(self, text: bytes, data: Data) -> list[ValuePlace]:
        places = []
        at = data.find(text)
        while at >= 0:
            end = at + len(text)
            if end < len(data) and data[end] in _ENDS:
                found = _KEY_BEFORE.search(data, max(0, at - _KEY_BYTES), at)
                if found is not None and (key := bytes(found[1])) in self._keys:
                    places.append(ValuePlace(key, found.start(), at))
            at = data.find(text, end)
        return places


def sign_of(place: ValuePlace, data: Data) -> WrongKindPrefix:
    """The sign of values of the same kind under the same key.

    Args:
        place: Place of a value in `data` that is not of its column's kind, or of a text that is no
            number.
        data: A payload or a block.
    """
    start = bytes(data[place.value : place.value + 1])
    prefix = bytes(data[place.start : place.value])
    if start in _each(_STARTS["number"]):
        return WrongKindPrefix(prefix, _STARTS["number"])
    if start != b'"':
        return WrongKindPrefix(prefix + start, None)
    if data[place.value + 1] in _NUMBER_STARTS:
        # Texts of digits may be numbers, which the wide form accepts.
        return WrongKindPrefix(bytes(data[place.start : place.value + 1 + _DIGIT_TEXT_BYTES]), None)
    return WrongKindPrefix(prefix + start, bytes(set(range(256)) - set(_NUMBER_STARTS)))


def _each(starts: bytes) -> tuple[bytes, ...]:
    return tuple(bytes((start,)) for start in starts)


def _paths(field: Field) -> Iterator[tuple[str, ...]]:
    """Paths of a column's leaves, as the parser's messages write them."""
    for inside in _inside(field.type):
        yield (*(field.path or (field.name,)), *inside)


def _inside(data_type: DataType) -> Iterator[tuple[str, ...]]:
    match data_type:
        case ListType(element):
            yield ()
            for inside in _inside(element):
                yield ("[]", *inside)
        case StructType(fields):
            yield ()
            for field in fields:
                for inside in _inside(field.type):
                    yield (field.name, *inside)
        case _:
            yield ()
