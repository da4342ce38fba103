"""The independent reader's own rules: exact or broken."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tools import independent_reader as reader
from tools import payload_rules as rules
from tools import row_oracle as oracle


@pytest.mark.parametrize(
    ("hive", "text", "value"),
    [
        ("bigint", "12.0", 12),
        ("bigint", '"12"', 12),
        ("bigint", "9007199254740993", 9007199254740993),
        ("bigint", "1.2e1", 12),
        ("bigint", '"+1.2e1"', 12),
        ("decimal(18,2)", "0.10", Decimal("0.10")),
        ("decimal(18,2)", "9999999999999999.99", Decimal("9999999999999999.99")),
        ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
        ("decimal(18,2)", "1e3", Decimal("1000.00")),
        ("double", "0.1", 0.1),
        ("float", "0.1", 0.10000000149011612),
        ("float", "-0.0", -0.0),
        ("float", "16777216", 16777216.0),
        ("float", "3.4028235e38", 3.4028234663852886e38),
        ("float", "1.00000005960464477539062500000000000000001", 1.0000001192092896),
        ("varchar(3)", '"\U0001f600\U0001f600\U0001f600"', "\U0001f600" * 3),
        ("char(3)", '"a  "', "a"),
        ("timestamp with local time zone", '"2026-11-20T08:00:00+08:00"', 1795132800000000),
        ("double", "9007199254740994", 9007199254740994.0),
        ("string", '"\\ud83d\\udce6"', "\U0001f4e6"),
        ("map<string,array<int>>", '{"a": [1, null]}', [("a", [1, None])]),
        ("struct<a:struct<b:int>,c:string>", '{"a": {"b": 1}}', {"a": {"b": 1}, "c": None}),
        ("timestamp", '"2026-11-20T08:00:00+08:00"', 1795132800000000),
    ],
)
def test_column_type_exact_value_is_converted(hive: str, text: str, value: Any) -> None:
    payload = rules.parse_object(f'{{"v": {text}}}'.encode())
    assert rules.column_type(hive).convert(payload["v"]) == value


@pytest.mark.parametrize(
    ("hive", "text"),
    [
        ("bigint", "12.5"),
        ("bigint", "true"),
        ("bigint", '"12.5"'),
        ("bigint", '"1e99999999999999999999"'),
        ("bigint", '" 12"'),
        ("bigint", '""'),
        ("bigint", "9223372036854775808"),
        ("bigint", "1e999999"),
        ("bigint", "[1]"),
        ("tinyint", "300"),
        ("decimal(18,2)", "0.125"),
        ("decimal(18,2)", "10000000000000000"),
        ("decimal(18,2)", '"abc"'),
        ("double", "1.8e309"),
        ("float", "3.5e38"),
        ("float", "1e-46"),
        ("float", "1e-400"),
        ("float", "1e400"),
        ("float", "16777217"),
        ("varchar(3)", '"abcd"'),
        ("char(3)", '"a "'),
        ("char(3)", '"a   "'),
        ("double", "1e-400"),
        ("double", "9007199254740993"),
        ("boolean", "1"),
        ("string", "1"),
        ("string", '"a\\u0000b"'),
        ("array<int>", '[1, "x"]'),
        ("struct<a:int>", "[]"),
        ("timestamp", '"2026-11-20T08:00:00"'),
        ("date", '"2026-13-01"'),
    ],
)
def test_column_type_inexact_value_is_broken(hive: str, text: str) -> None:
    payload = rules.parse_object(f'{{"v": {text}}}'.encode())
    with pytest.raises(rules.BrokenPayloadError):
        rules.column_type(hive).convert(payload["v"])


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"[]",
        b"1",
        b'{"a": NaN}',
        b'{"a": {"b": 1, "b": 2}}',
        b'{"a": "\xff"}',
        b'{"a": 01}',
        b'{"a": 1} x',
        b'{"a": 1e99999999999999999999}',
        b"\xef\xbb\xbf{}",
        b'{"a": "\\ud800"}',
        b'{"a": [{"\\udc00": 1}]}',
        b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}",
    ],
)
def test_parse_object_broken_payload_is_refused(payload: bytes) -> None:
    with pytest.raises(rules.BrokenPayloadError):
        rules.parse_object(payload)


def test_parse_object_deepest_allowed_payload_is_taken() -> None:
    assert rules.parse_object(b'{"a": ' + b"[" * 99 + b"]" * 99 + b"}")


def test_column_type_unknown_hive_type_is_an_error() -> None:
    with pytest.raises(ValueError, match="uniontype"):
        rules.column_type("uniontype<int,string>")


def test_row_oracle_partition_by_column_and_zone_follows_the_payload() -> None:
    view = reader.TableView({"app": "string"}, ("dt", "hr", "app_key"), (), ())
    spec = reader.Expectation(
        required=frozenset(),
        timezone="Asia/Shanghai",
        partition_by={"dt": "yyyy-MM-dd", "hr": "HH", "app_key": "column:app"},
    )
    record = reader.BrokerRecord("t", 0, 0, None, None, b'{"ts": 1795132799999, "app": "a/b"}')
    row = oracle.RowOracle(view, spec).row(record)
    assert row == ("a/b", "2026-11-20", "07", "a/b")


def test_read_expectation_spec_file_replaces_defaults(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text('{"required": ["id"], "event_time": "m.at", "paths": {"city": "geo.city"}}')
    found = reader.read_expectation(path, "/d/*.parquet")
    assert found.required == {"id"}
    assert found.event_time == ("m", "at")
    assert found.paths == {"city": ("geo", "city")}
    assert found.dirty_glob == "/d/*.parquet"


def test_row_oracle_iso_event_time_is_read_with_its_offset() -> None:
    view = reader.TableView({}, ("dt", "hr"), (), ())
    spec = reader.Expectation(required=frozenset(), event_time_unit="iso8601")
    record = reader.BrokerRecord("t", 0, 0, None, None, b'{"ts": "2026-11-20T01:00:00+08:00"}')
    assert oracle.RowOracle(view, spec).row(record) == ("20261119", "17")
