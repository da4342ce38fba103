"""What `infer` makes of payloads that are no plain JSON."""

import base64
import json
from typing import Any

import pytest
from ruamel.yaml import YAML

from sluiceway.cli.views.proposed_columns import contents_block
from sluiceway.errors import WrongUsageError
from sluiceway.formats.recognise import TopicContents

ROW = {"id": 7, "name": "a", "price": base64.b64encode(b"\x30\x39").decode(), "day": 20_000}
SOURCE = {"ts_ms": 1_795_507_200_000, "pos": 4}
ROW_FIELDS = [
    {"field": "id", "type": "int64"},
    {"field": "name", "type": "string"},
    {
        "field": "price",
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "18"},
    },
    {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
    {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
]
SCHEMA = {
    "type": "struct",
    "fields": [
        {"field": "before", "type": "struct", "fields": ROW_FIELDS},
        {"field": "after", "type": "struct", "fields": ROW_FIELDS},
    ],
}


def contents(*messages: Any) -> TopicContents:
    found = TopicContents()
    for message in messages:
        raw = message is None or isinstance(message, bytes)
        found.add(message if raw else json.dumps(message).encode())
    return found


def debezium(marker: str, **more: Any) -> dict[str, Any]:
    row = {**ROW, **more}
    images = {"before": row if marker == "d" else None, "after": None if marker == "d" else row}
    return {**images, "source": SOURCE, "op": marker, "ts_ms": 1_795_507_200_001}


def block(*messages: Any) -> dict[str, Any]:
    """The proposal as the job file's reader would see it."""
    found: dict[str, Any] = YAML(typ="safe").load(contents_block(contents(*messages), ["orders"]))
    return found


def types(found: dict[str, Any]) -> dict[str, str]:
    return {column["name"]: column["type"] for column in found["columns"]}


def test_debezium_is_recognised_and_its_rows_are_the_columns() -> None:
    messages = [debezium("c"), debezium("u"), debezium("d"), None]
    found = block(*messages)
    assert found["format"] == {"debezium": {}}
    assert types(found) == {
        "op": "string",
        "changed_at": "timestamp",
        "id": "bigint",
        "name": "string",
        "price": "string",
        "day": "bigint",
    }
    assert found["columns"][0]["path"] == "$.op"
    text = contents_block(contents(*messages), ["orders"])
    assert "# 3 changes of debezium in orders: c 1, d 1, u 1\n" in text
    assert "decimals may be base64" in text


def test_schema_beside_debezium_names_decimals_and_times() -> None:
    messages = [{"schema": SCHEMA, "payload": debezium("c", at=1)} for _ in range(2)]
    found = block(*messages)
    assert found["format"] == {"debezium": {}}
    assert types(found) == {
        "op": "string",
        "changed_at": "timestamp",
        "id": "bigint",
        "name": "string",
        "price": "decimal(18,2)",
        "day": "date",
        "at": "timestamp",
    }
    text = contents_block(contents(*messages), ["orders"])
    assert "base64" not in text
    assert "name a timezone" in text


def test_column_of_the_row_is_not_proposed_twice() -> None:
    names = [column["name"] for column in block(debezium("c", op="x"))["columns"]]
    assert sorted(names) == ["changed_at", "day", "id", "name", "op", "price"]


def test_maxwell_and_canal_are_recognised() -> None:
    maxwell = {"database": "d", "table": "t", "type": "insert", "ts": 1, "data": {"id": 1}}
    found = block(maxwell, {**maxwell, "type": "update", "old": {"id": 0}})
    assert found["format"] == {"maxwell": {}}
    assert types(found) == {"op": "string", "changed_at": "timestamp", "id": "bigint"}
    canal = {"database": "d", "type": "INSERT", "es": 1, "data": [{"id": "1"}], "isDdl": False}
    found = block(canal)
    assert found["format"] == {"canal": {}}
    assert types(found)["data"] == "array<struct<id:string>>"


def test_few_changes_among_other_objects_are_plain_json() -> None:
    plain = {"op": "c", "source": "web", "id": 1}
    found = block(debezium("c"), plain, plain, plain)
    assert "format" not in found
    assert "source" in types(found)


def test_json_of_a_registry_is_proposed_with_its_connection() -> None:
    framed = b"\0\0\0\0\x07" + json.dumps({"id": 1}).encode()
    found = block(framed, framed)
    assert found["format"] == {"json": {"registry": "REGISTRY"}}
    assert types(found) == {"id": "bigint"}
    assert "2 of 2 in Confluent's wire format, schema 7" in contents_block(
        contents(framed, framed), ["orders"]
    )


def test_avro_of_a_registry_is_told_with_the_schemas_and_what_to_do() -> None:
    payloads = [b"\0" + number.to_bytes(4, "big") + b"\x02\x06abc" for number in (3, 9)]
    with pytest.raises(WrongUsageError, match="Avro or Protobuf") as caught:
        contents_block(contents(*payloads, None), ["orders"])
    assert "2 of 3 in Confluent's wire format, schemas 3, 9" in caught.value.message
    assert "sluiceway infer orders-value --registry URL" in caught.value.hint
    assert "{avro: {registry: REGISTRY}}" in caught.value.hint


def test_empty_topic_is_told_as_empty() -> None:
    with pytest.raises(WrongUsageError, match="orders is empty: there is no record"):
        contents_block(contents(), ["orders"])


def test_topic_of_tombstones_is_not_called_empty() -> None:
    with pytest.raises(WrongUsageError, match="no record holds a JSON object: 2 empty, 0 other"):
        contents_block(contents(None, b""), ["orders"])


def test_topic_of_text_is_told_what_to_write_by_hand() -> None:
    with pytest.raises(WrongUsageError, match="0 empty, 2 other") as caught:
        contents_block(contents(b"1|a", b"2|b"), ["orders"])
    assert "`format: {csv: {}}`" in caught.value.hint


def test_hostile_objects_are_looked_at_without_a_fault() -> None:
    hostile = [
        {"op": {"a": 1}, "source": 1, "before": 2},
        {"schema": 5, "payload": debezium("c")},
        {"schema": {"fields": [1, {"field": "after", "fields": 7}]}, "payload": debezium("u")},
        {"schema": {"fields": "x"}, "payload": []},
        {"op": "c", "source": None, "after": [1]},
        b"\0\0",
        b"[1]",
    ]
    found = contents(*hostile)
    assert found.changes["debezium"] == {"c": 2, "u": 1}
    assert "format: {debezium: {}}" in contents_block(found, ["orders"])
