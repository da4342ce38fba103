"""What a person at a terminal sees of a run: one line, rewritten in place."""

import os
import time
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from sluiceway.observe.profile import RunProfile

_CLEAR = "\r\033[K"
_USUAL_COLUMNS = 80
# A route that tries again may need so long to find out that nothing has changed.
_ATTEMPT_S = 12.0
_FIRST = "reading the first epoch"


@dataclass(frozen=True, slots=True)
class _Wait:
    reason: str
    until: float


@dataclass(frozen=True, slots=True)
class EpochRows:
    """Rows of one epoch: `dirty` and `filtered` are among the rows read."""

    read: int
    dirty: int = 0
    filtered: int = 0


class Progress:
    """Counts what the driver reports and shows it on a terminal; silent without one.

    Args:
        stream: A terminal; None shows nothing.

    Attributes:
        profile: Where the time goes; gets every commit.
        watched: Whether a person watches while tasks read.
        reads: Route -> records that tasks have read, the running epoch included.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._started = time.monotonic()
        self._shown = False
        self._text = ""
        self._waits: dict[str, _Wait] = {}
        self._lag_records = 0
        self._seq = 0
        self._rate = 0.0
        self.profile = RunProfile()
        self.watched = stream is not None
        self.reads: Mapping[str, int] = {}
        self.commits = 0
        self.rows = 0
        self.dirty = 0
        self.filtered = 0

    def closing(self) -> str:
        """What was done in all, for the end of a run."""
        commits = "1 commit" if self.commits == 1 else f"{self.commits:,} commits"
        rows = "1 row" if self.rows == 1 else f"{self.rows:,} rows"
        filtered = f", {self.filtered:,} filtered" if self.filtered else ""
        return f"{rows} in {commits}, {self.dirty:,} dirty{filtered}"

    def lag(self, records: int) -> None:
        """Records in the logs that are not committed yet."""
        self._lag_records = records
        if not records:
            # Nothing comes any more: the last epoch's rate is no rate of now.
            self._rate = 0.0
        if self.commits == 0:
            self._text = self._first() if records or self.reads else "no rows yet"
        else:
            self._text = self._counts()
        self._show()

    def reading(self, reads: Mapping[str, int]) -> None:
        """Tasks have read so many records since the run began. Called a few times a second.

        Args:
            reads: Records by route.
        """
        self.reads = dict(reads)
        if self.commits == 0 and any(self.reads.values()):
            self._text = self._first()
            self._show()

    def lead(self) -> str:
        """What the driver is doing, in words; all there is to show while it starts."""
        now = time.monotonic()
        return _one_line(self._lead([w for w in tuple(self._waits.values()) if w.until > now]))

    def epoch(self, seq: int, rows: EpochRows, seconds: float, *, route: str = "") -> None:
        """An epoch of `route` was committed and published; the route waits for nothing."""
        self.commits += 1
        self.rows += rows.read
        self.dirty += rows.dirty
        self.filtered += rows.filtered
        self._rate = rows.read / seconds if seconds > 0 else 0.0
        self._seq = seq
        self._lag_records = max(0, self._lag_records - rows.read)
        self._waits.pop(route, None)
        self._text = self._counts()
        self._show()

    def waiting(self, reason: str, *, route: str = "", for_s: float = 0.0) -> None:
        """The driver waits for something outside.

        Args:
            reason: Shown until the route commits, or is silent long enough to be well again.
            route: Which one waits; empty for the whole job, before its first epoch.
            for_s: When it tries again.
        """
        if not route:
            self._text = f"waiting: {reason}"
        else:
            self._waits[route] = _Wait(reason, time.monotonic() + for_s + _ATTEMPT_S)
        self._show()

    def _first(self) -> str:
        read = sum(self.reads.values())
        return f"reading the first epoch: {read:,} records so far" if read else _FIRST

    def _counts(self) -> str:
        return (
            f"seq {self._seq} · {self.rows:,} rows · {self._rate:,.0f}/s "
            f"· lag {self._lag_records:,} · dirty {self.dirty:,}"
        )

    def print_lines(self, text: str) -> None:
        """Write lines that stay, on a terminal."""
        self.clear()
        if self._stream is not None:
            self._stream.write(text + "\n")
            self._stream.flush()

    def clear(self) -> None:
        """Take the line off, before something else is written."""
        if self._stream is not None and self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
            self._shown = False

    def _show(self) -> None:
        if self._stream is None:
            return
        now = time.monotonic()
        # Threads of several routes come here; a copy cannot change under the loop.
        waits = [wait for wait in tuple(self._waits.values()) if wait.until > now]
        seconds = int(now - self._started)
        line = f"{seconds // 60:02d}:{seconds % 60:02d} {_one_line(self._lead(waits))}"
        # The last column stays free: some terminals wrap when it is written.
        self._stream.write(_CLEAR + cut_to_columns(line, _columns(self._stream) - 1))
        self._stream.flush()
        self._shown = True

    def _lead(self, waits: list[_Wait]) -> str:
        if not waits:
            return self._text
        count = f"{len(waits)} routes wait" if len(waits) > 1 else "waiting"
        # What is wrong comes first, so that a narrow terminal does not cut it off.
        return f"{count}: {waits[-1].reason}" + (f" · {self._text}" if self.commits else "")


def cut_to_columns(text: str, columns: int) -> str:
    """The beginning of `text` that takes at most so many columns of a terminal."""
    left = columns
    for place, character in enumerate(text):
        if unicodedata.combining(character):
            continue
        left -= 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if left < 0:
            return text[:place]
    return text


def _one_line(text: str) -> str:
    """Without control characters: parts of it may be names that others chose."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _columns(stream: TextIO) -> int:
    """Asked each time: a window may change its size."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_COLUMNS
    except (OSError, ValueError):
        return _USUAL_COLUMNS
