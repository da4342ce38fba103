"""Columns of a Kafka Connect schema: the type for each value that JSON has of it.

Source: Kafka Connect's `JsonConverter`, and the semantic types of Debezium's documentation.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sluiceway.convert.typed_values import Day, LocalTime
from sluiceway.formats.connect_times import (
    CONNECT_TIMES,
    DECIMAL,
    VARIABLE_DECIMAL,
    ZONED_TIMESTAMP,
)
from sluiceway.formats.schema_columns import ANY_SCALE, Walk
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
    StructType,
    TimestampType,
)

Node = Mapping[str, object]
"""A schema in Connect's JSON form."""

_NUMBER = re.compile(r"-?[0-9]{1,4}", re.ASCII)
_PLAIN: Mapping[object, DataType] = {
    "boolean": BooleanType(),
    "string": StringType(),
    # JSON has bytes as text in base64.
    "bytes": StringType(),
    **dict.fromkeys(("int8", "int16", "int32", "int64"), IntegerType(64)),
    **dict.fromkeys(("float", "double", "float32", "float64"), FloatType(64)),
}
_TEXTS: Mapping[object, tuple[DataType, bool]] = {
    ZONED_TIMESTAMP: (TimestampType(), False),
    "io.debezium.time.IsoDate": (DateType(), False),
    "io.debezium.time.IsoTimestamp": (TimestampType(), True),
}
"""Texts that are times of a column, and whether they are local times."""


@dataclass(slots=True)
class ConnectTypes:
    """Types of the schemas of one column. Created for each column.

    Attributes:
        walk: The walk over the schema.
        is_clock: Whether a local time was found: the schema does not name its zone, so such a
            column needs one.
    """

    walk: Walk
    is_clock: bool = False

    def of(self, node: object) -> DataType:
        """The type of each value of a schema.

        Raises:
            UntypedFieldError: No column type holds these values.
        """
        if not isinstance(node, dict):
            raise self.walk.refusal("it has no schema")
        name, kind = node.get("name"), node.get("type")
        if name == DECIMAL:
            return self._decimal(node)
        if name == VARIABLE_DECIMAL:
            self.walk.add_note("decimals of any scale: say precision and scale")
            return ANY_SCALE
        if isinstance(name, str) and name in CONNECT_TIMES:
            return self._time(name)
        if isinstance(name, str) and name in _TEXTS:
            found, is_clock = _TEXTS[name]
            self.is_clock |= is_clock
            return found
        return self._plain(node, kind)

    def _plain(self, node: Node, kind: object) -> DataType:
        match kind:
            case "struct":
                return self._struct(node)
            case "array":
                return ListType(self.walk.under("[]", self.of, node.get("items")))
            case "map":
                keys = node.get("keys")
                key = _PLAIN.get(keys.get("type")) if isinstance(keys, dict) else None
                if not isinstance(key, StringType | IntegerType):
                    raise self.walk.refusal("a map whose keys are neither text nor whole numbers")
                return MapType(key, self.walk.under("{}", self.of, node.get("values")))
            case str() if kind in _PLAIN:
                return _PLAIN[kind]
            case _:
                raise self.walk.refusal("its schema does not say a type")

    def _struct(self, node: Node) -> StructType:
        listed = node.get("fields")
        held = listed if isinstance(listed, list) else []
        return self.walk.struct(
            (name, self.walk.under(name, self.of, each))
            for each in held
            if isinstance(each, dict)
            for name in [str(each.get("field"))]
        )

    def _time(self, name: str) -> DataType:
        made = CONNECT_TIMES[name](0)
        if isinstance(made, LocalTime):
            self.walk.add_note("a clock's on a wall: give it a timezone")
            self.is_clock = True
        return DateType() if isinstance(made, Day) else TimestampType()

    def _decimal(self, node: Node) -> DataType:
        told = node.get("parameters")
        parameters = told if isinstance(told, dict) else {}
        scale = _number(parameters.get("scale"))
        if scale is None or scale > MAX_PRECISION:
            raise self.walk.refusal(f"a decimal without a scale of 0 to {MAX_PRECISION}")
        precision = _number(parameters.get("connect.decimal.precision")) or MAX_PRECISION
        # A negative scale is zeros before the point.
        precision = max(precision - min(scale, 0), scale, 1)
        return DecimalType(min(precision, MAX_PRECISION), max(scale, 0))


def _number(found: object) -> int | None:
    return int(found) if isinstance(found, str) and _NUMBER.fullmatch(found) else None
