"""What changes of columns mean for files that were written before."""

import pytest

from sluiceway.types.evolution import (
    ELEMENT,
    VALUE,
    Evolution,
    column_changes,
    extended,
    is_extension,
    with_field,
)
from sluiceway.types.hive_types import format_hive_type, parse_hive_type
from sluiceway.types.schema import Field, StringType, StructType

BEFORE = (("id", "bigint"), ("geo", "struct<city:string>"), ("amount", "decimal(18,2)"))


def test_equal_columns_in_other_letters_have_not_changed() -> None:
    now = (("ID", "BIGINT"), ("geo", "struct<City:string>"), ("amount", "decimal(18, 2)"))
    changes = column_changes(BEFORE, now)
    assert not changes
    assert not changes.breaks(by_place=True)
    assert changes.evidence() == {}


def test_changes_are_told_apart_by_what_they_do_to_files() -> None:
    now = (("id", "string"), ("geo", "struct<city:string,lat:double>"), ("x", "int"))
    changes = column_changes(BEFORE, now)
    assert (changes.added, changes.removed) == ({"x": "int"}, {"amount": "decimal(18,2)"})
    assert changes.extended == {"geo": ("struct<city:string>", "struct<city:string,lat:double>")}
    assert changes.retyped == {"id": ("bigint", "string")}
    assert changes.breaks(by_place=False)
    assert changes.evidence() == {
        "column x": "added as int",
        "column geo": "struct<city:string> -> struct<city:string,lat:double>",
        "column amount": "decimal(18,2) -> gone",
        "column id": "bigint -> string",
    }
    assert changes.within(frozenset({"geo"})).evidence() == {
        "column geo": "struct<city:string> -> struct<city:string,lat:double>"
    }


def test_columns_at_other_places_break_files_that_hold_them_by_place_only() -> None:
    moved = column_changes(BEFORE, (BEFORE[1], BEFORE[0], BEFORE[2]))
    assert not moved
    assert not moved.breaks(by_place=False)
    assert moved.breaks(by_place=True)
    assert moved.evidence() == {"places": "id, geo moved"}
    assert column_changes(BEFORE, (*BEFORE, ("x", "int"))).displaced == ()
    assert column_changes(BEFORE, (("x", "int"), *BEFORE)).displaced == ("id", "geo", "amount")


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ("bigint", "bigint", True),
        ("int", "bigint", False),
        ("struct<a:int>", "struct<A:int,b:string>", True),
        ("struct<a:int>", "struct<b:string,a:int>", False),
        ("struct<a:int,b:int>", "struct<a:int>", False),
        ("array<struct<a:int>>", "array<struct<a:int,b:array<int>>>", True),
        ("map<string,struct<a:int>>", "map<string,struct<a:int,b:int>>", True),
        ("map<string,struct<a:int>>", "map<int,struct<a:int,b:int>>", False),
        ("struct<a:struct<b:int>>", "struct<a:struct<b:int,c:int>,d:int>", True),
        ("struct<a:struct<b:int>>", "struct<a:struct<b:bigint>>", False),
        ("uniontype<int,string>", "uniontype<int, string>", True),
        ("uniontype<int,string>", "uniontype<int>", False),
    ],
)
def test_structs_may_get_fields_at_their_ends(before: str, now: str, *, expected: bool) -> None:
    assert is_extension(before, now) is expected


def test_extended_type_keeps_the_settings_of_the_fields_that_were_there() -> None:
    known = StructType((Field("a", StringType(), required=True),))
    made = extended(known, parse_hive_type("struct<A:string,b:int>"))
    assert isinstance(made, StructType)
    assert made.fields[0] == known.fields[0]
    assert made.fields[1].name == "b"


@pytest.mark.parametrize(
    ("of", "path", "expected"),
    [
        ("struct<a:int>", ("b",), "struct<a:int,b:string>"),
        ("struct<a:int>", ("A",), None),
        ("array<struct<a:int>>", (ELEMENT, "b"), "array<struct<a:int,b:string>>"),
        ("map<string,struct<a:int>>", (VALUE, "b"), "map<string,struct<a:int,b:string>>"),
        ("struct<a:struct<b:int>>", ("a", "c"), "struct<a:struct<b:int,c:string>>"),
        ("struct<a:struct<b:int>>", ("x", "c"), None),
        ("struct<a:struct<b:int>>", ("a", "b"), None),
        ("array<int>", (ELEMENT, "b"), None),
        ("int", ("b",), None),
    ],
)
def test_field_is_added_where_its_path_leads(
    of: str, path: tuple[str, ...], expected: str | None
) -> None:
    made = with_field(parse_hive_type(of), path, StringType())
    assert (None if made is None else format_hive_type(made)) == expected
    if expected is not None:
        assert is_extension(of, expected)


def test_policies_say_whose_columns_count() -> None:
    assert [each for each in Evolution if each.follows] == ["follow_table", "add_columns"]
    assert [each for each in Evolution if each.refuses_unknown] == ["add_columns", "quarantine"]
