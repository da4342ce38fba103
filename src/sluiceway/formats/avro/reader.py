"""Avro's binary encoding -> values, one payload at a time; nothing in a payload is trusted.

Lengths and counts are compared with the remaining bytes before anything is allocated.
"""

import struct
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from uuid import UUID

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.json_values import object_of_pairs
from sluiceway.convert.typed_values import (
    Day,
    Float32,
    Instant,
    LocalTime,
    MeantRecord,
    TimedNumber,
    TimeOfDay,
    WallText,
)
from sluiceway.formats.avro.schema import (
    BIG_DECIMAL,
    Array,
    AvroRecord,
    Enum,
    Fixed,
    Logical,
    Map,
    Node,
    Primitive,
    Union,
)
from sluiceway.formats.connect_times import CONNECT_TEXT_TIMES, CONNECT_TIMES, VARIABLE_DECIMAL
from sluiceway.types.dirty import DirtyReason

MAX_DEPTH = 100
# Items without bytes, such as nulls: the payload does not bound their number.
MAX_EMPTY_ITEMS = 10_000
MAX_DECIMAL_BYTES = 512
MAX_SCALE = 500

_LONG_BYTES = 10
_LAST_BYTE = 1
_INT_END = 1 << 31
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_EXACT = Context(prec=2000)
_NS = {"millis": 1_000_000, "micros": 1000, "nanos": 1}


class Cursor:
    """A position in a payload.

    Args:
        data: The payload.
        position: Where its Avro part begins.
    """

    __slots__ = ("data", "depth", "end", "position")

    def __init__(self, data: bytes, position: int) -> None:
        self.data = data
        self.position = position
        self.end = len(data)
        self.depth = 0

    def read(self, count: int) -> bytes:
        """The next bytes."""
        start = self.position
        if count > self.end - start:
            raise broken(f"it ends at byte {self.end}, in the middle of a value")
        self.position = start + count
        return self.data[start : start + count]

    def long(self) -> int:
        """The next whole number of up to 64 bits."""
        data, position, end = self.data, self.position, self.end
        value = shift = 0
        while True:
            if position >= end:
                raise broken(f"it ends at byte {end}, in the middle of a number")
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:  # noqa: PLR2004 - the bit that says that more follows
                break
            shift += 7
            if shift >= 7 * _LONG_BYTES:
                raise broken(f"the number at byte {self.position} has more than 64 bits")
        if shift == 7 * (_LONG_BYTES - 1) and byte > _LAST_BYTE:
            raise broken(f"the number at byte {self.position} has more than 64 bits")
        self.position = position
        return (value >> 1) ^ -(value & 1)

    def length(self) -> int:
        """The next length in bytes, checked against the payload."""
        at = self.position
        count = self.long()
        if not 0 <= count <= self.end - self.position:
            left = self.end - self.position
            raise broken(f"the length at byte {at} is {count}, with {left} bytes left")
        return count

    def enter(self) -> None:
        """Enter one more level of nesting."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            message = f"records, arrays and maps are nested deeper than {MAX_DEPTH} levels"
            raise DirtyValueError(DirtyReason.TOO_DEEP, message, stage="decode")


Read = Callable[[Cursor], object]


def broken(what: str) -> DirtyValueError:
    """A payload that is not Avro, or not of its schema."""
    return DirtyValueError(DirtyReason.BROKEN, f"not Avro: {what}", stage="decode")


def compile_reader(node: Node, *, connect: bool = False) -> Read:
    """Compile the reading of a schema's values. Called once a schema and process.

    Args:
        node: The schema.
        connect: Whether records that are decimals to Kafka Connect become decimals.

    Returns:
        A function from a cursor to the value; it leaves the cursor after the value. Values are
        numbers, text, bytes, lists, dictionaries, and times as in `convert.typed_values`. It raises
        DirtyValueError. Text that is no UTF-8 holds lone surrogates.
    """
    return _Compiler(connect=connect).compile(node)


class _Compiler:
    """Compiles a schema that may contain itself."""

    def __init__(self, *, connect: bool) -> None:
        self._connect = connect
        self._records: dict[int, Read] = {}

    def compile(self, node: Node) -> Read:
        match node:
            case Primitive(name, logical):
                return _logical(_PRIMITIVES[name], logical)
            case Fixed(size, logical):
                return _logical(lambda cursor: cursor.read(size), logical)
            case Enum(symbols):
                return _enum(symbols)
            case Array(items):
                return _array(self.compile(items), least_bytes(items))
            case Map(values):
                return _map(self.compile(values))
            case Union(branches):
                return _union([self.compile(branch) for branch in branches])
            case AvroRecord():
                return self._record(node)

    def _record(self, node: AvroRecord) -> Read:
        known = self._records.get(id(node))
        if known is not None:
            return known
        fields: list[tuple[str, Read]] = []
        read = _record(fields)
        if self._connect and is_variable_decimal(node):
            read = _variable_decimal(read)
        self._records[id(node)] = read
        fields += [(name, self.compile(of)) for name, of in node.fields]
        return read


def least_bytes(node: Node) -> int:
    """Fewest bytes of a value; a schema inside itself counts as none there."""
    return _least_bytes(node, {})


def _least_bytes(node: Node, known: dict[int, int]) -> int:
    match node:
        case Primitive(name):
            return {"null": 0, "float": 4, "double": 8}.get(name, 1)
        case Fixed(size):
            return size
        case AvroRecord(fields=fields):
            if id(node) not in known:
                known[id(node)] = 0
                known[id(node)] = sum(_least_bytes(of, known) for _, of in fields)
            return known[id(node)]
        case _:
            return 1


def _boolean(cursor: Cursor) -> bool:
    at = cursor.position
    byte = cursor.read(1)[0]
    if byte > 1:
        raise broken(f"the boolean at byte {at} is 0x{byte:02x}")
    return byte == 1


def _int(cursor: Cursor) -> int:
    at = cursor.position
    value = cursor.long()
    if not -_INT_END <= value < _INT_END:
        raise broken(f"the int at byte {at} has more than 32 bits")
    return value


def _float(cursor: Cursor) -> Float32:
    return Float32(_FLOAT.unpack(cursor.read(4))[0])


def _double(cursor: Cursor) -> float:
    value: float = _DOUBLE.unpack(cursor.read(8))[0]
    return value


def _bytes(cursor: Cursor) -> bytes:
    return cursor.read(cursor.length())


def _string(cursor: Cursor) -> str:
    return cursor.read(cursor.length()).decode("utf-8", "surrogateescape")


_PRIMITIVES: dict[str, Read] = {
    "null": lambda _: None,
    "boolean": _boolean,
    "int": _int,
    "long": Cursor.long,
    "float": _float,
    "double": _double,
    "bytes": _bytes,
    "string": _string,
}


def _enum(symbols: tuple[str, ...]) -> Read:
    def read(cursor: Cursor) -> str:
        at = cursor.position
        index = cursor.long()
        if not 0 <= index < len(symbols):
            raise broken(f"the enum at byte {at} has no symbol {index}")
        return symbols[index]

    return read


def _union(branches: list[Read]) -> Read:
    def read(cursor: Cursor) -> object:
        at = cursor.position
        index = cursor.long()
        if not 0 <= index < len(branches):
            raise broken(f"the union at byte {at} has no branch {index}")
        return branches[index](cursor)

    return read


def _record(fields: list[tuple[str, Read]]) -> Read:
    def read(cursor: Cursor) -> dict[str, object]:
        cursor.enter()
        found = {}
        name = ""
        try:
            for name, read_field in fields:
                found[name] = read_field(cursor)
        except DirtyValueError as error:
            raise error.under(name) from None
        cursor.depth -= 1
        return found

    return read


def _array(read_item: Read, least_bytes: int) -> Read:
    def read(cursor: Cursor) -> list[object]:
        cursor.enter()
        items: list[object] = []
        try:
            while block := _block(cursor, least_bytes, len(items)):
                count, end = block
                for _ in range(count):
                    items.append(read_item(cursor))
                _check_block(cursor, end)
        except DirtyValueError as error:
            raise error.under(len(items)) from None
        cursor.depth -= 1
        return items

    return read


def _map(read_value: Read) -> Read:
    def read(cursor: Cursor) -> dict[str, object]:
        cursor.enter()
        pairs: list[tuple[str, object]] = []
        key = ""
        try:
            while block := _block(cursor, 1, 0):
                count, end = block
                for _ in range(count):
                    key = _string(cursor)
                    pairs.append((key, read_value(cursor)))
                _check_block(cursor, end)
        except DirtyValueError as error:
            # Not the key, which a column's `redact` may hide: columns are not known here.
            raise (error.under("*") if key else error) from None
        cursor.depth -= 1
        return object_of_pairs(pairs)

    return read


def _block(cursor: Cursor, least_bytes: int, before: int) -> tuple[int, int] | None:
    """The next block's number of items, and its end if the block gives it; None after the last."""
    at = cursor.position
    count, end = cursor.long(), -1
    if count == 0:
        return None
    if count < 0:
        count = -count
        end = cursor.length() + cursor.position
    room = (
        (cursor.end - cursor.position) // least_bytes if least_bytes else MAX_EMPTY_ITEMS - before
    )
    if count > room:
        raise broken(f"the block at byte {at} has {count} items, with room for {room}")
    return count, end


def _check_block(cursor: Cursor, end: int) -> None:
    if end not in (-1, cursor.position):
        raise broken(f"a block says that it ends at byte {end}, and ends at {cursor.position}")


def _logical(read: Read, logical: Logical | None) -> Read:
    if logical is None:
        return read
    match logical.name:
        case "decimal":
            return _decimal(read, logical.scale)
        case name if name == BIG_DECIMAL:
            return _big_decimal(read)
        case "uuid":
            return lambda cursor: _uuid(read(cursor))
        case "date":
            return lambda cursor: Day(_number(read, cursor))
        case name if name in CONNECT_TIMES:
            make = CONNECT_TIMES[name]
            return lambda cursor: TimedNumber(_number(read, cursor), make)
        case name if name in CONNECT_TEXT_TIMES:
            return lambda cursor: WallText(read(cursor))
        case _:
            return _time(read, logical.name)


def _time(read: Read, name: str) -> Read:
    kind, _, unit = name.rpartition("-")
    of = {"time": TimeOfDay, "timestamp": Instant, "local-timestamp": LocalTime}[kind]
    factor = _NS[unit]
    return lambda cursor: of(_number(read, cursor) * factor)


def _number(read: Read, cursor: Cursor) -> int:
    value = read(cursor)
    assert isinstance(value, int)  # noqa: S101 - the schema's parser takes these types on numbers
    return value


def _uuid(value: object) -> object:
    return str(UUID(bytes=value)) if isinstance(value, bytes) else value


def is_variable_decimal(node: AvroRecord) -> bool:
    """Whether the record is Kafka Connect's decimal with its own scale."""
    return node.name == VARIABLE_DECIMAL and {name for name, _ in node.fields} == {"scale", "value"}


def _variable_decimal(read: Read) -> Read:
    """A decimal with its own scale: a record of both."""

    def read_decimal(cursor: Cursor) -> object:
        found = read(cursor)
        assert isinstance(found, dict)  # noqa: S101 - it is that of a record
        return MeantRecord(found, _of_scale)

    return read_decimal


def _of_scale(record: Mapping[str, object]) -> Decimal:
    scale, data = record["scale"], record["value"]
    if not (isinstance(scale, int) and abs(scale) <= MAX_SCALE and isinstance(data, bytes)):
        raise broken("a decimal has no scale and digits that can be")
    if not 0 < len(data) <= MAX_DECIMAL_BYTES:
        raise broken(f"a decimal has {len(data)} bytes")
    unscaled = int.from_bytes(data, "big", signed=True)
    return Decimal(unscaled).scaleb(-scale, context=_EXACT)


def _big_decimal(read: Read) -> Read:
    """A decimal with its own scale: bytes that hold the digits and the scale."""

    def read_decimal(cursor: Cursor) -> Decimal:
        at = cursor.position
        data = read(cursor)
        assert isinstance(data, bytes)  # noqa: S101 - the schema's parser takes these types only
        inner = Cursor(data, 0)
        digits, scale = _bytes(inner), _int(inner)
        sound = inner.position == inner.end and 0 < len(digits) <= MAX_DECIMAL_BYTES
        if not sound or abs(scale) > MAX_SCALE:
            raise broken(f"the decimal at byte {at} has no scale and digits that can be")
        return Decimal(int.from_bytes(digits, "big", signed=True)).scaleb(-scale, context=_EXACT)

    return read_decimal


def _decimal(read: Read, scale: int) -> Read:
    def read_decimal(cursor: Cursor) -> Decimal:
        at = cursor.position
        data = read(cursor)
        assert isinstance(data, bytes)  # noqa: S101 - the schema's parser takes these types only
        if not 0 < len(data) <= MAX_DECIMAL_BYTES:
            raise broken(f"the decimal at byte {at} has {len(data)} bytes")
        unscaled = int.from_bytes(data, "big", signed=True)
        return Decimal(unscaled).scaleb(-scale, context=_EXACT)

    return read_decimal
