"""What each JSON value has to become in each column, or the reason why it may not."""

import base64
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from .model import ABSENT, LONE, RAW_HIGH, RAW_LOW, Column, NonFinite, Num, Obj
from .numbers import Exact, greatest, nearest_float, read_number, round_to
from .times import BadTimeError, ImpossibleError, day_in_zone, instant_us, read_written
from .type_text import split_type

BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
ARROW = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "varchar": pa.string(),
    "char": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp with local time zone": pa.timestamp("us"),
}
# Beyond so many digits before the point a number is too great, whatever follows the point.
LOOKED_AT = 60
_NON_FINITE = re.compile(r"([+-]?)(NaN|Inf|Infinity)")
_UNIT_PLACES = {"s": 6, "ms": 3, "us": 0, "ns": -3}
_EARLIER_LATER = {"truncate": "floor", "down": "floor", "up": "ceiling"}


class DirtyError(Exception):
    """The value may not become one of the column's.

    Args:
        reason: Code of the documentation.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = ""

    def under(self, step: str) -> "DirtyError":
        """Put a step before the path."""
        dot = "" if not self.path or self.path.startswith("[") else "."
        self.path = step + dot + self.path
        return self


@dataclass(frozen=True, slots=True)
class Rule:
    """A column's Arrow type, and what a value that is not null becomes: a value or None."""

    arrow: pa.DataType
    convert: Callable[[Any], Any]


def column_rule(column: Column) -> Rule:
    """The rule of a column."""
    return _rule(column.hive, column.policy, column.unit)


def outcome(rule: Rule, column: Column, value: Any) -> tuple[Any, str, str]:
    """What a value becomes: the value itself, or None with reason and path of the fault."""
    if value is None or value is ABSENT:
        reason = "missing" if value is ABSENT else "null"
        return (None, reason, "v") if column.required else (None, "", "")
    if not takes_bad_text(column) and holds_bad_text(value):
        return None, "encoding", ""
    try:
        found = rule.convert(value)
    except DirtyError as error:
        error.under("v")
        return None, error.reason, error.path
    return (None, "null", "v") if found is None and column.required else (found, "", "")


def takes_bad_text(column: Column) -> bool:
    """Whether a column decides itself about text that is no UTF-8."""
    return column.policy.get("on_bad_text") == "replace" or (
        column.policy.get("format") == "utf8" and "binary" in column.hive
    )


def holds_bad_text(value: Any) -> bool:
    """Without such a column the payload as a whole has to be UTF-8."""
    if isinstance(value, Num | NonFinite):
        return False
    if isinstance(value, str):
        return any("\ud800" <= char <= "\udfff" for char in value)
    if isinstance(value, Obj | list | tuple):
        return any(map(holds_bad_text, value))
    return False


def _rule(hive: str, policy: dict[str, Any], unit: str | None) -> Rule:
    name, numbers, inner = split_type(hive)
    match name:
        case "array":
            return _array(_rule(inner[0][1], policy, unit))
        case "map":
            return _map(_rule(inner[0][1], {}, None), _rule(inner[1][1], policy, unit))
        case "struct":
            return _struct({field: _rule(of, policy, unit) for field, of in inner})
        case "date" | "timestamp" | "timestamp with local time zone":
            return Rule(ARROW[name], _time(name, policy, unit))
        case "decimal":
            precision, scale = numbers
            read = _number(lambda text: _decimal(text, precision, scale, policy), policy)
            return Rule(pa.decimal128(precision, scale), read)
        case _:
            return Rule(ARROW[name], _plain(name, numbers, policy))


def _plain(name: str, numbers: tuple[int, ...], policy: dict[str, Any]) -> Callable[[Any], Any]:
    match name:
        case "tinyint" | "smallint" | "int" | "bigint":
            return _number(lambda text: _integer(text, BITS[name], policy), policy)
        case "float" | "double":
            return _floating(32 if name == "float" else 64, policy)
        case "boolean":
            return lambda value: _boolean(value, policy)
        case "binary":
            return lambda value: _bytes(value, policy["format"])
        case _:
            length = numbers[0] if numbers else 0
            return lambda value: _text(value, name, length, policy)


def _array(element: Rule) -> Rule:
    def convert(value: Any) -> list[Any]:
        if type(value) is not list:
            raise DirtyError("wrong_type")
        found = []
        for place, item in enumerate(value):
            try:
                found.append(None if item is None else element.convert(item))
            except DirtyError as error:
                raise error.under(f"[{place}]") from None
        return found

    return Rule(pa.list_(element.arrow), convert)


def _map(key_rule: Rule, value_rule: Rule) -> Rule:
    def convert(value: Any) -> list[tuple[Any, Any]]:
        if type(value) is list:
            return _entries(key_rule, value_rule, value)
        if type(value) is not Obj:
            raise DirtyError("wrong_type")
        found = {}
        for name, item in dict(value).items():
            try:
                key = key_rule.convert(name)
                found[key] = None if item is None else value_rule.convert(item)
            except DirtyError as error:
                raise error.under(name.replace(LONE, "?")) from None
        if len(found) != len(value):
            raise DirtyError("duplicate_key")
        return list(found.items())

    return Rule(pa.map_(key_rule.arrow, value_rule.arrow), convert)


def _entries(key_rule: Rule, value_rule: Rule, value: list[Any]) -> list[tuple[Any, Any]]:
    found = {}
    for place, entry in enumerate(value):
        try:
            name, item = _entry(entry)
            key = key_rule.convert(name)
            found[key] = None if item is None else value_rule.convert(item)
        except DirtyError as error:
            raise error.under(f"[{place}]") from None
    if len(found) != len(value):
        raise DirtyError("duplicate_key")
    return list(found.items())


def _entry(entry: Any) -> tuple[Any, Any]:
    pair = entry
    if type(entry) is Obj:
        held = dict(entry)
        pair = [held["key"], held["value"]] if sorted(held) == ["key", "value"] else []
        pair = pair if len(entry) == len(held) else []
    if type(pair) is not list or len(pair) != 2 or pair[0] is None:
        raise DirtyError("wrong_type")
    return pair[0], pair[1]


def _struct(fields: dict[str, Rule]) -> Rule:
    def convert(value: Any) -> dict[str, Any]:
        if type(value) is not Obj:
            raise DirtyError("wrong_type")
        held = dict(value)
        names = [name for name, _ in value]
        found: dict[str, Any] = {}
        for name, rule in fields.items():
            try:
                _only_once(name, names)
                item = held.get(name)
                found[name] = None if item is None else rule.convert(item)
            except DirtyError as error:
                raise error.under(name) from None
        return found

    return Rule(pa.struct([(name, rule.arrow) for name, rule in fields.items()]), convert)


def _only_once(name: str, names: list[str]) -> None:
    if names.count(name) > 1:
        raise DirtyError("duplicate_key")


def _number(convert: Callable[[str], Any], policy: dict[str, Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is Num:
            return convert(value)
        if type(value) is not str:
            raise DirtyError("wrong_type")
        text = value.strip(" \t\r\n") if policy.get("trim") else value
        if read_number(text) is None:
            raise DirtyError("bad_text")
        return convert(text)

    return read


def _known(text: str) -> Exact:
    """The number; one whose exponent has more digits than exponents are looked at is too great."""
    if len(re.sub(r".*[eE][+-]?0*|^[^eE]*$", "", text)) > 18:
        raise DirtyError("overflow")
    number = read_number(text)
    assert number is not None
    return number


def _mode(policy: dict[str, Any]) -> str | None:
    rule = str(policy.get("on_lossy", "dirty"))
    if rule == "truncate":
        return "down"
    return rule[len("round(") : -1] if rule.startswith("round(") else None


def _settled(number: Exact, ends: tuple[Any, Any], policy: dict[str, Any]) -> Any:
    match policy.get("on_overflow"):
        case "null":
            return None
        case "clamp":
            return ends[0] if number.negative else ends[1]
        case _:
            raise DirtyError("overflow")


def _integer(text: str, bits: int, policy: dict[str, Any]) -> int | None:
    number = _known(text)
    whole = round_to(number, 0, _mode(policy) or "half_even")
    ends = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if not number.is_whole and whole is not None and len(str(abs(whole))) <= LOOKED_AT:
        if policy.get("on_lossy") == "null":
            return None
        if _mode(policy) is None:
            raise DirtyError("not_integral")
    if whole is None or not ends[0] <= whole <= ends[1]:
        found: int | None = _settled(number, ends, policy)
        return found
    return whole


def _decimal(text: str, precision: int, scale: int, policy: dict[str, Any]) -> Decimal | None:
    number = _known(text)
    scaled = round_to(number, scale, _mode(policy) or "half_even")
    top = 10**precision - 1
    if scaled is None or abs(scaled) > top:
        end = Decimal((0, tuple(map(int, str(top))), -scale))
        found: Decimal | None = _settled(number, (end.copy_negate(), end), policy)
        return found
    if number.digits and number.power + scale < 0:
        if policy.get("on_lossy") == "null":
            return None
        if _mode(policy) is None:
            raise DirtyError("scale")
    digits = tuple(map(int, str(abs(scaled))))
    return Decimal((int(scaled < 0), digits, -scale))


def _floating(bits: int, policy: dict[str, Any]) -> Callable[[Any], Any]:
    rule = policy.get("non_finite", "dirty")

    def read(value: Any) -> Any:
        if type(value) in (NonFinite, str) and rule != "dirty":
            text = value.strip(" \t\r\n") if policy.get("trim") else value
            if found := _NON_FINITE.fullmatch(text):
                sign = -1.0 if found[1] == "-" else 1.0
                odd = math.nan if found[2] == "NaN" else math.inf
                return None if rule == "null" else math.copysign(odd, sign)
        return numbers(value)

    numbers = _number(lambda text: _float(text, bits, policy), policy)
    return read


def _float(text: str, bits: int, policy: dict[str, Any]) -> float | None:
    number = read_number(text)
    assert number is not None
    nearest = nearest_float(number, bits)
    if math.isinf(nearest):
        top = greatest(bits)
        found: float | None = _settled(number, (-top, top), policy)
        return found
    lost = "scale" if nearest == 0 and number.digits else ""
    if abs(nearest) >= 2.0 ** (53 if bits == 64 else 24) and not _prints_as(nearest, bits, number):
        lost = "overflow"
    if lost:
        if policy.get("on_lossy") == "null":
            return None
        if _mode(policy) is None:
            raise DirtyError(lost)
    return nearest


def _prints_as(value: float, bits: int, number: Exact) -> bool:
    """Whether the fewest digits that lead to the float, and to no other, are the number's."""
    for digits in range(1, 18):
        printed = read_number(f"{value:.{digits - 1}e}")
        assert printed is not None
        if nearest_float(printed, bits) == value:
            return (printed.digits, printed.power) == (number.digits, number.power)
    return False


def _boolean(value: Any, policy: dict[str, Any]) -> bool:
    if type(value) is bool:
        return value
    if type(value) is not str:
        raise DirtyError("wrong_type")
    text = value.strip(" \t\r\n") if policy.get("trim") else value
    words = str(policy.get("format", "true/false")).split("/")
    if text not in words:
        raise DirtyError("bad_text")
    return text == words[0]


def _text(value: Any, name: str, length: int, policy: dict[str, Any]) -> str | None:
    text = value
    if type(value) is not str:
        if policy.get("on_lossy") != "text" or type(value) is NonFinite:
            raise DirtyError("wrong_type")
        text = _json(value)
    if policy.get("on_bad_text") == "replace":
        text = "".join("\ufffd" if _is_no_text(char) else char for char in text)
    elif any(map(_is_no_text, text)):
        raise DirtyError("encoding")
    if name == "string":
        return str(text)
    return _bounded(str(text), name, length, policy.get("on_lossy"))


def _is_no_text(char: str) -> bool:
    return char == "\0" or "\ud800" <= char <= "\udfff"


def _bounded(text: str, name: str, length: int, on_lossy: str | None) -> str | None:
    fault = "too_long" if len(text) > length else ""
    if name == "char" and not fault and text.endswith(" ") and len(text) < length:
        fault = "trailing_blanks"
    if fault and on_lossy == "null":
        return None
    if fault and on_lossy != "truncate":
        raise DirtyError(fault)
    cut = text[:length]
    return cut.rstrip(" ") if name == "char" else cut


def _json(value: Any) -> str:
    if isinstance(value, NonFinite):
        raise DirtyError("wrong_type")
    if isinstance(value, Num):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Obj):
        if len(dict(value)) != len(value):
            raise DirtyError("duplicate_key")
        return "{" + ",".join(f"{_json(key)}:{_json(item)}" for key, item in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    return "null" if value is None else "true" if value else "false"


def _bytes(value: Any, written: str) -> bytes:
    if type(value) is not str:
        raise DirtyError("wrong_type")
    if written == "utf8":
        if LONE in value:
            raise DirtyError("encoding")
        return b"".join(
            bytes([ord(char) - 0xDC00]) if RAW_LOW <= char <= RAW_HIGH else char.encode()
            for char in value
        )
    if written == "hex":
        if not re.fullmatch("(?:[0-9a-fA-F]{2})*", value):
            raise DirtyError("bad_text")
        return bytes(int(value[at : at + 2], 16) for at in range(0, len(value), 2))
    found = re.fullmatch(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", value)
    if not found or base64.b64encode(base64.b64decode(value)).decode() != value:
        raise DirtyError("bad_text")
    return base64.b64decode(value)


def impossible(policy: dict[str, Any]) -> int | None:
    """What becomes of a time that no calendar has."""
    if policy.get("on_impossible_time") != "null":
        raise DirtyError("bad_time")
    return None


def _time(name: str, policy: dict[str, Any], unit: str | None) -> Callable[[Any], Any]:
    zone = policy.get("timezone")
    is_day = name == "date"

    def of_text(value: Any) -> int | None:
        if type(value) is not str:
            raise DirtyError("wrong_type")
        text = value.strip(" \t\r\n") if policy.get("trim") else value
        shape = policy.get("format") or ("" if is_day else "iso8601")
        try:
            written = read_written(text, shape)
            if is_day and written.offset_s is None:
                return written.wall_s // 86_400
            if is_day:
                return day_in_zone(instant_us(written, zone, lambda _: 0), str(zone))
            return instant_us(written, zone, lambda fraction: _micros(fraction, policy))
        except _FineError:
            return None
        except ImpossibleError:
            return impossible(policy)
        except BadTimeError:
            raise DirtyError("bad_time") from None

    def of_number(text: str) -> int | None:
        try:
            time_us = _unit_us(text, str(unit), policy)
            return day_in_zone(time_us, str(zone)) if is_day and time_us is not None else time_us
        except ImpossibleError:
            return impossible(policy)

    return of_text if unit is None else _number(of_number, policy)


class _FineError(Exception):
    """Finer than a microsecond, and the policy makes it null."""


def _micros(fraction: str, policy: dict[str, Any]) -> int:
    number = read_number(f"0.{fraction or 0}")
    assert number is not None
    if number.power < -6:
        if policy.get("on_lossy") == "null":
            raise _FineError
        if _mode(policy) is None:
            raise BadTimeError
    found = round_to(number, 6, _mode(policy) or "half_even")
    assert found is not None
    return found


def _unit_us(text: str, unit: str, policy: dict[str, Any]) -> int | None:
    places = _UNIT_PLACES[unit]
    try:
        number = _known(text)
    except DirtyError:
        return impossible(policy)
    mode = _mode(policy) or "half_even"
    mode = _EARLIER_LATER.get(mode, mode)
    if number.negative and mode in ("half_up", "half_down"):
        # Later is up: the tie before the epoch goes the other way by its magnitude.
        mode = "half_down" if mode == "half_up" else "half_up"
    time_us = round_to(number, places, mode)
    is_finer = number.digits and number.power + places < 0
    if is_finer and time_us is not None and len(str(abs(time_us))) <= LOOKED_AT:
        if policy.get("on_lossy") == "null":
            return None
        if _mode(policy) is None:
            raise DirtyError("scale")
    if time_us is None or not read_bounds(time_us):
        return impossible(policy)
    return time_us


def read_bounds(time_us: int) -> bool:
    """Whether an instant is inside of the years 0001 to 9999."""
    return -62_135_596_800_000_000 <= time_us <= 253_402_300_799_999_999
