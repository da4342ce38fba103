"""Paths of keys: what is spelled is what is read, keys with a dot in them too."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluiceway.errors import JobFileError
from sluiceway.formats.registry import open_decoder
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.loader import parse_job
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


JOB = """\
version: 1
name: small
connections:
  main: {{kafka: {{bootstrap_servers: "k1:9092"}}}}
  hms: {{metastore: {{uri: "thrift://hms:9083"}}}}
source: {{connection: main, topics: [a]}}
format: {form}
table:
  hive: {{connection: hms, name: ods.small}}
  columns:
    - {{name: host, type: string, path: "{path}"}}
  partition_by: []
"""
PLAIN = b'{"host.name": "h", "a": {"b.c": {"d": "h"}}, "host": {"name": "not"}}'


def values(form: str, path: str, payload: bytes) -> list[object]:
    (spec,) = parse_job(JOB.format(form=form, path=path).encode(), Path("j.yaml"), {}).spec.routes
    config = compile_route(spec)
    assert config.columns is not None
    decoded = open_decoder(config.format, config.columns).decode([payload])
    assert decoded.dirty == ()
    return [row["host"] for row in decoded.rows.to_pylist()]


@pytest.mark.parametrize(
    "path", ["['host.name']", "$['host.name']", "a['b.c'].d", "$['a']['b.c']['d']"]
)
@pytest.mark.parametrize("engine", ["library", "auto"])
def test_key_with_a_dot_is_read_from_json(path: str, engine: str) -> None:
    assert values(f"{{json: {{engine: {engine}}}}}", path, PLAIN) == ["h"]


def test_dots_outside_of_brackets_are_keys_as_ever() -> None:
    assert values("{json: {}}", "host.name", PLAIN) == ["not"]


@pytest.mark.parametrize(
    ("path", "value"), [("['host.name']", "row"), ("$['host.name']", "message")]
)
def test_key_with_a_dot_is_read_from_a_change_and_from_its_row(path: str, value: str) -> None:
    payload = b'{"op":"c","source":{},"after":{"host.name":"row"},"host.name":"message"}'
    assert values("{debezium: {}}", path, payload) == [value]


@pytest.mark.parametrize("path", ["host.", "['host.name'", "['a']b"])
def test_path_that_is_none_is_refused_with_the_spelling(path: str) -> None:
    with pytest.raises(JobFileError, match=r"a key with a dot in it is written"):
        values("{json: {}}", path, PLAIN)
