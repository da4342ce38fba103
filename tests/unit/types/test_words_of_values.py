"""Messages about values are in words of the payload, never of the program."""

import re

import pytest

from sluiceway.convert.dirty_value import DirtyValueError
from sluiceway.convert.exact_values import compile_value
from sluiceway.convert.typed_values import Day, Instant, LocalTime, TimeOfDay
from sluiceway.formats.csv.decoder import CsvDecoder
from sluiceway.types.hive_types import format_hive_type
from sluiceway.types.policy import Policy
from sluiceway.types.schema import (
    BinaryType,
    DataType,
    DateType,
    Field,
    IntegerType,
    Schema,
    StringType,
    TimestampType,
)

FAR_NS = 10**21
VALUES = {
    Day(10**7): "the time 10000000 days since 1970",
    Instant(FAR_NS): "the time 1000000000000 s since 1970",
    LocalTime(FAR_NS + 1): "the time 1000000000000.000000001 s since 1970",
    TimeOfDay(90_000 * 10**9): "the time 90000 s since midnight",
    b"\x00'b": "the bytes 0x002762",
    b"x" * 30: f"the bytes 0x{'78' * 24}...",
}
TYPES = (TimestampType(), DateType(), StringType(), IntegerType(64), BinaryType())
INSIDE = re.compile(r"\w\(\w+=|b'|object at|<class|datetime")


def message(data_type: DataType, value: object, policy: Policy) -> str:
    try:
        compile_value(data_type, None, policy)(value)
    except DirtyValueError as error:
        return error.message
    return ""


@pytest.mark.parametrize("data_type", TYPES, ids=format_hive_type)
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_value_that_no_calendar_has_is_shown_as_a_number_with_its_unit(
    data_type: DataType, value: object
) -> None:
    found = [message(data_type, value, policy) for policy in (Policy(), Policy(timezone="UTC"))]
    for each in filter(None, found):
        assert each.startswith(f"{VALUES[value]} -> {format_hive_type(data_type)}: ")
        assert not INSIDE.search(each)
    assert any(found) or isinstance(data_type, BinaryType)


@pytest.mark.parametrize(
    ("data_type", "value", "told"),
    [
        (TimestampType(), LocalTime(0), "it says no offset: the column needs a `timezone`"),
        (DateType(), Instant(0), "its day is one of a zone: the column needs a `timezone`"),
        (StringType(), Instant(0), "a time is text only where the column has `on_lossy: text`"),
        (TimestampType(), TimeOfDay(0), "it is another kind of time"),
    ],
)
def test_what_a_time_needs_is_named(data_type: DataType, value: object, told: str) -> None:
    assert message(data_type, value, Policy()).endswith(told)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"a,b\\", "a backslash at the end of the line escapes nothing, in the field at char"),
        (b"a,b\\\\\\", "a backslash at the end of the line escapes nothing, in the field at char"),
        (b'a,"b\\"', "the quotes do not end, in the field at character 2: a backslash before"),
        (b"a,\\x", "a backslash stands before 'x', which needs none"),
        (b"a\\,b", "the line has 1 fields, not 2; a backslash before a delimiter makes it text"),
        (b'a,"b', "a quote that opens, closes or escapes nothing"),
    ],
)
def test_backslash_in_a_line_is_named(line: bytes, told: str) -> None:
    schema = Schema((Field("a", StringType()), Field("b", StringType())))
    (row,) = CsvDecoder(schema, {"escape": "\\"}).decode([line]).dirty
    assert row.message.startswith(told)
