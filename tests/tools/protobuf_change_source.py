"""A database of one table that sends its changes in Protobuf, as Debezium does through a registry.

The converter's schemas: decimals and days are messages of their own, rows are messages that may be
missing, and nullable columns are `optional` (`optional.for.nullables`).
"""

from dataclasses import dataclass, field
from datetime import date
from zlib import crc32

from tools import protobuf_bytes as proto
from tools.avro_bytes import unscaled
from tools.avro_change_source import moment_us
from tools.change_source import ChangeSource, Row

KEY_PROTO = """
syntax = "proto3";
package cdc.shop.orders;

message Key {
  int64 id = 1;
}
"""
VALUE_PROTO = """
syntax = "proto3";
package cdc.shop.orders;

import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/type/date.proto";

message Envelope {
  Value before = 1;
  Value after = 2;
  Source source = 3;
  string op = 4;
  optional int64 ts_ms = 5;

  message Value {
    int64 id = 1;
    optional string name = 2;
    confluent.type.Decimal amount = 3 [(confluent.field_meta) = {
      params: [
        {
          value: "18",
          key: "precision"
        },
        {
          value: "2",
          key: "scale"
        }
      ]
    }];
    optional string city = 4;
    int64 at = 5;
    google.type.Date day = 6;
  }
  message Source {
    optional string snapshot = 1;
    string table = 2;
  }
}
"""
ROW_PROTO = """
syntax = "proto3";
package cdc.shop;

message Order {
  int64 id = 1;
  optional string name = 2;
  string amount = 3;
  optional string city = 4;
}
"""
DAY = date(2026, 2, 28)


@dataclass(slots=True)
class ProtobufChangeSource(ChangeSource):
    """As `ChangeSource`, with keys and values in Confluent's wire format.

    Attributes:
        ids: Of the key's schema and of the value's.
        snapshot: What the next records say of a snapshot.
    """

    ids: tuple[int, int] = (1, 2)
    snapshot: str = field(default="false")

    def _put(self, row_id: int, event: dict[str, object] | None) -> None:
        key = framed(self.ids[0], proto.tagged(1, proto.VARINT, proto.varint(row_id)))
        value = None
        if event is not None:
            before, after = event["before"], event["after"]
            assert before is None or isinstance(before, dict)
            assert after is None or isinstance(after, dict)
            value = self.envelope(str(event["op"]), before, after)
        self.log.setdefault(crc32(key) % self.partitions, []).append((key, value))

    def envelope(self, op: str, before: Row | None, after: Row | None) -> bytes:
        """The payload of a change."""
        body = b"" if before is None else proto.tagged(1, proto.LENGTH, _row(before))
        body += b"" if after is None else proto.tagged(2, proto.LENGTH, _row(after))
        source = _text(1, self.snapshot) + _text(2, "orders")
        body += proto.tagged(3, proto.LENGTH, source) + _text(4, op)
        body += proto.tagged(5, proto.VARINT, proto.varint(1_760_000_000_000))
        return framed(self.ids[1], body)


class ProtobufRowSource(ProtobufChangeSource):
    """One whose records are whole rows of `ROW_PROTO`, and null behind a delete."""

    def _tell(self, row_id: int, op: str, before: Row | None, after: Row | None) -> None:
        # A delete is the null that comes after it.
        if op != "d":
            ProtobufChangeSource._put(self, row_id, {"op": op, "before": None, "after": after})

    def envelope(self, op: str, before: Row | None, after: Row | None) -> bytes:
        """The row alone."""
        del op, before
        assert after is not None
        body = proto.tagged(1, proto.VARINT, proto.varint(int(str(after["id"]))))
        for number, name in enumerate(("name", "amount", "city"), 2):
            if after[name] is not None:
                body += _text(number, str(after[name]))
        return framed(self.ids[1], body)


def framed(number: int, body: bytes) -> bytes:
    """A message that is the first of its schema, in Confluent's wire format."""
    return b"\0" + number.to_bytes(4, "big") + b"\0" + body


def _text(number: int, content: str) -> bytes:
    return proto.tagged(number, proto.LENGTH, proto.text(content))


def _row(row: Row) -> bytes:
    body = proto.tagged(1, proto.VARINT, proto.varint(int(str(row["id"]))))
    if row["name"] is not None:
        body += _text(2, str(row["name"]))
    cents = int(str(row["amount"]).replace(".", ""))
    money = proto.tagged(1, proto.LENGTH, unscaled(cents))
    money += proto.tagged(2, proto.VARINT, proto.varint(18))
    money += proto.tagged(3, proto.VARINT, proto.varint(2))
    body += proto.tagged(3, proto.LENGTH, money)
    if row["city"] is not None:
        body += _text(4, str(row["city"]))
    body += proto.tagged(5, proto.VARINT, proto.varint(moment_us(row)))
    parts = enumerate((DAY.year, DAY.month, DAY.day), 1)
    day = b"".join(proto.tagged(n, proto.VARINT, proto.varint(part)) for n, part in parts)
    return body + proto.tagged(6, proto.LENGTH, day)
