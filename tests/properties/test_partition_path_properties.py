"""Partition folders of any text: read back, and never outside of the table."""

from pathlib import PurePosixPath

from hypothesis import given
from hypothesis import strategies as st

from sluiceway.sinks.partition_path import (
    DEFAULT_PARTITION,
    escape,
    parse_partition_folder,
    partition_folder,
    partition_value_problem,
    resolve_within,
    unescape,
)

ANY_TEXT = st.text(max_size=60) | st.text(alphabet="./\\%=\x00:2FfE ", max_size=20)
COLUMN = st.text(alphabet="abcxyz_01=/%", min_size=1, max_size=8)


@given(ANY_TEXT)
def test_escape_any_text_reads_back(text: str) -> None:
    assert unescape(escape(text)) == text


@given(st.lists(st.tuples(COLUMN, st.none() | ANY_TEXT), max_size=4))
def test_partition_folder_any_values_read_back(pairs: list[tuple[str, str | None]]) -> None:
    names = [name for name, _ in pairs]
    values = [value for _, value in pairs]
    folder = partition_folder(names, values)
    texts = [DEFAULT_PARTITION if value is None else value for value in values]
    expected = tuple(zip(names, texts, strict=True))
    assert parse_partition_folder(folder) == expected


@given(st.lists(st.none() | ANY_TEXT, min_size=1, max_size=3))
def test_partition_folder_clean_values_stay_within_the_table(values: list[str | None]) -> None:
    names = [f"c{index}" for index in range(len(values))]
    if any(partition_value_problem(*pair) for pair in zip(names, values, strict=True)):
        return
    path = PurePosixPath(resolve_within("/wh/t", partition_folder(names, values)))
    assert ".." not in path.parts
    assert len(path.relative_to("/wh/t").parts) == len(values)


@given(ANY_TEXT, ANY_TEXT)
def test_partition_folder_two_values_never_share_a_folder(one: str, other: str) -> None:
    assert (partition_folder(["c"], [one]) == partition_folder(["c"], [other])) == (one == other)
