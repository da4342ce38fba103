"""Columns of a JSON Schema: the type for each property of its object.

A JSON Schema says less than Avro's: a number may have any number of digits, and `format` is only a
hint. Values that do not fit the type are dirty, as everywhere.
"""

import re
from collections.abc import Iterable
from typing import Any

from sluiceway.convert.typed_values import Day, Instant
from sluiceway.formats.connect_times import (
    CONNECT_TIMES,
    DECIMAL,
    VARIABLE_DECIMAL,
    ZONED_TIMESTAMP,
)
from sluiceway.formats.json.schema_document import Documents, SchemaPlace
from sluiceway.formats.schema_columns import (
    ANY_SCALE,
    NoColumnsError,
    SchemaColumn,
    Walk,
    columns_of,
)
from sluiceway.types.hive_types import MAX_PRECISION
from sluiceway.types.schema import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    StringType,
    TimestampType,
)

_BIGINT = range(-(2**63), 2**63)
_MOST_REFERENCES = 100
_SCALE = re.compile(r"[0-9]{1,2}")
_CONNECT: dict[str, DataType] = {
    "int8": IntegerType(8),
    "int16": IntegerType(16),
    "int32": IntegerType(32),
    "int64": IntegerType(64),
    "float32": FloatType(32),
    "float64": FloatType(64),
}
"""Kafka Connect's types of an `integer` or `number`, in `connect.type`."""
_CHOICES = ("oneOf", "anyOf")
_PARTS = ("allOf", *_CHOICES, "then", "else")


def json_schema_columns(
    text: str, others: Iterable[tuple[str, str]] = (), *, meant: bool = False
) -> tuple[SchemaColumn, ...]:
    """The columns of a schema, in the order of its properties. Called on the driver.

    Args:
        text: The schema.
        others: Names and texts of the schemas that it refers to.
        meant: See `Walk`.

    Raises:
        NoColumnsError: It is no schema of an object with properties.
    """
    documents, top = Documents.read(text, others)
    seen = 0
    _check_one_place(top)
    while isinstance(top.node, dict) and isinstance(top.node.get("$ref"), str):
        found = documents.refer(top, top.node["$ref"])
        seen += 1
        if found is None or seen > _MOST_REFERENCES:
            raise NoColumnsError(f"its reference {top.node['$ref']!a} leads nowhere")
        top = found
        _check_one_place(top)
    properties = top.node.get("properties") if isinstance(top.node, dict) else None
    if not isinstance(properties, dict) or not properties:
        raise NoColumnsError("it is no JSON Schema of an object with properties")
    fields = [(name, SchemaPlace(node, top.document)) for name, node in properties.items()]
    return columns_of(
        fields, lambda walk, place: _Types(walk, documents, top).of(place), meant=meant
    )


def _check_one_place(top: SchemaPlace) -> None:
    if isinstance(top.node, dict) and (words := _several_places(top.node)):
        raise NoColumnsError(f"its properties stand in {words}, which are not put together")


def _several_places(node: dict[str, Any]) -> str:
    """The keywords under which a schema has properties, when there are several."""
    own: list[str] = [word for word in ("properties", "$ref") if word in node]
    parts = [
        word
        for word in _PARTS
        for one in (node[word] if isinstance(node.get(word), list) else [node.get(word)])
        if isinstance(one, dict) and not one.keys().isdisjoint(("properties", "$ref", *_PARTS))
    ]
    told = list(dict.fromkeys([*own, *parts]))
    return " and ".join(told) if len(told) > 1 else ""


class _Types:
    """Types of the schemas of one column."""

    def __init__(self, walk: Walk, documents: Documents, top: SchemaPlace) -> None:
        self._walk = walk
        self._documents = documents
        self._above: list[Any] = [top.node]

    def of(self, place: SchemaPlace) -> DataType:
        """Type of a schema, after its references; a reference never leads back to itself."""
        depth = len(self._above)
        while True:
            node = place.node
            if not isinstance(node, dict):
                raise self._walk.refusal("its schema takes any value, or none")
            if any(node is each for each in self._above):
                raise self._walk.refusal("its schema refers to itself")
            if len(self._above) - depth > _MOST_REFERENCES:
                raise self._walk.refusal(f"more than {_MOST_REFERENCES} references in a row")
            self._above.append(node)
            inner = self._inner(place)
            if inner is None:
                break
            place = inner
        found = self._plain(place)
        del self._above[depth:]
        return found

    def _inner(self, place: SchemaPlace) -> SchemaPlace | None:
        """The schema that it refers to, or its only alternative to null; None for itself."""
        node = place.node
        if words := _several_places(node):
            raise self._walk.refusal(f"its properties stand in {words}, which are not put together")
        if "$ref" in node:
            found = self._documents.refer(place, str(node["$ref"]))
            if found is None:
                raise self._walk.refusal(f"its reference {node['$ref']!a} leads nowhere")
            return found
        for word in _CHOICES:
            if isinstance(node.get(word), list):
                held = [one for one in node[word] if one != {"type": "null"}]
                if len(held) != 1:
                    raise self._walk.refusal(f"{len(held)} kinds of values by {word}")
                return SchemaPlace(held[0], place.document)
        every = node.get("allOf")
        if isinstance(every, list) and len(every) == 1 and "type" not in node:
            return SchemaPlace(every[0], place.document)
        if every is not None:
            raise self._walk.refusal("schemas that are put together by allOf are not read")
        return None

    def _plain(self, place: SchemaPlace) -> DataType:
        """Type of a schema that refers to no other."""
        node = place.node
        kind = self._kind(node)
        match kind:
            case "boolean":
                return BooleanType()
            case "integer":
                return self._integer(node)
            case "number":
                return self._number(node)
            case "string":
                return self._text(node)
            case "array":
                return self._array(place)
            case "object":
                return self._object(place)
            case "null":
                raise self._walk.refusal("it is never anything but null", as_text=False)
            case _:
                raise self._walk.refusal("its schema does not say a type")

    def _kind(self, node: Any) -> str:
        named = node.get("type")
        if isinstance(named, list):
            held = [one for one in named if one != "null"]
            if len(held) > 1:
                raise self._walk.refusal(f"{len(held)} kinds of values")
            named = held[0] if held else "null"
        if named is None:
            return _implied_kind(node)
        return str(named)

    def _integer(self, node: Any) -> DataType:
        make = CONNECT_TIMES.get(str(node.get("title")))
        made = None if make is None else make(0)
        if isinstance(made, Day):
            return DateType()
        if isinstance(made, Instant):
            return TimestampType()
        if made is not None and self._walk.meant:
            return self._walk.clock()
        if made is not None:
            self._walk.add_note("a clock's on a wall: {type: timestamp, timezone: ZONE} reads it")
        told = _CONNECT.get(str(node.get("connect.type")))
        if isinstance(told, IntegerType):
            return told
        bounds = [node.get(key) for key in ("minimum", "maximum")]
        if any(type(bound) is int and bound not in _BIGINT for bound in bounds):
            return DecimalType(MAX_PRECISION, 0)
        return IntegerType(64)

    def _number(self, node: Any) -> DataType:
        if node.get("title") == DECIMAL:
            parameters = node.get("connect.parameters")
            scale = str(parameters.get("scale")) if isinstance(parameters, dict) else ""
            if not _SCALE.fullmatch(scale) or int(scale) > MAX_PRECISION:
                raise self._walk.refusal("a decimal of Kafka Connect without a scale of a column")
            return DecimalType(MAX_PRECISION, int(scale))
        told = _CONNECT.get(str(node.get("connect.type")))
        if told is None:
            self._walk.add_note("a double rounds; a decimal keeps digits")
        return told or FloatType(64)

    def _text(self, node: Any) -> DataType:
        if node.get("connect.type") == "bytes" or node.get("contentEncoding") is not None:
            self._walk.add_note("bytes as text; binary with a `format` reads them")
        if self._walk.meant and node.get("title") == ZONED_TIMESTAMP:
            return TimestampType()
        match node.get("format"):
            case "date":
                return DateType()
            case "date-time":
                self._walk.add_note("times as text, which become instants; string keeps the offset")
                return TimestampType()
            case _:
                return StringType()

    def _array(self, place: SchemaPlace) -> DataType:
        items = place.node.get("items")
        if "prefixItems" in place.node or isinstance(items, list):
            raise self._walk.refusal("an array whose places have schemas of their own")
        if items is None:
            raise self._walk.refusal("an array whose items have no schema")
        return ListType(self._walk.under("[]", self.of, SchemaPlace(items, place.document)))

    def _object(self, place: SchemaPlace) -> DataType:
        properties = place.node.get("properties")
        values = place.node.get("additionalProperties")
        if place.node.get("title") == VARIABLE_DECIMAL:
            self._walk.add_note("decimals of any scale: say precision and scale")
            return ANY_SCALE
        if isinstance(properties, dict) and properties:
            found = [
                (name, self._walk.under(name, self.of, SchemaPlace(node, place.document)))
                for name, node in properties.items()
            ]
            return self._walk.struct(found)
        if isinstance(values, dict) and "patternProperties" not in place.node:
            return MapType(
                StringType(), self._walk.under("{}", self.of, SchemaPlace(values, place.document))
            )
        raise self._walk.refusal("an object whose schema names no properties")


def _implied_kind(node: Any) -> str:
    """The type of a schema without the keyword `type`."""
    values = node.get("enum", [node["const"]] if "const" in node else None)
    if isinstance(values, list) and values:
        held = [one for one in values if one is not None]
        if held and all(isinstance(one, str) for one in held):
            return "string"
    return "object" if isinstance(node.get("properties"), dict) else ""
