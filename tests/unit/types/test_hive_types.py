import pytest

from sluiceway.types.hive_types import (
    _ELSEWHERE,
    _MEANT,
    _SIMPLE,
    MAX_TEXT_LENGTH,
    format_hive_type,
    parse_hive_type,
)
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


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("struct<a b:int>", "a b"),
        ("struct<`a b`:int>", "a b"),
        ("struct< a  b c :int>", "a  b c"),
        ("array<map<string,struct<x:int,in time:int>>>", "in time"),
        ("struct<a$b:int>", "a$b"),
    ],
)
def test_hive_struct_field_with_blanks_is_spelt_as_hive_does(text: str, name: str) -> None:
    kind = parse_hive_type(text)
    spelt = format_hive_type(kind)
    assert f"{name}:int" in spelt
    assert "`" not in spelt
    assert parse_hive_type(spelt) == kind


@pytest.mark.parametrize("text", ["uniontype<int,string>", "VOID"])
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


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("long", "bigint"),
        ("LONG", "bigint"),
        ("datetime", "timestamp"),
        ("timestamptz", "timestamp with local time zone"),
        ("text", "string"),
        ("bool", "boolean"),
        ("float64", "double"),
        ("array<int64>", "bigint"),
        ("struct<a:int,b:map<str,text>>", "string"),
        ("list<int>", "array<...>"),
        ("bigin", "bigint"),
        ("strng", "string"),
        ("timestmap", "timestamp"),
        ("struc<a:int>", "struct"),
    ],
)
def test_type_of_another_system_is_refused_with_what_it_is_called_here(
    text: str, meant: str
) -> None:
    with pytest.raises(ValueError, match=r"is not a Hive type.*; did you mean") as caught:
        parse_hive_type(text)
    assert str(caught.value).endswith(f"; did you mean `{meant}`?")


def test_type_that_is_like_none_is_refused_without_a_guess() -> None:
    with pytest.raises(ValueError, match="'frobnicate' is not a Hive type") as caught:
        parse_hive_type("frobnicate")
    assert "did you mean" not in str(caught.value)


def test_suggestions_are_types_or_their_beginnings() -> None:
    for meant in _ELSEWHERE:
        whole = meant.replace("struct<...>", "struct<a:int>").replace("...", "int")
        assert parse_hive_type(whole) is not None
    assert not {*_MEANT} & {*_SIMPLE}
