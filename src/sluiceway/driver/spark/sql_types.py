"""Column types as Spark SQL has them, and back."""

from pyspark.sql import types as spark

from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.schema import (
    CharType,
    DataType,
    DecimalType,
    ListType,
    LocalTimestampType,
    MapType,
    StructType,
    TimestampType,
    VarcharType,
)

_SAME: dict[type[spark.DataType], str] = {
    spark.BooleanType: "boolean",
    spark.ByteType: "tinyint",
    spark.ShortType: "smallint",
    spark.IntegerType: "int",
    spark.LongType: "bigint",
    spark.FloatType: "float",
    spark.DoubleType: "double",
    spark.BinaryType: "binary",
    spark.DateType: "date",
    spark.TimestampType: "timestamp",
    spark.StringType: "string",
}
_SPARK = {text: kind for kind, text in _SAME.items()}


class NoHiveTypeError(ValueError):
    """A type of Spark that no column of a table has."""


def spark_type(kind: DataType) -> spark.DataType:
    """Spark's type of a column. All inside it may be null. Needs no JVM."""
    match kind:
        case DecimalType(precision, scale):
            return spark.DecimalType(precision, scale)
        case VarcharType() | CharType():
            return spark.StringType()
        case TimestampType() | LocalTimestampType():
            return spark.TimestampType()
        case ListType(element):
            return spark.ArrayType(spark_type(element))
        case MapType(key, value):
            return spark.MapType(spark_type(key), spark_type(value))
        case StructType(fields):
            return spark.StructType([spark.StructField(f.name, spark_type(f.type)) for f in fields])
        case _:
            return _SPARK[format_hive_type(kind)]()


def hive_type(kind: spark.DataType) -> str:
    """Hive's text of a type that the SQL returns.

    Raises:
        NoHiveTypeError: There is none.
    """
    if (same := _SAME.get(type(kind))) is not None:
        return same
    match kind:
        case spark.TimestampNTZType():
            return "timestamp"
        case spark.DecimalType():
            return f"decimal({kind.precision},{kind.scale})"
        case spark.ArrayType():
            return f"array<{hive_type(kind.elementType)}>"
        case spark.MapType():
            return f"map<{hive_type(kind.keyType)},{hive_type(kind.valueType)}>"
        case spark.StructType():
            parts = (f"`{each.name}`:{hive_type(each.dataType)}" for each in kind.fields)
            return f"struct<{','.join(parts)}>"
        case _:
            raise NoHiveTypeError(kind.simpleString())
