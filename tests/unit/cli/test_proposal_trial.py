"""What `infer` proposes reads the records that it was made of, or says beside a column what not."""

import base64
import json
from typing import Any

import pytest

from sluiceway.cli.views.proposal_trial import tried
from sluiceway.cli.views.proposed_columns import contents_block
from sluiceway.formats.recognise import TopicContents

CONNECT = "org.apache.kafka.connect.data."
TIME = "io.debezium.time."


def b64(number: int) -> str:
    size = number.bit_length() // 8 + 1
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def decimal(scale: int, precision: str | None = None) -> dict[str, Any]:
    told = {"scale": str(scale)}
    if precision is not None:
        told["connect.decimal.precision"] = precision
    return {"type": "bytes", "name": f"{CONNECT}Decimal", "parameters": told}


def variable(scale: int, number: int) -> dict[str, Any]:
    return {"scale": scale, "value": b64(number)}


VARIABLE = {
    "type": "struct",
    "name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}],
}


def block_of(schema: dict[str, Any], values: list[Any]) -> tuple[str, list[bytes | None]]:
    """What is proposed for a topic of Debezium with its schemas, and its payloads."""
    row = {"type": "struct", "fields": [{"field": "x", **schema}]}
    fields = [{"field": "before", **row}, {"field": "after", **row}]
    contents = TopicContents()
    payloads: list[bytes | None] = []
    for value in values:
        change = {"op": "c", "before": None, "after": {"x": value}, "source": {"ts_ms": 1}}
        message = {"schema": {"type": "struct", "fields": fields}, "payload": change}
        payloads.append(json.dumps(message).encode())
        contents.add(payloads[-1])
    return contents_block(contents, ["t"]), payloads


def column_line(block: str) -> str:
    return next(line for line in block.splitlines() if "{name: x" in line)


@pytest.mark.parametrize(
    ("schema", "values", "line"),
    [
        (VARIABLE, [variable(0, 7), variable(2, 1234)], 'type: "decimal(38,2)"}'),
        (VARIABLE, [variable(0, 7), variable(0, 10**20)], 'type: "decimal(38,0)"}'),
        (VARIABLE, [variable(9, 12345)], 'type: "decimal(38,9)"}'),
        (VARIABLE, [variable(60, 12345)], "type: string, on_lossy: text}"),
        (VARIABLE, [variable(-3, 12)], 'type: "decimal(38,0)"}'),
        (decimal(2, "18"), [b64(12345)], 'type: "decimal(18,2)"}'),
        (decimal(-3), [b64(12)], 'type: "decimal(38,0)"}'),
        (decimal(-3, "5"), [b64(12)], 'type: "decimal(8,0)"}'),
        (decimal(5, "2"), [b64(12)], 'type: "decimal(5,5)"}'),
        (decimal(127), [b64(12)], "type: string, on_lossy: text}"),
        (decimal(2, "many"), [b64(12345)], 'type: "decimal(38,2)"}'),
        ({"type": "int64", "name": f"{TIME}MicroTimestamp"}, [10**15], "timezone: UTC}"),
        ({"type": "int64", "name": f"{TIME}Timestamp"}, [10**12], "timezone: UTC}"),
        ({"type": "int64", "name": f"{TIME}NanoTimestamp"}, [10**18], "timezone: UTC}"),
        ({"type": "int64", "name": f"{CONNECT}Timestamp"}, [10**12], "type: timestamp}"),
        ({"type": "int32", "name": f"{CONNECT}Date"}, [20_000], "type: date}"),
        ({"type": "int32", "name": f"{TIME}Date"}, [20_000], "type: date}"),
        ({"type": "int32", "name": f"{CONNECT}Time"}, [1_000], "type: bigint}"),
        ({"type": "int64", "name": f"{TIME}MicroTime"}, [1_000], "type: bigint}"),
        ({"type": "int64", "name": f"{TIME}MicroDuration"}, [1_000], "type: bigint}"),
        ({"type": "int32", "name": f"{TIME}Year"}, [2026], "type: bigint}"),
        (
            {"type": "string", "name": f"{TIME}ZonedTimestamp"},
            ["2026-11-20T08:00:00.123456Z"],
            "type: timestamp}",
        ),
        ({"type": "string", "name": f"{TIME}ZonedTime"}, ["08:00:00Z"], "type: string}"),
        ({"type": "string", "name": "io.debezium.data.Json"}, ['{"a": 1}'], "type: string}"),
        ({"type": "string", "name": "io.debezium.data.Uuid"}, ["6f1c"], "type: string}"),
        ({"type": "bytes", "name": "io.debezium.data.Bits"}, ["AQ=="], "type: string}"),
        ({"type": "double"}, [0.1, 1e300], "type: double}"),
        ({"type": "boolean"}, [True], "type: boolean}"),
    ],
)
def test_proposal_for_a_type_of_a_schema_reads_its_values(
    schema: dict[str, Any], values: list[Any], line: str
) -> None:
    block, payloads = block_of(schema, values)
    found = column_line(block)
    assert line in found
    assert "would be dirty" not in found or "kept as text" in found
    assert tried("debezium: {}", [found], payloads) == {}


def test_values_that_do_not_fit_are_said_beside_the_column() -> None:
    lines = ["  - {name: a, type: int}", "  - {name: b, type: date}", "  - {name: c, type: string}"]
    payloads = [b'{"a": 1.5, "b": "x"}', b'{"a": 1, "b": "x", "c": "y"}', None]
    found = tried("json: {}", lines, payloads)
    assert {name: (trial.dirty, trial.rows) for name, trial in found.items() if name} == {
        "a": (1, 3),
        "b": (2, 3),
    }
    assert "not a whole number" in found["a"].doubt


def test_times_within_what_is_kept_as_text_need_no_zone() -> None:
    contents = TopicContents()
    for value in ("2026-11-20T08:00:00", 7):
        contents.add(json.dumps({"at": ["2026-11-20T08:00:00", value]}).encode())
    (line,) = [line for line in contents_block(contents, ["t"]).splitlines() if "name: at" in line]
    assert "{name: at, type: string, on_lossy: text}" in line


def test_type_that_most_records_do_not_fit_is_not_proposed() -> None:
    contents = TopicContents()
    for text in ("2026-11-20T08:00:00", "0001-01-01T00:00:00", "2026-11-20T25:00:00"):
        contents.add(json.dumps({"at": text}).encode())
    (line,) = [line for line in contents_block(contents, ["t"]).splitlines() if "name: at" in line]
    assert line.startswith("  - {name: at, type: string")


def test_columns_of_the_format_are_tried_too() -> None:
    contents = TopicContents()
    contents.add(b'{"database":"d","type":"insert","ts":"soon","data":{"id":1}}')
    lines = contents_block(contents, ["t"]).splitlines()
    (line,) = [line for line in lines if "changed_at" in line]
    assert "DOUBT: 1 of 1 records would be dirty: " in line
