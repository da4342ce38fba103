"""Protobuf messages as values: what a descriptor or a `.proto` text says, with names resolved.

Source: the Protocol Buffers language and descriptor specifications, proto2 and proto3.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sluiceway.formats.schema_options import MAX_PROTOBUF_BYTES

SCALARS = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32",
    8: "bool", 9: "string", 12: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64",
    17: "sint32", 18: "sint64",
}  # fmt: skip
GROUP = 10
REPEATED = 3
MAX_SCHEMA_BYTES = MAX_PROTOBUF_BYTES


class ProtobufSchemaError(ValueError):
    """A descriptor or text is no Protobuf schema, or not one that can be read; says why."""


@dataclass(frozen=True, slots=True)
class WrittenField:
    """A field as it is declared.

    Attributes:
        kind: A scalar's name; empty for a message or an enum; `group`.
        of: Name of the message or enum, as it is written.
        oneof: Which oneof of the message it is in; -1 for none.
        optional: `optional` is written in proto3.
    """

    name: str
    number: int
    kind: str
    of: str = ""
    repeated: bool = False
    oneof: int = -1
    optional: bool = False


@dataclass(frozen=True, slots=True)
class WrittenEnum:
    """An enum as it is declared: names and numbers in order."""

    name: str
    values: tuple[tuple[str, int], ...]


@dataclass(slots=True)
class WrittenMessage:
    """A message as it is declared."""

    name: str
    fields: list[WrittenField] = field(default_factory=list)
    messages: list["WrittenMessage"] = field(default_factory=list)
    enums: list[WrittenEnum] = field(default_factory=list)
    is_map_entry: bool = False


@dataclass(slots=True)
class WrittenFile:
    """A file of declarations; `syntax` is `proto2` or `proto3`."""

    package: str = ""
    syntax: str = "proto2"
    messages: list[WrittenMessage] = field(default_factory=list)
    enums: list[WrittenEnum] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class EnumType:
    """An enum: the first of its names by number."""

    names: dict[int, str]


@dataclass(eq=False, slots=True)
class FieldType:
    """A field, ready to read.

    Attributes:
        kind: A scalar's name, `enum`, `message` or `group`.
        has_presence: Not set is told from the default value.
        oneof: Which oneof of the message it is in; -1 for none.
    """

    name: str
    number: int
    kind: str
    repeated: bool
    has_presence: bool
    oneof: int
    of: "MessageType | EnumType | None" = None


@dataclass(eq=False, slots=True)
class MessageType:
    """A message, ready to read. May hold itself.

    Attributes:
        name: With its package, without a dot before.
        nested: Messages declared in it, in order: what Confluent's message indexes count.
    """

    name: str
    fields: list[FieldType] = field(default_factory=list)
    nested: list["MessageType"] = field(default_factory=list)
    is_map_entry: bool = False


@dataclass(frozen=True, slots=True)
class Schema:
    """All messages of some files.

    Attributes:
        by_name: By full name.
        top: Messages of the last file, in order.
    """

    by_name: dict[str, MessageType]
    top: tuple[MessageType, ...]

    def message(self, name: str) -> MessageType:
        """The message of a full name.

        Raises:
            ProtobufSchemaError: There is none; says which there are.
        """
        found = self.by_name.get(name.lstrip("."))
        if found is None:
            there = ", ".join(sorted(one.name for one in self.top)[:10])
            raise ProtobufSchemaError(f"the schema has no message {name}; there is: {there}")
        return found

    def at(self, indexes: Sequence[int]) -> MessageType | None:
        """The message that Confluent's message indexes name."""
        messages: Sequence[MessageType] = self.top
        found = None
        for index in indexes:
            if not 0 <= index < len(messages):
                return None
            found = messages[index]
            messages = [one for one in found.nested if not one.is_map_entry]
        return found


def link(files: Iterable[WrittenFile]) -> Schema:
    """Resolve the names of some files; the last one is the schema itself.

    Raises:
        ProtobufSchemaError: A name is not known, is there twice, or a number is.
    """
    linker = _Linker()
    top: list[MessageType] = []
    for file in files:
        linker.declare_enums(file.enums, file.package)
        top = [linker.declare(message, file.package) for message in file.messages]
        linker.pending += [
            (written, made, file.syntax)
            for message, one in zip(file.messages, top, strict=True)
            for written, made in _walk(message, one)
        ]
    for written, made, syntax in linker.pending:
        linker.fill(written, made, syntax)
    return Schema(linker.messages, tuple(top))


def _walk(
    written: WrittenMessage, made: MessageType
) -> Iterator[tuple[WrittenMessage, MessageType]]:
    yield written, made
    for inner, one in zip(written.messages, made.nested, strict=True):
        yield from _walk(inner, one)


class _Linker:
    """Names of all files."""

    def __init__(self) -> None:
        self.messages: dict[str, MessageType] = {}
        self.pending: list[tuple[WrittenMessage, MessageType, str]] = []
        self._enums: dict[str, EnumType] = {}

    def declare(self, written: WrittenMessage, scope: str) -> MessageType:
        name = f"{scope}.{written.name}".lstrip(".")
        self._check_new(name)
        made = MessageType(name, is_map_entry=written.is_map_entry)
        self.messages[name] = made
        self.declare_enums(written.enums, name)
        made.nested += [self.declare(inner, name) for inner in written.messages]
        return made

    def declare_enums(self, enums: Iterable[WrittenEnum], scope: str) -> None:
        for written in enums:
            name = f"{scope}.{written.name}".lstrip(".")
            self._check_new(name)
            names: dict[int, str] = {}
            for value, number in written.values:
                names.setdefault(number, value)
            self._enums[name] = EnumType(names)

    def _check_new(self, name: str) -> None:
        if name in self.messages or name in self._enums:
            raise ProtobufSchemaError(f"the type {name} is declared twice")

    def fill(self, written: WrittenMessage, made: MessageType, syntax: str) -> None:
        numbers = set()
        for one in written.fields:
            if one.number in numbers or one.number < 1:
                text = f"the number {one.number} in {made.name} is not a field's own"
                raise ProtobufSchemaError(text)
            numbers.add(one.number)
            of = self._resolve(one.of, made.name) if one.of and not one.kind else None
            kind = one.kind or ("enum" if isinstance(of, EnumType) else "message")
            explicit = syntax == "proto2" or one.optional or one.oneof >= 0
            explicit = (explicit and not written.is_map_entry) or kind == "message"
            made.fields.append(
                FieldType(
                    one.name, one.number, kind, one.repeated, explicit and not one.repeated,
                    -1 if one.optional else one.oneof, of,
                )
            )  # fmt: skip

    def _resolve(self, name: str, scope: str) -> MessageType | EnumType:
        """A name as C++ does: from the innermost scope outwards."""
        if name.startswith("."):
            found = self._known(name[1:])
        else:
            found = self._known(f"{scope}.{name}")
            while found is None and scope:
                scope = scope.rpartition(".")[0]
                found = self._known(f"{scope}.{name}".lstrip("."))
        if found is None:
            raise ProtobufSchemaError(f"the type {name} is not known")
        return found

    def _known(self, name: str) -> MessageType | EnumType | None:
        return self.messages.get(name) or self._enums.get(name)
