"""Columns of an Avro schema: the type that holds every value of each field of its record."""

from collections.abc import Sequence

from sluiceway.convert.typed_values import Day, LocalTime
from sluiceway.formats.avro.reader import is_variable_decimal
from sluiceway.formats.avro.schema import (
    BIG_DECIMAL,
    CONNECT_PRECISION,
    Array,
    AvroRecord,
    AvroSchemaError,
    Enum,
    Fixed,
    Logical,
    Map,
    Node,
    Primitive,
    Union,
    parse_schema,
)
from sluiceway.formats.connect_times import (
    CONNECT_TEXT_TIMES,
    CONNECT_TIMES,
    NANO_TIMESTAMP,
    ZONED_TIMESTAMP,
)
from sluiceway.formats.schema_columns import (
    NoColumnsError,
    SchemaColumn,
    Walk,
    columns_of,
    printable,
)
from sluiceway.types.hive_types import MAX_PRECISION
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

_PLAIN: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(32),
    "long": IntegerType(64),
    "float": FloatType(32),
    "double": FloatType(64),
    "bytes": BinaryType(),
    "string": StringType(),
}
_TEXT_TIMES = {*CONNECT_TEXT_TIMES, ZONED_TIMESTAMP}
_NANOS = "an instant finer than a microsecond is dirty, or by `on_lossy`"
_WHOLE = (IntegerType(32), IntegerType(64))


def avro_columns(
    text: str, referenced: Sequence[str] = (), *, meant: bool = False
) -> tuple[SchemaColumn, ...]:
    """The columns of a schema, in the order of its fields. Called on the driver.

    Args:
        text: The schema as JSON.
        referenced: Schemas of the named types that it uses, dependencies first.
        meant: See `Walk`.

    Raises:
        NoColumnsError: The text is no schema, or not of a record.
    """
    try:
        node = parse_schema(text, referenced, connect=True, texts=_TEXT_TIMES)
    except AvroSchemaError as error:
        raise NoColumnsError(f"it is no Avro schema: {error}") from error
    if not isinstance(node, AvroRecord):
        raise NoColumnsError("it is an Avro schema, but not of a record")
    if not node.fields:
        raise NoColumnsError(f"the record {printable(node.name)} has no fields")
    return columns_of(node.fields, lambda walk, of: _Types(walk, node).of(of), meant=meant)


class _Types:
    """Types of the nodes of one column."""

    def __init__(self, walk: Walk, record: AvroRecord) -> None:
        self._walk = walk
        self._above = [record]

    def of(self, node: Node) -> DataType:
        """Type of a node, whatever it is."""
        match node:
            case Primitive("null"):
                raise self._walk.refusal("it is never anything but null", as_text=False)
            case Primitive(name, logical) if logical and logical.name in CONNECT_TIMES:
                return self._connect_time(logical.name, _PLAIN[name])
            case Primitive(name, logical):
                return _PLAIN[name] if logical is None else self._logical(logical, _PLAIN[name])
            case Fixed(_, logical):
                return BinaryType() if logical is None else self._logical(logical, BinaryType())
            case Enum():
                return StringType()
            case Array(items):
                return ListType(self._walk.under("[]", self.of, items))
            case Map(values):
                return MapType(StringType(), self._walk.under("{}", self.of, values))
            case Union(branches):
                return self._union(branches)
            case AvroRecord():
                return self._record(node)

    def _logical(self, logical: Logical, plain: DataType) -> DataType:
        match logical.name:
            case "decimal":
                return self._decimal(logical)
            case name if name == BIG_DECIMAL:
                raise self._walk.refusal("a decimal of any scale: say decimal(p,s) or string")
            case "uuid":
                return StringType()
            case "date":
                return DateType()
            case name if name.startswith("time-"):
                raise self._walk.refusal("a time of day, and Hive has no such type")
            case name if name in _TEXT_TIMES:
                return self._text_time(name, plain)
            case name:
                return self._instant(name)

    def _decimal(self, logical: Logical) -> DataType:
        # With zeros after them where the scale is below 0.
        digits, scale = logical.precision - min(logical.scale, 0), max(logical.scale, 0)
        is_said = logical.precision != CONNECT_PRECISION
        if self._walk.meant and not is_said and scale <= MAX_PRECISION:
            self._walk.add_note("its precision is not said; values of more digits are dirty")
            return DecimalType(MAX_PRECISION, scale)
        if digits > MAX_PRECISION:
            text = f"a decimal of {digits} digits; a column has {MAX_PRECISION}"
            raise self._walk.refusal(text)
        return DecimalType(digits, scale)

    def _text_time(self, name: str, plain: DataType) -> DataType:
        if not self._walk.meant:
            return plain
        return TimestampType() if name == ZONED_TIMESTAMP else self._walk.clock()

    def _instant(self, name: str) -> DataType:
        is_local = name.startswith("local-")
        if is_local and not self._walk.meant:
            raise self._walk.refusal("a local time, and the schema does not say of which zone")
        if name.endswith("-nanos"):
            self._walk.add_note(_NANOS)
        return self._walk.clock() if is_local else TimestampType()

    def _connect_time(self, name: str, plain: DataType) -> DataType:
        made = CONNECT_TIMES[name](0)
        if isinstance(made, LocalTime) and self._walk.meant:
            if name == NANO_TIMESTAMP:
                self._walk.add_note(_NANOS)
            return self._walk.clock()
        if isinstance(made, LocalTime):
            self._walk.add_note("a clock's on a wall: {type: timestamp, timezone: ZONE} reads it")
            return plain
        return DateType() if isinstance(made, Day) else TimestampType()

    def _union(self, branches: tuple[Node, ...]) -> DataType:
        held = [branch for branch in branches if branch != Primitive("null")]
        if not held:
            raise self._walk.refusal("it is never anything but null", as_text=False)
        types = list(dict.fromkeys(self.of(branch) for branch in held))
        if len(types) == 1:
            return types[0]
        if all(of in _WHOLE for of in types):
            return IntegerType(64)
        raise self._walk.refusal(f"a union of {len(held)} kinds of values")

    def _record(self, node: AvroRecord) -> DataType:
        if any(node is each for each in self._above):
            raise self._walk.refusal(f"the record {node.name} holds itself")
        if self._walk.meant and is_variable_decimal(node):
            return self._walk.any_scale()
        self._above.append(node)
        found = [(name, self._walk.under(name, self.of, of)) for name, of in node.fields]
        self._above.pop()
        return self._walk.struct(found)
