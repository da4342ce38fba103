"""Protobuf messages as values, from Google's descriptors, for the reader of payloads."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.descriptor_pool import DescriptorPool

from sluiceway.formats.options import MAX_PROTOBUF_BYTES

SCALARS = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32",
    8: "bool", 9: "string", 12: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64",
    17: "sint32", 18: "sint64",
}  # fmt: skip
_GROUP = 10
_OTHERS = {_GROUP: "group", 11: "message", 14: "enum"}
MAX_SCHEMA_BYTES = MAX_PROTOBUF_BYTES


class ProtobufSchemaError(ValueError):
    """A descriptor or text is no Protobuf schema, or an unsupported one; says why."""


@dataclass(eq=False, slots=True)
class EnumType:
    """An enum: the first of its names by number."""

    names: dict[int, str]


@dataclass(eq=False, slots=True)
class FieldType:
    """A field, ready to read.

    Attributes:
        kind: A scalar's name, `enum`, `message` or `group`.
        has_presence: Whether an unset field differs from one with the default value.
        oneof: Number of its oneof in the message; -1 for none.
    """

    name: str
    number: int
    kind: str
    repeated: bool
    has_presence: bool
    oneof: int
    of: "MessageType | EnumType | None" = None

    def signature(self) -> tuple[object, ...]:
        """Properties of a field that two versions must agree on."""
        of = self.of.name if isinstance(self.of, MessageType) else ""
        return self.name, self.kind, self.repeated, self.has_presence, of


@dataclass(eq=False, slots=True)
class MessageType:
    """A message, ready to read. May contain itself.

    Attributes:
        name: Full name, without a dot before.
        nested: Messages declared in it, in order, as Confluent's message indexes count them.
    """

    name: str
    fields: list[FieldType] = field(default_factory=list)
    nested: list["MessageType"] = field(default_factory=list)
    is_map_entry: bool = False


class ProtobufSchema:
    """All messages of some files.

    Args:
        pool: Descriptors of the files.
        file: Descriptor of the file that is the schema itself.
    """

    def __init__(self, pool: DescriptorPool, file: Any) -> None:
        self._pool = pool
        self._made: dict[str, MessageType] = {}
        self._top = tuple(file.message_types_by_name.values())

    @property
    def top(self) -> tuple[MessageType, ...]:
        """Messages of the schema itself, in order."""
        return tuple(map(self._of, self._top))

    def message(self, name: str) -> MessageType:
        """The message of a full name.

        Raises:
            ProtobufSchemaError: There is no such message; lists the existing ones.
        """
        try:
            return self._of(self._pool.FindMessageTypeByName(name.lstrip(".")))
        except KeyError:
            there = ", ".join(sorted(one.full_name for one in self._top)[:10])
            text = f"the schema has no message {name}; there is: {there}"
            raise ProtobufSchemaError(text) from None

    def at(self, indexes: Sequence[int]) -> MessageType | None:
        """The message of Confluent's message indexes; None when there is none."""
        if not indexes or not 0 <= indexes[0] < len(self._top):
            return None
        found = self._of(self._top[indexes[0]])
        for index in indexes[1:]:
            if not 0 <= index < len(found.nested):
                return None
            found = found.nested[index]
        return found

    def merge(self, other: "ProtobufSchema") -> None:
        """Add the fields of the same schema, linked with other versions of its imports.

        Raises:
            ProtobufSchemaError: The two disagree about a field: either might be meant.
        """
        seen: set[str] = set()
        pending = list(zip(self.top, other.top, strict=True))
        while pending:
            mine, its = pending.pop()
            if mine.name in seen:
                continue
            seen.add(mine.name)
            pending += zip(mine.nested, its.nested, strict=False)
            known = {one.number: one for one in mine.fields}
            for one in its.fields:
                same = known.setdefault(one.number, one)
                if same is one:
                    mine.fields.append(one)
                elif same.signature() != one.signature():
                    raise ProtobufSchemaError(
                        "it imports two versions of one file, which do not agree about the field "
                        f"{one.number} of {mine.name}"
                    )
                elif isinstance(same.of, MessageType) and isinstance(one.of, MessageType):
                    pending.append((same.of, one.of))
                elif isinstance(same.of, EnumType) and isinstance(one.of, EnumType):
                    same.of.names = one.of.names | same.of.names

    def _of(self, descriptor: Any) -> MessageType:
        """The message of a descriptor, with its nested ones; created once."""
        pending: list[Any] = []
        made = self._begun(descriptor, pending)
        while pending:
            one = pending.pop()
            of = self._made[one.full_name]
            groups = {each.message_type.full_name for each in one.fields if _is_group(each)}
            of.nested += [
                self._begun(inner, pending)
                for inner in one.nested_types
                if inner.full_name not in groups and not inner.GetOptions().map_entry
            ]
            of.fields += [
                self._field(each, pending, in_entry=of.is_map_entry) for each in one.fields
            ]
        return made

    def _begun(self, descriptor: Any, pending: list[Any]) -> MessageType:
        name = descriptor.full_name
        if name not in self._made:
            self._made[name] = MessageType(name, is_map_entry=descriptor.GetOptions().map_entry)
            pending.append(descriptor)
        return self._made[name]

    def _field(self, of: Any, pending: list[Any], *, in_entry: bool) -> FieldType:
        held: MessageType | EnumType | None = None
        if of.enum_type is not None:
            held = EnumType({})
            for value in of.enum_type.values:
                held.names.setdefault(value.number, value.name)
        elif of.message_type is not None:
            held = self._begun(of.message_type, pending)
        kind = SCALARS.get(of.type) or _OTHERS[of.type]
        oneof = -1 if of.containing_oneof is None else of.containing_oneof.index
        explicit = of.has_presence and (not in_entry or kind == "message")
        return FieldType(of.name, of.number, kind, of.is_repeated, explicit, oneof, held)


def _is_group(of: Any) -> bool:
    """Whether a field declares its own message, which Confluent's indexes do not count."""
    return bool(of.type == _GROUP and of.name == of.message_type.name.lower())


def link(files: Iterable[bytes], root: str | None = None) -> ProtobufSchema:
    """Resolve the names of some files.

    Args:
        files: Serialized descriptors, dependencies first.
        root: Name of the file that is the schema itself; None takes the last one.

    Raises:
        ProtobufSchemaError: A name is unknown, or a name or a number occurs twice.
    """
    pool = DescriptorPool()
    found = None
    try:
        for file in files:
            found = pool.AddSerializedFile(file)
    except TypeError as error:
        raise ProtobufSchemaError(str(error)) from error
    return ProtobufSchema(pool, found if root is None else pool.FindFileByName(root))
