"""The conversion matrices of Avro and Protobuf, made from JSON's and from what JSON has not.

Data only. A kind of values that JSON has too, such as a whole number, becomes what JSON's becomes,
under the same policies. Here stands what is different, and what kinds a format has.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

from sluiceway.types.dirty import DirtyReason as Why
from sluiceway.types.matrix import (
    FLOATS,
    INTEGERS,
    MATRIX,
    TEXTS,
    TIMESTAMPS,
    UNITS,
    Cell,
    CellOutcome,
    ColumnKind,
    JsonKind,
    Variant,
)
from sluiceway.types.policy import ROUNDING_MODES, Policy


class TypedKind(StrEnum):
    """Kinds of values that JSON has none of."""

    BYTES = "bytes"
    DAY = "day"
    INSTANT = "instant"
    LOCAL_TIME = "local time"
    TIME_OF_DAY = "time of day"


class AvroKind(StrEnum):
    """What stands in an Avro payload where a value is expected; a union is its branch."""

    MISSING = "no such field"
    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    NON_FINITE = "NaN, infinity"
    STRING = "string"
    ENUM = "enum"
    UUID = "uuid"
    BYTES = "bytes"
    FIXED = "fixed"
    ARRAY = "array"
    MAP = "map"
    RECORD = "record"
    DECIMAL = "decimal"
    DATE = "date"
    TIME = "time-millis, time-micros"
    TIMESTAMP = "timestamp-millis, timestamp-micros"
    TIMESTAMP_NANOS = "timestamp-nanos"
    LOCAL_TIMESTAMP = "local-timestamp-millis, local-timestamp-micros"
    LOCAL_TIMESTAMP_NANOS = "local-timestamp-nanos"


class ProtobufKind(StrEnum):
    """What stands in a Protobuf payload where a value is expected."""

    MISSING = "not set"
    BOOL = "bool"
    INT32 = "int32, sint32, sfixed32"
    UINT32 = "uint32, fixed32"
    INT64 = "int64, sint64, sfixed64"
    UINT64 = "uint64, fixed64"
    FLOAT = "float"
    DOUBLE = "double"
    NON_FINITE = "NaN, infinity"
    STRING = "string"
    ENUM = "enum"
    BYTES = "bytes"
    REPEATED = "repeated"
    MAP = "map"
    MESSAGE = "message"
    TIMESTAMP = "google.protobuf.Timestamp"
    DURATION = "google.protobuf.Duration"


@dataclass(frozen=True, slots=True)
class Carrier:
    """What a format's kind is like.

    Attributes:
        kind: A kind of JSON, or a kind that JSON lacks.
        bits: Bits of a whole number, its sign among them; 0 for other kinds.
        float_bits: Bits of a float; 0 for other kinds.
        fine: A time that may be finer than a microsecond.
    """

    kind: JsonKind | TypedKind
    bits: int = 0
    float_bits: int = 0
    fine: bool = False


@dataclass(frozen=True, slots=True)
class FormatCell:
    """What values of a format's kind become in columns of one type; as `matrix.Cell`."""

    source: StrEnum
    target: ColumnKind
    variant: Variant
    outcome: CellOutcome
    rule: str
    reasons: tuple[Why, ...] = ()
    inner: bool = False


_C, _J, _T, _A, _P = ColumnKind, JsonKind, TypedKind, AvroKind, ProtobufKind
AVRO_CARRIERS: Mapping[StrEnum, Carrier] = {
    _A.MISSING: Carrier(_J.MISSING),
    _A.NULL: Carrier(_J.NULL),
    _A.BOOLEAN: Carrier(_J.BOOLEAN),
    _A.INT: Carrier(_J.NUMBER, bits=32),
    _A.LONG: Carrier(_J.NUMBER, bits=64),
    _A.FLOAT: Carrier(_J.NUMBER, float_bits=32),
    _A.DOUBLE: Carrier(_J.NUMBER, float_bits=64),
    _A.NON_FINITE: Carrier(_J.NON_FINITE),
    _A.STRING: Carrier(_J.STRING),
    _A.ENUM: Carrier(_J.STRING),
    _A.UUID: Carrier(_J.STRING),
    _A.BYTES: Carrier(_T.BYTES),
    _A.FIXED: Carrier(_T.BYTES),
    _A.ARRAY: Carrier(_J.ARRAY),
    _A.MAP: Carrier(_J.OBJECT),
    _A.RECORD: Carrier(_J.OBJECT),
    _A.DECIMAL: Carrier(_J.NUMBER),
    _A.DATE: Carrier(_T.DAY),
    _A.TIME: Carrier(_T.TIME_OF_DAY),
    _A.TIMESTAMP: Carrier(_T.INSTANT),
    _A.TIMESTAMP_NANOS: Carrier(_T.INSTANT, fine=True),
    _A.LOCAL_TIMESTAMP: Carrier(_T.LOCAL_TIME),
    _A.LOCAL_TIMESTAMP_NANOS: Carrier(_T.LOCAL_TIME, fine=True),
}
PROTOBUF_CARRIERS: Mapping[StrEnum, Carrier] = {
    _P.MISSING: Carrier(_J.MISSING),
    _P.BOOL: Carrier(_J.BOOLEAN),
    _P.INT32: Carrier(_J.NUMBER, bits=32),
    _P.UINT32: Carrier(_J.NUMBER, bits=33),
    _P.INT64: Carrier(_J.NUMBER, bits=64),
    _P.UINT64: Carrier(_J.NUMBER, bits=65),
    _P.FLOAT: Carrier(_J.NUMBER, float_bits=32),
    _P.DOUBLE: Carrier(_J.NUMBER, float_bits=64),
    _P.NON_FINITE: Carrier(_J.NON_FINITE),
    _P.STRING: Carrier(_J.STRING),
    _P.ENUM: Carrier(_J.STRING),
    _P.BYTES: Carrier(_T.BYTES),
    _P.REPEATED: Carrier(_J.ARRAY),
    _P.MAP: Carrier(_J.OBJECT),
    _P.MESSAGE: Carrier(_J.OBJECT),
    _P.TIMESTAMP: Carrier(_T.INSTANT, fine=True),
    _P.DURATION: Carrier(_J.NUMBER),
}

_ZONE = "Asia/Shanghai"
_PLAIN = Variant()
_TEXT = Variant("on_lossy: text", Policy(on_lossy="text"))
_IN_ZONE = Variant("timezone", Policy(timezone=_ZONE))
_OF_TEXTS = Variant("format, timezone", Policy(format="yyyyMMdd HHmmss.SSSSSSS", timezone=_ZONE))
_NULL_LOSSY = Variant("on_lossy: null", Policy(on_lossy="null"))
_NULL_IMPOSSIBLE = Variant("on_impossible_time: null", Policy(on_impossible_time="null"))
_NULL_IMPOSSIBLE_IN_ZONE = Variant(
    "on_impossible_time: null, timezone", Policy(on_impossible_time="null", timezone=_ZONE)
)
_NULL_IMPOSSIBLE_DAY = Variant(
    "on_impossible_time: null, unit: ms, timezone", _NULL_IMPOSSIBLE_IN_ZONE.policy, "ms"
)
_FINER = (
    (_NULL_LOSSY, "null when finer than a microsecond"),
    (Variant("on_lossy: truncate", Policy(on_lossy="truncate")), "the microsecond it lies in"),
    *(
        (
            Variant(f"on_lossy: round({mode})", Policy(on_lossy=f"round({mode})")),
            f"rounded to a microsecond, {mode}, later being up",
        )
        for mode in ROUNDING_MODES
    ),
)
_OF_DAYS = (
    Variant("format: iso8601, timezone", Policy(format="iso8601", timezone=_ZONE)),
    *(Variant(f"unit: {unit}, timezone", Policy(timezone=_ZONE), unit) for unit in UNITS),
)
_INTEGER_BITS = dict(zip(INTEGERS, (8, 16, 32, 64), strict=True))
_DOUBLE_DIGIT_BITS = 53
_TYPED_TIMES = (_T.DAY, _T.INSTANT, _T.LOCAL_TIME, _T.TIME_OF_DAY)

_Row = tuple[tuple[ColumnKind, ...], TypedKind, Variant, CellOutcome, str, tuple[Why, ...]]


def _typed_rows() -> Iterator[_Row]:
    checked, lossy, bad = CellOutcome.CHECKED, CellOutcome.LOSSY, (Why.BAD_TIME,)
    yield (_C.BINARY,), _T.BYTES, _PLAIN, CellOutcome.EXACT, "itself", ()
    yield (_C.DATE,), _T.DAY, _PLAIN, checked, "the day", bad
    yield TIMESTAMPS, _T.INSTANT, _PLAIN, checked, "the instant", (Why.SCALE, *bad)
    for variant, rule in _FINER:
        yield TIMESTAMPS, _T.INSTANT, variant, lossy, rule, bad
    impossible = "null outside of the years 0001 to 9999"
    yield (_C.DATE,), _T.DAY, _NULL_IMPOSSIBLE, lossy, impossible, ()
    yield TIMESTAMPS, _T.INSTANT, _NULL_IMPOSSIBLE, lossy, impossible, (Why.SCALE,)
    yield (_C.DATE,), _T.INSTANT, _NULL_IMPOSSIBLE_DAY, lossy, impossible, ()
    reasons = (Why.SCALE, *bad)
    yield TIMESTAMPS, _T.LOCAL_TIME, _NULL_IMPOSSIBLE_IN_ZONE, lossy, impossible, reasons
    for variant in _OF_DAYS:
        rule = "the day of that instant in the zone"
        yield (_C.DATE,), _T.INSTANT, variant, checked, rule, bad
    rule = "the instant of that time in the zone"
    for variant in (_IN_ZONE, _OF_TEXTS):
        yield TIMESTAMPS, _T.LOCAL_TIME, variant, checked, rule, (Why.SCALE, *bad)
    ends = {_C.STRING: (), _C.VARCHAR: (Why.TOO_LONG,), _C.CHAR: (Why.TOO_LONG,)}
    for source in _TYPED_TIMES:
        for target in TEXTS:
            rule = "its text in ISO 8601, no digit more than it has"
            yield (target,), source, _TEXT, lossy, rule, (*bad, *ends[target])


TYPED_CELLS: tuple[FormatCell, ...] = tuple(
    FormatCell(source, target, variant, outcome, rule, reasons)
    for targets, source, variant, outcome, rule, reasons in _typed_rows()
    for target in targets
)
"""What becomes of values that JSON has not, where something does."""


_CARRIED: tuple[Cell | FormatCell, ...] = (*MATRIX, *TYPED_CELLS)


def _cells(carriers: Mapping[StrEnum, Carrier]) -> Iterator[FormatCell]:
    for source, carrier in carriers.items():
        plain = set()
        for cell in _CARRIED:
            if cell.source is not carrier.kind or _is_float_cell(carrier, cell):
                continue
            made = _refined(carrier, cell)
            if made is not None:
                plain |= {cell.target} if not cell.variant.label else set()
                yield replace(made, source=source)
        for made in _float_cells(carrier):
            plain |= {made.target} if not made.variant.label else set()
            yield replace(made, source=source)
        for target in ColumnKind:
            if target not in plain:
                yield FormatCell(
                    source, target, _PLAIN, CellOutcome.NEVER, "dirty", (Why.WRONG_TYPE,)
                )


def _is_float_cell(carrier: Carrier, cell: Cell | FormatCell) -> bool:
    return bool(carrier.float_bits) and cell.target in FLOATS


def _refined(carrier: Carrier, cell: Cell | FormatCell) -> FormatCell | None:
    """The cell of a kind with fewer values than its carrier; None when there is no such cell."""
    made = FormatCell(
        cell.source,
        cell.target,
        cell.variant,
        cell.outcome,
        "dirty" if cell.outcome is CellOutcome.NEVER else cell.rule,
        cell.reasons,
        cell.inner,
    )
    if isinstance(carrier.kind, TypedKind) and not carrier.fine:
        if cell.target in TIMESTAMPS and "on_lossy" in dict(cell.variant.policy.settings()):
            return None
        return replace(made, reasons=_without(made, Why.SCALE))
    return _of_integer(carrier.bits, made) if carrier.bits else made


def _of_integer(bits: int, cell: FormatCell) -> FormatCell | None:
    room = _INTEGER_BITS.get(cell.target, 0)
    room = _DOUBLE_DIGIT_BITS if cell.target is _C.DOUBLE else room
    if room >= bits:
        return None if cell.variant.label else replace(cell, outcome=CellOutcome.EXACT, reasons=())
    settings = dict(cell.variant.policy.settings())
    if cell.target in (*INTEGERS, _C.DECIMAL):
        if "on_lossy" in settings:
            return None
        return replace(cell, reasons=_without(cell, Why.NOT_INTEGRAL, Why.SCALE))
    return cell


def _without(cell: FormatCell, *reasons: Why) -> tuple[Why, ...]:
    return tuple(reason for reason in cell.reasons if reason not in reasons)


def _float_cells(carrier: Carrier) -> Iterator[FormatCell]:
    """Floats in columns of floats: these are the numbers that they are, to the bit."""
    if not carrier.float_bits:
        return
    yield FormatCell(_J.NUMBER, _C.DOUBLE, _PLAIN, CellOutcome.EXACT, "itself")
    if carrier.float_bits == 32:  # noqa: PLR2004 - bits
        yield FormatCell(_J.NUMBER, _C.FLOAT, _PLAIN, CellOutcome.EXACT, "itself")
        return
    rows = (
        (_PLAIN, CellOutcome.CHECKED, "itself, when 32 bits hold it", (Why.SCALE, Why.OVERFLOW)),
        (
            Variant("on_overflow: null", Policy(on_overflow="null")),
            CellOutcome.LOSSY,
            "null when out of range",
            (Why.SCALE,),
        ),
        (
            Variant("on_overflow: clamp", Policy(on_overflow="clamp")),
            CellOutcome.LOSSY,
            "the nearest end of the range when beyond it",
            (Why.SCALE,),
        ),
        (_NULL_LOSSY, CellOutcome.LOSSY, "null when digits would be lost", (Why.OVERFLOW,)),
        (
            Variant("on_lossy: round(half_even)", Policy(on_lossy="round(half_even)")),
            CellOutcome.LOSSY,
            "the nearest float",
            (Why.OVERFLOW,),
        ),
    )
    for variant, outcome, rule, reasons in rows:
        yield FormatCell(_J.NUMBER, _C.FLOAT, variant, outcome, rule, reasons)


AVRO_MATRIX: tuple[FormatCell, ...] = tuple(_cells(AVRO_CARRIERS))
"""Every cell of Avro."""
PROTOBUF_MATRIX: tuple[FormatCell, ...] = tuple(_cells(PROTOBUF_CARRIERS))
"""Every cell of Protobuf."""


@cache
def accepted_typed_kinds(target: ColumnKind, policy: Policy) -> frozenset[TypedKind]:
    """Kinds that JSON has not, of which some values become values of a column.

    Called once a column, when a decoder is made.
    """
    found = set()
    for cell in TYPED_CELLS:
        needs = cell.variant.policy
        if (
            cell.target is target
            and isinstance(cell.source, TypedKind)
            and (needs.timezone is None or policy.timezone is not None)
            and (needs.on_lossy != "text" or policy.on_lossy == "text")
        ):
            found.add(cell.source)
    return frozenset(found)
