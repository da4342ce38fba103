"""A descriptor set, as `protoc --include_imports --descriptor_set_out` writes it -> a schema."""

from collections.abc import Iterator

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from sluiceway.formats.protobuf.proto_text import bundled_files
from sluiceway.formats.protobuf.schema import MAX_SCHEMA_BYTES, ProtobufSchemaError, Schema, link


def read_descriptor_set(data: bytes) -> Schema:
    """Read a descriptor set. Called once a decoder. Its last file is the schema itself.

    Raises:
        ProtobufSchemaError: It is none, or a type that it uses is not there.
    """
    if len(data) > MAX_SCHEMA_BYTES:
        raise ProtobufSchemaError(f"the descriptor set has more than {MAX_SCHEMA_BYTES} bytes")
    try:
        found = FileDescriptorSet.FromString(data)
    except DecodeError as error:
        raise ProtobufSchemaError("the file is no descriptor set") from error
    if not found.file:
        raise ProtobufSchemaError("the descriptor set is empty")
    files = {file.name: file for file in found.file}
    missing = {name for file in files.values() for name in file.dependency} - files.keys()
    known = [file for name, file in bundled_files(missing) if name not in files] if missing else []
    return link(map(_plain, (*map(FileDescriptorProto.FromString, known), *_in_order(files))))


def _in_order(files: dict[str, FileDescriptorProto]) -> Iterator[FileDescriptorProto]:
    """The files, those that others import before them."""
    done: set[str] = set()
    for first in files:
        stack = [first]
        while stack:
            name = stack[-1]
            wanted = [one for one in files[name].dependency if one in files and one not in done]
            if not wanted or name in done:
                stack.pop()
                if name not in done:
                    done.add(name)
                    yield files[name]
            elif len(stack) > len(files):
                raise ProtobufSchemaError(f"the file {name} imports itself")
            else:
                stack += wanted


def _plain(file: FileDescriptorProto) -> bytes:
    """The file without what says nothing about payloads: its types need not be there."""
    for part in ("dependency", "public_dependency", "weak_dependency", "service", "extension"):
        file.ClearField(part)
    pending = list(file.message_type)
    while pending:
        message = pending.pop()
        message.ClearField("extension")
        pending += message.nested_type
    return bytes(file.SerializeToString())
