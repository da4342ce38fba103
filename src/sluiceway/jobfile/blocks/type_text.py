"""Just enough of a Hive type's text to follow a path into its structs.

Types are parsed fully where the table's types are known; here they stay text.
"""

import re

_STRUCT = re.compile(r"\s*struct\s*<(.*)>\s*", re.IGNORECASE | re.DOTALL)
_INTEGERS = frozenset({"tinyint", "smallint", "int", "integer", "bigint"})
_NUMBER_UNITS: frozenset[str | None] = frozenset({"s", "ms", "us", "ns"})
_NESTED = re.compile(r"\s*(array|map|struct)\s*<", re.IGNORECASE)


_TIME_WORD = re.compile(r"\b(timestamp|date)\b", re.IGNORECASE)
_TIMESTAMPS = frozenset({"timestamp", "timestamp with local time zone"})


def is_timestamp(type_text: str) -> bool:
    """Whether the type is a timestamp."""
    return " ".join(type_text.lower().split()) in _TIMESTAMPS


def may_hold_times(type_text: str) -> bool:
    """Whether values of the type may hold days or instants."""
    return _TIME_WORD.search(type_text) is not None


def event_time_units(type_text: str) -> frozenset[str | None]:
    """Units of an event time in a value of the type; None is no unit."""
    kind = type_text.strip().lower()
    if kind in _INTEGERS:
        return _NUMBER_UNITS
    if kind == "string":
        return frozenset({None, "iso8601"})
    return frozenset({None, "iso8601", *_NUMBER_UNITS}) if is_timestamp(kind) else frozenset()


def is_nested(type_text: str) -> bool:
    """Whether the type is an array, map or struct."""
    return _NESTED.match(type_text) is not None


def struct_field(type_text: str, name: str) -> str | None:
    """Type of a struct's field, or None when the text is no struct with that field."""
    match = _STRUCT.fullmatch(type_text)
    if match is None:
        return None
    for part in _split_fields(match[1]):
        field, colon, inner = part.partition(":")
        if colon and field.strip().strip("`").lower() == name.lower():
            return inner
    return None


def _split_fields(text: str) -> list[str]:
    """Split at commas outside of `<>` and `()`."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
