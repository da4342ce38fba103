import pyarrow as pa
import pytest

from sluiceway.types.arrow_types import arrow_schema, arrow_type
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.types.schema import Field, Schema, StringType


def test_arrow_type_of_nested_hive_type_keeps_every_level() -> None:
    found = arrow_type(parse_hive_type("struct<a:array<decimal(9,2)>,m:map<string,date>>"))
    expected = pa.struct(
        [
            ("a", pa.list_(pa.decimal128(9, 2))),
            ("m", pa.map_(pa.string(), pa.date32())),
        ]
    )
    assert found == expected


def test_arrow_type_of_timestamp_is_micros_without_a_zone() -> None:
    assert arrow_type(parse_hive_type("timestamp")) == pa.timestamp("us")


@pytest.mark.parametrize(
    ("hive", "arrow"),
    [
        ("varchar(3)", pa.string()),
        ("char(3)", pa.string()),
        ("timestamp with local time zone", pa.timestamp("us")),
        ("binary", pa.binary()),
    ],
)
def test_arrow_type_says_nothing_of_lengths_and_zones(hive: str, arrow: pa.DataType) -> None:
    assert arrow_type(parse_hive_type(hive)) == arrow


def test_arrow_schema_of_required_column_is_still_nullable() -> None:
    found = arrow_schema(Schema((Field("a", StringType(), required=True),)))
    assert found == pa.schema([pa.field("a", pa.string(), nullable=True)])
