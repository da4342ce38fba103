"""Least and greatest values of columns, for formats whose footers do not hold them."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


class ColumnBounds:
    """Bounds over all batches of a file.

    Args:
        schema: Schema of the batches.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._columns = [
            (index, field)
            for index, field in enumerate(schema)
            if pa.types.is_timestamp(field.type) or has_bounds(field.type)
        ]
        self._found: dict[str, tuple[Any, Any]] = {}
        self._unknown: set[str] = set()

    def widen(self, rows: pa.RecordBatch) -> None:
        """Take in a batch."""
        for index, field in self._columns:
            values = rows.column(index)
            if pa.types.is_timestamp(field.type):
                values = values.cast(pa.timestamp("us", tz=field.type.tz), safe=False)
                values = values.cast(pa.int64())
            elif pa.types.is_floating(field.type):
                values = values.filter(pc.is_finite(values))
            try:
                found = pc.min_max(values).as_py()
            except OverflowError:
                # A day outside of the years 1 to 9999, as SQL may make one.
                self._unknown.add(field.name)
                continue
            low, high = found["min"], found["max"]
            if low is not None:
                before = self._found.get(field.name, (low, high))
                self._found[field.name] = (min(low, before[0]), max(high, before[1]))

    def texts(self) -> dict[str, tuple[str, str]]:
        """Bounds of each column, as a record of the ledger holds them."""
        instants = {field.name for _, field in self._columns if pa.types.is_timestamp(field.type)}
        return {
            name: (instant_text(low), instant_text(high))
            if name in instants
            else (bound_text(low), bound_text(high))
            for name, (low, high) in self._found.items()
            if name not in self._unknown
        }


def has_bounds(kind: pa.DataType) -> bool:
    """Whether columns of a type that is no timestamp have bounds."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_date(kind)
    )


def widest_bounds(files: Iterable[Mapping[str, tuple[str, ...]]]) -> dict[str, tuple[str, str]]:
    """Bounds of all rows of several files, from the bounds of each.

    A column whose bounds are of different types in two files has none.
    """
    found: dict[str, tuple[str, str]] = {}
    unlike: set[str] = set()
    for bounds in files:
        for name, (low, high) in bounds.items():
            least, greatest = found.get(name, (low, high))
            keys = [_order(text) for text in (low, high, least, greatest)]
            if len({kind for kind, _ in keys}) > 1:
                unlike.add(name)
                continue
            before = keys[0] < keys[2], keys[1] > keys[3]
            found[name] = (low if before[0] else least, high if before[1] else greatest)
    return {name: pair for name, pair in found.items() if name not in unlike}


def _order(text: str) -> tuple[str, Any]:
    """What a bound's text compares by, with the kind of value that it is."""
    try:
        if text.endswith("us"):
            return "instant", int(text[:-2])
        if "T" in text:
            moment = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
            return "instant", moment // timedelta(microseconds=1)
        return "number", Decimal(text)
    except (ValueError, InvalidOperation):
        return "text", text


def bound_text(value: Any) -> str:
    """A bound that is no timestamp."""
    return value.isoformat() if isinstance(value, date) else str(value)


def instant_text(micros: int) -> str:
    """A bound of a timestamp column, from microseconds since 1970."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    except OverflowError:
        return f"{micros}us"
    return moment.isoformat().replace("+00:00", "Z")
