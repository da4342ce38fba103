"""What Arrow's JSON parser does, where the fast path's guards depend on it.

When a test here fails after an upgrade, a guard may have become needless, or too weak.
"""

import subprocess
import sys
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import json as arrow_json


def parse(data: bytes, kind: pa.DataType) -> list[object]:
    table = arrow_json.read_json(
        pa.BufferReader(data),
        arrow_json.ReadOptions(block_size=len(data) + 1, use_threads=False),
        arrow_json.ParseOptions(
            explicit_schema=pa.schema([("v", kind)]), unexpected_field_behavior="ignore"
        ),
    )
    found: list[object] = table.column("v").to_pylist()
    return found


@pytest.mark.parametrize(
    "bad",
    [
        *(b'{"v":"x"}', b'{"v":true}', b'{"v":1', b'{"v":1,"v":2}', b'{"v":"\\ud800"}', b"{01}"),
        *(b'{"x":1e400}', b'{"v":1}5', b'{"x":"\n"}'),
    ],
)
def test_arrow_names_the_row_of_a_parse_error(bad: bytes) -> None:
    # A second value on a line counts as a row of its own.
    row = 3 if bad.endswith(b"5") else 2
    with pytest.raises(pa.ArrowInvalid, match=rf" in row {row}$"):
        parse(b'{"v":1}\n{"v":1}\n' + bad + b"\n", pa.int64())


@pytest.mark.parametrize("text", [b"12.0", b"12.5", b"9223372036854775808"])
def test_arrow_names_no_row_for_a_conversion_error(text: bytes) -> None:
    with pytest.raises(pa.ArrowInvalid, match=r"couldn't parse:[0-9.]+$"):
        parse(b'{"v":1}\n{"v":' + text + b"}\n", pa.int64())


@pytest.mark.parametrize(
    ("data", "rows"),
    [(b'{"v":1}{"v":2}\n', 2), (b'{"v":1}\n\n{"v":2}\n', 2), (b'{"v":1}null{"v":2}\n', 3)],
)
def test_arrow_counts_values_and_not_lines(data: bytes, rows: int) -> None:
    assert len(parse(data, pa.int64())) == rows


def test_arrow_lets_values_change_that_the_checks_then_find() -> None:
    doubles = b'{"v":1.8e309}\n{"v":1e-400}\n{"v":9007199254740993}\n'
    assert parse(doubles, pa.float64()) == [float("inf"), 0.0, 2.0**53]
    assert parse(b'{"v":1234}\n', pa.decimal128(5, 2)) == [Decimal("1234.00")]
    assert parse(b'{"v":"a\\u0000b"}\n', pa.string()) == ["a\0b"]
    assert parse(b'{"v":1,"x":NaN,"y":"\xff"}\n', pa.int64()) == [1]


def test_arrow_wraps_a_decimal_of_too_many_digits_in_silence() -> None:
    (found,) = parse(b'{"v":12345678912345}\n', pa.decimal128(38, 37))
    assert found != Decimal(12345678912345)


@pytest.mark.parametrize(
    ("line", "kind"), [("null", "pa.int64()"), ('{"v":1e-10000000}', "pa.decimal128(18, 2)")]
)
def test_arrow_ends_the_process_on_some_payloads(line: str, kind: str) -> None:
    code = f"""
import pyarrow as pa
from pyarrow import json
options = json.ParseOptions(explicit_schema=pa.schema([("v", {kind})]))
json.read_json(pa.BufferReader({line.encode()!r} + b"\\n"), parse_options=options)
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert ended.returncode < 0
