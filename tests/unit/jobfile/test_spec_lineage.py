"""The block `lineage`: who is told of what fills a table."""

from pathlib import Path

import pytest

from sluiceway.errors import JobFileError
from sluiceway.host.http_receiver import HttpReceiver
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.compile.ready_rule import LineageRule
from sluiceway.jobfile.loader import parse_job

JOB = """\
version: 1
name: orders
connections:
  main: {{kafka: {{bootstrap_servers: "k:9092"}}}}
  hms: {{metastore: {{uri: "thrift://m:9083"}}}}
source: {{connection: main, topics: [orders]}}
format: {{json: {{}}}}
table:
  hive: {{connection: hms, name: ods.orders}}
  columns: [{{name: id, type: bigint}}]
  partition_by: []
{lineage}
"""
ENVIRONMENT = {"TOKEN": "Bearer s3cret"}


def load(block: str) -> LineageRule | None:
    text = JOB.format(lineage=f"lineage: {block}" if block else "")
    job = parse_job(text.encode(), Path("orders.yaml"), ENVIRONMENT)
    return compile_route(job.spec.routes[0]).lineage


def test_nobody_is_told_without_the_block() -> None:
    assert load("") is None


def test_endpoint_is_told_every_minute_unless_the_file_says_otherwise() -> None:
    url = "https://Marquez.example/api/v1/lineage"
    headers = '{Authorization: "${env:TOKEN}"}'
    told = HttpReceiver(url, "marquez.example", (("Authorization", "Bearer s3cret"),), 3.0)
    assert load(f'{{http: {{url: "{url}", timeout: 3s, headers: {headers}}}}}') == LineageRule(
        "sluiceway", 60.0, http=told
    )
    assert load("{file: {path: /log/l.jsonl}, namespace: prod, interval: 5s}") == LineageRule(
        "prod", 5.0, file="/log/l.jsonl"
    )


@pytest.mark.parametrize(
    ("block", "says"),
    [
        ("{}", "expected exactly one of http, file, got none"),
        ('{http: {url: "http://h"}, file: {path: /l}}', "got `http` and `file`"),
        ("{file: {path: l.jsonl}}", "expected the absolute path of a file"),
        ("{file: {path: /log/}}", "expected the absolute path of a file"),
        ('{http: {url: "ftp://h"}}', "expected an http or https URL without a user"),
        ('{http: {url: "http://h"}, interval: 1ms}', "expected a duration from 1s to 5m"),
        ('{htpp: {url: "http://h"}}', "http"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(block: str, says: str) -> None:
    with pytest.raises(JobFileError) as caught:
        load(block)
    assert "orders.yaml:12:" in caught.value.message
    assert says in caught.value.message


def test_header_with_a_secret_in_plain_text_is_refused() -> None:
    with pytest.raises(JobFileError, match="from a reference, got plain text"):
        load('{http: {url: "http://h", headers: {Authorization: abc}}}')
