"""What a person at a terminal sees of a run: one line, rewritten in place."""

import time
from typing import TextIO

_CLEAR = "\r\033[K"


class Progress:
    """Counts what the driver tells it and shows it on a terminal; silent without one.

    Args:
        stream: A terminal; None shows nothing.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._started = time.monotonic()
        self._shown = False
        self._lag_records = 0
        self.commits = 0
        self.rows = 0
        self.dirty = 0

    def lag(self, records: int) -> None:
        """Records in the logs that are not committed yet."""
        self._lag_records = records
        if self.commits == 0:
            self._show("reading the first epoch")

    def epoch(self, seq: int, rows: int, dirty: int, seconds: float) -> None:
        """An epoch was committed and published."""
        self.commits += 1
        self.rows += rows
        self.dirty += dirty
        rate = rows / seconds if seconds > 0 else 0.0
        self._lag_records = max(0, self._lag_records - rows)
        self._show(
            f"seq {seq} · {self.rows:,} rows · {rate:,.0f}/s · lag {self._lag_records:,} "
            f"· dirty {self.dirty:,}"
        )

    def waiting(self, reason: str) -> None:
        """The driver waits for something outside."""
        self._show(f"waiting: {reason}")

    def clear(self) -> None:
        """Take the line off, before something else is written."""
        if self._stream is not None and self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
            self._shown = False

    def _show(self, text: str) -> None:
        if self._stream is None:
            return
        seconds = int(time.monotonic() - self._started)
        self._stream.write(f"{_CLEAR}{seconds // 60:02d}:{seconds % 60:02d} {text}"[:160])
        self._stream.flush()
        self._shown = True
