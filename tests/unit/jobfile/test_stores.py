"""Connections to stores: which one a route takes, what is refused, and that no secret shows."""

import pickle
from pathlib import Path

import pytest

from sluiceway.errors import JobFileError
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.loader import parse_job
from sluiceway.storage.access import StoreAccess, Stores
from sluiceway.storage.registry import open_storage

JOB = """\
version: 1
name: small
connections:
  main: {{kafka: {{bootstrap_servers: "k1:9092"}}}}
  hms: {{metastore: {{uri: "thrift://hms:9083"}}}}
{connections}
source: {{connection: main, topics: [a]}}
format: {{json: {{}}}}
table:
  hive: {{connection: hms, name: ods.small{hive}}}
  columns: [{{name: id, type: bigint}}]
  partition_by: []
"""
SECRET = "hidden-in-plain-sight"  # noqa: S105 - of a test
ONE = (
    '  one: {s3: {endpoint: "http://s3:9000", path_style: true, access_key: k, '
    'secret_key: "${env:KEY}"}}'
)
TWO = "  two: {s3: {region: eu-central-1}}"


def stores_of(connections: str, hive: str = "") -> Stores:
    text = JOB.format(connections=connections, hive=hive)
    loaded = parse_job(text.encode(), Path("job.yaml"), {"KEY": SECRET})
    return compile_route(loaded.spec.routes[0]).stores


def problem_of(connections: str, hive: str = "") -> str:
    with pytest.raises(JobFileError) as caught:
        stores_of(connections, hive)
    return caught.value.message


def test_only_connection_of_a_kind_is_taken() -> None:
    stores = stores_of(f"{ONE}\n  dfs: {{hdfs: {{config_dir: /etc/hadoop/conf}}}}")
    assert stores.access("s3").options == (
        ("access_key", "k"),
        ("endpoint", "http://s3:9000"),
        ("path_style", "true"),
        ("secret_key", SECRET),
    )
    assert stores.access("hdfs").options == (("config_dir", "/etc/hadoop/conf"),)
    assert stores.unclear == ()


def test_connection_that_the_table_names_is_taken() -> None:
    stores = stores_of(f"{ONE}\n{TWO}", ", storage: two")
    assert stores == Stores((StoreAccess("s3", (("region", "eu-central-1"),)),))


def test_one_of_several_connections_has_to_be_named() -> None:
    stores = stores_of(f"{ONE}\n{TWO}")
    assert stores == Stores((), ("s3",))
    with pytest.raises(JobFileError, match="several connections of the kind s3") as refused:
        open_storage("s3a://lake/t", stores)
    assert "table.hive.storage" in refused.value.hint
    assert open_storage("/w/t", stores)[1] == "/w/t"


def test_without_a_connection_the_machine_says_how() -> None:
    assert stores_of("") == Stores()
    assert stores_of("").access("s3") == StoreAccess("s3")


def test_secret_reaches_a_task_and_no_text() -> None:
    stores = stores_of(ONE)
    assert SECRET not in f"{stores} {stores!r}"
    assert pickle.loads(pickle.dumps(stores)) == stores  # noqa: S301 - our own


def test_secret_in_plain_text_is_refused() -> None:
    told = problem_of(ONE.replace("${env:KEY}", "plain"))
    assert "`secret_key` from a reference, got plain text" in told


@pytest.mark.parametrize(
    ("connections", "hive", "told"),
    [
        (ONE, ", storage: hms", "expected the name of a connection to a store, got `hms`"),
        (ONE, ", storage: nope", "expected the name of a connection to a store, got `nope`"),
        (ONE.replace("http://s3:9000", "s3:9000"), "", "expected `https://host`"),
        (ONE.replace("http://s3:9000", "http://u:p@s3"), "", "expected `https://host`"),
        (ONE.replace("path_style: true", "path_style: 1"), "", "expected true or false"),
        (ONE.replace("path_style", "path_stile"), "", "did you mean `path_style`?"),
        ("  dfs: {hdfs: {config_dir: conf}}", "", "expected an absolute path"),
        ("", ', location: "s3a://bucket"', "expected hdfs://service/folder or s3a://"),
        ("", ', location: "s3a://bucket/a/../b"', "expected hdfs://service/folder or s3a://"),
        ("", ', location: "hdfs://ns/"', "expected hdfs://service/folder or s3a://"),
        ("", ', location: "S3A://bucket/a"', "write the scheme in small letters"),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(connections: str, hive: str, told: str) -> None:
    assert told in problem_of(connections, hive)


@pytest.mark.parametrize(
    "location", ["s3a://b-1/ods/t", "s3://b.c/t/", "oss://b/t", "hdfs://ns/t", "viewfs://c/t/u"]
)
def test_locations_on_stores_are_taken(location: str) -> None:
    assert stores_of("", f', location: "{location}"') == Stores()
