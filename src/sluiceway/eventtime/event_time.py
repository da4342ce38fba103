"""Event time of decoded rows, vectorised, and its bounds."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.eventtime.time_text import TimeText
from sluiceway.types.dirty import DirtyReason, DirtyRow, shown
from sluiceway.types.iso_time import (
    MAX_TIME_US,
    MIN_TIME_US,
    parse_iso_timestamp,
    read_iso_timestamps,
    shown_instant,
)

_UNIT_US = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}


@dataclass(frozen=True, slots=True)
class EventTimes:
    """Event times of a batch.

    Attributes:
        micros: int64 since the epoch, UTC, one a row; null for dirty rows.
        dirty: Rows without a readable time; `index` is the position in the batch.
    """

    micros: pa.Array
    dirty: tuple[DirtyRow, ...]


class EventTimeReader:
    """Reads the event time from one field. Created once per task, used by one thread.

    Args:
        path: Keys from the top of the decoded row; the first is a column.
        unit: Unit of a number (`s`, `ms`, `us` or `ns`), or `iso8601` for a text with an offset,
            which is also the meaning of None. A timestamp column needs none.
        schema: Schema of the decoded rows.
        text: Format of texts, instead of a unit; None without one.

    Raises:
        ValueError: The schema has no such field, or its type does not fit the unit.
    """

    def __init__(
        self,
        path: Sequence[str],
        unit: str | None,
        schema: pa.Schema,
        *,
        text: TimeText | None = None,
    ) -> None:
        self._path = tuple(path)
        self._text = ".".join(path)
        self._unit = unit or "iso8601"
        self._form = text
        self._column, self._inner, kind = _resolve(self._path, schema)
        if text is not None and not pa.types.is_string(kind):
            raise ValueError(f"event time {self._text} is {kind}; event_time.format is for text")
        fits = (
            pa.types.is_timestamp(kind)
            or (pa.types.is_integer(kind) and self._unit in _UNIT_US)
            or (pa.types.is_string(kind) and self._unit == "iso8601")
        )
        if not fits:
            if pa.types.is_integer(kind) and unit is None:
                raise ValueError(f"event time {self._text} is a number: event_time.unit is needed")
            raise ValueError(
                f"event time {self._text} is {kind}, which unit {self._unit} cannot read"
            )

    def read(self, rows: pa.RecordBatch) -> EventTimes:
        """Event times of a batch. A time on a bound of 0001..9999 is readable."""
        values = rows.column(self._column)
        for name in self._inner:
            values = pc.struct_field(values, name)
        if pa.types.is_timestamp(values.type):
            return self._judged(values.cast(pa.timestamp("us")).view(pa.int64()), values)
        if pa.types.is_integer(values.type):
            return self._judged(self._scaled(values.cast(pa.int64())), values)
        texts = _parsed(values) if self._form is None else self._form.read(values)
        return self._judged(texts, values)

    def _scaled(self, numbers: pa.Array) -> pa.Array:
        factor, divisor = _UNIT_US[self._unit]
        if divisor > 1:
            # Floor, so that a time before the epoch stays in its own microsecond.
            whole = pc.divide(numbers, divisor)
            below = pc.less(numbers, pc.multiply(whole, divisor))
            return pc.subtract(whole, pc.cast(below, pa.int64()))
        low, high = -(-MIN_TIME_US // factor), MAX_TIME_US // factor
        sane = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
        return pc.multiply(pc.if_else(sane, numbers, None), factor)

    def _judged(self, micros: pa.Array, values: pa.Array) -> EventTimes:
        sane = pc.and_(pc.greater_equal(micros, MIN_TIME_US), pc.less_equal(micros, MAX_TIME_US))
        micros = pc.if_else(sane, micros, None)
        if micros.null_count == 0:
            return EventTimes(micros, ())
        missing = pc.indices_nonzero(pc.is_null(micros)).to_pylist()
        return EventTimes(micros, tuple(self._dirty(row, values[row].as_py()) for row in missing))

    def _dirty(self, row: int, value: object) -> DirtyRow:
        if value is None:
            message = f"the event time {self._text} is missing or null"
            return DirtyRow(row, "event_time", DirtyReason.NULL, self._text, message)
        how = self._unit if self._form is None else f"`{self._form.form}`"
        message = f"{shown(value)} is no event time in {how} between the years 1 and 9999"
        return DirtyRow(row, "event_time", DirtyReason.BAD_TIME, self._text, message)


def _resolve(path: tuple[str, ...], schema: pa.Schema) -> tuple[int, tuple[str, ...], pa.DataType]:
    names = [name.lower() for name in schema.names]
    if not path or path[0].lower() not in names:
        raise ValueError(f"event time {'.'.join(path)} is not among the columns")
    column = names.index(path[0].lower())
    kind = schema.field(column).type
    inner = []
    for name in path[1:]:
        children = {kind.field(i).name.lower(): kind.field(i) for i in range(kind.num_fields)}
        if not pa.types.is_struct(kind) or name.lower() not in children:
            raise ValueError(f"event time {'.'.join(path)} is not among the columns")
        inner.append(children[name.lower()].name)
        kind = children[name.lower()].type
    return column, tuple(inner), kind


def _parsed(texts: pa.Array) -> pa.Array:
    micros, odd = read_iso_timestamps(texts)
    if len(odd) == 0:
        return micros
    found = micros.to_pylist()
    for row in odd.to_pylist():
        try:
            found[row] = parse_iso_timestamp(texts[row].as_py())
        except ValueError:
            found[row] = None
    return pa.array(found, pa.int64())


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """Bounds of a route's event times; a time on a bound is inside.

    Attributes:
        max_future_us: How far beyond the clock a time may be.
        min_us: The first time; None sets no bound.
        name: Name of the time in messages.
    """

    max_future_us: int
    min_us: int | None
    name: str

    def outside(self, micros: pa.Array, now_us: int) -> tuple[DirtyRow, ...]:
        """Rows whose time is out of bounds, by rising index. Called once a batch.

        Args:
            micros: int64 since the epoch, UTC; nulls are inside.
            now_us: The clock by which the batch is read.
        """
        if len(micros) == micros.null_count:
            return ()
        found = pc.min_max(micros).as_py()
        latest_us = now_us + self.max_future_us
        rows = list[DirtyRow]()
        if found["max"] > latest_us:
            for row in pc.indices_nonzero(pc.greater(micros, latest_us)).to_pylist():
                rows.append(self._future(row, micros[row].as_py(), now_us))
        if self.min_us is not None and found["min"] < self.min_us:
            for row in pc.indices_nonzero(pc.less(micros, self.min_us)).to_pylist():
                rows.append(self._old(row, micros[row].as_py(), self.min_us))
        return tuple(sorted(rows, key=lambda row: row.index))

    def _future(self, row: int, at_us: int, now_us: int) -> DirtyRow:
        allowed_s = self.max_future_us / 1_000_000
        message = (
            f"the event time {shown_instant(at_us)} is more than {allowed_s:g} s after "
            f"{shown_instant(now_us)}, when it was read"
        )
        return DirtyRow(row, "event_time", DirtyReason.FUTURE_TIME, self.name, message)

    def _old(self, row: int, at_us: int, min_us: int) -> DirtyRow:
        message = f"the event time {shown_instant(at_us)} is before {shown_instant(min_us)}"
        return DirtyRow(row, "event_time", DirtyReason.OLD_TIME, self.name, message)
