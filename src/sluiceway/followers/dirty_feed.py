"""Feeds dirty rows to a further store, behind the commits and exactly once (commit rule 15).

The dirty files beside the ledger are the truth. They are read in the order of the log; the
store keeps the place (slot, file, row) together with the rows. A store that is down stops this and
nothing else.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from sluiceway.ledger.dirty_files import CommittedDirty, committed_dirty
from sluiceway.ledger.follower import PIECE_S, Follower, LogView
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.log import Log

_KEEP_EVERY: Final = 1_000
# Brokers forget a place that nobody has kept anew for a week, and all rows would be fed again.
_KEEP_WITHIN_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class DirtyPlace:
    """The next row: of a file of a slot; no file is the slot's first one."""

    seq: int = 0
    file: str = ""
    row: int = 0


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


class DirtyFeeder(Follower):
    """Of one route.

    Args:
        log: Of the route.
        ledger: Its uuid.
        store: Where the rows go; closed here.
        events: Told of what was fed.
        let_go: Whether a file need not be there any more (`upkeep.dirty_keeping`); called in turns.
    """

    name = "dirty_feed"
    after: tuple[str, ...] = ("files",)

    def __init__(
        self,
        log: LedgerLog,
        ledger: str,
        store: DirtyStore,
        events: Log,
        *,
        let_go: Callable[[CommittedDirty], bool] = lambda _: False,
    ) -> None:
        self._log = log
        self._ledger = ledger
        self._let_go = let_go
        self._store = store
        self._events = events
        self._place = DirtyPlace()
        self._kept = 0
        self._keep_due = 0.0
        self._opened = False

    @property
    def fed_through(self) -> int:
        """Slot below which all dirty rows are in the store; any thread may ask."""
        return self._place.seq

    def place(self) -> int:
        """See `Follower.place`: the store keeps it together with the rows."""
        return self._place.seq

    def rest_s(self) -> float | None:
        """See `Follower.rest_s`: a place is kept anew now and then."""
        return max(0.0, self._keep_due - time.monotonic())

    def close(self) -> None:
        """See `Follower.close`; the next driver goes on from the place."""
        self._store.close()

    def follow(self, view: LogView) -> int:
        """See `Follower.follow`: feed what is published.

        Raises:
            FencedError: The feeder of another driver goes on: each sends the same rows from the
                same place, so trying again harms nothing.
            SluicewayError: The store does not answer, or cannot be one.
        """
        try:
            if not self._opened:
                self._log.check_held()
                self._place = self._store.open()
                self._kept, self._keep_due = self._place.seq, 0.0
                self._opened = True
            self._go_on(view)
        except BaseException:
            # Whatever it was: the store says anew how far its rows go.
            self._opened = False
            raise
        return self._place.seq

    def _go_on(self, view: LogView) -> None:
        """Feed what there is, for a short while."""
        before, rows, until = self._place, 0, time.monotonic() + PIECE_S
        through = max(view.through, before.seq)
        for found in self._files(view):
            rows += self._feed_file(found, view)
            if view.over():
                return
            if time.monotonic() >= until and self._place.seq > before.seq:
                break
        else:
            if self._place.seq < through:
                self._place = DirtyPlace(through)
            if through - self._kept >= _KEEP_EVERY or time.monotonic() >= self._keep_due:
                self._log.check_held()
                # Without a row, too: a start should not read a long log again.
                self._store.keep(self._place)
                self._note_kept(self._place)
        if rows:
            self._events.info("dirty_rows_fed", rows=rows, since=before.seq, through=through)

    def _files(self, view: LogView) -> Iterator[CommittedDirty]:
        """Dirty files of the slots from the place on, as far as they may be followed.

        Raises:
            LedgerCorruptError: A record is damaged or gone.
        """
        for record in view.records(self._place.seq):
            found = committed_dirty(self._log.layout, self._ledger, record)
            names = [each.source.file for each in found]
            at = self._place
            done = names.index(at.file) if (record.seq, at.file in names) == (at.seq, True) else 0
            yield from found[done:]

    def _feed_file(self, found: CommittedDirty, view: LogView) -> int:
        at = self._place
        source = found.source
        start = at.row if (at.seq, at.file) == (source.seq, source.file) else 0
        if self._log.storage.status(found.path) is None:
            if not self._let_go(found):
                rows = int(found.file.rows) - start
                self._events.warning("dirty_file_gone", path=found.path, rows=rows)
            return 0
        fed = 0
        self._log.check_held()
        for rows, place in self._store.feed(found, start):
            self._note_kept(place)
            fed += rows
            if view.over():
                break
        return fed

    def _note_kept(self, place: DirtyPlace) -> None:
        self._place = place
        self._kept, self._keep_due = place.seq, time.monotonic() + _KEEP_WITHIN_S
