"""Column types <-> Arrow types."""

import pyarrow as pa

from sluiceway.types.schema import (
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    ListType,
    LocalTimestampType,
    MapType,
    Schema,
    StringType,
    StructType,
    TimestampType,
    VarcharType,
)

_SIMPLE: dict[DataType, pa.DataType] = {
    BooleanType(): pa.bool_(),
    IntegerType(8): pa.int8(),
    IntegerType(16): pa.int16(),
    IntegerType(32): pa.int32(),
    IntegerType(64): pa.int64(),
    FloatType(32): pa.float32(),
    FloatType(64): pa.float64(),
    StringType(): pa.string(),
    BinaryType(): pa.binary(),
    DateType(): pa.date32(),
    TimestampType(): pa.timestamp("us"),
    LocalTimestampType(): pa.timestamp("us"),
}


def arrow_type(data_type: DataType) -> pa.DataType:
    """Arrow's type for a column type.

    Called once a column on the driver and once a task. A timestamp is `timestamp('us')`
    without a zone whose values are UTC: the form that Hive's INT96 is written from.

    Args:
        data_type: Any column type.

    Returns:
        The Arrow type; everything inside it is nullable.
    """
    match data_type:
        case VarcharType() | CharType():
            return pa.string()
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ListType(element):
            return pa.list_(arrow_type(element))
        case MapType(key, value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case StructType(fields):
            return pa.struct([(field.name, arrow_type(field.type)) for field in fields])
        case _:
            return _SIMPLE[data_type]


def arrow_schema(schema: Schema) -> pa.Schema:
    """Arrow's schema for a table's columns, in their order.

    Called once a task and once a table on the driver. Every column is nullable: `required` is
    a rule for input, which the decoder holds, and no property of the files.

    Args:
        schema: Columns of a table.

    Returns:
        One Arrow field a column.
    """
    return pa.schema([(field.name, arrow_type(field.type)) for field in schema.fields])
