"""Proposes columns from JSON payloads: the values of each key, and doubts about them."""

import re
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_rows import parse_object
from sluiceway.convert.infer_types import is_field_name
from sluiceway.convert.json_values import NonFiniteText, NumberText
from sluiceway.convert.typed_values import Day, Instant, LocalTime, TimeOfDay, exact_text
from sluiceway.types.dirty import shown
from sluiceway.types.hive_types import MAX_PRECISION
from sluiceway.types.iso_time import parse_iso_date, parse_iso_wall_time
from sluiceway.types.key_path import path_text

MOST_KEYS = 100
"""An object with more keys has data as keys."""

_MOST_SCALE = 4
WINS = 95
"""Percent of the values that must be of one kind, so that the column gets it."""
_LOOKS_LIKE = 50
"""Percent of the numbers that must be times, so that a note says so."""
_WHOLE = re.compile(r"-?\d+")
_PLAIN = re.compile(r"-?(\d+)\.(\d+)")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_BIGINT = range(-(2**63), 2**63)
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000}
_SINCE_S, _UNTIL_S = 946_684_800, 4_102_444_800
"""2000 and 2100: whole numbers between them may be times."""
_NUMBERS = ("whole number", "fraction", "number with exponent")
_TAKES_ALL = "`type: string, on_lossy: text` takes all"

_TEXT_TYPES = {
    "date": ("date", "dates as text; string keeps them as they are"),
    "instant": ("timestamp", "times as text; string keeps them as they are"),
    "local time": (
        "timestamp",
        "times as text without an offset: UTC is a guess, name a timezone; or string",
    ),
    "number": ("string", "numbers as text; bigint or a decimal reads them"),
}
_TIME_FORMS = ("instant", "local time")


@dataclass(frozen=True, slots=True)
class ObservedTime:
    """Values that may be event times.

    Attributes:
        path: Keys below the column; empty for its own values.
        unit: Unit of numbers since 1970; empty for texts.
        sure: Whether nearly all of the values are such times.
    """

    path: tuple[str, ...]
    unit: str
    sure: bool


@dataclass(frozen=True, slots=True)
class ProposedColumn:
    """A column for the values of a key.

    Attributes:
        name: Name of the column; the key where no column can have its name and no other is made.
        type: Hive type; empty when it is not known, or no column can have the key's name.
        as_text: Whether values of any kind are kept as JSON text.
        rows: Number of rows with a value.
        nulls: Number of rows with null.
        doubts: Decisions for a person, in words.
        key: Key of the payload; empty where it is the name.
        zoned: Whether it holds times without an offset, which need a timezone.
        times: Values that may be event times.
    """

    name: str
    type: str
    as_text: bool
    rows: int
    nulls: int
    doubts: tuple[str, ...]
    key: str = ""
    zoned: bool = False
    times: tuple[ObservedTime, ...] = ()


@dataclass(slots=True)
class _Found:
    """Findings about the values of a column, except its type."""

    doubts: list[str] = field(default_factory=list)
    times: list[ObservedTime] = field(default_factory=list)
    zoned: bool = False

    def add_time(self, path: tuple[str, ...], unit: str, *, sure: bool) -> None:
        if "[]" not in path:
            self.times.append(ObservedTime(path, unit, sure))


@dataclass(slots=True)
class _ObservedValues:
    """Values at one place of the payloads.

    Attributes:
        units: Numbers that may be times, by unit.
        beyond: Number of whole numbers beyond bigint.
        whole_digits: Most digits before the point.
        exact: Number of values that a schema calls decimals.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    children: dict[str, "_ObservedValues"] = field(default_factory=dict)
    element: "_ObservedValues | None" = None
    units: Counter[str] = field(default_factory=Counter)
    beyond: int = 0
    whole_digits: int = 0
    scale: int = 0
    exact: int = 0
    texts: Counter[str] = field(default_factory=Counter)

    @property
    def values(self) -> int:
        return self.kinds.total() - self.kinds["null"]

    def add(self, value: object) -> None:
        match value:
            case None:
                self.kinds["null"] += 1
            case bool():
                self.kinds["boolean"] += 1
            case NumberText() | Decimal():
                self.exact += isinstance(value, Decimal)
                text = exact_text(value) if isinstance(value, Decimal) else value
                self._add_number(text)
            case NonFiniteText():
                self.kinds["NaN or infinity"] += 1
            case str():
                self.kinds["string"] += 1
                self.texts[_form(value)] += 1
            case Day() | Instant() | LocalTime() | TimeOfDay():
                self.kinds["string"] += 1
                self.texts[_TYPED_FORMS[type(value)]] += 1
            case list():
                self.kinds["array"] += 1
                self.element = self.element or _ObservedValues()
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
                self.children.setdefault(key, _ObservedValues()).add(item)

    def _add_number(self, text: str) -> None:
        plain = _PLAIN.fullmatch(text)
        if _WHOLE.fullmatch(text):
            self.kinds["whole number"] += 1
            self.whole_digits = max(self.whole_digits, len(text.lstrip("-")))
            number = int(text) if len(text) <= MAX_PRECISION else None
            if number is None or number not in _BIGINT:
                self.beyond += 1
                return
            for unit, scale in _UNITS.items():
                self.units[unit] += _SINCE_S * scale <= number < _UNTIL_S * scale
        elif plain:
            self.kinds["fraction"] += 1
            self.whole_digits = max(self.whole_digits, len(plain[1]))
            self.scale = max(self.scale, len(plain[2]))
        else:
            self.kinds["number with exponent"] += 1


class JsonSurvey:
    """Reads payloads of a topic. Used by one thread.

    Attributes:
        rows: Number of objects so far.
        empty: Number of records without a value.
        broken: Number of payloads that are no JSON object.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.empty = 0
        self.broken = 0
        self._top = _ObservedValues()

    def add(self, payload: bytes | None) -> None:
        """Add a record's value."""
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
        """Add a parsed object, with numbers as texts."""
        self.rows += 1
        self._top.add(found)

    @property
    def keys_are_data(self) -> bool:
        """Whether payloads have more keys than columns are proposed for."""
        return len(self._top.children) > MOST_KEYS

    def columns(self) -> list[ProposedColumn]:
        """A column for each key at the top, in the order in which they came."""
        return [self._column(key, seen) for key, seen in self._top.children.items()]

    def _column(self, key: str, seen: _ObservedValues) -> ProposedColumn:
        found = _Found()
        kind, as_text = "", False
        name = self._name(key)
        others = _spelled_otherwise(key, self._top.children)
        if not name:
            found.doubts.append("its key is no name of a column; name one, and the key as `path`")
        elif others and not _wins(seen.values, seen.values + others):
            found.doubts.append("the key comes in two spellings")
        elif not _has_kinds(seen):
            found.doubts.append("only null, or empty")
        else:
            kind = _type(seen, (), found)
            kind, as_text = kind or "string", not kind
            if others:
                found.doubts.append(f"the key is spelled otherwise in {others}, which are not read")
        return ProposedColumn(
            name or key,
            kind,
            as_text,
            seen.values,
            seen.kinds["null"],
            tuple(found.doubts),
            "" if key == name or not name else key,
            found.zoned and "timestamp" in kind,
            tuple(found.times),
        )

    def _name(self, key: str) -> str:
        """The key, or a name that is made from it and that no other key has; empty for none."""
        if is_field_name(key):
            return key
        made = _made_name(key)
        alike = [each for each in self._top.children if _made_name(each).lower() == made.lower()]
        return made if len(alike) == 1 and is_field_name(made) and key.isprintable() else ""


def _made_name(key: str) -> str:
    """A name for a key that cannot be a column's name; a key that can is its own."""
    return key if is_field_name(key) else re.sub(r"\W+", "_", key, flags=re.ASCII).strip("_")


def _spelled_otherwise(key: str, children: dict[str, _ObservedValues]) -> int:
    """Values under keys that differ from this one in case only."""
    names = (name for name in children if name != key and name.lower() == key.lower())
    return sum(children[name].values for name in names)


def _wins(count: int, total: int) -> bool:
    return count * 100 >= total * WINS


def _has_kinds(seen: _ObservedValues) -> bool:
    """Whether there was anything but null and empty arrays or objects."""
    inner = [*seen.children.values(), *([seen.element] if seen.element else [])]
    plain = seen.kinds.keys() - {"null", "array", "object"}
    return bool(plain) or any(_has_kinds(each) for each in inner)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()) if count)


def _where(path: tuple[str, ...]) -> str:
    return f"{_spelled(path)}: " if path else ""


def _spelled(path: tuple[str, ...]) -> str:
    return path_text(path).replace(".[]", "[]")


def _type(seen: _ObservedValues, path: tuple[str, ...], found: _Found) -> str:
    """Type of a place, and doubts about it; empty when only text accepts all values.

    The type follows the kind of nearly all values; a doubt counts the values of other kinds.
    """
    kinds = Counter({kind: count for kind, count in seen.kinds.items() if kind != "null"})
    groups = Counter(kinds)
    groups["number"] = sum(groups.pop(kind, 0) for kind in _NUMBERS)
    ((kind, count),) = groups.most_common(1)
    if not count:
        return ""
    if kind == "NaN or infinity" or not _wins(count, seen.values):
        found.doubts.append(f"{_where(path)}values of several kinds: {_counted(seen.kinds)}")
        return ""
    if count < seen.values:
        groups.pop(kind)
        found.doubts.append(
            f"{_where(path)}{seen.values - count:,} of {seen.values:,} values are dirty: "
            f"{_counted(groups)}; {_TAKES_ALL}"
        )
    match kind:
        case "number":
            return _number_type(seen, count, path, found)
        case "boolean":
            return "boolean"
        case "string":
            return _text_type(seen, path, found)
        case "array":
            inner = _type(seen.element, (*path, "[]"), found) if seen.element else ""
            return f"array<{inner}>" if inner else ""
        case _:
            return _struct_type(seen, path, found)


def _struct_type(seen: _ObservedValues, path: tuple[str, ...], found: _Found) -> str:
    if len(seen.children) > MOST_KEYS:
        shown_path = _spelled(path) or "it"
        found.doubts.append(f"{shown_path} has over {MOST_KEYS} keys: data? map<string,...> then")
        return ""
    fields = []
    objects = seen.kinds["object"]
    for key, inner in seen.children.items():
        under = (*path, key)
        others = _spelled_otherwise(key, seen.children)
        if not is_field_name(key) or (others and not _wins(inner.values, inner.values + others)):
            if _wins(objects - inner.values, objects):
                found.doubts.append(f"{_spelled(under)} is left out: {inner.values} of {objects:,}")
                continue
            found.doubts.append(f"the key {shown(_spelled(under))} can be no field")
            return ""
        kind = _type(inner, under, found)
        if kind:
            fields.append(f"{key}:{kind}")
        else:
            found.doubts.append(f"{_spelled(under)} is left out")
    return f"struct<{','.join(fields)}>" if fields else ""


def _number_type(seen: _ObservedValues, count: int, path: tuple[str, ...], found: _Found) -> str:
    whole, where = seen.kinds["whole number"], _where(path)
    wider = _fraction_type(seen)
    if _wins(whole, count):
        if whole < count:
            found.doubts.append(
                f"{where}{count - whole:,} of {count:,} numbers are dirty: they are not whole; "
                f"{wider} takes all"
            )
        return _whole_type(seen, path, found)
    if wider == "double":
        found.doubts.append(f"{where}double rounds; a decimal keeps digits")
        return wider
    places = "1 decimal" if seen.scale == 1 else f"{seen.scale} decimals"
    found.doubts.append(f"{where}{places} at most; values with more are dirty, or double")
    return wider


def _fraction_type(seen: _ObservedValues) -> str:
    """The type that accepts all numbers."""
    digits = seen.whole_digits + seen.scale
    most = MAX_PRECISION if seen.exact else _MOST_SCALE
    if seen.kinds["number with exponent"] or seen.scale > most or digits > MAX_PRECISION:
        return "double"
    return f"decimal({max(18, digits)},{seen.scale})"


def _whole_type(seen: _ObservedValues, path: tuple[str, ...], found: _Found) -> str:
    where, count = _where(path), seen.kinds["whole number"]
    if seen.beyond and not _wins(count - seen.beyond, count):
        if seen.whole_digits > MAX_PRECISION:
            found.doubts.append(f"{where}numbers of {seen.whole_digits} digits; string keeps them")
            return "string"
        found.doubts.append(f"{where}numbers beyond bigint")
        return f"decimal({MAX_PRECISION},0)"
    if seen.beyond:
        wider = f"decimal({MAX_PRECISION},0)" if seen.whole_digits <= MAX_PRECISION else "string"
        found.doubts.append(
            f"{where}{seen.beyond:,} of {count:,} numbers are dirty: beyond bigint; "
            f"{wider} takes all"
        )
    for unit, like in seen.units.items():
        if like * 100 < count * _LOOKS_LIKE:
            continue
        sure = _wins(like, count)
        found.add_time(path, unit, sure=sure)
        some = "" if like == count else f"{like:,} of {count:,} "
        found.doubts.append(
            f"{where}{some}may be {unit} since 1970: {{type: timestamp, unit: {unit}}}"
        )
    return "bigint"


def _text_type(seen: _ObservedValues, path: tuple[str, ...], found: _Found) -> str:
    where, forms, count = _where(path), seen.texts, seen.kinds["string"]
    times = [form for form in _TIME_FORMS if forms[form]]
    likely, most = forms.most_common(1)[0]
    sure = _wins(most, count)
    only_times = len(times) == 1 and not forms["date"] and not forms["number"]
    if only_times or (sure and likely in times):
        found.add_time(path, "", sure=sure)
    if sure and likely in ("date", *_TIME_FORMS):
        kind, doubt = _TEXT_TYPES[likely]
        found.doubts.append(f"{where}{doubt}")
        found.zoned |= likely == "local time"
        others = Counter({form: some for form, some in forms.items() if form != likely})
        if likely == "local time":
            # They contain their own offset.
            del others["instant"]
        if others.total():
            found.doubts.append(
                f"{where}{others.total():,} of {count:,} texts are dirty: {_counted(others)}; "
                "string takes all"
            )
        return kind
    if likely in times and sum(forms[form] for form in times) == count:
        found.doubts.append(f"{where}times, of which only some have an offset")
    elif len(forms) > 1 and forms["text"] + forms["empty"] < count:
        found.doubts.append(f"{where}text that looks like {_counted(forms)}")
    elif doubt := _TEXT_TYPES.get(likely, ("", ""))[1]:
        found.doubts.append(f"{where}{doubt}")
    return "string"


def _form(text: str) -> str:
    """The form of a text."""
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


_TYPED_FORMS: dict[type, str] = {
    Day: "date",
    Instant: "instant",
    LocalTime: "local time",
    TimeOfDay: "text",
}
