"""The slow path: one payload -> one row, decided exactly, or its dirty reason."""

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Protocol, cast

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_values import compile_field
from sluiceway.convert.extra_keys import ExtraKeys
from sluiceway.convert.json_values import NonFiniteText, NumberText, object_of_pairs
from sluiceway.convert.text_values import compile_bytes, reads_bad_text
from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.types.schema import BinaryType, Field, Schema, leaves

MAX_DEPTH = 100
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Holder = Mapping[str, object]
See = Callable[[Holder], Callable[[Field], Holder] | None]
"""From a payload's object to the value that each column reads instead; None for the object."""


class Parse(Protocol):
    """As `parse_object`."""

    def __call__(self, payload: bytes, *, lenient: bool) -> dict[str, object]:
        """The object in a payload."""
        ...


_KEPT_VALUES = 1024
_KEPT_VALUE_BYTES = 64
_WHITESPACE = b" \t\r\n"
# Possessive, and the end stands for a missing quote: linear on any input.
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_STRING_BYTES = re.compile(_STRING.encode(), re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STRING_OR_NON_FINITE = re.compile(rf"{_STRING}|-?(?:NaN|Inf(?:inity)?)", re.DOTALL)
_LONE_SURROGATE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u([dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)
_PARSER = json.JSONDecoder(
    parse_int=NumberText,
    parse_float=NumberText,
    parse_constant=NonFiniteText,
    object_pairs_hook=object_of_pairs,
)

_SCAN: Callable[[str, int], tuple[object, int]] = _PARSER.scan_once  # type: ignore[attr-defined]


def is_too_deep(payload: bytes) -> bool:
    """True when arrays and objects are nested more than 100 levels, broken or not.

    Called on both paths, so that they agree; cheap unless there are more than 100 brackets.

    Args:
        payload: The record's value.

    Returns:
        Whether brackets outside of strings open deeper than the limit.
    """
    if payload.count(b"[") + payload.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for bracket in _STRING_BYTES.sub(b"", payload).translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


class ExactReader:
    """Decides single payloads. Created once a task.

    Args:
        schema: The table's columns, with settings passed on to inner fields (`inner_settings`).
        extra: Handles keys that no column reads; None ignores them.
        parse: Used instead of `parse_object`; None for none.

    Raises:
        ValueError: JSON cannot carry a column's type.
    """

    def __init__(
        self, schema: Schema, extra: ExtraKeys | None = None, *, parse: Parse | None = None
    ) -> None:
        check_bytes(schema)
        self._parse = parse or parse_object
        self._extra = extra
        self._fields = schema.fields
        self._readers = [
            compile_field(field, field.path or (field.name,)) for field in schema.fields
        ]
        self._names = [(field.path or (field.name,))[0] for field in schema.fields]
        self._lenient = reads_bad_text_anywhere(schema)
        # What is wrong in one record is mostly wrong in many.
        self._kept_dirt = lru_cache(_KEPT_VALUES)(self._dirt)

    def read(self, payload: bytes, see: See | None = None) -> list[object]:
        """Convert one payload.

        Called for each row that is suspect on the fast path.

        Args:
            payload: The record's value.
            see: Returns the values that columns read, where a schema types them; None for the
                object.

        Returns:
            One value a column, as `pa.array` takes it for the column's Arrow type; then, with
            `extra`, the value of the column that keeps other keys.

        Raises:
            DirtyValueError: The row is dirty; it has the reason and the place.
        """
        holder = self._parse(payload, lenient=self._lenient)
        return self._values(holder, see)

    def dirt(self, number: int, value: bytes) -> DirtyRow | None:
        """Why a payload is dirty that is sound but for the value of one column.

        Called before `read`, with `FastRows.doubts`.

        Args:
            number: The column.
            value: The value as it is in the payload, JSON.

        Returns:
            The row of a payload at 0, as `read` has it; None when the value fits the column.
        """
        short = len(value) <= _KEPT_VALUE_BYTES
        return self._kept_dirt(number, value) if short else self._dirt(number, value)

    def _dirt(self, number: int, value: bytes) -> DirtyRow | None:
        try:
            self._readers[number]({self._names[number]: _parse(value.decode())})
        except DirtyValueError as error:
            return error.row(0)
        return None

    def _values(self, holder: dict[str, object], see: See | None) -> list[object]:
        seen = None if see is None else see(holder)
        if seen is None:
            values = [read(holder) for read in self._readers]
        else:
            of_columns = zip(self._fields, self._readers, strict=True)
            values = [read(seen(field)) for field, read in of_columns]
        return values if self._extra is None else [*values, self._extra.column_value(holder)]


def check_bytes(schema: Schema) -> None:
    """Refuse binary columns without a setting for how text holds their bytes.

    Called when a decoder is made for a format that has no bytes of its own.

    Raises:
        ValueError: There is such a column.
    """
    for field in schema.fields:
        for leaf, policy in leaves(field.type, field.policy):
            if isinstance(leaf, BinaryType):
                compile_bytes(policy)


def reads_bad_text_anywhere(schema: Schema) -> bool:
    """Whether a column, or a value in it, accepts strings that are no UTF-8."""
    return any(
        reads_bad_text(leaf, policy)
        for field in schema.fields
        for leaf, policy in leaves(field.type, field.policy)
    )


def parse_object(payload: bytes, *, lenient: bool) -> dict[str, object]:
    """The object in a payload, with numbers as texts.

    Args:
        payload: The record's value.
        lenient: Whether bytes that are no UTF-8 become low surrogates, for columns that accept
            them.

    Raises:
        DirtyValueError: The payload is no object.
    """
    text = _decode_text(payload, lenient=lenient)
    if is_too_deep(payload):
        message = f"arrays and objects are nested deeper than {MAX_DEPTH} levels"
        raise _undecodable(DirtyReason.TOO_DEEP, message)
    if lenient:
        text = _LONE_SURROGATE.sub(_marked, text)
    found = _parse(text)
    if not lenient and "\\u" in text and any(m[1] for m in _LONE_SURROGATE.finditer(text)):
        raise _undecodable(DirtyReason.ENCODING, "a string holds half of a surrogate pair")
    if not isinstance(found, dict):
        raise _undecodable(DirtyReason.NOT_AN_OBJECT, "the payload is JSON, but no object")
    return cast("dict[str, object]", found)


def _marked(found: re.Match[str]) -> str:
    # Bytes that are no UTF-8 have become low surrogates; an escape must not look like one.
    return r"\ud800" if found[1] else found[0]


def _decode_text(payload: bytes, *, lenient: bool) -> str:
    if payload[:1] != b"{" and not payload.strip(_WHITESPACE):
        raise _undecodable(DirtyReason.EMPTY, "the payload is empty")
    if payload.startswith(BYTE_ORDER_MARK):
        raise _undecodable(DirtyReason.ENCODING, "the payload starts with a byte order mark")
    try:
        return payload.decode("utf-8", "surrogateescape" if lenient else "strict")
    except UnicodeDecodeError as error:
        message = f"the payload is not UTF-8: {error.reason} at byte {error.start}"
        raise _undecodable(DirtyReason.ENCODING, message) from error


def _parse(text: str) -> object:
    try:
        return _parse_plain(text)
    except json.JSONDecodeError as error:
        first = error
    if "NaN" not in text and "Inf" not in text:
        raise _not_json(first) from first
    # All spellings of NaN and infinity are accepted everywhere, even those of some parsers only.
    # They are values only for columns with a policy, and harmless in a field that no column reads.
    try:
        return _PARSER.decode(_STRING_OR_NON_FINITE.sub(_usual_spelling, text))
    except json.JSONDecodeError:
        raise _not_json(first) from first


def _parse_plain(text: str) -> object:
    """Parse as the decoder does, which skips white space around every payload."""
    try:
        found, end = _SCAN(text, 0)
    except StopIteration:
        return _PARSER.decode(text)
    return found if end == len(text) else _PARSER.decode(text)


def _usual_spelling(found: re.Match[str]) -> str:
    text = found[0]
    if text.startswith('"'):
        return text
    if text.endswith("NaN"):
        return "NaN"
    return "-Infinity" if text.startswith("-") else "Infinity"


def _not_json(error: json.JSONDecodeError) -> DirtyValueError:
    # One of the parser's messages ends with "at" already.
    what = error.msg.removesuffix(" at")
    return _undecodable(DirtyReason.BROKEN, f"not JSON: {what} at character {error.pos}")


def _undecodable(reason: DirtyReason, message: str) -> DirtyValueError:
    return DirtyValueError(reason, message, stage="decode")
