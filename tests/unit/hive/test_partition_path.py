"""Partition folders against names that Hive and Spark are known to give."""

import pytest

from sluiceway.sinks.partition_path import (
    DEFAULT_PARTITION,
    MAX_COMPONENT_BYTES,
    catalog_folder,
    catalog_values,
    escape,
    escaped_component_bytes,
    is_reserved_value,
    parse_partition_folder,
    partition_folder,
    partition_name_problem,
    partition_value_problem,
    requested_folder,
    resolve_within,
    unescape,
)

KNOWN = {
    "20261120": "20261120",
    "a/b": "a%2Fb",
    "a=b": "a%3Db",
    "../../x": "..%2F..%2Fx",
    "..": "..",
    "100%": "100%25",
    "it's": "it%27s",
    'say "x"': "say %22x%22",
    "2026-11-20 08:00:00": "2026-11-20 08%3A00%3A00",
    "a\tb\nc": "a%09b%0Ac",
    "\x01\x1f\x7f": "%01%1F%7F",
    "back\\slash": "back%5Cslash",
    "{x}": "%7Bx}",
    "[x]^": "%5Bx%5D%5E",
    "what?*#": "what%3F%2A%23",
    "a+b c&d<e>|;,!@$()~`": "a+b c&d<e>|;,!@$()~`",
    "北京": "北京",
    "\uff0f\uff0e\uff0e": "\uff0f\uff0e\uff0e",
    "\u202egnp": "\u202egnp",
}


@pytest.mark.parametrize(("value", "escaped"), KNOWN.items())
def test_escape_known_value_is_as_hive_writes_it(value: str, escaped: str) -> None:
    assert escape(value) == escaped
    assert unescape(escaped) == value


def test_unescape_stray_percent_stands_for_itself() -> None:
    assert unescape("50%-a%zz%2f") == "50%-a%zz/"


@pytest.mark.parametrize(("value", "folder"), [(None, f"q={DEFAULT_PARTITION}"), ("", "q=")])
def test_partition_folder_tells_null_from_an_empty_text(value: str | None, folder: str) -> None:
    assert partition_folder(["q"], [value]) == folder
    # A metastore does not: in its tables such a text is dirty.
    assert catalog_values([value]) == (DEFAULT_PARTITION,)


def test_partition_folder_of_the_name_for_null_is_another_than_that_of_null() -> None:
    folder = partition_folder(["q"], [DEFAULT_PARTITION])
    assert folder == "q=%5F_HIVE_DEFAULT_PARTITION__"
    assert parse_partition_folder(folder) == (("q", DEFAULT_PARTITION),)
    # What a metastore holds under that name is null.
    assert catalog_folder(["q"], [DEFAULT_PARTITION]) == partition_folder(["q"], [None])


@pytest.mark.parametrize("value", ["x" * 300, "\u5317" * 100, "/" * 100, "a%" * 90, "y" * 10**6])
def test_partition_folder_of_a_long_value_is_short_and_its_own(value: str) -> None:
    folders = {partition_folder(["q"], [each]) for each in (value, f"{value}.", f"{value}/")}
    assert len(folders) == 3
    for folder in folders:
        assert len(folder.encode()) <= MAX_COMPONENT_BYTES
        assert folder.startswith(f"q={escape(value[0])}")
        assert requested_folder(folder) == folder
    longest = "z" * (MAX_COMPONENT_BYTES - 2)
    assert partition_folder(["q"], [longest]) == f"q={longest}"


@pytest.mark.parametrize(
    ("asked", "folder"),
    [
        ("pc=%", "pc=%25"),
        ("pc=%25/", "pc=%25"),
        ("pc=a:b", "pc=a%3Ab"),
        ("pc=%41", "pc=A"),
        ("pc=%5Fx", "pc=_x"),
        (f"pc={DEFAULT_PARTITION}", f"pc={DEFAULT_PARTITION}"),
        ("pc=%5F_HIVE_DEFAULT_PARTITION__", "pc=%5F_HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_asked_folder_takes_values_as_they_are_and_as_folders_show_them(
    asked: str, folder: str
) -> None:
    assert requested_folder(asked) == folder


def test_partition_folder_joins_components_in_order() -> None:
    assert partition_folder(["dt", "HR"], ["20261120", "08"]) == "dt=20261120/hr=08"
    assert partition_folder([], []) == ""
    assert parse_partition_folder("") == ()


def test_partition_folder_value_count_differs_raises() -> None:
    with pytest.raises(ValueError, match="shorter"):
        partition_folder(["dt", "hr"], ["20261120"])


@pytest.mark.parametrize("folder", ["dt", "=x", "dt=1//hr=2", "dt=1/"])
def test_parse_partition_folder_odd_component_raises(folder: str) -> None:
    with pytest.raises(ValueError, match="is not name=value"):
        parse_partition_folder(folder)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, None),
        ("", None),
        ("北京", None),
        ("x" * 250, None),
        (DEFAULT_PARTITION, "stands for null"),
        (DEFAULT_PARTITION.lower(), None),
        ("a\x00b", "NUL"),
        ("\ud800", "surrogate"),
        ("x" * 300, "longer than 255 bytes"),
        ("北" * 100, "longer than 255 bytes"),
        ("/" * 100, "longer than 255 bytes"),
    ],
)
def test_partition_value_problem_names_the_reason(value: str | None, problem: str | None) -> None:
    found = partition_value_problem("city", value)
    assert (found is None) if problem is None else (found is not None and problem in found)


def test_escaped_component_bytes_counts_name_and_utf8() -> None:
    assert escaped_component_bytes("q", "é/") == len("q=é%2F".encode())
    assert escaped_component_bytes("q", "x" * 253) == 255
    assert partition_value_problem("q", "x" * 253) is None
    assert partition_value_problem("q", "x" * 254) is not None


def test_is_reserved_value_only_for_the_exact_text() -> None:
    assert is_reserved_value(DEFAULT_PARTITION)
    assert not is_reserved_value(f"{DEFAULT_PARTITION} ")
    assert not is_reserved_value(None)


def test_partition_name_problem_counts_the_whole_name() -> None:
    names = ["a", "b", "c", "d"]
    assert partition_name_problem(names, ["x" * 189] * 4) is None
    assert "767" in (partition_name_problem(names, ["x" * 190] * 4) or "")
    assert partition_name_problem(["a"], [""]) is None
    assert (partition_name_problem(["a"], ["\x00"]) or "").startswith("a: ")


@pytest.mark.parametrize(
    "relative", ["", ".", "..", "a/../b", "../x", "/etc", "a//b", "a/", "a/.", "a\x00/b"]
)
def test_resolve_within_leaving_component_is_refused(relative: str) -> None:
    with pytest.raises(ValueError, match="does not stay below"):
        resolve_within("/table", relative)


@pytest.mark.parametrize(
    "value", ["..", "../../x", "a/b", "/etc/passwd", ".", "\uff0f\uff0e\uff0e"]
)
def test_resolve_within_any_value_stays_one_component(value: str) -> None:
    root = "file:/wh/t/"
    path = resolve_within(root, partition_folder(["q"], [value]))
    assert path.removeprefix("file:/wh/t/").count("/") == 0
    assert path.startswith("file:/wh/t/q=")
