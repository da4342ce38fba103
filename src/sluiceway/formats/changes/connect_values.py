"""Values that Kafka Connect writes in another form, with their types in the message's schema.

Its JSON converter writes a decimal as the bytes of a whole number, in base64, and a time as a
number. Only the message's schema has the type and the scale.
Source: Kafka Connect's `JsonConverter`, and the semantic types of Debezium's documentation.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from typing import cast

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.extra_keys import WRAPPED_SCHEMA, is_wrapped
from sluiceway.convert.json_values import JsonObject, NumberText, map_entry
from sluiceway.convert.schema_values import Meaning, MeantArray, MeantObject
from sluiceway.convert.typed_values import WallText
from sluiceway.formats.connect_columns import ConnectTypes
from sluiceway.formats.connect_times import (
    CONNECT_TEXT_TIMES,
    CONNECT_TIMES,
    DECIMAL,
    VARIABLE_DECIMAL,
)
from sluiceway.formats.schema_columns import UntypedFieldError, Walk
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.schema import (
    BinaryType,
    DataType,
    DateType,
    Field,
    ListType,
    LocalTimestampType,
    MapType,
    Schema,
    StructType,
    TimestampType,
    leaves,
)

MAX_DECIMAL_BYTES = 512
MAX_SCALE = 1000

_WHOLE = re.compile(r"-?\d{1,19}", re.ASCII)
_SCALE = re.compile(r"-?\d{1,5}", re.ASCII)
_EXACT = Context(prec=3000)
_TIMES = (DateType, TimestampType, LocalTimestampType)
_Node = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Target:
    """The target of values.

    Attributes:
        type: Type of the column; None inside of a value that is kept as text.
        unit: Unit of times; None without one.
        redact: Whether the keys of a map stay out of messages.
    """

    type: DataType | None
    unit: str | None = None
    redact: bool = False

    @property
    def takes_times(self) -> bool:
        """Whether a number is a time here, and the column does not say which."""
        return self.unit is None and isinstance(self.type, _TIMES)

    @property
    def element(self) -> "_Target":
        """Target of an array's items."""
        return replace(self, type=self.type.element if isinstance(self.type, ListType) else None)

    @property
    def key(self) -> "_Target":
        """Target of a map's keys, which have no unit."""
        return _Target(self.type.key if isinstance(self.type, MapType) else None)

    @property
    def value(self) -> "_Target":
        """Target of an object's values, unless it is a struct."""
        return replace(self, type=self.type.value if isinstance(self.type, MapType) else None)


def schema_marks(schema: Schema) -> tuple[bytes, ...]:
    """Byte strings in messages with a text whose schema may give it another meaning.

    The fast path reads no schema, and the text can look like another number or instant. Called when
    a decoder is made.
    """
    kinds = [leaf for field in schema.fields for leaf, _ in leaves(field.type, field.policy)]
    walls = CONNECT_TEXT_TIMES if any(isinstance(kind, _TIMES) for kind in kinds) else ()
    # Letters of a name may be escaped.
    return (DECIMAL.encode("ascii"), b"\\u", *(name.encode("ascii") for name in walls))


def see_wrapped(message: Mapping[str, object]) -> Callable[[Field], Mapping[str, object]] | None:
    """What columns read of a message that may have its schema; None without a schema."""
    return SchemaView(message).of if is_wrapped(message) else None


class SchemaView:
    """A message with its own schema, read by that schema. Made for each such message.

    Args:
        message: Object with the keys `schema` and `payload`; with `schema` given, the row itself.
        schema: Connect's schema of the row.
    """

    def __init__(self, message: Mapping[str, object], schema: _Node | None = None) -> None:
        self._message = message
        self._wrapped = schema is None
        self._schema: object = message.get(WRAPPED_SCHEMA) if schema is None else schema
        # Fields by name, for structs that were read; nodes live as long as the message.
        self._fields: dict[int, dict[object, object]] = {}

    def of(self, field: Field) -> Mapping[str, object]:
        """The object that a column's reader gets. Called for each column.

        Args:
            field: The column; its path begins with `payload` where the message has that.

        Returns:
            The message, or the part that the reader needs, with decimals as numbers. Times are
            times where the column is one and has no unit of its own.

        Raises:
            DirtyValueError: A decimal is not valid, or the schema lacks its scale.
        """
        message, path = self._message, field.path or (field.name,)
        node, value = self._schema, cast("object", message)
        for place, key in enumerate(path):
            if not isinstance(value, dict) or not isinstance(node, dict) or key not in value:
                return message
            if isinstance(value, JsonObject) and key in value.doubled:
                return message
            node = node if self._wrapped and not place else self._below(node, key)
            value = value[key]
        try:
            target = _Target(field.type, field.time_unit, field.policy.redact)
            found = self._read(value, node, target)
        except DirtyValueError as error:
            raise error.under(*path) from None
        if found is value:
            return message
        if self._wrapped and isinstance(message, JsonObject) and WRAPPED_SCHEMA in message.doubled:
            text = "the message came with two schemas"
            raise DirtyValueError(DirtyReason.DUPLICATE_KEY, text).under(WRAPPED_SCHEMA)
        seen: dict[str, object] = {path[-1]: found}
        for key in reversed(path[:-1]):
            seen = {key: seen}
        return seen

    def meant_at(self, path: Sequence[str]) -> dict[str, object]:
        """The object under a path, each value with its meaning by the schema.

        Called for a few messages with fields that no column reads.

        Args:
            path: Keys from the message on.

        Returns:
            Values as in `convert.schema_values`; empty where there is no object.
        """
        node, value = self._schema, cast("object", self._message)
        for place, key in enumerate(path):
            if not isinstance(value, dict):
                return {}
            outside = self._wrapped and not place
            node = node if outside else self._below(node, key) if isinstance(node, dict) else None
            value = value.get(key)
        if not isinstance(value, dict):
            return {}
        below = node if isinstance(node, dict) else {}
        return {key: self._meant(key, held, self._below(below, key)) for key, held in value.items()}

    def _meant(self, name: str, value: object, node: object) -> object:
        """A value with its meaning, where it exists and has a schema."""
        if value is None or not isinstance(node, dict):
            return value
        meaning = self._meaning(name, value, node)
        if isinstance(value, dict):
            inside = {
                key: self._meant(key, of, self._below(node, key)) for key, of in value.items()
            }
            return MeantObject(inside, meaning)
        if isinstance(value, list):
            return MeantArray([self._meant(name, of, node.get("items")) for of in value], meaning)
        return meaning

    def _meaning(self, name: str, value: object, node: _Node) -> Meaning:
        types = ConnectTypes(Walk())
        try:
            found = types.walk.under(name, types.of, node)
        except UntypedFieldError as error:
            return Meaning(None, value, refused=str(error))
        try:
            return Meaning(found, self._read(value, node, _Target(found)), types.is_clock)
        except DirtyValueError as error:
            return Meaning(found, value, types.is_clock, unfit=error)

    def _below(self, node: _Node, key: str) -> object:
        """The schema of an object's value under a key."""
        if node.get("type") == "map":
            return node.get("values")
        fields = self._fields.get(id(node))
        if fields is None:
            listed = node.get("fields")
            held = listed if isinstance(listed, list) else []
            fields = {_name(each): each for each in held if isinstance(each, dict)}
            self._fields[id(node)] = fields
        return fields.get(key)

    def _read(self, value: object, node: object, target: _Target) -> object:
        """A value by its schema; the same object when that changes nothing."""
        if value is None or not isinstance(node, dict):
            return value
        name = node.get("name")
        if name == DECIMAL:
            return _decimal(value, node, target)
        if name == VARIABLE_DECIMAL and not isinstance(target.type, StructType | MapType):
            return _variable_decimal(value)
        if isinstance(value, NumberText):
            return _time(value, name) if target.takes_times else value
        if isinstance(value, str):
            return WallText(value) if target.takes_times and name in CONNECT_TEXT_TIMES else value
        if isinstance(value, dict):
            return self._object(value, node, target)
        if isinstance(value, list):
            return self._array(value, node, target)
        return value

    def _array(self, value: list[object], node: _Node, target: _Target) -> object:
        if node.get("type") == "map":
            return self._entries(value, node, target)
        items, element = node.get("items"), target.element
        found = [self._inside(n, item, items, element) for n, item in enumerate(value)]
        changed = any(one is not other for one, other in zip(found, value, strict=True))
        return found if changed else value

    def _entries(self, value: list[object], node: _Node, target: _Target) -> object:
        """A map with keys that are no text: pairs in an array."""
        found: list[object] = []
        for place, one in enumerate(value):
            entry = map_entry(one)
            if entry is None:
                return value
            key = self._inside(place, entry[0], node.get("keys"), target.key)
            found.append([key, self._inside(place, entry[1], node.get("values"), target.value)])
        return found

    def _object(self, value: dict[str, object], node: _Node, target: _Target) -> object:
        if isinstance(target.type, StructType):
            wanted = {
                of.name: _Target(of.type, of.time_unit, target.redact or of.policy.redact)
                for of in target.type.fields
            }
            hidden = False
        else:
            wanted, hidden = dict.fromkeys(value, target.value), target.redact
        changed: dict[str, object] = {}
        for key, inside in wanted.items():
            held = value.get(key)
            found = self._inside("*" if hidden else key, held, self._below(node, key), inside)
            if found is not held:
                changed[key] = found
        if not changed:
            return value
        if isinstance(value, JsonObject):
            # The reader has to see keys that came twice.
            copy = JsonObject(list((value | changed).items()))
            copy.doubled = value.doubled
            return copy
        return value | changed

    def _inside(self, step: str | int, value: object, node: object, target: _Target) -> object:
        try:
            return self._read(value, node, target)
        except DirtyValueError as error:
            raise error.under(step) from None


def _name(node: Mapping[str, object]) -> str | None:
    """The field's name; None for a field without one, which no column reads."""
    found = node.get("field")
    return found if isinstance(found, str) else None


def _time(number: str, name: object) -> object:
    make = CONNECT_TIMES.get(name) if isinstance(name, str) else None
    return make(int(number)) if make is not None and _WHOLE.fullmatch(number) else number


def _decimal(value: object, node: _Node, target: _Target) -> object:
    if type(value) is not str or isinstance(target.type, BinaryType):
        # An option of the converters writes numbers, and a binary column gets the bytes.
        return value
    parameters = node.get("parameters")
    scale = parameters.get("scale") if isinstance(parameters, dict) else None
    return _number(value, scale)


def _variable_decimal(value: object) -> object:
    """A decimal with its own scale: an object of both."""
    if not isinstance(value, dict) or type(value.get("value")) is not str:
        return value
    if isinstance(value, JsonObject):
        raise DirtyValueError(DirtyReason.DUPLICATE_KEY, "a key of the decimal came twice")
    return _number(str(value["value"]), value.get("scale"))


def _number(text: str, scale: object) -> Decimal:
    if not isinstance(scale, str) or not _SCALE.fullmatch(scale) or abs(int(scale)) > MAX_SCALE:
        message = "a decimal of Kafka Connect has a scale of at most 1000 digits in its schema"
        raise DirtyValueError(DirtyReason.BROKEN, message, stage="decode")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if not 0 < len(data) <= MAX_DECIMAL_BYTES or base64.b64encode(data).decode("ascii") != text:
        message = "a decimal of Kafka Connect is base64 of 1 to 512 bytes"
        raise DirtyValueError(DirtyReason.BAD_TEXT, message)
    unscaled = int.from_bytes(data, "big", signed=True)
    return Decimal(unscaled).scaleb(-int(scale), context=_EXACT)
