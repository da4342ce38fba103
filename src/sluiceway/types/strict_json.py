"""Strict JSON for frozen dataclasses: canonical bytes out, nothing unknown in."""

import dataclasses
import json
import types
from enum import Enum, auto
from functools import cache
from typing import Any, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from sluiceway.types.log_key import LogKey, is_key_text

BigInt = NewType("BigInt", int)
"""An integer that can pass 2^53; a decimal string in JSON."""

T = TypeVar("T")

_MOST_DIGITS = 100


class StrictJsonError(ValueError):
    """The bytes are not exactly what the dataclass says."""


def encode(value: Any) -> bytes:
    """Canonical bytes: keys sorted, no white space, UTF-8."""
    return json.dumps(
        to_plain(value, type(value)), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    ).encode()


def decode(raw: bytes, kind: type[T]) -> T:
    """Read bytes as `kind`.

    Raises:
        StrictJsonError: Not JSON, a duplicate key, a missing, unknown or mistyped field.
    """
    result: T = from_plain(loads(raw), kind, kind.__name__)
    return result


def loads(raw: bytes) -> Any:
    """Parse JSON; duplicate keys, NaN, non-UTF-8 and halves of surrogate pairs are refused.

    Raises:
        StrictJsonError: As above, or nesting beyond the parser's depth.
    """
    try:
        found = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=_refuse_constant
        )
        if b"\\u" in raw:
            # An escaped half of a pair is text that no bytes can say again.
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise StrictJsonError(f"not strict JSON: {error}") from error
    return found


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise StrictJsonError("duplicate key")
    return found


def _refuse_constant(text: str) -> Any:
    raise StrictJsonError(f"constant {text}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


@cache
def _left_out(kind: type) -> dict[str, Any]:
    """Fields that a class says to be `SPARSE`: absent from the JSON at their defaults."""
    sparse: frozenset[str] = getattr(kind, "SPARSE", frozenset())
    return {field.name: field.default for field in dataclasses.fields(kind) if field.name in sparse}


class _Shape(Enum):
    """What kinds of types fields are declared with."""

    BIG_INT = auto()
    LOG_KEY = auto()
    OPTIONAL = auto()
    LIST = auto()
    MAP = auto()
    RECORD = auto()
    VALUE = auto()


@cache
def _shape(kind: Any) -> tuple[_Shape, Any]:
    """The shape of a declared type, and what is inside: asked once a type, not once a value."""
    origin = get_origin(kind)
    if kind is BigInt:
        return _Shape.BIG_INT, None
    if kind == LogKey:
        return _Shape.LOG_KEY, None
    if origin in (Union, types.UnionType):
        (inner,) = [arg for arg in get_args(kind) if arg is not type(None)]
        return _Shape.OPTIONAL, inner
    if origin is tuple:
        return _Shape.LIST, get_args(kind)[0]
    if origin is dict:
        return _Shape.MAP, get_args(kind)[1]
    if dataclasses.is_dataclass(kind):
        return _Shape.RECORD, kind if isinstance(kind, type) else type(kind)
    return _Shape.VALUE, kind


def to_plain(value: Any, kind: Any) -> Any:
    """Value of a declared type -> what `json.dumps` takes."""
    if value is None:
        return None
    shape, inner = _shape(kind)
    if shape is _Shape.VALUE or shape is _Shape.LOG_KEY:
        return value
    if shape is _Shape.BIG_INT:
        return str(value)
    if shape is _Shape.RECORD:
        left_out = _left_out(inner)
        return {
            name: to_plain(getattr(value, name), hint)
            for name, hint in _hints(inner).items()
            if name not in left_out or getattr(value, name) != left_out[name]
        }
    if shape is _Shape.LIST:
        return [to_plain(item, inner) for item in value]
    if shape is _Shape.MAP:
        return {key: to_plain(item, inner) for key, item in value.items()}
    return to_plain(value, inner)


def from_plain(plain: Any, kind: Any, where: str) -> Any:
    """Parsed JSON -> value of a declared type.

    Raises:
        StrictJsonError: Names the field that does not fit.
    """
    shape, inner = _shape(kind)
    if shape is _Shape.OPTIONAL:
        return None if plain is None else from_plain(plain, inner, where)
    if shape is _Shape.BIG_INT:
        return _big_int(plain, where)
    if shape is _Shape.RECORD:
        return _dataclass_from_plain(plain, inner, where)
    if shape is _Shape.LIST:
        _expect(plain, list, where)
        return tuple(from_plain(item, inner, f"{where}[{i}]") for i, item in enumerate(plain))
    if shape is _Shape.MAP:
        _expect(plain, dict, where)
        return {key: from_plain(item, inner, f"{where}.{key}") for key, item in plain.items()}
    if shape is _Shape.LOG_KEY:
        return _log_key(plain, where)
    _expect(plain, inner, where)
    return plain


def _dataclass_from_plain(plain: Any, kind: type, where: str) -> Any:
    _expect(plain, dict, where)
    hints = _hints(kind)
    unknown = plain.keys() - hints.keys()
    missing = hints.keys() - plain.keys() - _left_out(kind).keys()
    if unknown or missing:
        raise StrictJsonError(
            f"{where}: unknown fields {sorted(unknown)}, missing {sorted(missing)}"
        )
    return kind(
        **{
            name: from_plain(plain[name], hint, f"{where}.{name}")
            for name, hint in hints.items()
            if name in plain
        }
    )


def _log_key(plain: Any, where: str) -> LogKey:
    """A number, or a text that stands for no number: so that equal keys are equal bytes."""
    if isinstance(plain, str):
        if not is_key_text(plain):
            raise StrictJsonError(f"{where}: not a key of a source partition: {plain[:40]!r}")
        return plain
    _expect(plain, int, where)
    return int(plain)


def _big_int(plain: Any, where: str) -> int:
    _expect(plain, str, where)
    digits = plain.removeprefix("-")
    is_number = len(digits) <= _MOST_DIGITS and digits.isascii() and digits.isdigit()
    if not is_number or str(int(plain)) != plain:
        raise StrictJsonError(f"{where}: not an integer in text: {plain[:40]!r}")
    return int(plain)


def _expect(plain: Any, kind: type, where: str) -> None:
    # bool is an int in Python, not in JSON.
    if not isinstance(plain, kind) or (kind is int and isinstance(plain, bool)):
        raise StrictJsonError(f"{where}: expected {kind.__name__}, got {type(plain).__name__}")
