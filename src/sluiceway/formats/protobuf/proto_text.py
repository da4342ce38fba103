"""A `.proto` file's text -> its declarations: what registries keep.

Source: the Protocol Buffers language specification, proto2 and proto3. Options, services and
extensions change nothing about how payloads are read, and are passed over.
"""

import re

from sluiceway.formats.protobuf.schema import (
    MAX_SCHEMA_BYTES,
    SCALARS,
    ProtobufSchemaError,
    WrittenEnum,
    WrittenField,
    WrittenFile,
    WrittenMessage,
)

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/"""
    r"""|(?P<token>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[A-Za-z_][A-Za-z0-9_.]*"""
    r"""|\.[A-Za-z_][A-Za-z0-9_.]*|[0-9][A-Za-z0-9.+]*|[^\s\w])""",
    re.DOTALL,
)
_SCALAR_NAMES = frozenset(SCALARS.values())
_LABELS = frozenset({"optional", "required", "repeated"})
_PASSED_OVER = frozenset({"option", "reserved", "extensions", "extend", "service", "import"})
_MAX_DEPTH = 100


def parse_proto(text: str) -> WrittenFile:
    """Read a `.proto` text. Called once a schema.

    Raises:
        ProtobufSchemaError: It is none, or has an edition, which this version cannot read.
    """
    if len(text) > MAX_SCHEMA_BYTES:
        raise ProtobufSchemaError(f"the schema has more than {MAX_SCHEMA_BYTES} characters")
    return _Parser(text).file()


class _Parser:
    """Reads tokens one after the other."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0

    def file(self) -> WrittenFile:
        found = WrittenFile()
        while self._at < len(self._tokens):
            match self._next():
                case "syntax":
                    self._expect("=")
                    found.syntax = self._next().strip("\"'")
                    self._expect(";")
                    if found.syntax not in ("proto2", "proto3"):
                        raise ProtobufSchemaError(f"the syntax {found.syntax} is not known")
                case "edition":
                    raise ProtobufSchemaError("editions are not in this version")
                case "package":
                    found.package = self._next()
                    self._expect(";")
                case "message":
                    found.messages.append(self._message(1))
                case "enum":
                    found.enums.append(self._enum())
                case ";":
                    pass
                case word if word in _PASSED_OVER:
                    self._pass_over()
                case word:
                    raise self._unexpected(word)
        return found

    def _message(self, depth: int) -> WrittenMessage:
        if depth > _MAX_DEPTH:
            raise ProtobufSchemaError("messages are nested too deep")
        found = WrittenMessage(self._next())
        self._expect("{")
        oneofs = 0
        while (word := self._next()) != "}":
            match word:
                case "message":
                    found.messages.append(self._message(depth + 1))
                case "enum":
                    found.enums.append(self._enum())
                case "oneof":
                    self._oneof(found, oneofs)
                    oneofs += 1
                case ";":
                    pass
                case _ if word in _PASSED_OVER and self._peek() != "=":
                    self._pass_over()
                case _:
                    self._field(found, word, -1)
        return found

    def _oneof(self, holder: WrittenMessage, index: int) -> None:
        self._next()
        self._expect("{")
        while (word := self._next()) != "}":
            if word == "option":
                self._pass_over()
            elif word != ";":
                self._field(holder, word, index)

    def _field(self, holder: WrittenMessage, word: str, oneof: int) -> None:
        label = word if word in _LABELS else ""
        kind = self._next() if label else word
        if kind == "map" and self._peek() == "<":
            self._map(holder)
            return
        name = self._next()
        number = self._number()
        if kind == "group":
            self._pass_over()
            holder.fields.append(WrittenField(name, number, "group"))
            return
        self._options()
        is_scalar = kind in _SCALAR_NAMES
        if not is_scalar and not re.fullmatch(r"\.?[A-Za-z_][A-Za-z0-9_.]*", kind):
            raise self._unexpected(kind)
        holder.fields.append(
            WrittenField(
                name,
                number,
                kind if is_scalar else "",
                "" if is_scalar else kind,
                label == "repeated",
                oneof,
                label == "optional",
            )
        )

    def _map(self, holder: WrittenMessage) -> None:
        self._expect("<")
        key = self._next()
        self._expect(",")
        value = self._next()
        self._expect(">")
        name = self._next()
        number = self._number()
        self._options()
        if key not in _SCALAR_NAMES - {"float", "double", "bytes"}:
            raise ProtobufSchemaError(f"{key} is no type of a map's keys")
        entry = "".join(part.capitalize() for part in name.split("_")) + "Entry"
        of = ("", value) if value not in _SCALAR_NAMES else (value, "")
        fields = [WrittenField("key", 1, key), WrittenField("value", 2, *of)]
        holder.messages.append(WrittenMessage(entry, fields, is_map_entry=True))
        holder.fields.append(WrittenField(name, number, "", entry, repeated=True))

    def _enum(self) -> WrittenEnum:
        name, values = self._next(), []
        self._expect("{")
        while (word := self._next()) != "}":
            if word in ("option", "reserved") and self._peek() != "=":
                self._pass_over()
            elif word != ";":
                values.append((word, self._number()))
                self._options()
        return WrittenEnum(name, tuple(values))

    def _number(self) -> int:
        self._expect("=")
        sign = -1 if self._peek() == "-" else 1
        if sign < 0:
            self._next()
        word = self._next()
        try:
            octal = word.startswith("0") and word.isdigit() and len(word) > 1
            return sign * int(word, 8 if octal else 0)
        except ValueError as error:
            raise self._unexpected(word) from error

    def _options(self) -> None:
        """Pass over `[...]` and the semicolon."""
        self._pass_over()

    def _pass_over(self) -> None:
        """Go behind the end of a statement: a semicolon, or the brace that ends its body."""
        depth = 0
        while True:
            word = self._next()
            if word in "{[(":
                depth += 1
            elif word in "}])":
                depth -= 1
                if depth == 0 and word == "}":
                    break
            elif word == ";" and depth == 0:
                break
        if word == "}" and self._at < len(self._tokens) and self._peek() == ";":
            self._next()

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise ProtobufSchemaError("the schema ends in the middle of a declaration")
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, wanted: str) -> None:
        word = self._next()
        if word != wanted:
            raise ProtobufSchemaError(f"expected {wanted}, got {word[:40]}")

    def _unexpected(self, word: str) -> ProtobufSchemaError:
        return ProtobufSchemaError(f"{word[:40]} is not expected here")


def _tokens(text: str) -> list[str]:
    found, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ProtobufSchemaError(f"the schema cannot be read at character {position}")
        position = match.end()
        if match["token"] is not None:
            found.append(match["token"])
    return found
