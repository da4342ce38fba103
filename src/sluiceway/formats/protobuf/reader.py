"""Protobuf's binary encoding -> values, one payload at a time, exactly.

Parsers commonly drop the upper bits of a number that is too large for its field, and skip a value
of another wire type. Here both are faults: else the value would change, or be lost.
"""

import struct
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Context, Decimal
from typing import Any

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.typed_values import NS_PER_S, Day, Float32, Instant, MeantRecord
from sluiceway.formats.connect_times import VARIABLE_DECIMAL
from sluiceway.formats.protobuf.schema import EnumType, FieldType, MessageType
from sluiceway.formats.protobuf.wire import (
    FIXED32,
    FIXED64,
    GROUP_BEGIN,
    LENGTH,
    VARINT,
    Wire,
    broken,
    signed,
    zigzag,
)
from sluiceway.types.dirty import DirtyReason

Message = dict[str, Any]
Scalar = Callable[[Wire, int], Any]

_EXACT = Context(prec=60)
_DIGITS = Context(prec=3000)
_MAX_DECIMAL_BYTES, _MAX_SCALE = 512, 1000
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_UINT32_END, _INT32_END = 1 << 32, 1 << 31
WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
TIMESTAMP, DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_DEFAULTS: dict[str, Any] = {
    "double": 0.0,
    "float": Float32(0.0),
    "bool": False,
    "string": "",
    "bytes": b"",
}


class MessageReader:
    """Reads messages of one type. Called for single payloads; keeps no state of them.

    A field without presence that is not set has its default value. Repeated fields and maps always
    have a value; other fields only where they are set. Enums are their names, or the number of a
    value without a name; times are as in `convert.typed_values`.

    Args:
        of: The type.
        known: Readers that exist already, by type.
        connect: Whether messages that are decimals and days to Kafka Connect become such.

    Attributes:
        of: The type.
        connect: As in `Args`.
    """

    def __init__(
        self,
        of: MessageType,
        known: "dict[MessageType, MessageReader]",
        *,
        connect: bool = False,
    ) -> None:
        known[of] = self
        self.of = of
        self.connect = connect
        self.name = of.name
        self._meant = meant_by(of) if connect else None
        self.is_map_entry = of.is_map_entry
        self._fields = {field.number: _Field(field, known, connect=connect) for field in of.fields}
        self._repeated = [(field.name, _is_map(field)) for field in of.fields if field.repeated]
        self._defaults = {
            field.name: _default(field)
            for field in of.fields
            if not field.has_presence and not field.repeated
        }
        siblings: dict[int, list[str]] = {}
        for field in of.fields:
            if field.oneof >= 0:
                siblings.setdefault(field.oneof, []).append(field.name)
        self._oneofs = {
            field.number: [name for name in siblings[field.oneof] if name != field.name]
            for field in of.fields
            if field.oneof >= 0
        }

    def read(self, wire: Wire, end: int) -> Message:
        """Read a message.

        Raises:
            DirtyValueError: The message is broken, or nested too deep.
        """
        found = dict(self._defaults)
        for name, is_map in self._repeated:
            found[name] = {} if is_map else []
        self._read_into(found, wire, end)
        return found

    def empty_value(self) -> Any:
        """The value of a map entry without one: an empty message."""
        inner = self._fields[2]._inner  # noqa: SLF001 - of the same module
        return {} if inner is None else inner.value(Wire(b""), 0)

    def value(self, wire: Wire, end: int) -> Any:
        """Read a message, or the value that it stands for.

        Raises:
            DirtyValueError: The message is broken, nested too deep, or no such value.
        """
        found = self.read(wire, end)
        if self._meant is not None:
            return MeantRecord(found, self._meant)
        return _well_known(self.name, found)

    @property
    def stands_for_a_value(self) -> bool:
        """Whether `value` returns no message."""
        return self.name in _WELL_KNOWN

    def _read_into(self, found: Message, wire: Wire, end: int) -> None:
        wire.enter()
        fields, oneofs = self._fields, self._oneofs
        while wire.position < end:
            number, kind = wire.tag(end)
            field = fields.get(number)
            if field is None:
                wire.skip(kind, number, end)
                continue
            if number in oneofs:
                for name in oneofs[number]:
                    found.pop(name, None)
            try:
                field.read(found, wire, kind, end)
            except DirtyValueError as error:
                raise error.under(field.name) from None
        wire.depth -= 1


class _Field:
    """Reads one field of a message."""

    def __init__(
        self, field: FieldType, known: dict[MessageType, MessageReader], *, connect: bool
    ) -> None:
        self.name = field.name
        self._number = field.number
        self._kind = field.kind
        self._repeated = field.repeated
        self._wire_kind, self._scalar = _SCALARS.get(field.kind, (LENGTH, _no_scalar))
        self._inner: MessageReader | None = None
        if isinstance(field.of, MessageType):
            self._inner = known.get(field.of) or MessageReader(field.of, known, connect=connect)
        elif isinstance(field.of, EnumType):
            self._wire_kind, self._scalar = VARINT, _enum(field.of)
        self._is_map = _is_map(field)

    def read(self, found: Message, wire: Wire, kind: int, end: int) -> None:
        """Read a value and store it in the message."""
        if self._inner is not None:
            self._check(kind)
            is_group = kind == GROUP_BEGIN
            last, after = wire.group(self._number, end) if is_group else (wire.part(end), -1)
            self._read_message(found, wire, last, self._inner)
            wire.position = after if is_group else last
        elif self._repeated and kind == LENGTH and self._wire_kind != LENGTH:
            last, items = wire.part(end), found[self.name]
            while wire.position < last:
                items.append(self._scalar(wire, last))
        else:
            self._check(kind)
            value = self._scalar(wire, end)
            if self._repeated:
                found[self.name].append(value)
            else:
                found[self.name] = value

    def _read_message(self, found: Message, wire: Wire, end: int, inner: MessageReader) -> None:
        if self._is_map:
            entry = inner.read(wire, end)
            key = entry["key"]
            text = str(key).lower() if isinstance(key, bool) else str(key)
            found[self.name][text] = entry["value"] if "value" in entry else inner.empty_value()
        elif self._repeated:
            found[self.name].append(inner.value(wire, end))
        else:
            before = found.get(self.name)
            if isinstance(before, dict) and not inner.stands_for_a_value:
                # A field that is set twice is merged, as the encoding demands.
                inner._read_into(before, wire, end)  # noqa: SLF001 - of the same kind
            else:
                found[self.name] = inner.value(wire, end)

    def _check(self, kind: int) -> None:
        if kind != self._wire_kind:
            message = f"the wire type is {kind}, of a {self._kind} it is {self._wire_kind}"
            raise DirtyValueError(DirtyReason.WRONG_TYPE, message)


def _is_map(field: FieldType) -> bool:
    return isinstance(field.of, MessageType) and field.of.is_map_entry


def _default(field: FieldType) -> Any:
    if isinstance(field.of, EnumType):
        return field.of.names.get(0, 0)
    return _DEFAULTS.get(field.kind, 0)


def _well_known(name: str, found: Message) -> Any:
    """The value of a message that stands for one value."""
    if name not in _WELL_KNOWN:
        return found
    if name in WRAPPERS:
        return found["value"]
    seconds, nanos = found["seconds"], found["nanos"]
    if name == TIMESTAMP:
        if not 0 <= nanos < NS_PER_S:
            message = f"a timestamp has 0 to 999999999 nanoseconds, not {nanos}"
            raise DirtyValueError(DirtyReason.BAD_TIME, message)
        return Instant(seconds * NS_PER_S + nanos)
    if not -NS_PER_S < nanos < NS_PER_S or seconds * nanos < 0:
        message = f"a duration of {seconds} seconds has no {nanos} nanoseconds"
        raise DirtyValueError(DirtyReason.BAD_TIME, message)
    return Decimal(seconds * NS_PER_S + nanos).scaleb(-9, context=_EXACT)


def _decimal(found: Mapping[str, Any]) -> Decimal:
    """A decimal from its scale and unscaled number, as Confluent's converter writes it."""
    data, scale = found.get("value", b""), found.get("scale", 0)
    if not 0 < len(data) <= _MAX_DECIMAL_BYTES or abs(scale) > _MAX_SCALE:
        raise broken("a decimal has no scale and digits that can be")
    unscaled = int.from_bytes(data, "big", signed=True)
    return Decimal(unscaled).scaleb(-scale, context=_DIGITS)


def _day(found: Mapping[str, Any]) -> Day:
    parts = [found.get(name, 0) for name in DATE_PARTS]
    try:
        day = date(*parts)
    except ValueError:
        text = f"there is no day {parts[0]}-{parts[1]}-{parts[2]}"
        raise DirtyValueError(DirtyReason.BAD_TIME, text) from None
    return Day(day.toordinal() - _EPOCH_DAY)


DATE = "google.type.Date"
DATE_PARTS = {"year": "int32", "month": "int32", "day": "int32"}
DECIMAL_PARTS = {"value": "bytes", "scale": "int32"}
_CONNECT: dict[str, tuple[Callable[[Mapping[str, Any]], Any], Mapping[str, str]]] = {
    "confluent.type.Decimal": (_decimal, DECIMAL_PARTS),
    DATE: (_day, DATE_PARTS),
}
_VARIABLE = VARIABLE_DECIMAL.rpartition(".")[2]
_WELL_KNOWN = WRAPPERS | {TIMESTAMP, DURATION}


def meant_by(of: MessageType) -> Callable[[Mapping[str, Any]], Any] | None:
    """Kafka Connect's meaning of a message; the decimal of any scale has no package."""
    kinds = {field.name: field.kind for field in of.fields if not field.repeated}
    if of.name.rpartition(".")[2] == _VARIABLE and kinds == DECIMAL_PARTS:
        return _decimal
    read, parts = _CONNECT.get(of.name, (None, {}))
    return read if parts.items() <= kinds.items() else None


def _int32(wire: Wire, end: int) -> int:
    at = wire.position
    value = signed(wire.varint(end))
    if not -_INT32_END <= value < _INT32_END:
        raise broken(f"the number at byte {at} has more than 32 bits")
    return value


def _uint32(wire: Wire, end: int) -> int:
    at = wire.position
    value = wire.varint(end)
    if value >= _UINT32_END:
        raise broken(f"the number at byte {at} has more than 32 bits")
    return value


def _bool(wire: Wire, end: int) -> bool:
    at = wire.position
    value = wire.varint(end)
    if value > 1:
        raise broken(f"the boolean at byte {at} is {value}")
    return value == 1


def _text(wire: Wire, end: int) -> str:
    last = wire.part(end)
    return wire.read(last - wire.position, last).decode("utf-8", "surrogateescape")


def _bytes(wire: Wire, end: int) -> bytes:
    last = wire.part(end)
    return wire.read(last - wire.position, last)


def _fixed(form: str, make: Callable[[Any], Any] | None = None) -> Scalar:
    of = struct.Struct(form)

    def read(wire: Wire, end: int) -> Any:
        (value,) = of.unpack(wire.read(of.size, end))
        return make(value) if make else value

    return read


def _enum(of: EnumType) -> Scalar:
    names = of.names

    def read(wire: Wire, end: int) -> str | int:
        value = _int32(wire, end)
        return names.get(value, value)

    return read


def _no_scalar(wire: Wire, end: int) -> Any:
    """Fail for messages and groups, which have their own readers."""
    raise broken(f"no value is expected between bytes {wire.position} and {end}")


_SCALARS: dict[str, tuple[int, Scalar]] = {
    "int32": (VARINT, _int32),
    "int64": (VARINT, lambda wire, end: signed(wire.varint(end))),
    "uint32": (VARINT, _uint32),
    "uint64": (VARINT, Wire.varint),
    "sint32": (VARINT, lambda wire, end: zigzag(_uint32(wire, end))),
    "sint64": (VARINT, lambda wire, end: zigzag(wire.varint(end))),
    "bool": (VARINT, _bool),
    "fixed32": (FIXED32, _fixed("<I")),
    "sfixed32": (FIXED32, _fixed("<i")),
    "float": (FIXED32, _fixed("<f", Float32)),
    "fixed64": (FIXED64, _fixed("<Q")),
    "sfixed64": (FIXED64, _fixed("<q")),
    "double": (FIXED64, _fixed("<d")),
    "string": (LENGTH, _text),
    "bytes": (LENGTH, _bytes),
    "group": (GROUP_BEGIN, _no_scalar),
}
