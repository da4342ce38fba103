"""One schema, as a registry would hand it out: linked, refused with a reason, or a crash."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from google.protobuf.message_factory import GetMessageClass

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.formats.avro.columns import avro_columns
from sluiceway.formats.avro.writer_schemas import RegistrySchemas
from sluiceway.formats.protobuf.columns import message_columns
from sluiceway.formats.protobuf.message_schemas import RegistryMessages
from sluiceway.formats.protobuf.reader import MessageReader
from sluiceway.formats.protobuf.schema import MessageType, ProtobufSchema
from sluiceway.formats.protobuf.wire import Wire
from sluiceway.formats.schema_columns import NoColumnsError, SchemaColumn
from sluiceway.formats.schema_registry.client import RegisteredSchema
from sluiceway.types.dirty import DirtyReason

_IMPORT = re.compile(r"""^\s*import\s+(?:public\s+|weak\s+)?["']([^"']+)["']\s*;""", re.MULTILINE)
_NUMBERS = {"bool": True, "string": "ä", "bytes": b"\xff", "float": 0.5, "double": -0.25}

Texts = Mapping[str, str]


class _Store:
    """A registry that has one schema."""

    def __init__(self, schema: RegisteredSchema) -> None:
        self._schema = schema

    def schemas(self, ids: Iterable[int]) -> dict[int, RegisteredSchema]:
        return dict.fromkeys(ids, self._schema)


def registered(path: str, texts: Texts) -> RegisteredSchema:
    """A schema with those that it imports as its references, found in its package."""
    if path.endswith(".avsc"):
        return RegisteredSchema("AVRO", texts[path])
    found: dict[str, str] = {}
    _add_imports(path, texts, found, set())
    return RegisteredSchema("PROTOBUF", texts[path], tuple(found.items()))


def _add_imports(path: str, texts: Texts, found: dict[str, str], seen: set[str]) -> None:
    for name in _IMPORT.findall(texts[path]):
        if name in seen:
            continue
        seen.add(name)
        there = [each for each in texts if f"/{each}".endswith(f"/{name}")]
        if there:
            best = max(there, key=lambda each: _shared(each, path))
            _add_imports(best, texts, found, seen)
            found[name] = texts[best]


def _shared(one: str, other: str) -> int:
    """How many letters two paths begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), len(one))


def tried(schema: RegisteredSchema) -> str:
    """Why a schema is refused; empty for one that links and is read as it should be.

    Raises:
        AssertionError: A value is not what Google's reader has.
    """
    number = 1
    store: Any = _Store(schema)
    if schema.kind == "AVRO":
        writer = RegistrySchemas(store).of([number])[number]
        if isinstance(writer, DirtyValueError):
            return _reason(writer)
        assert callable(writer.read)
        _check_columns(lambda: avro_columns(schema.text))
        return ""
    messages = RegistryMessages(store)
    first = messages.of([(number, (0,))])[number, (0,)]
    linked = messages._schemas[number]
    if isinstance(linked, DirtyValueError):
        return _reason(linked)
    # A file of options or enums alone has no message.
    assert isinstance(first, MessageReader) or not linked.top
    known: dict[MessageType, MessageReader] = {}
    for message in linked.top:
        compare(linked, message, known.get(message) or MessageReader(message, known))
        _check_columns(partial(message_columns, linked, message.name))
    return ""


def _reason(error: DirtyValueError) -> str:
    row = error.row(0)
    assert row.reason is DirtyReason.UNKNOWN_SCHEMA
    assert "cannot be read: " in row.message
    return row.message


def _check_columns(columns: Callable[[], Iterable[SchemaColumn]]) -> None:
    """Each field has a type, or a reason why not; so has a schema that is none of rows."""
    with suppress(NoColumnsError):
        assert all(column.type is not None or column.refused for column in columns())


def compare(schema: ProtobufSchema, message: MessageType, reader: MessageReader) -> None:
    """Write all plain fields of a message with Google's class, and read them with ours."""
    descriptor = schema._pool.FindMessageTypeByName(message.name)
    made = GetMessageClass(descriptor)()
    wanted: dict[str, object] = {}
    oneofs: Counter[int] = Counter()
    for field in message.fields:
        of = descriptor.fields_by_number[field.number]
        oneofs[field.oneof] += field.oneof >= 0
        if of.message_type is not None or oneofs[field.oneof] > 1:
            continue
        value: Any = _NUMBERS.get(field.kind, 7)
        if of.enum_type is not None:
            value = of.enum_type.values[-1].number
        if field.repeated:
            getattr(made, field.name).extend([value, value])
        else:
            setattr(made, field.name, value)
        told = of.enum_type.values_by_number[value].name if of.enum_type is not None else value
        wanted[field.name] = [told, told] if field.repeated else told
    payload = made.SerializePartialToString()
    found = reader.read(Wire(payload), len(payload))
    for name, value in wanted.items():
        assert _plain(found[name]) == value, f"{message.name}.{name}: {found[name]!r}"


def _plain(value: Any) -> object:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return float(value) if type(value).__name__ == "Float32" else value
