"""Rows of the conformance suite as Avro, as a producer writes them that holds back nothing."""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tools import avro_bytes as avro

_WIDE = {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 0}
_MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2}
AVRO_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": "id", "type": ["null", "long", _WIDE]},
            {"name": "note", "type": ["null", "string"]},
            {"name": "amount", "type": ["null", _MONEY, "string"]},
            {"name": "paid", "type": ["null", "boolean"]},
        ],
    }
)


def avro_payload(row: Mapping[str, Any]) -> bytes:
    """The bytes of a row."""
    return b"".join(_field(name, row[name]) for name in ("id", "note", "amount", "paid"))


def _field(name: str, value: Any) -> bytes:
    if value is None:
        return avro.long(0)
    match name:
        case "id" if -(2**63) <= value < 2**63:
            return avro.long(1) + avro.long(value)
        case "id":
            return avro.long(2) + avro.data(avro.unscaled(value))
        case "amount":
            cents = Decimal(value) * 100
            if cents == int(cents):
                return avro.long(1) + avro.data(avro.unscaled(int(cents)))
            return avro.long(2) + avro.text(f"{value:f}")
        case "paid":
            return avro.long(1) + bytes([value])
        case _:
            return avro.long(1) + avro.text(value)
