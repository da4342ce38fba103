"""Whether a value that a reader of a table got is the one that the connector had."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from logical_types.cases import DAY, DECIMAL, VARIABLE, Case, as_json

_TIME = "org.apache.kafka.connect.data.Time"


def is_right(case: Case, found: Any) -> bool:
    """Whether a reader's value is what the case means, or exactly what the connector wrote.

    Args:
        case: The case.
        found: As the reader has it: mappings, lists, numbers, days, times, bytes, text.
    """
    return _same(case.schema, case.raw, case.means, found)


def _same(schema: Mapping[str, Any], raw: Any, means: Any, found: Any) -> bool:
    name = schema.get("name")
    if schema["type"] == "array":
        pairs = zip(raw, means, found, strict=False) if isinstance(found, list) else ()
        return (
            isinstance(found, list)
            and len(found) == len(raw)
            and all(_same(schema["items"], *each) for each in pairs)
        )
    if schema["type"] == "map":
        held = _entries(found) if isinstance(found, list) else found
        return (
            isinstance(held, Mapping)
            and held.keys() == raw.keys()
            and all(_same(schema["values"], raw[key], means[key], held[key]) for key in raw)
        )
    if schema["type"] == "struct" and name != VARIABLE:
        if not isinstance(found, Mapping):
            return False
        fields = {each["field"]: each for each in schema["fields"]}
        return found.keys() == fields.keys() and all(
            _same(of, raw[key], means[key], found[key]) for key, of in fields.items()
        )
    return any(_equal(each, found) for each in _forms(schema, raw, means))


def _forms(schema: Mapping[str, Any], raw: Any, means: Any) -> list[Any]:
    """What a value may be: what it means, or what stands in the message, in full."""
    name = schema.get("name")
    match name:
        case _ if name == DECIMAL:
            # The message of Protobuf has a precision too, which the converter need not know.
            return [means, {"value": raw, "precision": 0, "scale": 2}]
        case _ if name == VARIABLE:
            return [means, raw, as_json(schema, raw)]
        case "org.apache.kafka.connect.data.Date":
            return [means, raw, {"year": DAY.year, "month": DAY.month, "day": DAY.day}]
        case _ if name == _TIME:
            hour = raw // 3_600_000
            parts = {"hours": hour, "minutes": 0, "seconds": 0, "nanos": 0}
            return [raw, f"{hour:02}:00:00", parts]
        case _ if schema["type"] == "bytes":
            return [raw, as_json(schema, raw)]
        case _:
            return [means, raw]


def _equal(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, Decimal):
        return isinstance(found, Decimal) and wanted == found
    if isinstance(wanted, datetime):
        return isinstance(found, datetime) and _in_utc(wanted) == _in_utc(found)
    if isinstance(wanted, date):
        return type(found) is date and wanted == found
    if isinstance(wanted, bytes):
        return isinstance(found, bytes | bytearray) and wanted == bytes(found)
    if isinstance(wanted, Mapping):
        same = isinstance(found, Mapping) and found.keys() == wanted.keys()
        return same and all(_equal(wanted[key], found[key]) for key in wanted)
    if isinstance(wanted, float) and isinstance(found, Decimal):
        # Both are exact.
        return Decimal(wanted) == found
    return type(wanted) is type(found) and bool(wanted == found)


def _entries(found: list[Any]) -> dict[Any, Any]:
    """A map that came as a list: of pairs, or of records of a key and a value."""
    return {
        key if isinstance(key, str) else int(key): value
        for key, value in (each.values() if isinstance(each, dict) else each for each in found)
    }


def _in_utc(of: datetime) -> datetime:
    return of if of.tzinfo else of.replace(tzinfo=UTC)
