"""Values of kinds that Avro and Protobuf share, from a seed and aimed at a column."""

import math
import struct
import uuid
from typing import Any

from .model import Column, NonFinite, Num, Obj
from .numbers import read_number
from .type_text import split_type
from .typed_model import FIRST_DAY, LAST_DAY, Flt, Moment
from .vectors import DAYS, NOT_NUMBERS, TEXTS, Vectors

SYMBOLS = ("RED", "green", "7", "12.5", "2026-11-20", "2026-11-20T08:00:00Z", "ab ", "", "00ff")
FLOATS = (
    *(0.0, -0.0, 0.1, 0.5, 1.0, -1.5, 2.5, 12.0, 12.5, 300.0, 1e22, 1e23, 1e300, -1e300),
    *(2.0**31, 2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 16777216.0, 16777217.0, 1e-300, 5e-324),
    *(3.4028234663852886e38, 3.4028235677973366e38, 3.5e38, 1.401298464324817e-45, 1e-46, 0.125),
    *(1795161600.0, 1795161600.5, 1795161600123.0, 1e15, 9e15, 99999.999, 999.995),
)
_DECIMAL_PLACES = 30


def integer(made: Vectors, column: Column, low: int, high: int) -> Num:
    """A whole number between two ends, both included."""
    pick = made.random
    draw = pick.random()
    if draw < 0.3:
        number = pick.choice((low, low + 1, high - 1, high, 0, -1, 1, 127, 128, -129, 32_768))
    elif draw < 0.5:
        number = 2 ** pick.randrange(1, 64) + pick.randrange(-2, 3)
    elif column.unit is not None and draw < 0.8:
        number = int(float(made._instant_number(column.unit, 0.0)))
    else:
        number = pick.randrange(-(10 ** pick.randrange(1, 19)), 10 ** pick.randrange(1, 19))
    number = number if pick.random() < 0.6 else -number
    return Num(str(min(max(number, low), high)))


def floating(made: Vectors, bits: int) -> Flt:
    """A finite float."""
    pick = made.random
    if pick.random() < 0.5:
        number = pick.choice(FLOATS)
    elif pick.random() < 0.5:
        number = float(pick.randrange(-(10**6), 10**6)) / pick.choice((1, 2, 4, 10, 1000))
    else:
        number = struct.unpack("<d", pick.randbytes(8))[0]
    if bits == 32:
        try:
            number = struct.unpack("<f", struct.pack("<f", number))[0]
        except OverflowError:
            number = 0.5
    return Flt(number if math.isfinite(number) else 1.25, bits)


def non_finite(made: Vectors) -> Flt:
    """NaN or an infinity."""
    return Flt(made.random.choice((math.nan, math.inf, -math.inf)), 64)


def text(made: Vectors, column: Column, oddness: float) -> str:
    """A text for the column, or an odd one."""
    pick = made.random
    name, numbers, _ = split_type(column.hive)
    draw = pick.random()
    if draw < oddness * 0.4:
        return pick.choice((*TEXTS, *NOT_NUMBERS, *DAYS)).replace("\ud800", "\udc80")
    match name:
        case "string" | "varchar" | "char":
            found = made._text(numbers[0] if numbers else 6, oddness)
        case "binary":
            found = made._bytes(str(column.policy.get("format")), oddness)
        case "date" | "timestamp" | "timestamp with local time zone":
            shape = column.policy.get("format") or ""
            found = made._time(name, column.unit, shape, oddness)
        case "boolean" | "array" | "map" | "struct":
            found = pick.choice(("true", "[1]", "{}", "a"))
        case _:
            found = made._quoted(made._number(column.hive, oddness), oddness)
    if pick.random() < 0.05 and isinstance(column.policy.get("non_finite"), str):
        found = pick.choice(("NaN", "-Infinity", "Inf"))
    return str(found).replace("\ud800", "\udc80")


def uuid_text(made: Vectors) -> str:
    """A UUID."""
    return str(uuid.UUID(bytes=made.random.randbytes(16)))


def some_bytes(made: Vectors) -> bytes:
    """A few bytes."""
    return made.random.randbytes(made.random.randrange(9))


def day(made: Vectors, oddness: float) -> Moment:
    """A day that can be held in an int."""
    pick = made.random
    if pick.random() < oddness:
        ends = (FIRST_DAY - 1, FIRST_DAY, LAST_DAY, LAST_DAY + 1, 2**31 - 1, -(2**31), 0, -1)
        return Moment("day", pick.choice(ends))
    return Moment("day", pick.randrange(FIRST_DAY, LAST_DAY + 1))


def moment(made: Vectors, kind: str, step_ns: int, oddness: float) -> Moment:
    """An instant or a local time in whole steps that fit a long."""
    pick = made.random
    least, most = -(2**63) * step_ns, (2**63 - 1) * step_ns
    first, end = FIRST_DAY * 86_400 * 10**9, (LAST_DAY + 1) * 86_400 * 10**9
    draw = pick.random()
    if draw < oddness * 0.4:
        number = pick.choice((first, end, first - step_ns, end - step_ns, 0, -step_ns, least, most))
    elif draw < oddness * 0.6:
        # Shanghai's clocks show one of these times twice and the other never.
        number = pick.choice((684_898_200, 671_596_200)) * 10**9
    else:
        number = pick.randrange(-(10**18), 4 * 10**18)
    number = min(max(number, least), most) // step_ns * step_ns
    fine = number + pick.choice((0, 0, 1, 500, 499, 501, 999)) * step_ns
    return Moment(kind, min(max(fine, least), most))


def clock(made: Vectors, step_ns: int, oddness: float) -> Moment:
    """A time of day."""
    pick = made.random
    end = 86_400 * 10**9
    number = pick.randrange(end) // step_ns * step_ns
    if pick.random() < oddness * 0.3:
        number = pick.choice((0, end - step_ns, end, -step_ns))
    return Moment("clock", number)


def decimal_text(made: Vectors, column: Column, oddness: float) -> tuple[int, int, Num]:
    """Unscaled number, scale, and the number as text."""
    pick = made.random
    name, numbers, _ = split_type(column.hive)
    room = numbers[1] if name == "decimal" else 6
    scale = pick.randrange(room + 1 + 3 * (pick.random() < oddness))
    digits = pick.randrange(1, 41 if pick.random() < oddness else 12)
    unscaled = pick.choice((10**digits - 1, 10 ** (digits - 1), pick.randrange(10**digits), 0))
    unscaled = unscaled * 10 ** pick.randrange(3) if pick.random() < 0.3 else unscaled
    unscaled = unscaled if pick.random() < 0.5 else -unscaled
    return unscaled, scale, Num(spelt(unscaled, scale))


def spelt(unscaled: int, scale: int) -> str:
    """A decimal's text, with all its places."""
    body = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, places = (body[:-scale], body[-scale:]) if scale else (body, "")
    return f"{'-' if unscaled < 0 else ''}{whole}{'.' if places else ''}{places}"


def nested(made: Vectors, column: Column, oddness: float, kind: type) -> Any:
    """A list or an object for the column, of values that every format can hold."""
    for _ in range(20):
        value = made.value(column.hive, None, "", oddness)
        if type(value) is kind:
            return plain(value)
    if kind is list:
        return [Num("7"), None, "a"][: made.random.randrange(4)]
    return Obj((key, made.random.choice((Num("7"), "a", None))) for key in ("a", "x"))


def plain(value: Any) -> Any:
    """A value without what only JSON has: numbers are those of longs and of wide decimals."""
    if isinstance(value, Num):
        return _plain_number(value)
    if isinstance(value, NonFinite):
        return "NaN"
    if isinstance(value, Obj):
        return Obj((key.replace("\ud800", "?"), plain(item)) for key, item in value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.replace("\ud800", "\udc80") if isinstance(value, str) else value


def _plain_number(value: Num) -> Num:

    number = read_number(value)
    if number is None or number.magnitude > 60 or number.power < -_DECIMAL_PLACES:
        return Num("5")
    if number.is_whole and number.magnitude < 19:
        whole = number.digits * 10**number.power
        return Num(str(-whole if number.negative else whole))
    unscaled = number.digits * 10 ** (number.power + _DECIMAL_PLACES)
    return Num(spelt(-unscaled if number.negative else unscaled, _DECIMAL_PLACES))
