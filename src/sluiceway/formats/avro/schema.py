"""Avro schemas: their JSON text -> nodes, and the fingerprint in single-object payloads.

Source: Apache Avro 1.12 specification. As it demands, an invalid attribute or logical type is
    ignored; an invalid schema is refused.
"""

import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sluiceway.formats.connect_times import CONNECT_DECIMAL, CONNECT_TEXT_TIMES, CONNECT_TIMES

MAX_SCHEMA_CHARS = 4 * 1024 * 1024
MAX_SCHEMA_DEPTH = 100
MAX_DECIMAL_DIGITS = 1000
BIG_DECIMAL = "big-decimal"
PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

_TIMES = {
    ("int", "date"),
    ("int", "time-millis"),
    *(("long", f"{local}timestamp-{unit}") for local in ("", "local-") for unit in (
        "millis", "micros", "nanos"
    )),
    ("long", "time-micros"),
    ("string", "uuid"),
}  # fmt: skip
_UUID_BYTES = 16
# Kafka Connect's own default for a decimal without a precision.
CONNECT_PRECISION = 64
_EMPTY_FINGERPRINT = 0xC15D213AA4D7A795


class AvroSchemaError(ValueError):
    """A text is no Avro schema; says why."""


@dataclass(frozen=True, slots=True)
class Logical:
    """A logical type.

    Attributes:
        name: Name in the specification, or one of `connect_times`.
        scale: Scale of a decimal.
        precision: Most digits of a decimal.
    """

    name: str
    scale: int = 0
    precision: int = 0


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parts."""

    name: str
    logical: Logical | None = None


@dataclass(frozen=True, slots=True)
class Fixed:
    """Bytes of a fixed number."""

    size: int
    logical: Logical | None = None


@dataclass(frozen=True, slots=True)
class Enum:
    """One of some symbols."""

    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """Items of one type."""

    items: "Node"


@dataclass(frozen=True, slots=True)
class Map:
    """Values of one type, by text."""

    values: "Node"


@dataclass(frozen=True, slots=True)
class Union:
    """One of some types."""

    branches: tuple["Node", ...]


@dataclass(eq=False, slots=True)
class AvroRecord:
    """Named fields in order. May hold itself, so it is complete only after its schema is read."""

    name: str
    fields: list[tuple[str, "Node"]] = field(default_factory=list)


Node = Primitive | Fixed | Enum | Array | Map | Union | AvroRecord


def parse_schema(
    text: str,
    referenced: Iterable[str] = (),
    *,
    connect: bool = False,
    texts: Container[str] = CONNECT_TEXT_TIMES,
) -> Node:
    """Read a schema. Called once a schema and process.

    Args:
        text: JSON.
        referenced: Schemas of the named types that it uses, dependencies first.
        connect: Whether Kafka Connect's names for numbers are logical types.
        texts: Kafka Connect's names for texts that are logical types too.

    Raises:
        AvroSchemaError: The text is no schema.
    """
    names: dict[str, Node] = {}
    try:
        for other in referenced:
            _Parser(names, texts if connect else None).parse(_load(other), "", 0)
        return _Parser(names, texts if connect else None).parse(_load(text), "", 0)
    except RecursionError as error:
        raise AvroSchemaError("the schema is nested too deep") from error


def _load(text: str) -> Any:
    if len(text) > MAX_SCHEMA_CHARS:
        raise AvroSchemaError(f"the schema has more than {MAX_SCHEMA_CHARS} characters")
    stripped = text.removeprefix("\ufeff").strip()
    if stripped in PRIMITIVES:
        return stripped
    try:
        return json.loads(stripped)
    except ValueError as error:
        raise AvroSchemaError(f"the schema is not JSON: {error}") from error


class _Parser:
    """Reads one schema into a table of names that references share."""

    def __init__(self, names: dict[str, Node], texts: Container[str] | None) -> None:
        self._names = names
        self._texts = texts

    def parse(self, found: Any, space: str, depth: int) -> Node:
        if depth > MAX_SCHEMA_DEPTH:
            raise AvroSchemaError("the schema is nested too deep")
        if isinstance(found, str):
            return self._named(found, space)
        if isinstance(found, list):
            branches = tuple(self.parse(one, space, depth + 1) for one in found)
            if any(isinstance(branch, Union) for branch in branches):
                raise AvroSchemaError("a union stands directly in a union")
            return Union(branches)
        if not isinstance(found, dict):
            raise AvroSchemaError("a type is text, a list or an object")
        return self._complex(found, space, depth)

    def _named(self, name: str, space: str) -> Node:
        if name in PRIMITIVES:
            return Primitive(name)
        full = name if "." in name or not space else f"{space}.{name}"
        known = self._names.get(full) or self._names.get(name)
        if known is None:
            raise AvroSchemaError(f"the type {full} is not known")
        return known

    def _complex(self, found: Mapping[str, Any], space: str, depth: int) -> Node:
        kind = found.get("type")
        match kind:
            case "record" | "error":
                return self._record(found, space, depth)
            case "enum":
                return self._enum(found, space)
            case "fixed":
                return self._fixed(found, space)
            case "array":
                return Array(self.parse(_part(found, "items"), space, depth + 1))
            case "map":
                return Map(self.parse(_part(found, "values"), space, depth + 1))
            case str() if kind in PRIMITIVES:
                logical = _logical_of(found, kind) or self._connect_name(found, kind)
                return Primitive(kind, logical or _connect_decimal(found, kind))
            case _:
                # `{"type": {"type": "array", ...}}` and `{"type": "some.Name"}`.
                return self.parse(_part(found, "type"), space, depth + 1)

    def _connect_name(self, found: Mapping[str, Any], kind: str) -> Logical | None:
        """Kafka Connect's logical type of a number or a text, where that is a time."""
        name = found.get("connect.name")
        if self._texts is None or not isinstance(name, str):
            return None
        number = kind in ("int", "long") and name in CONNECT_TIMES
        text = kind == "string" and name in self._texts
        return Logical(name) if number or text else None

    def _record(self, found: Mapping[str, Any], space: str, depth: int) -> Node:
        name, space = full_name(found, space)
        made = AvroRecord(name)
        self._names.setdefault(name, made)
        fields = _part(found, "fields")
        if not isinstance(fields, list):
            raise AvroSchemaError(f"the fields of {name} are no list")
        for one in fields:
            if not isinstance(one, dict) or not isinstance(one.get("name"), str):
                raise AvroSchemaError(f"a field of {name} has no name")
            made.fields.append((one["name"], self.parse(_part(one, "type"), space, depth + 1)))
        if len({field for field, _ in made.fields}) != len(made.fields):
            raise AvroSchemaError(f"two fields of {name} have one name")
        return self._known(name, made)

    def _enum(self, found: Mapping[str, Any], space: str) -> Node:
        name, _ = full_name(found, space)
        symbols = _part(found, "symbols")
        if not isinstance(symbols, list) or not all(isinstance(one, str) for one in symbols):
            raise AvroSchemaError(f"the symbols of {name} are no list of texts")
        return self._known(name, Enum(tuple(symbols)))

    def _fixed(self, found: Mapping[str, Any], space: str) -> Node:
        name, _ = full_name(found, space)
        size = _part(found, "size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise AvroSchemaError(f"the size of {name} is no whole number")
        return self._known(name, Fixed(size, _logical_of(found, "fixed")))

    def _known(self, name: str, made: Node) -> Node:
        """A named type; when it is defined again with equal text, the first one."""
        known = self._names.setdefault(name, made)
        alike = known == made
        if isinstance(known, AvroRecord) and isinstance(made, AvroRecord):
            alike = known.fields == made.fields
        if not alike:
            raise AvroSchemaError(f"the type {name} is defined twice, and not alike")
        return known


def full_name(found: Mapping[str, Any], space: str) -> tuple[str, str]:
    """Full name of a named type, and the namespace inside of it."""
    name = found.get("name")
    if not isinstance(name, str) or not name:
        raise AvroSchemaError("a named type has no name")
    if "." not in name:
        own = found.get("namespace", space)
        name = f"{own}.{name}" if isinstance(own, str) and own else name
    return name, name.rpartition(".")[0]


def _part(found: Mapping[str, Any], key: str) -> Any:
    if key not in found:
        raise AvroSchemaError(f"a type has no `{key}`")
    return found[key]


def _logical_of(found: Mapping[str, Any], of: str) -> Logical | None:
    name = found.get("logicalType")
    if not isinstance(name, str):
        return None
    if (of, name) == ("bytes", BIG_DECIMAL):
        return Logical(name)
    if name == "decimal" and of in ("bytes", "fixed"):
        precision, scale = found.get("precision"), found.get("scale", 0)
        if type(precision) is not int or type(scale) is not int:
            return None
        valid = 0 <= scale <= precision and 0 < precision <= MAX_DECIMAL_DIGITS
        return Logical(name, scale, precision) if valid else None
    if of == "fixed":
        is_uuid = name == "uuid" and found.get("size") == _UUID_BYTES
        return Logical(name) if is_uuid else None
    return Logical(name) if (of, name) in _TIMES else None


def _connect_decimal(found: Mapping[str, Any], of: str) -> Logical | None:
    """Kafka Connect's decimal whose scale Avro does not allow: below 0, or above the precision."""
    if of != "bytes" or found.get("connect.name") != CONNECT_DECIMAL:
        return None
    parameters = found.get("connect.parameters")
    told = parameters.get("scale") if isinstance(parameters, dict) else None
    try:
        scale = int(found.get("scale", told))
        precision = int(found.get("precision", CONNECT_PRECISION))
    except (TypeError, ValueError):
        return None
    if abs(scale) > MAX_DECIMAL_DIGITS:
        return None
    return Logical("decimal", scale, max(precision, scale))


# Fingerprints


def fingerprint(text: str) -> int:
    """CRC-64-AVRO of a schema's Parsing Canonical Form.

    Raises:
        AvroSchemaError: The text is no schema.
    """
    crc = _EMPTY_FINGERPRINT
    for byte in canonical_form(text).encode("utf-8"):
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc


def canonical_form(text: str) -> str:
    """The schema's Parsing Canonical Form: equal for schemas that read payloads equally.

    Raises:
        AvroSchemaError: The text is no schema.
    """
    parse_schema(text)
    return json.dumps(_canonical(_load(text), ""), separators=(",", ":"), ensure_ascii=False)


def _canonical(found: Any, space: str) -> Any:
    if isinstance(found, str):
        return found if found in PRIMITIVES or "." in found or not space else f"{space}.{found}"
    if isinstance(found, list):
        return [_canonical(one, space) for one in found]
    kind = found["type"]
    if kind in ("record", "error", "enum", "fixed"):
        name, inner = full_name(found, space)
        made: dict[str, Any] = {"name": name, "type": kind}
        if kind in ("record", "error"):
            made["fields"] = [
                {"name": one["name"], "type": _canonical(one["type"], inner)}
                for one in found["fields"]
            ]
        elif kind == "enum":
            made["symbols"] = found["symbols"]
        else:
            made["size"] = found["size"]
        return made
    if kind in ("array", "map"):
        part = "items" if kind == "array" else "values"
        return {"type": kind, part: _canonical(found[part], space)}
    return _canonical(kind, space)


def _table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (_EMPTY_FINGERPRINT if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()
