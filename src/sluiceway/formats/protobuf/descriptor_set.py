"""A descriptor set, as `protoc --include_imports --descriptor_set_out` writes it -> its files.

Source: descriptor.proto, of which only what reading needs is looked at.
"""

from collections.abc import Iterator
from typing import Any

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.formats.protobuf.schema import (
    GROUP,
    MAX_SCHEMA_BYTES,
    REPEATED,
    SCALARS,
    ProtobufSchemaError,
    WrittenEnum,
    WrittenField,
    WrittenFile,
    WrittenMessage,
)
from sluiceway.formats.protobuf.wire import LENGTH, VARINT, Wire, signed

_EDITION = 14


def read_descriptor_set(data: bytes) -> list[WrittenFile]:
    """Read a descriptor set. Called once a decoder.

    Raises:
        ProtobufSchemaError: It is none, or has an edition, which this version cannot read.
    """
    if len(data) > MAX_SCHEMA_BYTES:
        raise ProtobufSchemaError(f"the descriptor set has more than {MAX_SCHEMA_BYTES} bytes")
    try:
        files = [_file(one) for number, one in _fields(data) if number == 1]
    except (DirtyValueError, UnicodeDecodeError, RecursionError, TypeError) as error:
        raise ProtobufSchemaError("the file is no descriptor set") from error
    if not files:
        raise ProtobufSchemaError("the descriptor set is empty")
    return files


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and values: integers with their sign, and bytes."""
    wire = Wire(data)
    while wire.position < wire.end:
        number, kind = wire.tag(wire.end)
        if kind == VARINT:
            yield number, signed(wire.varint(wire.end))
        elif kind == LENGTH:
            end = wire.part(wire.end)
            yield number, wire.take(end - wire.position, end)
        else:
            wire.skip(kind, number, wire.end)


def _text(value: Any) -> str:
    if not isinstance(value, bytes):
        raise TypeError
    return value.decode("utf-8")


def _file(data: bytes) -> WrittenFile:
    found = WrittenFile()
    for number, value in _fields(data):
        match number:
            case 2:
                found.package = _text(value)
            case 4:
                found.messages.append(_message(value))
            case 5:
                found.enums.append(_enum(value))
            case 12:
                found.syntax = _text(value)
            case _ if number == _EDITION:
                raise ProtobufSchemaError("editions are not in this version; proto2 and proto3 are")
            case _:
                continue
    if found.syntax not in ("proto2", "proto3"):
        raise ProtobufSchemaError(f"the syntax {found.syntax[:20]} is not in this version")
    return found


def _message(data: bytes) -> WrittenMessage:
    found = WrittenMessage("")
    for number, value in _fields(data):
        match number:
            case 1:
                found.name = _text(value)
            case 2:
                found.fields.append(_field(value))
            case 3:
                found.messages.append(_message(value))
            case 4:
                found.enums.append(_enum(value))
            case 7:
                found.is_map_entry = any(n == 7 and v for n, v in _fields(value))  # noqa: PLR2004
            case _:
                continue
    return found


def _field(data: bytes) -> WrittenField:
    found: dict[int, Any] = dict(_fields(data))
    kind = found.get(5, 0)
    return WrittenField(
        _text(found.get(1, b"")),
        int(found.get(3, 0)),
        "group" if kind == GROUP else SCALARS.get(kind, ""),
        _text(found.get(6, b"")),
        found.get(4) == REPEATED,
        int(found.get(9, -1)),
        bool(found.get(17, 0)),
    )


def _enum(data: bytes) -> WrittenEnum:
    name, values = "", []
    for number, value in _fields(data):
        if number == 1:
            name = _text(value)
        elif number == 2:  # noqa: PLR2004 - field number
            one: dict[int, Any] = dict(_fields(value))
            values.append((_text(one.get(1, b"")), int(one.get(2, 0))))
    return WrittenEnum(name, tuple(values))
