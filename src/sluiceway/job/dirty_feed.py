"""Feeds dirty rows to a further store, behind the commits and exactly once (commit rule 15).

The dirty files beside the ledger are the truth. A thread reads them in the order of the log; the
store keeps the place (slot, file, row) together with the rows. A store that is down stops this and
nothing else.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from sluiceway.errors import FencedError, SluicewayError
from sluiceway.job.desk import BackgroundWork
from sluiceway.ledger.dirty_files import dirty_sources
from sluiceway.ledger.dirty_sources import DirtySource
from sluiceway.ledger.file_records import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import Record
from sluiceway.observe.log import Log

_LOOK_EVERY_S: Final = 1.0
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
_LAST_WAIT_S: Final = 5.0
_KEEP_EVERY: Final = 1_000
# Brokers forget a place that nobody has kept anew for a week, and all rows would be fed again.
_KEEP_WITHIN_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class DirtyPlace:
    """The next row: of a file of a slot; no file is the slot's first one."""

    seq: int = 0
    file: str = ""
    row: int = 0


@dataclass(frozen=True, slots=True)
class CommittedDirty:
    """A dirty file at its final name.

    Attributes:
        source: Its name as a source of lanes.
        record: That committed it.
        path: Where it lies; purged rows may be gone (`job.dirty_keeping`).
    """

    source: DirtySource
    file: FileRecord
    record: Record
    path: str


def committed_dirty(layout: LedgerLayout, ledger: str, record: Record) -> list[CommittedDirty]:
    """The dirty files that a record commits, in its order.

    Args:
        layout: Of the route.
        ledger: Its uuid.
        record: Of any kind.
    """
    return [
        CommittedDirty(source, file, record, layout.final(file.final))
        for source, file in dirty_sources(ledger, record).items()
    ]


class DirtyStore(Protocol):
    """Where dirty rows and the place behind them go. Used by one thread."""

    def open(self) -> DirtyPlace:
        """Begin, or begin anew after an error; how far the rows in it go.

        Raises:
            FencedError: A newer feeder goes on.
            SluicewayError: The store is away or cannot be one.
        """

    def feed(self, found: CommittedDirty, start: int) -> Iterator[tuple[int, DirtyPlace]]:
        """Take in the rows of a file from row `start` on, and the place behind them.

        Called in the order of the log. After an error it is opened anew.

        Yields:
            How many rows are in it now, whatever dies, and the place behind them.

        Raises:
            SluicewayError: As `open`.
        """

    def keep(self, place: DirtyPlace) -> None:
        """Keep a place behind which no row is; raises as `open`."""

    def close(self) -> None:
        """Safe to repeat."""


class DirtyFeeder(BackgroundWork):
    """Of one route, from its START to its end, in a thread of its own.

    Args:
        log: Of the route.
        ledger: Its uuid.
        published: Slot below which all files are at their final names; called by the thread.
        store: Where the rows go; closed here.
        eyes: Told of waits and of what was fed.
        let_go: Whether a file need not be there any more (`job.dirty_keeping`); as `published`.
    """

    def __init__(
        self,
        log: LedgerLog,
        ledger: str,
        published: Callable[[], int],
        store: DirtyStore,
        eyes: Log,
        *,
        let_go: Callable[[CommittedDirty], bool] = lambda _: False,
    ) -> None:
        self._log = log
        self._ledger = ledger
        self._published = published
        self._let_go = let_go
        self._store = store
        self._eyes = eyes
        self._place = DirtyPlace()
        self._kept = 0
        self._keep_due = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dirty_feed", daemon=True)
        self._thread.start()

    @property
    def fed_through(self) -> int:
        """Slot below which all dirty rows are in the store; any thread may ask."""
        return self._place.seq

    def close(self) -> None:
        """Stop; the next driver goes on from the place. Safe to repeat."""
        self._end.set()
        self._thread.join(_LAST_WAIT_S)

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        try:
            while not self._end.is_set():
                try:
                    self._place = self._store.open()
                    self._kept, self._keep_due = self._place.seq, 0.0
                    pause_s = _FIRST_PAUSE_S
                    self._go_on()
                except FencedError as error:
                    # By the feeder of a driver that took over, or of one that was: each sends the
                    # same rows from the same place, so trying again harms nothing.
                    pause_s = _LONGEST_PAUSE_S
                    self._eyes.info("dirty_feed_fenced", error=str(error), retry_in_s=pause_s)
                except SluicewayError as error:
                    self._eyes.warning("dirty_feed_waits", error=str(error), retry_in_s=pause_s)
                except Exception as error:  # noqa: BLE001 - the thread's boundary: never silent
                    text = f"{type(error).__name__}: {error}"
                    self._eyes.warning("dirty_feed_waits", error=text, retry_in_s=pause_s)
                self._end.wait(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        finally:
            self._store.close()

    def _go_on(self) -> None:
        """Feed what there is, and what comes, until the end."""
        while not self._end.is_set():
            through = self._published()
            before = self._place
            rows = 0
            for found in self._files(through):
                rows += self._feed_file(found)
                if self._end.is_set():
                    return
            if self._place.seq < through:
                self._place = DirtyPlace(through)
            if through - self._kept >= _KEEP_EVERY or time.monotonic() >= self._keep_due:
                # Without a row, too: a start should not read a long log again.
                self._store.keep(self._place)
                self._note_kept(self._place)
            if rows:
                self._eyes.info("dirty_rows_fed", rows=rows, since=before.seq, through=through)
            self._end.wait(_LOOK_EVERY_S)

    def _files(self, through: int) -> Iterator[CommittedDirty]:
        """Dirty files of the slots from the place on, below `through`."""
        if self._place.seq >= through:
            return
        for record, _ in self._log.records(self._place.seq):
            if record.seq >= through:
                return
            found = committed_dirty(self._log.layout, self._ledger, record)
            names = [each.source.file for each in found]
            at = self._place
            done = names.index(at.file) if (record.seq, at.file in names) == (at.seq, True) else 0
            yield from found[done:]

    def _feed_file(self, found: CommittedDirty) -> int:
        at = self._place
        source = found.source
        start = at.row if (at.seq, at.file) == (source.seq, source.file) else 0
        if self._log.storage.status(found.path) is None:
            if not self._let_go(found):
                rows = int(found.file.rows) - start
                self._eyes.warning("dirty_file_gone", path=found.path, rows=rows)
            return 0
        fed = 0
        for rows, place in self._store.feed(found, start):
            self._note_kept(place)
            fed += rows
            if self._end.is_set():
                break
        return fed

    def _note_kept(self, place: DirtyPlace) -> None:
        self._place = place
        self._kept, self._keep_due = place.seq, time.monotonic() + _KEEP_WITHIN_S
