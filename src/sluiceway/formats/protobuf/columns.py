"""Columns of a Protobuf message: the type that holds every value of each of its fields."""

from collections.abc import Iterable

from sluiceway.formats.protobuf.descriptor_set import read_schema
from sluiceway.formats.protobuf.reader import DATE, meant_by
from sluiceway.formats.protobuf.schema import (
    FieldType,
    MessageType,
    ProtobufSchema,
    ProtobufSchemaError,
)
from sluiceway.formats.schema_columns import (
    NoColumnsError,
    SchemaColumn,
    Walk,
    columns_of,
)
from sluiceway.types.schema import (
    BinaryType,
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

_INT, _BIGINT = IntegerType(32), IntegerType(64)
_UINT64 = DecimalType(20, 0)
_PLAIN: dict[str, DataType] = {
    "double": FloatType(64),
    "float": FloatType(32),
    "bool": BooleanType(),
    "string": StringType(),
    "bytes": BinaryType(),
    "enum": StringType(),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), _INT),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), _BIGINT),
    **dict.fromkeys(("uint64", "fixed64"), _UINT64),
}
_WELL_KNOWN: dict[str, DataType] = {
    "google.protobuf.DoubleValue": FloatType(64),
    "google.protobuf.FloatValue": FloatType(32),
    "google.protobuf.Int64Value": _BIGINT,
    "google.protobuf.UInt64Value": _UINT64,
    "google.protobuf.Int32Value": _INT,
    "google.protobuf.UInt32Value": _BIGINT,
    "google.protobuf.BoolValue": BooleanType(),
    "google.protobuf.StringValue": StringType(),
    "google.protobuf.BytesValue": BinaryType(),
    # Seconds of 64 bits, and nanoseconds.
    "google.protobuf.Duration": DecimalType(28, 9),
    "google.protobuf.Timestamp": TimestampType(),
}
_NANOS = "an instant finer than a microsecond is dirty, or by `on_lossy`"


def proto_columns(
    text: str,
    message: str | None,
    imported: Iterable[tuple[str, str]] = (),
    *,
    meant: bool = False,
) -> tuple[SchemaColumn, ...]:
    """The columns of a message in a `.proto` text, in the order of its fields.

    Called on the driver.

    Args:
        text: Text of the schema.
        message: Full name; None takes the only top-level message.
        imported: Names and texts of the schemas that it imports, dependencies first.
        meant: See `Walk`.

    Raises:
        NoColumnsError: The text is no schema, or the message is not certain.
    """
    try:
        return message_columns(read_schema(text, imported), message, meant=meant)
    except ProtobufSchemaError as error:
        raise NoColumnsError(f"it is no Protobuf schema: {error}") from error


def message_columns(
    schema: ProtobufSchema, name: str | None, *, meant: bool = False
) -> tuple[SchemaColumn, ...]:
    """The columns of a message of a parsed schema, as `proto_columns`.

    Raises:
        NoColumnsError: The message has no fields, or it is not certain which one is meant.
        ProtobufSchemaError: There is no such message.
    """
    message = _message(schema, name)
    if not message.fields:
        raise NoColumnsError(f"the message {message.name} has no fields")
    fields = [(of.name, of) for of in message.fields]
    return columns_of(fields, lambda walk, of: _Types(walk, message).of(of), meant=meant)


def _message(schema: ProtobufSchema, name: str | None) -> MessageType:
    if name is not None:
        return schema.message(name)
    if len(schema.top) == 1:
        return schema.top[0]
    there = ", ".join(one.name for one in schema.top[:10])
    raise NoColumnsError(f"it declares {len(schema.top)} messages; name one: {there}")


class _Types:
    """Types of the fields of one column."""

    def __init__(self, walk: Walk, message: MessageType) -> None:
        self._walk = walk
        self._above = [message]

    def of(self, of: FieldType) -> DataType:
        """Type of all values of a field."""
        if isinstance(of.of, MessageType) and of.of.is_map_entry:
            key, value = sorted(of.of.fields, key=lambda part: part.number)
            return MapType(_key_type(key.kind), self._walk.under("{}", self._one, value))
        return ListType(self._walk.under("[]", self._one, of)) if of.repeated else self._one(of)

    def _one(self, of: FieldType) -> DataType:
        if isinstance(of.of, MessageType):
            return self._message(of.of)
        if of.kind not in _PLAIN:
            raise self._walk.refusal(f"a {of.kind} is not read", as_text=False)
        return _PLAIN[of.kind]

    def _message(self, of: MessageType) -> DataType:
        if of.name in _WELL_KNOWN:
            if of.name.endswith(".Timestamp"):
                self._walk.add_note(_NANOS)
            return _WELL_KNOWN[of.name]
        if self._walk.meant and meant_by(of) is not None:
            return DateType() if of.name == DATE else self._walk.any_scale()
        if any(of is each for each in self._above):
            raise self._walk.refusal(f"the message {of.name} holds itself")
        self._above.append(of)
        found = [(each.name, self._walk.under(each.name, self.of, each)) for each in of.fields]
        self._above.pop()
        return self._walk.struct(found)


def _key_type(kind: str) -> DataType:
    """Type of a map's keys; they have at most 64 bits, and are read from their text."""
    found = _PLAIN[kind]
    return found if isinstance(found, IntegerType) else StringType()
