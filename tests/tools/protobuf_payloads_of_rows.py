"""Rows of the conformance suite as Protobuf, as a producer writes them."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tools import protobuf_bytes as pb

# Protobuf has no decimals: they travel as text, and so does a number of more than 64 bits.
PROTO = """
syntax = "proto2";
message Row {
  optional string id = 1;
  optional string note = 2;
  optional string amount = 3;
  optional bool paid = 4;
}
"""


def protobuf_payload(row: Mapping[str, Any]) -> bytes:
    """The bytes of a row, behind a field that no column reads: no payload is empty."""
    found = pb.tagged(9, pb.VARINT, pb.varint(1))
    for number, name in enumerate(("id", "note", "amount", "paid"), 1):
        value = row[name]
        if value is None:
            continue
        if isinstance(value, bool):
            found += pb.tagged(number, pb.VARINT, pb.varint(int(value)))
        else:
            shown = f"{value:f}" if isinstance(value, Decimal) else str(value)
            found += pb.tagged(number, pb.LENGTH, pb.text(shown))
    return found
