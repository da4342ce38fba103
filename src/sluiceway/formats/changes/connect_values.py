"""Values that Kafka Connect writes as others, and names in the schema beside them.

Its JSON converter writes a decimal as the bytes of a whole number, in base64, and a time as a
number; which it is, and the scale, stand in the message's schema only.
Source: Kafka Connect's `JsonConverter`, and the semantic types of Debezium's documentation.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.json_values import JsonObject, NumberText
from sluiceway.formats.connect_times import CONNECT_TIMES, VARIABLE_DECIMAL
from sluiceway.types.dirty import DirtyReason
from sluiceway.types.schema import (
    BinaryType,
    DataType,
    DateType,
    Field,
    ListType,
    LocalTimestampType,
    MapType,
    StructType,
    TimestampType,
)

DECIMAL = "org.apache.kafka.connect.data.Decimal"
MAX_DECIMAL_BYTES = 512
MAX_SCALE = 1000

_SCHEMA = "schema"
_WHOLE = re.compile(r"-?\d{1,19}", re.ASCII)
_SCALE = re.compile(r"-?\d{1,5}", re.ASCII)
_EXACT = Context(prec=3000)
_Node = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class _Target:
    """What values become.

    Attributes:
        type: None where they are inside of something that is kept as text.
        unit: Of times.
        redact: Whether the keys of a map are kept out of messages.
    """

    type: DataType | None
    unit: str | None = None
    redact: bool = False

    @property
    def takes_times(self) -> bool:
        """Whether a number is a time here, and the column does not say which."""
        times = (DateType, TimestampType, LocalTimestampType)
        return self.unit is None and isinstance(self.type, times)

    @property
    def element(self) -> "_Target":
        """Of an array's items."""
        return replace(self, type=self.type.element if isinstance(self.type, ListType) else None)

    @property
    def value(self) -> "_Target":
        """Of an object's values, where they are not those of a struct."""
        return replace(self, type=self.type.value if isinstance(self.type, MapType) else None)


class SchemaView:
    """A message that came with its schema, as the schema means it. Made for each such message.

    Args:
        message: With the keys `schema` and `payload`.
    """

    def __init__(self, message: Mapping[str, object]) -> None:
        self._message = message
        self._schema = message.get(_SCHEMA)
        # Fields by name, of the structs that were asked for; nodes live as long as the message.
        self._fields: dict[int, dict[object, object]] = {}

    def of(self, field: Field) -> Mapping[str, object]:
        """What a column's reader gets in place of the message. Called for each column.

        Args:
            field: The column; its path begins with `payload`.

        Returns:
            The message, or as much of it as the reader asks for, with decimals as numbers, and
            with times where the column is one and has no unit of its own.

        Raises:
            DirtyValueError: A decimal is none, or the schema does not say its scale.
        """
        message = self._message
        node, value = self._schema, message.get(field.path[0])
        for key in field.path[1:]:
            if not isinstance(value, dict) or not isinstance(node, dict) or key not in value:
                return message
            if isinstance(value, JsonObject) and key in value.doubled:
                return message
            node, value = self._below(node, key), value[key]
        try:
            target = _Target(field.type, field.time_unit, field.policy.redact)
            found = self._read(value, node, target)
        except DirtyValueError as error:
            raise error.under(*field.path) from None
        if found is value:
            return message
        if isinstance(message, JsonObject) and _SCHEMA in message.doubled:
            text = "the message came with two schemas"
            raise DirtyValueError(DirtyReason.DUPLICATE_KEY, text).under(_SCHEMA)
        seen: dict[str, object] = {field.path[-1]: found}
        for key in reversed(field.path[:-1]):
            seen = {key: seen}
        return seen

    def object_at(self, path: Sequence[str]) -> dict[str, object]:
        """The object under a path, each of its values as the schema means it.

        Args:
            path: Begins with `payload`.

        Returns:
            Empty where there is no object.

        Raises:
            DirtyValueError: A decimal is none, or the schema does not say its scale.
        """
        node, value = self._schema, self._message.get(path[0])
        for key in path[1:]:
            if not isinstance(value, dict):
                return {}
            node = self._below(node, key) if isinstance(node, dict) else None
            value = value.get(key)
        if not isinstance(value, dict):
            return {}
        below = node if isinstance(node, dict) else {}
        return {key: _meant(held, self._below(below, key)) for key, held in value.items()}

    def _below(self, node: _Node, key: str) -> object:
        """The schema of what an object has under a key."""
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
        """A value as its schema means it; the same object when that changes nothing."""
        if value is None or not isinstance(node, dict):
            return value
        name = node.get("name")
        if name == DECIMAL:
            return _decimal(value, node, target)
        if name == VARIABLE_DECIMAL and not isinstance(target.type, StructType | MapType):
            return _variable_decimal(value)
        if isinstance(value, NumberText):
            return _time(value, name) if target.takes_times else value
        if isinstance(value, dict):
            return self._object(value, node, target)
        if isinstance(value, list):
            return self._array(value, node, target)
        return value

    def _array(self, value: list[object], node: _Node, target: _Target) -> object:
        items, element = node.get("items"), target.element
        found = [self._inside(n, item, items, element) for n, item in enumerate(value)]
        changed = any(one is not other for one, other in zip(found, value, strict=True))
        return found if changed else value

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
            # What came twice has to be seen by who reads it.
            copy = JsonObject(list((value | changed).items()))
            copy.doubled = value.doubled
            return copy
        return value | changed

    def _inside(self, step: str | int, value: object, node: object, target: _Target) -> object:
        try:
            return self._read(value, node, target)
        except DirtyValueError as error:
            raise error.under(step) from None


def _meant(value: object, node: object) -> object:
    """A value as its schema means it, whatever column it may have."""
    if not isinstance(node, dict):
        return value
    name = node.get("name")
    if name == DECIMAL:
        return _decimal(value, node, _Target(None))
    if name == VARIABLE_DECIMAL:
        return _variable_decimal(value)
    return _time(value, name) if isinstance(value, NumberText) else value


def _name(node: Mapping[str, object]) -> str | None:
    """The field's; None for one that has none, which is asked for by nobody."""
    found = node.get("field")
    return found if isinstance(found, str) else None


def _time(number: str, name: object) -> object:
    make = CONNECT_TIMES.get(name) if isinstance(name, str) else None
    return make(int(number)) if make is not None and _WHOLE.fullmatch(number) else number


def _decimal(value: object, node: _Node, target: _Target) -> object:
    if type(value) is not str or isinstance(target.type, BinaryType):
        # Converters can be told to write numbers; and who wants the bytes gets them.
        return value
    parameters = node.get("parameters")
    scale = parameters.get("scale") if isinstance(parameters, dict) else None
    return _number(value, scale)


def _variable_decimal(value: object) -> object:
    """A decimal with a scale of its own: an object of both."""
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
