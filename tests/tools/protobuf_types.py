"""Messages made at run time with another implementation of Protobuf, to write payloads with."""

from collections.abc import Sequence
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    timestamp_pb2,
    wrappers_pb2,
)

TYPES = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7,
    "bool": 8, "string": 9, "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16,
    "sint32": 17, "sint64": 18,
}  # fmt: skip
_WELL_KNOWN = (timestamp_pb2, duration_pb2, wrappers_pb2)


def file_of(name: str, package: str, syntax: str) -> Any:
    """An empty file of declarations that may use the well-known types."""
    found = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax=syntax)
    found.dependency.extend(module.DESCRIPTOR.name for module in _WELL_KNOWN)
    return found


def add_field(message: Any, name: str, number: int, of: str, *, repeated: bool = False) -> Any:
    """Add a field; `of` is a scalar's name or a full name with a dot before."""
    field = message.field.add(name=name, number=number, label=3 if repeated else 1)
    if of in TYPES:
        field.type = TYPES[of]
    else:
        field.type_name = of
    return field


def descriptor_set(files: Sequence[Any]) -> bytes:
    """The bytes of a descriptor set with the files and the well-known types."""
    found = descriptor_pb2.FileDescriptorSet()
    for module in _WELL_KNOWN:
        module.DESCRIPTOR.CopyToProto(found.file.add())
    found.file.extend(files)
    return bytes(found.SerializeToString())


def message_class(files: Sequence[Any], name: str) -> Any:
    """The class of a message."""
    pool = descriptor_pool.DescriptorPool()
    for module in _WELL_KNOWN:
        one = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(one)
        pool.AddSerializedFile(one.SerializeToString())
    for one in files:
        pool.AddSerializedFile(one.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
