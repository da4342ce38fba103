"""`sluiceway test`: sample records and the rows that they have to become, without servers."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sluiceway.audit.row_tests import same
from sluiceway.cli.app import run_command

HEAD = """\
version: 1
name: shop
connections:
  main: {kafka: {bootstrap_servers: "127.0.0.1:1"}}
  hms: {metastore: {uri: "thrift://127.0.0.1:1"}}
  lake: {iceberg: {rest: {uri: "http://127.0.0.1:1"}}}
"""
HIVE = """\
source: {connection: main, topics: [shop_orders]}
format: {json: {}}
table:
  hive: {connection: hms, name: shop.orders}
  columns:
    - {name: id, type: bigint, required: true}
    - {name: at, type: timestamp, unit: ms}
    - {name: price, type: "decimal(18,2)"}
    - {name: qty, type: int}
    - {name: geo, type: "struct<city:string,lat:double>"}
  partition_by: [{name: dt, event_time: yyyyMMdd}, {name: hr, event_time: HH}]
  meta: [topic, partition, offset, key_text, headers_text]
event_time: {field: at}
where: id <> 13
"""
LAKE = """\
source: {connection: main, topics: [shop_orders]}
format: {debezium: {}}
table:
  iceberg: {connection: lake, name: shop.orders}
  key: [id]
  columns: [{name: id, type: bigint}, {name: city, type: string}]
  partition_by: []
  meta: [partition, offset]
"""
PATTERN = """\
source: {connection: main, topics: "shop_(.*)"}
format: {csv: {}}
table:
  hive: {connection: hms, name: "shop.{1}"}
  columns: [{name: id, type: bigint}, {name: city, type: string}]
  partition_by: []
"""
AT = '"2026-11-20T08:00:00Z"'


def write(folder: Path, job: str, tests: str, name: str = "shop") -> str:
    (folder / f"{name}.yaml").write_text(HEAD + job)
    (folder / f"{name}.test.yaml").write_text(tests)
    return str(folder / f"{name}.yaml")


GOOD = f"""\
- name: orders
  records:
    - json: {{id: 1, at: 1795161600000, price: 12.50, qty: 2, geo: {{city: Lyon, lat: 1.5}}}}
    - '{{"id": 2, "at": 1795161600000, "qty": 3.5}}'
    - {{json: {{id: 13, at: 1795161600000}}}}
    - {{json: {{id: 3, at: 1795161600000}}, key: k, headers: {{a: b}}, partition: 1}}
    - null
  rows:
    - {{id: 1, price: 12.5, at: {AT}, geo: {{city: Lyon, lat: 1.5}}, $partition: dt=20261120/hr=08}}
    - {{id: 3, price: null, _partition: 1, _key_text: k, _headers_text: [{{name: a, value: b}}]}}
  dirty:
    - {{reason: not_integral, path: qty, offset: 1}}
    - {{reason: empty}}
"""


def test_rows_that_are_wanted_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["test", write(tmp_path, HIVE, GOOD)]) == 0, capsys.readouterr().out
    assert capsys.readouterr().out == (
        "ok      orders: 5 records, 2 rows, 2 dirty\n1 test, 0 failed\n"
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("price: 12.5,", "price: 12.6,", 'price is "12.50", wanted 12.6'),
        ("city: Lyon, lat: 1.5}, $", "city: Lyon}, $", "geo is "),
        ("hr=08", "hr=09", 'wanted "dt=20261120/hr=09"'),
        ("_key_text: k", "_key_text: j", '_key_text is "k", wanted "j"'),
        ("_key_text", "nope", 'the table has no column "nope"'),
        ("path: qty", "path: id", 'path is "qty", wanted "id"'),
        ("    - {reason: empty}\n", "", "is dirty: empty"),
        ("{reason: empty}", "{reason: empty}\n    - {reason: null}", "no record is dirty as"),
        ("  dirty:", "    - {id: 4}\n  dirty:", 'a wanted row is not there: {"id": 4}'),
        ("    - json: {id: 1,", "    - json: {id: 7,", "id is 7, wanted 1"),
    ],
)
def test_difference_is_told_and_fails(
    old: str, new: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert old in GOOD
    assert run_command(["test", write(tmp_path, HIVE, GOOD.replace(old, new, 1))]) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("FAILED  orders")
    assert told in shown


def test_answer_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["test", write(tmp_path, HIVE, GOOD), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"]
    (one,) = found["tests"]
    assert (one["test"], one["route"], one["differences"]) == ("orders", "shop", [])
    assert (one["counts"]["read"], one["counts"]["filtered"]) == (5, 1)


def test_lines_of_files_are_records_and_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.jsonl").write_text('{"id": 1, "at": 1795161600000, "price": 0.10}\r\n\n')
    (tmp_path / "out.jsonl").write_text('{"id": 1, "price": 0.1}\n')
    tests = "- {records: in.jsonl, rows: out.jsonl}\n- {records: in.jsonl}\n"
    assert run_command(["test", write(tmp_path, HIVE, tests)]) == 0
    assert "2 tests, 0 failed" in capsys.readouterr().out
    assert run_command(["preview", str(tmp_path / "shop.yaml"), "--file", "none.jsonl"]) == 2
    capsys.readouterr()
    job, file = str(tmp_path / "shop.yaml"), str(tmp_path / "in.jsonl")
    assert run_command(["preview", job, "--file", file, "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [row["values"]["price"] for row in shown["rows"]] == ["0.10"]


def test_changes_of_a_keyed_table_say_what_they_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = """\
- records:
    - {json: {op: c, before: null, after: {id: 1, city: Lyon}, source: {}}, key: '{"id": 1}'}
    - {json: {op: d, before: {id: 1, city: Lyon}, after: null, source: {}}, key: {id: 1}}
    - {json: {op: c, before: null, after: {id: 2, city: Rome}, source: {}}, key: '{"id": 3}'}
  rows: [{id: 1, city: Lyon, $change: row}, {id: 1, $change: delete}]
  dirty: [{reason: key_mismatch}]
"""
    assert run_command(["test", write(tmp_path, LAKE, tests)]) == 0, capsys.readouterr().out


def test_route_of_a_pattern_comes_with_the_topic(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = """\
- {records: [{text: "1,Lyon", topic: shop_a}], rows: [{id: 1, city: Lyon}]}
- {records: [{hex: "322c4f736c6f", topic: shop_b}], rows: [{id: 2, city: Oslo}]}
- {records: [{base64: "Myw=", topic: shop_b}], rows: [{id: 3, city: null}]}
"""
    assert run_command(["test", write(tmp_path, PATTERN, tests)]) == 0, capsys.readouterr().out
    assert run_command(["test", write(tmp_path, PATTERN, "- records: ['1,a']\n")]) == 2
    assert "no record's topic matches it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tests", "told", "code"),
    [
        ("a: 1\n", ":1:1: expected a list of tests", 3),
        ("- {name: a}\n", "expected `records`, got none", 3),
        ("- {record: []}\n", "expected one of dirty, name, records, route, rows", 3),
        ("- {records: [{json: 1, hex: '00'}]}\n", "expected one of text, json, base64, hex", 3),
        ("- {records: [{hex: 'zz'}]}\n", "expected bytes as hex", 3),
        ("- {records: [{text: a, timestamp: soon}]}\n", "expected a time such as", 3),
        ("- {records: ['{}'], dirty: [{why: x}]}\n", "expected one of offset, partition", 3),
        ("- {records: none.jsonl}\n", "none.jsonl: cannot be read", 2),
        ("- {records: ['{}'], route: b}\n", "has no route `b`", 2),
    ],
)
def test_file_of_tests_that_cannot_be_is_told(
    tests: str, told: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["test", write(tmp_path, HIVE, tests)]) == code
    assert told in capsys.readouterr().err


def test_job_without_tests_is_told_where_they_would_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write(tmp_path, HIVE, "")
    (tmp_path / "shop.test.yaml").unlink()
    assert run_command(["test", job]) == 2
    assert "shop.test.yaml: there are no tests" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wanted", "found", "expected"),
    [
        (Decimal("12.5"), "12.50", True),
        (Decimal(1), 1, True),
        (Decimal("0.1"), 0.1, True),
        (Decimal(1), True, False),
        (Decimal(1), "x", False),
        (True, True, True),
        (None, None, True),
        (None, 0, False),
        ("1", 1, False),
        ("2026-11-20T08:00:00Z", "2026-11-20T08:00:00", True),
        ("2026-11-20T10:00:00+02:00", "2026-11-20T08:00:00", True),
        ("2026-11-20", "2026-11-21", False),
        ({"a": Decimal(1)}, {"a": 1, "b": None}, True),
        ({"a": Decimal(1)}, {"a": 1, "b": 2}, False),
        ([Decimal(1)], [1, 2], False),
    ],
)
def test_values_are_compared_by_what_they_are(wanted: Any, found: Any, expected: object) -> None:
    assert same(wanted, found) is expected
