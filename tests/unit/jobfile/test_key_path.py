"""Paths of keys: what is spelled is what is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluiceway.types.key_path import keys_below, path_keys, path_text


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ("$.source.ts", ("$", "source", "ts")),
        ("['host.name']", ("host.name",)),
        ("$['host.name'].os", ("$", "host.name", "os")),
        ("""a["b.c"]['d'].e""", ("a", "b.c", "d", "e")),
        (r"['it\'s \\ here']", (r"it's \ here",)),
        ("a b.c[0]", ("a b", "c[0]")),
    ],
)
def test_path_is_read_as_its_keys(text: str, keys: tuple[str, ...]) -> None:
    assert path_keys(text) == keys


def test_dollar_before_a_bracket_is_the_top() -> None:
    assert keys_below("$['host.name']") == ("host.name",)
    assert keys_below("$.op") == ("$", "op")


@pytest.mark.parametrize(
    "text", ["", "a.", ".a", "a..b", "['a", "['a']b", "a.['b']", "['a'].", "a['"]
)
def test_path_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        path_keys(text)


@given(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4))
def test_text_of_keys_reads_back(keys: list[str]) -> None:
    assert path_keys(path_text(keys)) == tuple(keys)
