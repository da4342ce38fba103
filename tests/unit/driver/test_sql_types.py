"""Types of columns in Spark, and back, without a JVM."""

import pytest
from pyspark.sql import types as spark

from sluiceway.driver.spark.sql_types import NoHiveTypeError, hive_type, spark_type
from sluiceway.types.hive_types import parse_hive_type


@pytest.mark.parametrize(
    "text",
    [
        *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double"),
        *("string", "binary", "date", "timestamp", "decimal(38,6)"),
        "array<map<string,struct<`a`:decimal(9,2),`B c`:array<date>>>>",
    ],
)
def test_type_is_the_same_there_and_back(text: str) -> None:
    assert hive_type(spark_type(parse_hive_type(text))) == text


@pytest.mark.parametrize(
    ("hive", "kind"),
    [
        ("varchar(5)", spark.StringType()),
        ("char(5)", spark.StringType()),
        ("timestamp with local time zone", spark.TimestampType()),
    ],
)
def test_types_that_spark_does_not_tell_apart(hive: str, kind: spark.DataType) -> None:
    assert spark_type(parse_hive_type(hive)) == kind


def test_spark_types_that_are_one_in_hive_or_none() -> None:
    assert hive_type(spark.TimestampNTZType()) == "timestamp"
    with pytest.raises(NoHiveTypeError, match="interval"):
        hive_type(spark.DayTimeIntervalType())
