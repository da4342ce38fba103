"""Hive's text: delimiters as its SerDe takes them, and no line that reads as something else."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluiceway.sinks.files.hive_text import HiveText, levels_of, text_rules
from sluiceway.sinks.files.reading import split_line
from sluiceway.types.arrow_types import arrow_type
from sluiceway.types.hive_types import parse_hive_type

PLAIN: dict[str, str] = {}
ESCAPED = {"escape.delim": "\\"}


def line_of(settings: dict[str, str], kind: str, value: Any) -> str:
    column = pa.array([value], arrow_type(parse_hive_type(kind)))
    text = HiveText(text_rules(settings)).lines(pa.RecordBatch.from_arrays([column], ["c"]))
    line: str = text.to_pylist()[0]
    return line


def fits(settings: dict[str, str], kind: str, value: Any) -> bool:
    column = pa.array([value], arrow_type(parse_hive_type(kind)))
    return HiveText(text_rules(settings)).unfit(column) is None


def test_delimiters_are_read_as_hive_reads_them() -> None:
    assert text_rules({}).separators[:5] == ("\x01", "\x02", "\x03", "\x04", "\x05")
    assert text_rules({"serialization.format": "9"}).separators[0] == "\t"
    own = text_rules({"field.delim": "|", "colelction.delim": ",x", "mapkey.delim": "58"})
    assert own.separators[:3] == ("|", ",", ":")
    assert len(text_rules({"hive.serialization.extend.nesting.levels": "true"}).separators) > 20


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"field.delim": ",", "colelction.delim": ","}, "same character"),
        ({"field.delim": "é"}, "ASCII"),
        ({"field.delim": "-1"}, "ASCII"),
        ({"field.delim": "\n"}, "line's end"),
        ({"field.delim": "n", "escape.delim": "\\"}, "line's end"),
        ({"serialization.null.format": "a\x01"}, "holds a delimiter"),
        ({"colelction.delim": ",", "collection.delim": ";"}, "differ"),
    ],
)
def test_delimiters_that_tell_nothing_apart_are_refused(
    settings: dict[str, str], word: str
) -> None:
    with pytest.raises(ValueError, match=word):
        text_rules(settings)


@pytest.mark.parametrize(
    ("kind", "value", "line"),
    [
        ("boolean", True, "true"),
        ("double", 1e22, "1e+22"),
        ("double", -0.0, "-0.0"),
        ("float", float("-inf"), "-Infinity"),
        ("binary", b"\x00\xff", "AP8="),
        ("string", None, "\\N"),
        ("array<string>", ["a", None, ""], "a\x02\\N\x02"),
        ("map<string,array<int>>", [("k", [1, 2]), ("l", None)], "k\x031\x042\x02l\x03\\N"),
        (
            "struct<a:int,b:struct<c:string,d:int>>",
            {"a": 1, "b": {"c": "x", "d": 2}},
            "1\x02x\x032",
        ),
    ],
)
def test_values_as_hive_writes_them(kind: str, value: Any, line: str) -> None:
    assert line_of(PLAIN, kind, value) == f"{line}\n"
    assert fits(PLAIN, kind, value)


@pytest.mark.parametrize(
    ("settings", "kind", "value"),
    [
        (PLAIN, "string", "a\x01b"),
        (PLAIN, "string", "a\nb"),
        (PLAIN, "string", "a\rb"),
        (PLAIN, "string", "\\N"),
        (PLAIN, "array<string>", ["a\x02b"]),
        (PLAIN, "map<string,string>", [("a\x03", "b")]),
        (ESCAPED, "array<string>", [""]),
        (ESCAPED, "array<string>", [None]),
        (ESCAPED, "array<array<string>>", [["a"], [""]]),
        (ESCAPED, "struct<a:string>", {"a": None}),
        (ESCAPED, "struct<a:string>", {"a": ""}),
        ({"serialization.null.format": ""}, "string", ""),
        ({"serialization.null.format": ""}, "binary", b""),
        ({"serialization.null.format": ""}, "array<int>", []),
        ({"serialization.null.format": "0"}, "int", 0),
        ({"serialization.null.format": "NULL", **ESCAPED}, "string", "NULL"),
        ({"colelction.delim": "-"}, "array<int>", [-1]),
        ({"colelction.delim": "-", **ESCAPED}, "array<int>", [-1]),
        ({"field.delim": ":"}, "timestamp", 0),
    ],
)
def test_values_that_would_be_read_as_others_do_not_fit(
    settings: dict[str, str], kind: str, value: Any
) -> None:
    assert not fits(settings, kind, value)


@pytest.mark.parametrize(
    ("settings", "kind", "value"),
    [
        (PLAIN, "string", "a\x02b"),
        (PLAIN, "array<string>", ["", ""]),
        (PLAIN, "array<string>", []),
        (ESCAPED, "string", "a\x01\\N\n\r"),
        ({"mapkey.delim": ":"}, "timestamp", 0),
        ({"mapkey.delim": ":"}, "map<string,int>", [("k", 1)]),
    ],
)
def test_values_that_are_told_apart_fit(settings: dict[str, str], kind: str, value: Any) -> None:
    assert fits(settings, kind, value)


def test_levels_of_nested_types() -> None:
    kinds = ("int", "array<int>", "map<string,int>", "map<string,array<struct<a:int>>>")
    assert [levels_of(parse_hive_type(kind)) for kind in kinds] == [1, 2, 3, 5]


TEXTS = st.text(
    st.one_of(st.sampled_from("\x01\x02\x03\\N\n\r|,nr"), st.characters(exclude_categories=["Cs"]))
).filter(lambda text: "\0" not in text)


@given(st.lists(st.one_of(st.none(), TEXTS), min_size=1, max_size=4), st.booleans())
def test_lines_that_fit_are_split_into_the_same_values(
    values: list[str | None],
    escapes: bool,  # noqa: FBT001
) -> None:
    settings = {"field.delim": "|", **(ESCAPED if escapes else {})}
    rules = text_rules(settings)
    text = HiveText(rules)
    columns = [pa.array([value], pa.string()) for value in values]
    if any(text.unfit(column) is not None for column in columns):
        assert not escapes
        return
    names = [str(number) for number in range(len(values))]
    line = text.lines(pa.RecordBatch.from_arrays(columns, names)).to_pylist()[0]
    assert line.count("\n") == 1
    assert "\r" not in line
    assert split_line(line[:-1], rules) == values
