import pytest

from sluiceway.types.hive_types import MAX_TEXT_LENGTH, format_hive_type, parse_hive_type
from sluiceway.types.schema import (
    DecimalType,
    Field,
    IntegerType,
    ListType,
    MapType,
    StringType,
    StructType,
)

SIMPLE = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary"),
    *("date", "timestamp", "timestamp with local time zone", "varchar(65535)", "char(1)"),
    "struct<a:timestamp with local time zone,b:array<varchar(3)>,c:map<char(255),timestamp>>",
)


@pytest.mark.parametrize("text", SIMPLE)
def test_hive_type_simple_reads_and_writes_the_same(text: str) -> None:
    assert format_hive_type(parse_hive_type(text)) == text


@pytest.mark.parametrize(
    ("text", "precision", "scale"),
    [("decimal", 10, 0), ("DECIMAL(5)", 5, 0), ("decimal( 38 , 18 )", 38, 18)],
)
def test_hive_decimal_without_digits_has_the_default(text: str, precision: int, scale: int) -> None:
    assert parse_hive_type(text) == DecimalType(precision, scale)


def test_hive_type_nested_reads_every_level() -> None:
    text = "struct<a:array<map<string,decimal(9,2)>>,B_b: INTEGER>"
    inner = ListType(MapType(StringType(), DecimalType(9, 2)))
    expected = StructType((Field("a", inner), Field("B_b", IntegerType(32))))
    assert parse_hive_type(text) == expected
    assert format_hive_type(expected) == "struct<a:array<map<string,decimal(9,2)>>,B_b:int>"


def test_hive_struct_field_with_odd_name_is_quoted() -> None:
    kind = StructType((Field("a:b,`c`", StringType()),))
    assert parse_hive_type(format_hive_type(kind)) == kind


@pytest.mark.parametrize("text", ["uniontype<int,string>", "VOID", "timestamptz"])
def test_hive_type_of_a_later_version_says_so(text: str) -> None:
    with pytest.raises(ValueError, match="not in this version"):
        parse_hive_type(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "strin", "int int", "array", "array<", "array<int", "array<int>>", "map<int>"),
        *("struct<>", "struct<a>", "struct<a:>", "struct<a:int,A:string>", "decimal(0,0)"),
        *("decimal(39,1)", "decimal(5,6)", "decimal(-1)", "decimal(1e1)", "decimal(5,2", "`int`"),
        *("varchar", "varchar()", "varchar(0)", "varchar(65536)", "char(256)", "char(1,2)"),
        *("timestamp with", "timestamp with time zone", "timestamp with local time zones"),
        *("map<array<int>,int>", "struct<:int>", "array<int,int>", "decimal(\u0661)", "a`b"),
    ],
)
def test_hive_type_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_hive_type(text)


def test_hive_type_at_the_depth_limit_is_read_and_beyond_refused() -> None:
    assert parse_hive_type("array<" * 49 + "int" + ">" * 49) is not None
    with pytest.raises(ValueError, match="deeper than 50"):
        parse_hive_type("array<" * 50 + "int" + ">" * 50)


def test_hive_type_longer_than_the_limit_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="longer than"):
        parse_hive_type("array<" * MAX_TEXT_LENGTH)
