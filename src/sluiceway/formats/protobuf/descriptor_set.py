"""Descriptors -> a schema: sets, as `protoc --descriptor_set_out` writes them, and single files."""

import base64
from collections.abc import Iterable, Iterator

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from sluiceway.formats.protobuf.proto_text import bundled_files, compile_proto
from sluiceway.formats.protobuf.schema import (
    MAX_SCHEMA_BYTES,
    ProtobufSchema,
    ProtobufSchemaError,
    link,
)


def read_descriptor_set(data: bytes) -> ProtobufSchema:
    """Read a descriptor set. Called once a decoder. Its last file is the schema itself.

    Raises:
        ProtobufSchemaError: It is no descriptor set, or it lacks a type that it uses.
    """
    if len(data) > MAX_SCHEMA_BYTES:
        raise ProtobufSchemaError(f"the descriptor set has more than {MAX_SCHEMA_BYTES} bytes")
    try:
        found = FileDescriptorSet.FromString(data)
    except DecodeError as error:
        raise ProtobufSchemaError("the file is no descriptor set") from error
    if not found.file:
        raise ProtobufSchemaError("the descriptor set is empty")
    return _linked({file.name: file for file in found.file})


def read_schema(text: str, imported: Iterable[tuple[str, str]] = ()) -> ProtobufSchema:
    """Read a schema of a registry: a `.proto` text, or a file's descriptor in Base64.

    Called once a schema and process. Some serializers register descriptors, and some registries
    return them unchanged.

    Args:
        text: The schema.
        imported: As in `compile_proto`.

    Raises:
        ProtobufSchemaError: It is neither, or it lacks a type that it uses.
    """
    given = tuple(imported)
    root = _serialized(text)
    if root is None:
        return compile_proto(text, given)
    files: dict[str, FileDescriptorProto] = {}
    for name, other in given:
        file = _serialized(other)
        if file is None:
            raise ProtobufSchemaError(
                f"it is a descriptor, and {name}, which it imports, is a text"
            )
        file.name = name
        files.setdefault(name, file)
    files.pop(root.name, None)
    return _linked({**files, root.name: root})


def _serialized(text: str) -> FileDescriptorProto | None:
    """The descriptor in a Base64 text; None for any other text."""
    try:
        found = FileDescriptorProto.FromString(base64.b64decode(text.strip(), validate=True))
    except (ValueError, DecodeError):
        return None
    return found if found.name else None


def _linked(files: dict[str, FileDescriptorProto]) -> ProtobufSchema:
    """The schema of some files, the last of which is the schema itself."""
    root = list(files)[-1]
    missing = {name for file in files.values() for name in file.dependency} - files.keys()
    known = [file for name, file in bundled_files(missing) if name not in files] if missing else []
    own = map(_plain, (*map(FileDescriptorProto.FromString, known), *_in_order(files)))
    return link(own, root)


def _in_order(files: dict[str, FileDescriptorProto]) -> Iterator[FileDescriptorProto]:
    """The files, dependencies first."""
    done: set[str] = set()
    for first in files:
        stack = [first]
        while stack:
            name = stack[-1]
            wanted = [one for one in files[name].dependency if one in files and one not in done]
            if name in done or not wanted:
                stack.pop()
                if name not in done:
                    done.add(name)
                    yield files[name]
            elif wanted[0] in stack:
                raise ProtobufSchemaError(f"the file {wanted[0]} imports itself")
            else:
                stack.append(wanted[0])


def _plain(file: FileDescriptorProto) -> bytes:
    """The file without parts that do not affect payloads, whose types may be missing."""
    for part in ("dependency", "public_dependency", "weak_dependency", "service", "extension"):
        file.ClearField(part)
    pending = list(file.message_type)
    while pending:
        message = pending.pop()
        message.ClearField("extension")
        pending += message.nested_type
    return bytes(file.SerializeToString())
