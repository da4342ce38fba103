"""A key with a dot in it is read by a path that names it, in columns and as event time."""

from pathlib import Path

import pytest

from sluiceway.errors import JobFileError
from sluiceway.formats.registry import open_decoder
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.loader import parse_job

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
