"""Masks: hashes with a secret salt that nothing shows, covered texts, nulls for placeholders."""

import hashlib
from pathlib import Path

import pyarrow as pa
import pytest

from sluiceway.cli.job_file import parse_checked_job
from sluiceway.errors import JobFileError
from sluiceway.expressions.evaluate import compile_expression
from sluiceway.expressions.tree import ExpressionError
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.types.schema import Field, IntegerType, Schema, StringType

SCHEMA = Schema((Field("tel", StringType()), Field("n", IntegerType(64))))
TEXTS = ["13800001234", "1234", "né😀", "", None, "1234"]
ROWS = pa.record_batch([pa.array(TEXTS), pa.array([1, 2, 3, 4, None, 2])], names=["tel", "n"])
JOB = """\
version: 1
name: orders
connections:
  main: {kafka: {bootstrap_servers: "k1:9092"}}
  hms: {metastore: {uri: "thrift://hms:9083"}}
source: {connection: main, topics: [orders]}
format: {json: {}}
table:
  hive: {connection: hms, name: ods.orders}
  columns:
  - {name: tel, type: string, transient: true}
  - {name: tel_hash, type: string, expression: "sha256(tel, salt)", salt: "${env:SALT}"}
  partition_by: []
"""


def values(text: str, salt: str | None = None) -> list[object]:
    found = compile_expression(text, SCHEMA, salt=salt).evaluate(ROWS)
    assert found.failed is None
    listed: list[object] = found.value.to_pylist()
    return listed


def test_hash_is_that_of_the_salt_and_the_text_after_it() -> None:
    assert values("sha256(tel, salt)", "pép") == [
        None if text is None else hashlib.sha256(f"pép{text}".encode()).hexdigest()
        for text in TEXTS
    ]
    assert values("SHA256(concat(tel, 'x'), SALT)", "s")[1] == hashlib.sha256(b"s1234x").hexdigest()


def test_mask_covers_all_but_the_last_characters() -> None:
    assert values("mask(tel, 4)") == ["*******1234", "****", "***", "", None, "****"]
    assert values("mask(tel, 0)") == ["*" * 11, "****", "***", "", None, "****"]
    assert values("mask(tel, 1)")[2] == "**😀"


def test_null_if_is_null_for_one_value_alone() -> None:
    assert values("null_if(tel, '1234')") == [TEXTS[0], None, TEXTS[2], "", None, None]
    assert values("null_if(n + 1, 3)") == [2, None, 4, 5, None, None]


@pytest.mark.parametrize(
    ("text", "salt", "told"),
    [
        ("sha256(tel, 'plain')", "s", "never written into an expression"),
        ("sha256(tel, tel)", "s", "takes `salt`"),
        ("sha256(tel, salt)", None, r"salt: \$\{env:NAME\}"),
        ("sha256(tel)", "s", "2 arguments"),
        ("sha256(n, salt)", "hidden", "takes string, got bigint"),
        ("concat(tel, salt)", "hidden", "salt"),
        ("mask(tel, n)", None, "literal integer from 0"),
        ("mask(tel)", None, "2 arguments"),
        ("null_if(tel)", None, "2 arguments"),
        ("null_if(tel, 1)", None, "string"),
    ],
)
def test_what_does_not_fit_is_told_without_the_secret(
    text: str, salt: str | None, told: str
) -> None:
    with pytest.raises(ExpressionError, match=told) as caught:
        compile_expression(text, SCHEMA, salt=salt)
    assert "hidden" not in str(caught.value)


def test_salt_comes_from_a_reference_and_is_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALT", "hidden-pepper")
    (route,) = parse_checked_job(JOB.encode(), Path("job.yaml")).spec.routes
    config = compile_route(route)
    assert config.choices.columns[1].salt == "hidden-pepper"
    assert "hidden-pepper" not in f"{route!r} {config!r}"
    plain = JOB.replace('"${env:SALT}"', "pepper")
    with pytest.raises(JobFileError, match="expected `salt` from a reference, got plain text"):
        parse_checked_job(plain.encode(), Path("job.yaml"))
    without = JOB.replace(', salt: "${env:SALT}"', "")
    with pytest.raises(JobFileError, match="needs the key `salt`"):
        parse_checked_job(without.encode(), Path("job.yaml"))
    lonely = JOB.replace('expression: "sha256(tel, salt)", ', "")
    with pytest.raises(JobFileError, match="expected an `expression` with `salt`"):
        parse_checked_job(lonely.encode(), Path("job.yaml"))
