"""How a job file's metastore is reached, as sinks of Hive and of lake tables take it."""

from pathlib import Path

import pytest

from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.loader import parse_job

JOB = """\
version: 1
name: small
connections:
  main: {{kafka: {{bootstrap_servers: "k1:9092"}}}}
  hms: {{{connection}}}
source: {{connection: main, topics: [a]}}
format: {{json: {{}}}}
table:
  {kind}: {{connection: hms, name: ods.small}}
  columns: [{{name: id, type: bigint}}]
  partition_by: []
"""
URI = 'uri: "thrift://hms:9083"'


def route(kind: str, connection: str) -> RouteConfig:
    text = JOB.format(kind=kind, connection=connection)
    return compile_route(parse_job(text.encode(), Path("job.yaml"), {}).spec.routes[0])


@pytest.mark.parametrize(
    ("tls", "expected"),
    [
        ("", {}),
        (", tls: {}", {"tls": "true"}),
        (
            ", tls: {ca_file: /ca.pem, cert_file: /own.pem}",
            {"tls": "true", "ca_file": "/ca.pem", "cert_file": "/own.pem"},
        ),
    ],
)
def test_sinks_get_the_encryption_of_the_connection(tls: str, expected: dict[str, str]) -> None:
    hive = route("hive", f"metastore: {{{URI}{tls}}}").table
    assert hive.metastore == "thrift://hms:9083"
    assert dict(hive.metastore_options) == expected
    lake = dict(route("iceberg", f"iceberg: {{hive: {{{URI}{tls}}}}}").catalog.options)
    found = {name: value for name, value in lake.items() if name.startswith("metastore.")}
    assert found == {f"metastore.{name}": value for name, value in expected.items()}


LOGIN = "kerberos: {principal: etl@R, keytab: /etl.keytab}\n"
SECURED = f"{URI}, kerberos: {{service_principal: hive/_HOST@R}}"


def _with_login(kind: str, connection: str) -> RouteConfig:
    text = JOB.format(kind=kind, connection=connection) + LOGIN
    return compile_route(parse_job(text.encode(), Path("job.yaml"), {}).spec.routes[0])


def test_login_of_the_job_reaches_metastore_and_hdfs() -> None:
    login = {"login.keytab": "/etl.keytab", "login.principal": "etl@R"}
    expected = {"service_principal": "hive/_HOST@R", **login}
    config = _with_login("hive", f"metastore: {{{SECURED}}}")
    assert dict(config.table.metastore_options) == expected
    assert dict(config.stores.access("hdfs").options) == login
    lake = dict(_with_login("iceberg", f"iceberg: {{hive: {{{SECURED}}}}}").catalog.options)
    found = {name: value for name, value in lake.items() if name.startswith("metastore.")}
    assert found == {f"metastore.{name}": value for name, value in expected.items()}


def test_metastore_without_kerberos_gets_no_login() -> None:
    config = _with_login("hive", f"metastore: {{{URI}}}")
    assert dict(config.table.metastore_options) == {}
    assert "login.keytab" not in dict(config.source.options)
