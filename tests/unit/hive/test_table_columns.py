"""Columns that a Hive table has, gets, and fills."""

from dataclasses import replace

import pytest

from sluiceway.catalog.hive_table import HiveColumn, MetastoreTable
from sluiceway.errors import TableMismatchError
from sluiceway.sinks.added_columns import KEY_PROPERTY, TIMEZONE_PROPERTY, added_field
from sluiceway.sinks.contract import ColumnToHave
from sluiceway.sinks.hive.table import columns_with, lacking_columns
from sluiceway.sinks.hive.table_check import filled_columns, table_to_create
from sluiceway.sinks.table_options import TableOptions
from sluiceway.types.hive_types import format_hive_type, parse_hive_type
from sluiceway.types.schema import Field, Schema

SCHEMA = Schema(
    (Field("id", parse_hive_type("bigint")), Field("geo", parse_hive_type("struct<city:string>")))
)
OPTIONS = TableOptions(
    metastore="thrift://h:1", database="d", table="t", schema=SCHEMA, partition_columns=()
)
TABLE = table_to_create(OPTIONS, SCHEMA)
INT = parse_hive_type("int")
LONG_GEO = "struct<city:string,lat:double>"


def altered(*columns: tuple[str, str], **parameters: str) -> MetastoreTable:
    layout = replace(TABLE.layout, columns=tuple(HiveColumn(*each) for each in columns))
    return replace(TABLE, layout=layout, parameters={**TABLE.parameters, **parameters})


def test_columns_come_last_and_their_keys_into_properties() -> None:
    wanted = [
        ColumnToHave("userid", "bigint", "userId"),
        ColumnToHave("geo", LONG_GEO, "geo"),
        ColumnToHave("x", "int", "x"),
    ]
    columns, keys = columns_with(TABLE, wanted)
    assert [(column.name, column.type) for column in columns] == [
        ("id", "bigint"),
        ("geo", LONG_GEO),
        ("userid", "bigint"),
        ("x", "int"),
    ]
    assert keys == {f"{KEY_PROPERTY}userid": "userId"}
    made = replace(TABLE, layout=replace(TABLE.layout, columns=columns), parameters=keys)
    assert columns_with(made, wanted) == (columns, {})
    assert added_field("UserId", INT, "t", made.parameters).path == ("userId",)
    assert added_field("x", INT, "t", made.parameters).path == ()


@pytest.mark.parametrize(
    ("table", "wanted", "word"),
    [
        (TABLE, ColumnToHave("id", "string", "id"), "cannot become string"),
        (
            altered(("id", "bigint"), **{"spark.sql.sources.provider": "parquet"}),
            ColumnToHave("x", "int", "x"),
            "Spark keeps",
        ),
    ],
)
def test_column_that_the_table_cannot_have_is_refused(
    table: MetastoreTable, wanted: ColumnToHave, word: str
) -> None:
    with pytest.raises(TableMismatchError, match=word):
        columns_with(table, [wanted])


def test_wanted_column_that_has_grown_since_stays_as_it_is() -> None:
    table = altered(("id", "bigint"), ("geo", "struct<city:string,lat:double,lon:double>"))
    columns, keys = columns_with(table, [ColumnToHave("geo", LONG_GEO, "geo")])
    assert (columns, keys) == (table.layout.columns, {})


def test_route_that_follows_fills_what_the_table_has_besides() -> None:
    table = altered(
        ("id", "bigint"),
        ("geo", LONG_GEO),
        ("odd", "uniontype<int,string>"),
        ("x", "int"),
        **{f"{KEY_PROPERTY}x": "X"},
    )
    found = filled_columns(table, replace(OPTIONS, follows=True))
    assert format_hive_type(found.schema.fields[1].type) == LONG_GEO
    assert [(field.name, field.path) for field in found.further] == [("x", ("X",))]
    assert found.null == ("odd",)
    assert [field.name for field in found.written.fields] == ["id", "geo", "x"]


def test_route_that_does_not_follow_leaves_them_null_and_refuses_other_structs() -> None:
    found = filled_columns(altered(*_COLUMNS, ("x", "int")), OPTIONS)
    assert (found.further, found.null) == ((), ("x",))
    with pytest.raises(TableMismatchError, match="geo is struct<city:string,lat:double>"):
        filled_columns(altered(("id", "bigint"), ("geo", LONG_GEO)), OPTIONS)


_COLUMNS = (("id", "bigint"), ("geo", "struct<city:string>"))


@pytest.mark.parametrize(
    ("held", "lacks"),
    [
        (_COLUMNS, True),
        ((("ID", "BIGINT"), ("geo", LONG_GEO), ("x", "int")), False),
        ((*_COLUMNS, ("x", "int")), True),
        ((("id", "bigint"), ("geo", LONG_GEO), ("x", "int"), ("y", "int")), False),
    ],
)
def test_partition_lacks_columns_that_the_table_has_got(
    held: tuple[tuple[str, str], ...], *, lacks: bool
) -> None:
    table = altered(("id", "bigint"), ("geo", LONG_GEO), ("x", "int"))
    partition = altered(*held).layout
    assert partition.differences(table.layout) == ()
    assert partition.lacks_columns(table.layout) is lacks


def test_partition_with_columns_of_other_types_or_places_differs() -> None:
    table = altered(("id", "bigint"), ("x", "int"))
    assert len(altered(("id", "string")).layout.differences(table.layout)) == 1
    assert len(altered(("x", "int"), ("id", "bigint")).layout.differences(table.layout)) == 2


def test_columns_that_a_table_lacks_are_named_with_their_keys_in_the_payload() -> None:
    table = altered(("ID", "bigint"), ("geo", "struct<city:string>"), ("day", "date"))
    expected = Schema(
        (
            Field("id", parse_hive_type("bigint")),
            Field("geo", parse_hive_type(LONG_GEO)),
            # What cannot become the expected type is told as a mismatch, and not added.
            Field("day", parse_hive_type("string")),
            Field("userId", parse_hive_type("int")),
            Field("total", parse_hive_type("double"), path=("amount",)),
            Field("lat", parse_hive_type("double"), path=("geo", "lat")),
        )
    )
    assert lacking_columns(table, expected) == (
        ColumnToHave("geo", LONG_GEO, "geo"),
        ColumnToHave("userid", "int", "userId"),
        ColumnToHave("total", "double", "amount"),
        ColumnToHave("lat", "double", "lat"),
    )
    columns, _ = columns_with(table, lacking_columns(table, expected))
    having = replace(table, layout=replace(table.layout, columns=columns))
    assert lacking_columns(having, expected) == ()


def test_struct_of_a_table_that_has_more_fields_lacks_nothing() -> None:
    table = altered(("id", "bigint"), ("geo", LONG_GEO))
    assert lacking_columns(table, SCHEMA) == ()


def test_zone_of_an_added_column_is_kept_in_the_table_and_read_from_there() -> None:
    _, properties = columns_with(TABLE, [ColumnToHave("at", "timestamp", "at", "UTC")])
    assert properties == {f"{TIMEZONE_PROPERTY}at": "UTC"}
    made = altered(("at", "timestamp"), **properties)
    assert added_field("at", INT, "t", made.parameters).policy.timezone == "UTC"
    # A struct that gets such a field keeps the key that it has.
    geo = ColumnToHave("geo", "struct<city:string,at:timestamp>", "geo", "UTC")
    assert columns_with(TABLE, [geo])[1] == {f"{TIMEZONE_PROPERTY}geo": "UTC"}


def test_property_that_names_no_zone_is_refused() -> None:
    with pytest.raises(TableMismatchError, match=r"sluiceway\.timezone\.at names no time zone"):
        added_field("at", INT, "db.t", {f"{TIMEZONE_PROPERTY}at": "Mars/Olympus"})
