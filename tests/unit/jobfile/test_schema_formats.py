"""What a job file says of Avro and Protobuf reaches the workers, and secrets nobody else."""

from pathlib import Path

import pytest

from sluiceway.errors import JobFileError
from sluiceway.formats.registry import FormatChoice
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.loader import load_job
from tools.protobuf_types import add_field, descriptor_set, file_of

JOB = """\
version: 1
name: team
connections:
  main: {{kafka: {{bootstrap_servers: "h:1"}}}}
  hms: {{metastore: {{uri: "thrift://h:2"}}}}
  reg: {{schema_registry: {registry}}}
source: {{connection: main, topics: [a], start: earliest}}
format: {format}
table:
  hive: {{connection: hms, name: a.b}}
  columns: [{{name: id, type: bigint}}]
  partition_by: [{{name: dt, column: id}}]
"""
REGISTRY = '{url: "https://h:8081/api", username: ann, password: "${env:WORD}", ca_file: /ca.pem}'


def choice(folder: Path, payload: str, registry: str = REGISTRY) -> FormatChoice:
    path = folder / "job.yaml"
    path.write_text(JOB.format(format=payload, registry=registry))
    (route,) = load_job(path, environ={"WORD": "hush"}).spec.routes
    return compile_route(route).format


@pytest.mark.parametrize("name", ["avro", "protobuf"])
def test_registry_of_a_format_becomes_its_options(tmp_path: Path, name: str) -> None:
    found = choice(
        tmp_path, f"{{{name}: {{registry: reg, unknown_schema_wait: 5s, tombstones: skip}}}}"
    )
    assert found.name == name
    assert dict(found.options) == {
        "tombstones": "skip",
        "registry.url": "https://h:8081/api",
        "registry.username": "ann",
        "registry.password": "hush",
        "registry.ca_file": "/ca.pem",
        "registry.unknown_wait_ms": "5000",
    }
    assert "hush" not in repr(found)


def test_registry_of_json_becomes_a_header_and_who_says_what_values_are(tmp_path: Path) -> None:
    found = choice(tmp_path, "{json: {registry: reg}}")
    assert found.name == "json"
    assert dict(found.options) == {
        "unknown_fields": "ignore",
        "tombstones": "dirty",
        "engine": "auto",
        "frame": "confluent",
        "registry.url": "https://h:8081/api",
        "registry.username": "ann",
        "registry.password": "hush",
        "registry.ca_file": "/ca.pem",
        "registry.unknown_wait_ms": "30000",
    }


def test_schemas_of_the_job_file_become_options(tmp_path: Path) -> None:
    (tmp_path / "one.avsc").write_text('"int"\n')
    reference = f"${{file:{tmp_path}/one.avsc}}"
    found = choice(tmp_path, f"""{{avro: {{schemas: ["{reference}", '"long"']}}}}""")
    assert dict(found.options) == {
        "tombstones": "dirty",
        "schemas.0": '"int"',
        "schemas.1": '"long"',
    }
    found = choice(tmp_path, """{protobuf: {schema: "message A {}", message: A}}""")
    assert dict(found.options)["schema"] == "message A {}"


def test_descriptor_set_is_read_by_the_driver(tmp_path: Path) -> None:
    file = file_of("a.proto", "t", "proto3")
    add_field(file.message_type.add(name="A"), "id", 1, "int64")
    path = tmp_path / "a.desc"
    path.write_bytes(descriptor_set([file]))
    found = choice(tmp_path, f"{{protobuf: {{descriptor_set: {path}, message: t.A}}}}")
    assert {"descriptor_set", "message", "tombstones"} == dict(found.options).keys()
    with pytest.raises(JobFileError, match=r"descriptor_set.*: expected a file of at most"):
        choice(tmp_path, f"{{protobuf: {{descriptor_set: {path}.gone, message: t.A}}}}")


@pytest.mark.parametrize(
    ("payload", "registry", "told"),
    [
        ("{avro: {registry: rex}}", REGISTRY, "expected the name of a schema_registry connection"),
        ("{avro: {registry: hms}}", REGISTRY, "write one of: reg"),
        ("{avro: {}}", REGISTRY, "exactly one of registry, schema, schemas"),
        ("{avro: {registry: reg, schema: x}}", REGISTRY, "exactly one of registry, schema"),
        ("{avro: {registry: reg, unknown_schema_wait: 1h}}", REGISTRY, "from 0s to 5m"),
        (
            "{avro: {registry: reg, unknown_schema_wait: 31s}}",
            REGISTRY,
            "half of run.straggler_timeout",
        ),
        ("{protobuf: {}}", REGISTRY, "exactly one of registry, descriptor_set, schema"),
        ("{avro: {registry: reg}}", "{url: 'ftp://h'}", "http://host:port"),
        ("{avro: {registry: reg}}", "{url: 'http://ann:word@h'}", "without a login"),
        ("{avro: {registry: reg}}", "{url: 'http://h', password: x}", "from a reference"),
        ("{avro: {registry: reg}}", "{url: 'http://h', token: x}", "from a reference"),
        ("{avro: {registry: reg}}", "{url: 'http://h', colour: x}", "unknown key `colour`"),
    ],
    ids=range(12),
)
def test_what_is_wrong_is_told(tmp_path: Path, payload: str, registry: str, told: str) -> None:
    with pytest.raises(JobFileError) as error:
        choice(tmp_path, payload, registry)
    assert told in str(error.value)
