"""Impossible event times: too far beyond the clock, or before all that is expected."""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.types.iso_time import shown_instant


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
