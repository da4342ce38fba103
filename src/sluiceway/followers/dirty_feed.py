"""Feeds dirty rows to a further store, after the commits and exactly once (commit rule 15).

The dirty files at the ledger are the truth. They are read in the order of the log; the store keeps
the place (slot, file, row) together with the rows. A store that is down stops only this follower.
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
# Brokers forget a place that is not written for a week, and all rows would be fed again.
_KEEP_WITHIN_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class DirtyPlace:
    """Place of the next row: slot, file and row; no file means the slot's first one."""

    seq: int = 0
    file: str = ""
    row: int = 0


class DirtyStore(Protocol):
    """A store for dirty rows and the place after them. Used by one thread."""

    def open(self) -> DirtyPlace:
        """Open it, again after each error; returns the place after its rows.

        Raises:
            FencedError: A newer feeder goes on.
            SluicewayError: The store is away or unusable.
        """

    def feed(self, found: CommittedDirty, start: int) -> Iterator[tuple[int, DirtyPlace]]:
        """Write the rows of a file from row `start` on, and the place after them.

        Called in the order of the log. After an error the store is opened again.

        Yields:
            How many rows are safely in the store now, and the place after them.

        Raises:
            SluicewayError: As `open`.
        """

    def keep(self, place: DirtyPlace) -> None:
        """Write a place without rows; raises as `open`."""

    def close(self) -> None:
        """Close the store. Safe to repeat."""


class DirtyFeeder(Follower):
    """Feeds the dirty rows of one route.

    Args:
        ledger: Ledger of the route.
        ledger_id: Uuid of it.
        store: The store for the rows; closed here.
        log: Gets events about fed rows.
        let_go: Returns whether a file may be missing (`upkeep.dirty_keeping`); called in turns.
    """

    name = "dirty_feed"
    after: tuple[str, ...] = ("files",)

    def __init__(
        self,
        ledger: LedgerLog,
        ledger_id: str,
        store: DirtyStore,
        log: Log,
        *,
        let_go: Callable[[CommittedDirty], bool] = lambda _: False,
    ) -> None:
        self._ledger = ledger
        self._ledger_id = ledger_id
        self._let_go = let_go
        self._store = store
        self._log = log
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
        """See `Follower.rest_s`: a place is written again from time to time."""
        return max(0.0, self._keep_due - time.monotonic())

    def close(self) -> None:
        """See `Follower.close`; the next driver goes on from the place."""
        self._store.close()

    def follow(self, view: LogView) -> int:
        """See `Follower.follow`: feed what is published.

        Raises:
            FencedError: Another driver's feeder has taken over. Both send the same rows from the
                same place, so a retry does no harm.
            SluicewayError: The store does not answer, or is unusable.
        """
        try:
            if not self._opened:
                self._ledger.check_held()
                self._place = self._store.open()
                self._kept, self._keep_due = self._place.seq, 0.0
                self._opened = True
            self._go_on(view)
        except BaseException:
            # After any error the store has to say again how far its rows go.
            self._opened = False
            raise
        return self._place.seq

    def _go_on(self, view: LogView) -> None:
        """Feed waiting rows, for a short while."""
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
                self._ledger.check_held()
                # Write the place without rows, too: a start should not read a long log again.
                self._store.keep(self._place)
                self._set_kept(self._place)
        if rows:
            self._log.info("dirty_rows_fed", rows=rows, since=before.seq, through=through)

    def _files(self, view: LogView) -> Iterator[CommittedDirty]:
        """Dirty files of the slots from the place on, as far as they are published.

        Raises:
            LedgerCorruptError: A record is damaged or gone.
        """
        for record in view.records(self._place.seq):
            found = committed_dirty(self._ledger.layout, self._ledger_id, record)
            names = [each.source.file for each in found]
            at = self._place
            done = names.index(at.file) if (record.seq, at.file in names) == (at.seq, True) else 0
            yield from found[done:]

    def _feed_file(self, found: CommittedDirty, view: LogView) -> int:
        at = self._place
        source = found.source
        start = at.row if (at.seq, at.file) == (source.seq, source.file) else 0
        if self._ledger.storage.status(found.path) is None:
            if not self._let_go(found):
                rows = int(found.file.rows) - start
                self._log.warning("dirty_file_gone", path=found.path, rows=rows)
            return 0
        fed = 0
        self._ledger.check_held()
        for rows, place in self._store.feed(found, start):
            self._set_kept(place)
            fed += rows
            if view.over():
                break
        return fed

    def _set_kept(self, place: DirtyPlace) -> None:
        self._place = place
        self._kept, self._keep_due = place.seq, time.monotonic() + _KEEP_WITHIN_S
