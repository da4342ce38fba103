"""Debezium's mark for a value that the database did not send.

PostgreSQL logs a long value (TOAST) only with the change that sets it. Otherwise Debezium puts a
mark of the column's own type there; a keyed table that stored the mark would lose the value.
Source: Debezium's documentation of toasted values, and what its connectors write.
"""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_numbers import exact_number, is_number_text
from sluiceway.convert.json_values import NumberText
from sluiceway.convert.typed_values import Day, Instant, LocalTime, TimeOfDay
from sluiceway.formats.contract import Decoded
from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.types.payloads import rows_with
from sluiceway.types.schema import Field, MapType, StructType

UNAVAILABLE = "__debezium_unavailable_value"

_BYTES = UNAVAILABLE.encode("ascii")
# For a `uuid[]`: the UUID with this name, by MD5.
_UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
# For PostGIS, as EWKB: an empty point, and a point at infinity.
_PLACES = tuple(
    bytes.fromhex(f"0101000020e6100000{place}")
    for place in ("000000fc83d797c1" * 2, "0c21e7fdff7f66401842cefbff7f5640")
)
_NOWHERE = -99_999_999
_MOST_PLACES = 20
_BINARY = (_BYTES, *_PLACES)
_IN_BASE64 = tuple(base64.b64encode(each).decode("ascii") for each in _BINARY)
_TEXTS = frozenset({UNAVAILABLE, _UUID, _BYTES.hex(), *_IN_BASE64})
_HSTORE_TEXT = re.compile(rf'\s*\{{\s*"{UNAVAILABLE}"\s*:\s*"{UNAVAILABLE}"\s*\}}\s*')
_ONE_BYTE = {base64.b64encode(bytes([byte])).decode("ascii"): byte for byte in _BYTES}

_MARKS = (
    _BYTES,
    _UUID.encode("ascii"),
    _BYTES.hex().encode("ascii"),
    _IN_BASE64[0].rstrip("=").encode("ascii"),
)
_PLACE_MARKS = (
    *(text.rstrip("=").encode("ascii") for text in _IN_BASE64[1:]),
    # In bytes, without characters that a search cannot find; and one as two numbers.
    b"\xfc\x83\xd7\x97\xc1",
    b"\x0c\x21\xe7\xfd\xff\x7f\x66\x40",
    b"-9.9999999E7",
    b"-99999999",
)

Message = Mapping[str, object]


def is_unavailable(value: object) -> bool:
    """Whether a value is the mark, in the form of any type.

    Args:
        value: As JSON has it, numbers as `NumberText`; or as in `convert.typed_values`.
    """
    match value:
        case str():
            return value in _TEXTS or _HSTORE_TEXT.fullmatch(value) is not None
        case bytes():
            return value in _BINARY
        case list():
            alone = len(value) == 1 and is_unavailable(value[0])
            return alone or (len(value) == len(_BYTES) and _are_its_bytes(value))
        case dict():
            nowhere = all(_NOWHERE in _numbers(value.get(axis)) for axis in "xy")
            place = "wkb" in value and (nowhere or is_unavailable(value["wkb"]))
            return UNAVAILABLE in value or place
        case _:
            return False


def _are_its_bytes(items: Sequence[object]) -> bool:
    """Whether an array has a number for each byte of the mark; booleans are all true."""
    if all(item is True for item in items):
        return True
    return all(byte in _numbers(item) for item, byte in zip(items, _BYTES, strict=True))


def _numbers(value: object) -> set[int | None]:
    """Whole numbers that an item may stand for: itself, and its digits at any scale."""
    match value:
        case dict():
            return _numbers(value.get("value"))
        case bytes():
            return {*value} if len(value) == 1 else set()
        case Day(number):
            return {number}
        case Instant(ns) | LocalTime(ns) | TimeOfDay(ns):
            return {ns // 1_000_000}
        case NumberText() | int() | float() | Decimal():
            return _readings(str(value)) if is_number_text(str(value)) else set()
        case _:
            return {_ONE_BYTE.get(value)} if isinstance(value, str) else set()


def _readings(text: str) -> set[int | None]:
    try:
        number = exact_number(text)
    except DirtyValueError:
        return set()
    sign, digits, exponent = number.as_tuple()
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    if not isinstance(exponent, int) or abs(exponent) > _MOST_PLACES:
        return {unscaled}
    return {unscaled, int(number)} if number == int(number) else {unscaled}


def marks_of(fields: Sequence[Field]) -> tuple[bytes, ...]:
    """Byte strings of which a payload has some where a value is the mark, except in number arrays.

    Args:
        fields: Columns of the table.
    """
    objects = any(
        len(field.path) > 1
        or isinstance(field.type, StructType | MapType)
        or field.policy.on_lossy == "text"
        for field in fields
    )
    return (*_MARKS, *_PLACE_MARKS) if objects else _MARKS


def untold_column(fields: Sequence[Field], message: Message) -> str | None:
    """The first column without a sent value, or with its path inside of one; None for none.

    Args:
        fields: Columns, with their paths from the message's top.
        message: The parsed message.
    """
    for field in fields:
        found: object = message
        for step in field.path or (field.name,):
            found = found.get(step) if isinstance(found, dict) else None
            if is_unavailable(found):
                return field.name
        if isinstance(found, dict) and any(map(_holds_one, found.values())):
            return field.name
    return None


def _holds_one(value: object) -> bool:
    inside = isinstance(value, dict) and any(map(_holds_one, value.values()))
    return inside or is_unavailable(value)


def without_unavailable(
    decoded: Decoded,
    payloads: Sequence[bytes | None],
    untold: Callable[[bytes], str | None],
    marks: Sequence[bytes],
) -> Decoded:
    """Make rows dirty in which the source did not send a value: the value is not known here.

    Called once a batch of a keyed table. Only payloads that may hold a mark are read again.

    Args:
        decoded: Rows of changes with kinds.
        payloads: Payloads of the batch.
        untold: From a payload to the column without a value, as `untold_column`.
        marks: Result of `marks_of`.
    """
    found: dict[int, str] = {}
    for row in _candidates(decoded, payloads, marks):
        payload = payloads[row]
        name = untold(payload) if payload else None
        if name is not None:
            found[row] = name
    if not found:
        return decoded
    assert decoded.kinds is not None  # noqa: S101 - the caller's kinds
    kept = pa.array(~np.isin(decoded.indices.to_numpy(), list(found)))
    text = "the source left out this value, which the change did not touch"
    dirty = [
        DirtyRow(row, "decode", DirtyReason.NOT_A_CHANGE, name, text) for row, name in found.items()
    ]
    others = [row for row in decoded.dirty if row.index not in found]
    return replace(
        decoded,
        rows=decoded.rows.filter(kept),
        indices=decoded.indices.filter(kept),
        kinds=decoded.kinds.filter(kept),
        dirty=tuple(sorted((*others, *dirty), key=lambda row: row.index)),
    )


def _candidates(
    decoded: Decoded, payloads: Sequence[bytes | None], marks: Sequence[bytes]
) -> list[int]:
    """Positions of payloads that hold a mark's bytes, or a number array of a mark's length."""
    found = [rows_with(payloads, marks)]
    for column in decoded.rows.columns:
        if pa.types.is_list(column.type):
            same = pc.equal(pc.list_value_length(column), len(_BYTES))
        elif pa.types.is_string(column.type):
            # An array that a column keeps as text.
            same = pc.starts_with(column, "[")
            if same.true_count:
                same = pc.and_(same, pc.greater(pc.count_substring(column, ","), len(_BYTES) - 2))
        else:
            continue
        if same.true_count:
            found.append(decoded.indices.filter(same).to_numpy())
    return [int(row) for row in np.unique(np.concatenate(found))]
