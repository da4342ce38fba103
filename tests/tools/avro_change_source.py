"""A database of one table that sends its changes in Avro, as Debezium does through a registry.

The converter's schemas: names of Kafka Connect next to the types, the row's record named once and
used twice.
"""

import json
from dataclasses import dataclass, field
from zlib import crc32

from tools import avro_bytes as avro
from tools.change_source import ChangeSource, Row

_MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}
_ENUM = {"type": "string", "connect.name": "io.debezium.data.Enum"}
_VALUE = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "amount", "type": ["null", {**_MONEY, "connect.version": 1}]},
        {"name": "city", "type": ["null", "string"]},
        {
            "name": "at",
            "type": {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"},
        },
    ],
}
KEY_SCHEMA = json.dumps(
    {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
)
ROW_SCHEMA = json.dumps(_VALUE)
VALUE_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Envelope",
        "namespace": "cdc.shop.orders",
        "fields": [
            {"name": "before", "type": ["null", _VALUE]},
            {"name": "after", "type": ["null", "Value"]},
            {
                "name": "source",
                "type": {
                    "type": "record",
                    "name": "Source",
                    "fields": [{"name": "snapshot", "type": [_ENUM, "null"], "default": "false"}],
                },
            },
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"]},
        ],
    }
)


@dataclass(slots=True)
class AvroChangeSource(ChangeSource):
    """As `ChangeSource`, with keys and values in Confluent's wire format.

    Attributes:
        ids: Of the key's schema and of the value's.
        snapshot: What the next records say of a snapshot.
    """

    ids: tuple[int, int] = (1, 2)
    snapshot: str = field(default="false")

    def _put(self, row_id: int, event: dict[str, object] | None) -> None:
        key = avro.confluent(self.ids[0], avro.long(row_id))
        value = None
        if event is not None:
            before, after = event["before"], event["after"]
            assert before is None or isinstance(before, dict)
            assert after is None or isinstance(after, dict)
            value = self.envelope(str(event["op"]), before, after)
        self.log.setdefault(crc32(key) % self.partitions, []).append((key, value))

    def envelope(self, op: str, before: Row | None, after: Row | None) -> bytes:
        """The payload of a change."""
        source = avro.long(0) + avro.text(self.snapshot)
        told = avro.text(op) + avro.long(1) + avro.long(1_760_000_000_000)
        return avro.confluent(self.ids[1], _row(before) + _row(after) + source + told)


class AvroRowSource(AvroChangeSource):
    """One whose records are whole rows of `ROW_SCHEMA`, and null behind a delete."""

    def _tell(self, row_id: int, op: str, before: Row | None, after: Row | None) -> None:
        # A delete is the null that comes after it.
        if op != "d":
            AvroChangeSource._put(self, row_id, {"op": op, "before": None, "after": after})

    def envelope(self, op: str, before: Row | None, after: Row | None) -> bytes:
        """The row alone."""
        del op, before
        assert after is not None
        return avro.confluent(self.ids[1], _whole(after))


def _row(row: Row | None) -> bytes:
    return avro.long(0) if row is None else avro.long(1) + _whole(row)


def _whole(row: Row) -> bytes:
    body = avro.long(int(str(row["id"])))
    body += avro.long(1) + avro.text(str(row["name"]))
    cents = int(str(row["amount"]).replace(".", ""))
    body += avro.long(1) + avro.data(avro.unscaled(cents))
    return body + avro.long(1) + avro.text(str(row["city"])) + avro.long(moment_us(row))


def moment_us(row: Row) -> int:
    """The row's column `at`, made of what else it has."""
    return 1_760_000_000_000_000 + int(str(row["amount"]).replace(".", ""))
