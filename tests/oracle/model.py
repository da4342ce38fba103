"""JSON values as the oracle has them, columns that take them, and payloads made of both."""

import random
from dataclasses import dataclass, field
from typing import Any


class Num(str):
    """The text of a JSON number."""

    __slots__ = ()


class NonFinite(str):
    """NaN or an infinity without quotes."""

    __slots__ = ()


class Obj(tuple):  # type: ignore[type-arg]
    """Pairs of keys and values, in order; keys may come twice."""

    __slots__ = ()


class Absent:
    """The mark for a key that is not there."""


ABSENT = Absent()
# In texts U+DC80..U+DCFF stand for bytes that are no UTF-8, U+D800 for half of an escaped pair.
LONE = "\ud800"
RAW_LOW, RAW_HIGH = "\udc80", "\udcff"


@dataclass(frozen=True, slots=True)
class Column:
    """A column as a job file has it.

    Attributes:
        hive: Its type.
        policy: Keys and values that differ from the default.
        unit: Of times that are numbers.
        required: Null and missing are dirty.
        label: Of the matrix' variant, if it is one of them.
    """

    hive: str
    policy: dict[str, Any] = field(default_factory=dict)
    unit: str | None = None
    required: bool = False
    label: str = ""


_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}


def render(value: Any, pick: random.Random) -> bytes:
    """A value as JSON; the same value may be written in many ways."""
    if isinstance(value, Num | NonFinite):
        return str(value).encode()
    if isinstance(value, str):
        return b'"' + b"".join(_character(char, pick) for char in value) + b'"'
    if isinstance(value, Obj):
        space = pick.choice((b"", b"", b"", b" "))
        members = (
            render(key, pick) + space + b":" + space + render(item, pick) for key, item in value
        )
        return b"{" + (b"," + space).join(members) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(render(item, pick) for item in value) + b"]"
    return b"null" if value is None else b"true" if value else b"false"


def _character(char: str, pick: random.Random) -> bytes:
    if RAW_LOW <= char <= RAW_HIGH:
        return char.encode("utf-8", "surrogateescape")
    if char == LONE:
        return b"\\ud800"
    if char in _SHORT:
        return _SHORT[char].encode()
    if char < " " or pick.random() < 0.02:
        units = char.encode("utf-16-be")
        return b"".join(b"\\u%02x%02x" % (units[i], units[i + 1]) for i in range(0, len(units), 2))
    return char.encode()


def payload(value: Any, pick: random.Random) -> bytes:
    """A payload with the value under the key `v`."""
    members = [] if isinstance(value, Absent) else [("v", value)]
    if pick.random() < 0.1:
        members.insert(pick.randrange(len(members) + 1), ("other", Num("1.5")))
    return render(Obj(members), pick)


def field_text(value: Any) -> Any:
    """What stands in a field of delimited text for a value; ABSENT where nothing can."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and LONE not in value:
        return str(value)
    return ABSENT


def line(text: str | None, pick: random.Random) -> bytes:
    """A line of one field, which is written with quotes or, where that says the same, without."""
    if text is None:
        # Without bytes it would be no line at all.
        return b"\r\n"
    plain = bool(text) and not set(text) & set('",\r\n') and not text.startswith("\ufeff")
    written = text if plain and pick.random() < 0.8 else '"' + text.replace('"', '""') + '"'
    end = pick.choice(("", "", "", "\n", "\r\n"))
    return (written + end).encode("utf-8", "surrogateescape")
