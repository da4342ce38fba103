"""Columns of schemas, as `sluiceway infer` prints them, and what `validate` says of subjects."""

import json
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from tools.protobuf_types import add_field, descriptor_set, file_of
from tools.registry_server import Registry, registry_server

JOB = """\
version: 1
name: team
connections:
  main: {{kafka: {{bootstrap_servers: "h:1"}}}}
  hms: {{metastore: {{uri: "thrift://h:2"}}}}
  reg: {{schema_registry: {{url: "{url}", username: ann, password: "${{file:{folder}/word}}"}}}}
source: {{connection: main, topics: [orders], start: earliest}}
format: {format}
table:
  hive: {{connection: hms, name: a.b}}
  columns: {columns}
  partition_by: []
"""
AVRO = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "on", "type": ["null", "string"]},
            {"name": "u", "type": ["int", "string"]},
            {"name": "n", "type": "null"},
        ],
    }
)
SHOWN = """\
columns:
  - {name: id, type: bigint}
  - {name: "on", type: string}
  - {name: u, type: string, on_lossy: text} # DOUBT: u: a union of 2 kinds of values; kept as text
  # - {name: 'n'} # DOUBT: n: it is never anything but null
"""


def job(folder: Path, payload: str, columns: str = "from_registry", url: str = "http://h:9") -> str:
    (folder / "word").write_text("hush")
    path = folder / "job.yaml"
    path.write_text(JOB.format(format=payload, columns=columns, url=url, folder=folder))
    return str(path)


def test_subject_of_a_registry(capsys: pytest.CaptureFixture[str]) -> None:
    with registry_server() as registry:
        registry.add("o", AVRO)
        registry.add("o", '"int"')
        assert run_command(["infer", "o", "--registry", registry.url, "--version", "1"]) == 0
        assert capsys.readouterr().out == f"# o version 1, AVRO\n{SHOWN}"
        assert run_command(["infer", "o", "--registry", registry.url]) == 2
        assert "the subject o version 2: it is an Avro schema" in capsys.readouterr().err
        assert run_command(["infer", "p", "--registry", registry.url]) == 5
        assert "does not know the subject p" in capsys.readouterr().err
    assert run_command(["infer", "o", "--registry", "host:8081"]) == 2


@pytest.mark.parametrize(
    "url",
    [
        "http://ann:hush@127.0.0.1:1",
        "http://127.0.0.1:1?token=hush",
        "http://[hush",
        "http://127.0.0.1:1hush",
        "http://127.0.0.1:1/hush\xe9",
        "http://127.0.0.1:1/hu sh",
    ],
)
def test_address_with_a_login_is_refused_and_not_repeated(
    capsys: pytest.CaptureFixture[str], url: str
) -> None:
    assert run_command(["infer", "o", "--registry", url]) == 2
    told = capsys.readouterr().err
    assert "--registry is no address of a registry without a login" in told
    assert "hu" not in told


def test_name_in_a_schema_writes_no_line_of_a_job_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "R\n  - {name: evil, type: string}"
    inner = {"type": "record", "name": name, "fields": [{"name": "b", "type": name}]}
    fields = [{"name": "a", "type": inner}]
    text = json.dumps({"type": "record", "name": "T", "fields": fields})
    (tmp_path / "a.avsc").write_text(text)
    assert run_command(["infer", str(tmp_path / "a.avsc")]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.partition(", type")[0] for line in shown[2:]] == ["  - {name: a"]


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.avsc", AVRO, "  - {name: id, type: bigint}"),
        (
            "a.proto",
            'syntax = "proto3"; message M { uint32 v = 1; }',
            "  - {name: v, type: bigint}",
        ),
        (
            "a.schema.json",
            '{"properties": {"v": {"type": "number"}}}',
            "  - {name: v, type: double} # DOUBT: a double rounds; a decimal keeps digits",
        ),
    ],
)
def test_file_of_a_schema(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, line: str
) -> None:
    (tmp_path / name).write_text(text)
    assert run_command(["infer", str(tmp_path / name)]) == 0
    assert line in capsys.readouterr().out.splitlines()


def test_descriptor_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = file_of("shop.proto", "shop", "proto3")
    message = file.message_type.add(name="Order")
    add_field(message, "id", 1, "int64")
    (tmp_path / "shop.desc").write_bytes(descriptor_set([file]))
    assert run_command(["infer", str(tmp_path / "shop.desc")]) == 0
    assert "  - {name: id, type: bigint}" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["a.avsc", "a.proto", "a.desc", "a.schema.json", "none.proto"])
def test_file_that_holds_no_schema_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    if not name.startswith("none"):
        (tmp_path / name).write_bytes(b"\xff{")
    assert run_command(["infer", str(tmp_path / name)]) == 2
    assert name in capsys.readouterr().err


def test_format_of_a_job_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with registry_server(Registry(login="ann:hush")) as registry:
        registry.add("orders-value", AVRO)
        path = job(tmp_path, "{avro: {registry: reg}}", url=registry.url)
        assert run_command(["infer", path]) == 0
    assert capsys.readouterr().out == f"# orders-value version 1, AVRO\n{SHOWN}"
    (tmp_path / "a.avsc").write_text(AVRO)
    given = f'{{avro: {{schema: "${{file:{tmp_path}/a.avsc}}"}}}}'
    assert run_command(["infer", job(tmp_path, given, "[{name: id, type: bigint}]")]) == 0
    assert capsys.readouterr().out == f"# the job file's schema\n{SHOWN}"
    assert run_command(["infer", job(tmp_path, "{raw: {}}", "[{name: v, type: string}]")]) == 2
    assert "reads raw" in capsys.readouterr().err


def test_validate_says_which_subject_and_asks_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = job(tmp_path, "{avro: {registry: reg}}")
    assert run_command(["validate", path]) == 0
    shown = capsys.readouterr().out
    assert "columns     from the registry's subject orders-value, at each start" in shown
    named = "from_registry\n  subject: {name: o, version: 3}"
    assert run_command(["validate", job(tmp_path, "{avro: {registry: reg}}", named)]) == 0
    assert "from the registry's subject o, version 3" in capsys.readouterr().out
    assert run_command(["validate", "-o", "json", path]) == 0
    (found,) = json.loads(capsys.readouterr().out)["routes"]
    assert found["subject"] == {"name": "o", "version": 3, "message": None}
    assert found["columns"] is None


def test_records_in_a_file_are_looked_at_line_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "orders.jsonl"
    path.write_text('{"id": 1, "city": "Rome"}\n\n  {"id": 2}\r\n{"id": "no"}\n')
    assert run_command(["infer", str(path), "--records", "2"]) == 0
    told = capsys.readouterr().out
    assert "2 JSON objects of orders.jsonl" in told
    assert "{name: id, type: bigint}" in told
    assert "{name: city, type: string}" in told
    change = json.dumps({"database": "d", "table": "t", "type": "insert", "data": {"id": 1}})
    path = path.with_suffix(".ndjson")
    path.write_text(change)
    assert run_command(["infer", str(path)]) == 0
    assert "format: {maxwell: {}}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "told"), [("", "is empty"), ("x\n", "no record holds a json"), (None, "no such file")]
)
def test_file_without_a_record_is_refused(
    text: str | None, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "orders.jsonl"
    if text is not None:
        path.write_text(text)
    assert run_command(["infer", str(path)]) == 2
    assert told in capsys.readouterr().err.lower()
