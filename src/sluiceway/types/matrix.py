"""The conversion matrix of JSON: which value becomes what in which type, under which policy.

Data only. The decoder takes from it which kinds of values a type accepts. The check of a job file
takes from it which policies a column may have. The tests have a case for each cell, and
docs/reference/types.md shows it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

from sluiceway.types.dirty import DirtyReason as Why
from sluiceway.types.policy import NO_POLICY, ROUNDING_MODES, Policy
from sluiceway.types.schema import (
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    ListType,
    LocalTimestampType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    VarcharType,
)


class JsonKind(StrEnum):
    """What stands in a payload where a value is expected."""

    MISSING = "missing key"
    NULL = "null"
    BOOLEAN = "boolean"
    NUMBER = "number"
    NON_FINITE = "NaN, infinity"
    STRING = "string"
    ARRAY = "array"
    OBJECT = "object"


class ColumnKind(StrEnum):
    """A column type without its numbers."""

    BOOLEAN = "boolean"
    TINYINT = "tinyint"
    SMALLINT = "smallint"
    INT = "int"
    BIGINT = "bigint"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    VARCHAR = "varchar"
    CHAR = "char"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    LOCAL_TIMESTAMP = "timestamp with local time zone"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


class CellOutcome(StrEnum):
    """How values of a cell fare."""

    EXACT = "exact"
    CHECKED = "checked"
    LOSSY = "lossy"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to set a column up.

    Attributes:
        label: Label as a job file says it; empty for a column that says nothing.
        policy: The policy.
        unit: Unit of times that are numbers; None for a column without one.
    """

    label: str = ""
    policy: Policy = NO_POLICY
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """What values of one kind become in columns of one type, set up in one way.

    Attributes:
        source: What stands in the payload.
        target: The column's type.
        variant: How the column is set up.
        outcome: `exact`: every value; `checked`: values that survive unchanged, the others are
            dirty; `lossy`: some become others, as the policy says; `never`: all are dirty.
        rule: What a value becomes.
        reasons: Reasons with which a value may be dirty.
        inner: Values inside may be dirty for reasons of their own.
    """

    source: JsonKind
    target: ColumnKind
    variant: Variant
    outcome: CellOutcome
    rule: str
    reasons: tuple[Why, ...] = ()
    inner: bool = False


_C, _J = ColumnKind, JsonKind
INTEGERS = (_C.TINYINT, _C.SMALLINT, _C.INT, _C.BIGINT)
FLOATS = (_C.FLOAT, _C.DOUBLE)
TIMESTAMPS = (_C.TIMESTAMP, _C.LOCAL_TIMESTAMP)
BOUNDED_TEXTS = (_C.VARCHAR, _C.CHAR)
TEXTS = (_C.STRING, *BOUNDED_TEXTS)
UNITS = ("s", "ms", "us", "ns")
BINARY_FORMATS = ("utf8", "base64", "hex")
_ZONE = "Asia/Shanghai"
_PLAIN = Variant()


def _on(key: str, value: str) -> Variant:
    return Variant(f"{key}: {value}", Policy(**{key: value}))  # type: ignore[arg-type]


_NULL_OVERFLOW, _CLAMP = _on("on_overflow", "null"), _on("on_overflow", "clamp")
_NULL_LOSSY, _TRUNCATE = _on("on_lossy", "null"), _on("on_lossy", "truncate")
_TEXT, _REPLACE = _on("on_lossy", "text"), _on("on_bad_text", "replace")
_ROUNDS = {mode: _on("on_lossy", f"round({mode})") for mode in ROUNDING_MODES}
_NULL_IMPOSSIBLE = _on("on_impossible_time", "null")
_KEEP, _NULL_NON_FINITE = _on("non_finite", "keep"), _on("non_finite", "null")
_TRIM = Variant("trim: true", Policy(trim=True))
_IN_ZONE = Variant("timezone", Policy(timezone=_ZONE))
_AS_UTF8, _AS_BASE64, _AS_HEX = (_on("format", name) for name in BINARY_FORMATS)
_WORDS = Variant("format", Policy(format="Y/N"))
_DAY_FORMAT = Variant("format", Policy(format="dd.MM.yyyy"))
_TIME_FORMAT = Variant("format with XXX", Policy(format="dd.MM.yyyy HH:mm:ss.SSSSSSSXXX"))
_LOCAL_FORMAT = Variant(
    "format, timezone", Policy(format="yyyyMMdd HHmmss.SSSSSSS", timezone=_ZONE)
)
_DAY_OF_TIME = Variant("format: iso8601, timezone", Policy(format="iso8601", timezone=_ZONE))
_UNITS = {unit: Variant(f"unit: {unit}", unit=unit) for unit in UNITS}
_DAY_UNITS = {
    unit: Variant(f"unit: {unit}, timezone", Policy(timezone=_ZONE), unit) for unit in UNITS
}

_Kinds = tuple[ColumnKind, ...]
_Row = tuple[_Kinds, JsonKind, Variant, CellOutcome, str, tuple[Why, ...]]
_ALL: _Kinds = tuple(ColumnKind)
_NUMBER_TEXT = "the number that the text is; nothing around it"
_WHOLE = (Why.NOT_INTEGRAL, Why.OVERFLOW)
_PLACES = (Why.SCALE, Why.OVERFLOW)

_BASE: tuple[_Row, ...] = (
    (_ALL, _J.MISSING, _PLAIN, CellOutcome.EXACT, "null; dirty when required", (Why.MISSING,)),
    (_ALL, _J.NULL, _PLAIN, CellOutcome.EXACT, "null; dirty when required", (Why.NULL,)),
    ((_C.BOOLEAN,), _J.BOOLEAN, _PLAIN, CellOutcome.EXACT, "itself", ()),
    ((_C.BOOLEAN,), _J.STRING, _PLAIN, CellOutcome.CHECKED, "`true` or `false`", (Why.BAD_TEXT,)),
    (
        INTEGERS,
        _J.NUMBER,
        _PLAIN,
        CellOutcome.CHECKED,
        "the number, when whole and in range",
        _WHOLE,
    ),
    (INTEGERS, _J.STRING, _PLAIN, CellOutcome.CHECKED, _NUMBER_TEXT, (Why.BAD_TEXT, *_WHOLE)),
    (
        FLOATS,
        _J.NUMBER,
        _PLAIN,
        CellOutcome.CHECKED,
        "the nearest float; from 2^53 (2^24) on only the number that it prints as",
        _PLACES,
    ),
    (FLOATS, _J.STRING, _PLAIN, CellOutcome.CHECKED, _NUMBER_TEXT, (Why.BAD_TEXT, *_PLACES)),
    ((_C.DECIMAL,), _J.NUMBER, _PLAIN, CellOutcome.CHECKED, "the digits, when they fit", _PLACES),
    ((_C.DECIMAL,), _J.STRING, _PLAIN, CellOutcome.CHECKED, _NUMBER_TEXT, (Why.BAD_TEXT, *_PLACES)),
    ((_C.STRING,), _J.STRING, _PLAIN, CellOutcome.CHECKED, "itself", (Why.ENCODING,)),
    (
        (_C.VARCHAR,),
        _J.STRING,
        _PLAIN,
        CellOutcome.CHECKED,
        "itself, when not longer",
        (Why.ENCODING, Why.TOO_LONG),
    ),
    (
        (_C.CHAR,),
        _J.STRING,
        _PLAIN,
        CellOutcome.CHECKED,
        "itself, when not longer and its blanks at the end fill it up",
        (Why.ENCODING, Why.TOO_LONG, Why.TRAILING_BLANKS),
    ),
    (
        (_C.DATE,),
        _J.STRING,
        _PLAIN,
        CellOutcome.CHECKED,
        "the day, from yyyy-MM-dd",
        (Why.BAD_TIME,),
    ),
    (
        TIMESTAMPS,
        _J.STRING,
        _PLAIN,
        CellOutcome.CHECKED,
        "the instant, from ISO 8601 with `Z` or an offset",
        (Why.BAD_TIME,),
    ),
    ((_C.ARRAY,), _J.ARRAY, _PLAIN, CellOutcome.CHECKED, "each item by its type", ()),
    (
        (_C.MAP,),
        _J.OBJECT,
        _PLAIN,
        CellOutcome.CHECKED,
        "each key and value by its type",
        (Why.DUPLICATE_KEY,),
    ),
    (
        (_C.MAP,),
        _J.ARRAY,
        _PLAIN,
        CellOutcome.CHECKED,
        "each entry, `[key, value]` or an object of `key` and `value`, by its types",
        (Why.WRONG_TYPE, Why.DUPLICATE_KEY),
    ),
    (
        (_C.STRUCT,),
        _J.OBJECT,
        _PLAIN,
        CellOutcome.CHECKED,
        "each field by its type; other keys are ignored",
        (Why.DUPLICATE_KEY,),
    ),
)


def _numbers_by_policy() -> Iterator[_Row]:
    exact: tuple[tuple[_Kinds, tuple[Why, ...], Why], ...] = (
        (INTEGERS, _WHOLE, Why.NOT_INTEGRAL),
        ((_C.DECIMAL,), _PLACES, Why.SCALE),
        (FLOATS, _PLACES, Why.SCALE),
    )
    for kinds, reasons, lossy in exact:
        modes = ("half_even",) if kinds == FLOATS else tuple(ROUNDING_MODES)
        after_lossy = (Why.OVERFLOW,)
        # A float that would print as another number is an overflow by its code. So is an exponent
        # of more than 18 digits, with which it is unknown which way a number is off.
        after_overflow = (lossy, Why.OVERFLOW)
        for source in (_J.NUMBER, _J.STRING):
            text = (Why.BAD_TEXT,) if source is _J.STRING else ()
            rows: list[tuple[Variant, str, tuple[Why, ...]]] = [
                (_NULL_OVERFLOW, "null when out of range", after_overflow),
                (_CLAMP, "the nearest end of the range when beyond it", after_overflow),
                (_NULL_LOSSY, "null when digits would be lost", after_lossy),
                *((_ROUNDS[mode], f"rounded, {mode}", after_lossy) for mode in modes),
            ]
            if kinds != FLOATS:
                rows.append((_TRUNCATE, "digits beyond the type dropped", after_lossy))
            for variant, rule, left in rows:
                yield kinds, source, variant, CellOutcome.LOSSY, rule, (*text, *left)
        yield (
            kinds,
            _J.STRING,
            _TRIM,
            CellOutcome.CHECKED,
            f"{_NUMBER_TEXT} but blanks",
            (Why.BAD_TEXT, *reasons),
        )
    for source in (_J.NON_FINITE, _J.STRING):
        left = (Why.BAD_TEXT, *_PLACES) if source is _J.STRING else ()
        yield (
            FLOATS,
            source,
            _KEEP,
            CellOutcome.EXACT if not left else CellOutcome.CHECKED,
            "itself",
            left,
        )
        yield (
            FLOATS,
            source,
            _NULL_NON_FINITE,
            CellOutcome.LOSSY,
            "null for NaN and infinities",
            left,
        )


def _texts_by_policy() -> Iterator[_Row]:
    whole = (Why.ENCODING, Why.DUPLICATE_KEY)
    too_long = {_C.STRING: (), _C.VARCHAR: (Why.TOO_LONG,)}
    too_long[_C.CHAR] = (Why.TOO_LONG, Why.TRAILING_BLANKS)
    for kind in TEXTS:
        left = too_long[kind]
        for source in (_J.BOOLEAN, _J.NUMBER):
            yield (kind,), source, _TEXT, CellOutcome.LOSSY, "its JSON text, digit by digit", left
        for source in (_J.ARRAY, _J.OBJECT):
            rule = "its JSON text without blanks, numbers digit by digit"
            yield (kind,), source, _TEXT, CellOutcome.LOSSY, rule, (Why.WRONG_TYPE, *whole, *left)
        yield (kind,), _J.STRING, _TEXT, CellOutcome.CHECKED, "itself", (Why.ENCODING, *left)
        rule = "itself, with U+FFFD for what no text holds"
        yield (kind,), _J.STRING, _REPLACE, CellOutcome.LOSSY, rule, left
    for kind in BOUNDED_TEXTS:
        cut = (
            "its first characters" if kind is _C.VARCHAR else "its first characters, no end blanks"
        )
        yield (kind,), _J.STRING, _TRUNCATE, CellOutcome.LOSSY, cut, (Why.ENCODING,)
        rule = "null when it does not fit"
        yield (kind,), _J.STRING, _NULL_LOSSY, CellOutcome.LOSSY, rule, (Why.ENCODING,)
    boolean, bad = (_C.BOOLEAN,), (Why.BAD_TEXT,)
    yield (
        boolean,
        _J.STRING,
        _TRIM,
        CellOutcome.CHECKED,
        "`true` or `false`, without the blanks",
        bad,
    )
    yield boolean, _J.STRING, _WORDS, CellOutcome.CHECKED, "which of the two words it is", bad
    binary = (_C.BINARY,)
    yield (
        binary,
        _J.STRING,
        _AS_UTF8,
        CellOutcome.CHECKED,
        "its bytes as they came",
        (Why.ENCODING,),
    )
    for variant, rule in ((_AS_BASE64, "the bytes, RFC 4648"), (_AS_HEX, "the bytes")):
        yield binary, _J.STRING, variant, CellOutcome.CHECKED, rule, (Why.BAD_TEXT,)


def _times_by_policy() -> Iterator[_Row]:
    day, bad = (_C.DATE,), (Why.BAD_TIME,)
    yield day, _J.STRING, _TRIM, CellOutcome.CHECKED, "the day; blanks around it are no fault", bad
    yield day, _J.STRING, _DAY_FORMAT, CellOutcome.CHECKED, "the day, from text of that shape", bad
    rule = "the day of that instant in the zone"
    yield day, _J.STRING, _DAY_OF_TIME, CellOutcome.CHECKED, rule, bad
    for kinds, units in ((day, _DAY_UNITS), (TIMESTAMPS, _UNITS)):
        for variant in units.values():
            reasons = (Why.SCALE, Why.BAD_TIME)
            what = rule if kinds == day else "so many units since 1970-01-01T00:00:00Z"
            yield kinds, _J.NUMBER, variant, CellOutcome.CHECKED, what, reasons
            yield kinds, _J.STRING, variant, CellOutcome.CHECKED, what, (Why.BAD_TEXT, *reasons)
    rows: list[tuple[Variant, CellOutcome, str]] = [
        (_TRIM, CellOutcome.CHECKED, "the instant; blanks around it are no fault"),
        (_TIME_FORMAT, CellOutcome.CHECKED, "the instant, from text of that shape"),
        (_LOCAL_FORMAT, CellOutcome.CHECKED, "the instant of that time in the zone"),
        (_IN_ZONE, CellOutcome.CHECKED, "the instant; without an offset, of that time in the zone"),
        (_NULL_LOSSY, CellOutcome.LOSSY, "null when finer than a microsecond"),
        (_TRUNCATE, CellOutcome.LOSSY, "the microsecond that it lies in"),
        *(
            (variant, CellOutcome.LOSSY, f"rounded to a microsecond, {mode}, later being up")
            for mode, variant in _ROUNDS.items()
        ),
    ]
    for variant, outcome, what in rows:
        yield TIMESTAMPS, _J.STRING, variant, outcome, what, bad
    impossible = "null for infinity, a day that no calendar has, a year outside of 0001 to 9999"
    yield (*day, *TIMESTAMPS), _J.STRING, _NULL_IMPOSSIBLE, CellOutcome.LOSSY, impossible, bad
    yield TIMESTAMPS, _J.STRING, _impossible(_IN_ZONE), CellOutcome.LOSSY, impossible, bad
    impossible = "null outside of the years 0001 to 9999"
    for kinds, of in ((day, _DAY_UNITS["ms"]), (TIMESTAMPS, _UNITS["ms"])):
        for source, left in ((_J.NUMBER, ()), (_J.STRING, (Why.BAD_TEXT,))):
            reasons = (*left, Why.SCALE)
            yield kinds, source, _impossible(of), CellOutcome.LOSSY, impossible, reasons


def _impossible(of: Variant) -> Variant:
    policy = replace(of.policy, on_impossible_time="null")
    return Variant(f"{_NULL_IMPOSSIBLE.label}, {of.label}", policy, of.unit)


def _cells() -> Iterator[Cell]:
    rows = (*_BASE, *_numbers_by_policy(), *_texts_by_policy(), *_times_by_policy())
    nested = (_C.ARRAY, _C.MAP, _C.STRUCT)
    listed = set()
    for targets, source, variant, outcome, rule, reasons in rows:
        for target in targets:
            listed.add((source, target, variant.label))
            inner = target in nested and outcome is CellOutcome.CHECKED
            yield Cell(source, target, variant, outcome, rule, reasons, inner)
    for target in ColumnKind:
        for source in JsonKind:
            if (source, target, "") not in listed:
                rule = "no such column: `format` is needed" if target is _C.BINARY else "dirty"
                yield Cell(source, target, _PLAIN, CellOutcome.NEVER, rule, (Why.WRONG_TYPE,))


MATRIX: tuple[Cell, ...] = tuple(_cells())
"""Every cell, the plain ones of all pairs among them; a policy has the cells that it changes."""


def kind_of_type(data_type: DataType) -> ColumnKind:
    """The kind of a column type."""
    match data_type:
        case IntegerType(bits):
            return dict(zip((8, 16, 32, 64), INTEGERS, strict=True))[bits]
        case FloatType(bits):
            return _C.FLOAT if bits == 32 else _C.DOUBLE  # noqa: PLR2004 - bits
        case _:
            return _KINDS[type(data_type)]


_KINDS: dict[type, ColumnKind] = {
    BooleanType: _C.BOOLEAN,
    DecimalType: _C.DECIMAL,
    StringType: _C.STRING,
    VarcharType: _C.VARCHAR,
    CharType: _C.CHAR,
    BinaryType: _C.BINARY,
    DateType: _C.DATE,
    TimestampType: _C.TIMESTAMP,
    LocalTimestampType: _C.LOCAL_TIMESTAMP,
    ListType: _C.ARRAY,
    MapType: _C.MAP,
    StructType: _C.STRUCT,
}


@cache
def accepted_kinds(target: ColumnKind, policy: Policy, unit: str | None) -> frozenset[JsonKind]:
    """Kinds of values, null and missing apart, of which some become values of a column.

    Called once a column, when a decoder is made.
    """
    active = {*policy.settings(), *([("unit", unit)] if unit else [])}
    found = set()
    for cell in MATRIX:
        if cell.target is target and cell.outcome is not CellOutcome.NEVER:
            wanted = _settings(cell.variant)
            if all(
                (key, value) in active or _is_free(key, target, active) for key, value in wanted
            ):
                found.add(cell.source)
    if unit and target in TIMESTAMPS:
        # With a unit texts are numbers too; without one they are times.
        found &= {_J.NUMBER, _J.STRING}
    return frozenset(found - {_J.MISSING, _J.NULL})


def _settings(variant: Variant) -> tuple[tuple[str, str], ...]:
    unit = (("unit", variant.unit),) if variant.unit else ()
    return (*variant.policy.settings(), *unit)


def _is_free(key: str, target: ColumnKind, active: set[tuple[str, str]]) -> bool:
    """Whether any value of a key will do, and one is given: the matrix has examples."""
    free = key == "timezone" or (key == "format" and target is not _C.BINARY)
    return free and any(name == key for name, _ in active)


@cache
def accepted_settings(target: ColumnKind) -> frozenset[tuple[str, str]]:
    """Job-file keys and values that change something for a type.

    The value is empty where it is free: `format` of times, `timezone`.
    """
    found = set()
    for cell in MATRIX:
        if cell.target is target:
            for key, value in _settings(cell.variant):
                found.add((key, "" if _is_free(key, target, {(key, value)}) else value))
    return frozenset(found)
