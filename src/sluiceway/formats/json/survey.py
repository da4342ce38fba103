"""Proposes columns from JSON payloads: what was seen of each key, and what is in doubt about it."""

import re
from collections import Counter
from dataclasses import dataclass, field

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_rows import parse_object
from sluiceway.convert.infer_types import is_field_name
from sluiceway.convert.json_values import NonFiniteText, NumberText
from sluiceway.types.dirty import shown
from sluiceway.types.hive_types import MAX_PRECISION
from sluiceway.types.iso_time import parse_iso_date, parse_iso_wall_time

MOST_KEYS = 100
"""An object that has more has data for keys."""

_MOST_SCALE = 4
_WHOLE = re.compile(r"-?\d+")
_PLAIN = re.compile(r"-?(\d+)\.(\d+)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_BIGINT = range(-(2**63), 2**63)
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000}
_SINCE_S, _UNTIL_S = 946_684_800, 4_102_444_800
"""2000 and 2100: whole numbers between them may be times."""

_TEXT_TYPES = {
    "date": ("date", "dates as text; string keeps them as they are"),
    "instant": ("timestamp", "times as text; string keeps them as they are"),
    "local time": ("timestamp", "times as text without an offset: name a timezone, or string"),
    "number": ("string", "numbers as text; bigint or a decimal reads them"),
}


@dataclass(frozen=True, slots=True)
class ProposedColumn:
    """A column that would take what was seen of a key.

    Attributes:
        name: The key.
        type: Hive type; empty when there is no telling, or no column can have the key's name.
        as_text: Values of any kind are kept as JSON text.
        rows: In which it had a value.
        nulls: In which it was null.
        doubts: What a person should decide, in words.
    """

    name: str
    type: str
    as_text: bool
    rows: int
    nulls: int
    doubts: tuple[str, ...]


@dataclass(slots=True)
class _Seen:
    """What was seen at one place of the payloads."""

    kinds: Counter[str] = field(default_factory=Counter)
    children: dict[str, "_Seen"] = field(default_factory=dict)
    element: "_Seen | None" = None
    least: int | None = None
    greatest: int | None = None
    whole_digits: int = 0
    scale: int = 0
    texts: Counter[str] = field(default_factory=Counter)

    def add(self, value: object) -> None:
        match value:
            case None:
                self.kinds["null"] += 1
            case bool():
                self.kinds["boolean"] += 1
            case NumberText():
                self._add_number(value)
            case NonFiniteText():
                self.kinds["NaN or infinity"] += 1
            case str():
                self.kinds["string"] += 1
                self.texts[_form(value)] += 1
            case list():
                self.kinds["array"] += 1
                self.element = self.element or _Seen()
                for item in value:
                    self.element.add(item)
            case dict():
                self.kinds["object"] += 1
                self._add_object(value)
            case _:
                raise TypeError(f"a {type(value).__name__} is no value of JSON")

    def _add_object(self, value: dict[str, object]) -> None:
        for key, item in value.items():
            if key in self.children or len(self.children) <= MOST_KEYS:
                self.children.setdefault(key, _Seen()).add(item)

    def _add_number(self, text: str) -> None:
        plain = _PLAIN.fullmatch(text)
        if _WHOLE.fullmatch(text):
            self.kinds["whole number"] += 1
            self.whole_digits = max(self.whole_digits, len(text.lstrip("-")))
            if len(text) <= MAX_PRECISION:
                number = int(text)
                self.least = number if self.least is None else min(self.least, number)
                self.greatest = number if self.greatest is None else max(self.greatest, number)
        elif plain:
            self.kinds["fraction"] += 1
            self.whole_digits = max(self.whole_digits, len(plain[1]))
            self.scale = max(self.scale, len(plain[2]))
        else:
            self.kinds["number with exponent"] += 1


class JsonSurvey:
    """Looks at payloads of a topic. Used by one thread.

    Attributes:
        rows: Objects so far.
        empty: Records without a value.
        broken: Payloads that are no JSON object.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.empty = 0
        self.broken = 0
        self._top = _Seen()

    def add(self, payload: bytes | None) -> None:
        """Take in a record's value."""
        if not payload:
            self.empty += 1
            return
        try:
            found = parse_object(payload, lenient=False)
        except DirtyValueError:
            self.broken += 1
            return
        self.add_object(found)

    def add_object(self, found: dict[str, object]) -> None:
        """Take in an object that was read already, numbers as texts."""
        self.rows += 1
        self._top.add(found)

    @property
    def keys_are_data(self) -> bool:
        """Whether payloads have more keys than are told."""
        return len(self._top.children) > MOST_KEYS

    def columns(self) -> list[ProposedColumn]:
        """A column for each key at the top, in the order in which they came."""
        return [self._column(key, seen) for key, seen in self._top.children.items()]

    def _column(self, key: str, seen: _Seen) -> ProposedColumn:
        doubts: list[str] = []
        kind, as_text = "", False
        if not is_field_name(key):
            doubts.append("its key is no name of a column; name one, and the key as `path`")
        elif sum(name.lower() == key.lower() for name in self._top.children) > 1:
            doubts.append("the key comes in two spellings")
        elif not _told(seen):
            doubts.append("only null, or empty")
        else:
            kind = _type(seen, "", doubts)
            kind, as_text = kind or "string", not kind
        rows = seen.kinds.total() - seen.kinds["null"]
        return ProposedColumn(key, kind, as_text, rows, seen.kinds["null"], tuple(doubts))


def _told(seen: _Seen) -> bool:
    """Whether anything but null and empty arrays or objects was there."""
    inner = [*seen.children.values(), *([seen.element] if seen.element else [])]
    plain = seen.kinds.keys() - {"null", "array", "object"}
    return bool(plain) or any(_told(each) for each in inner)


def _type(seen: _Seen, path: str, doubts: list[str]) -> str:
    """Type of a place, and doubts about it; empty when nothing but text takes all values."""
    kinds = {kind for kind, count in seen.kinds.items() if count and kind != "null"}
    where = f"{path}: " if path else ""
    if not kinds:
        return ""
    if kinds <= {"whole number", "fraction", "number with exponent"}:
        return _number_type(seen, kinds, where, doubts)
    if len(kinds) > 1 or kinds == {"NaN or infinity"}:
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(seen.kinds.items()))
        doubts.append(f"{where}values of several kinds: {told}")
        return ""
    match kinds.pop():
        case "boolean":
            return "boolean"
        case "string":
            return _text_type(seen, where, doubts)
        case "array":
            inner = _type(seen.element, f"{path}[]", doubts) if seen.element else ""
            return f"array<{inner}>" if inner else ""
        case _:
            return _struct_type(seen, path, doubts)


def _struct_type(seen: _Seen, path: str, doubts: list[str]) -> str:
    if len(seen.children) > MOST_KEYS:
        doubts.append(f"{path or 'it'} has over {MOST_KEYS} keys: data? map<string,...> then")
        return ""
    fields = []
    lower = [name.lower() for name in seen.children]
    for key, inner in seen.children.items():
        under = f"{path}.{key}" if path else key
        if not is_field_name(key) or lower.count(key.lower()) > 1:
            doubts.append(f"the key {shown(under)} can be no field")
            return ""
        kind = _type(inner, under, doubts)
        if kind:
            fields.append(f"{key}:{kind}")
        else:
            doubts.append(f"{under} is left out")
    return f"struct<{','.join(fields)}>" if fields else ""


def _number_type(seen: _Seen, kinds: set[str], where: str, doubts: list[str]) -> str:
    if kinds == {"whole number"}:
        if seen.whole_digits > MAX_PRECISION:
            doubts.append(f"{where}numbers of {seen.whole_digits} digits; string keeps them")
            return "string"
        least, greatest = seen.least or 0, seen.greatest or 0
        if least not in _BIGINT or greatest not in _BIGINT:
            doubts.append(f"{where}numbers beyond bigint")
            return f"decimal({MAX_PRECISION},0)"
        for unit, scale in _UNITS.items():
            if _SINCE_S * scale <= least <= greatest < _UNTIL_S * scale:
                doubts.append(f"{where}may be {unit} since 1970: {{type: timestamp, unit: {unit}}}")
        return "bigint"
    digits = seen.whole_digits + seen.scale
    if "number with exponent" in kinds or seen.scale > _MOST_SCALE or digits > MAX_PRECISION:
        doubts.append(f"{where}double rounds; a decimal keeps digits")
        return "double"
    places = "1 decimal" if seen.scale == 1 else f"{seen.scale} decimals"
    doubts.append(f"{where}{places} at most; values with more are dirty, or double")
    return f"decimal({max(18, digits)},{seen.scale})"


def _text_type(seen: _Seen, where: str, doubts: list[str]) -> str:
    forms = seen.texts
    if len(forms) > 1 and {*forms} <= {"instant", "local time"}:
        doubts.append(f"{where}times, of which only some have an offset")
        return "string"
    if len(forms) > 1 and forms["text"] + forms["empty"] < seen.kinds["string"]:
        told = ", ".join(f"{count} {form}" for form, count in sorted(forms.items()))
        doubts.append(f"{where}text that looks like {told}")
        return "string"
    kind, doubt = _TEXT_TYPES.get(next(iter(forms)), ("string", ""))
    if doubt:
        doubts.append(f"{where}{doubt}")
    return kind


def _form(text: str) -> str:
    """What a text looks like."""
    if not text:
        return "empty"
    if _NUMBER.fullmatch(text):
        return "number"
    if _is_date(text):
        return "date"
    try:
        wall = parse_iso_wall_time(text)
    except ValueError:
        return "text"
    return "local time" if wall.offset_us is None else "instant"


def _is_date(text: str) -> bool:
    try:
        parse_iso_date(text)
    except ValueError:
        return False
    return True
