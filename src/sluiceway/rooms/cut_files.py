"""Files of cut slots that a copier brings after all: moved aside before readers count on a folder.

An operator has confirmed that the copier is stopped. When it was not, its files would double rows
that were read from the queue again.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from sluiceway.ledger.file_names import file_origin
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import Adoption
from sluiceway.ledger.follower import PIECE_S, Follower, LogView
from sluiceway.ledger.generations import TERMS
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.records import table_files
from sluiceway.observe import metrics
from sluiceway.observe.figures import Figures
from sluiceway.observe.log import Log
from sluiceway.rooms.adopt_table import move_aside
from sluiceway.storage.contract import Storage

ALL_EVERY_S: Final = 600.0
"""How often all folders are listed, those without new rows too."""


class CutFiles(Follower):
    """Lists each folder that a commit has touched, and from time to time all of them.

    Announcements wait for its place, so no hour is announced with such a file.

    Args:
        adoptions: Generations of the log, at least one.
        storage: The table's store.
        layout: The ledger's layout.
        check_held: Called before each move; raises when another driver has taken over.
        log: Bound to the route.
        figures: Counts the files.
    """

    name = "cut_files"

    def __init__(
        self,
        adoptions: tuple[Adoption, ...],
        storage: Storage,
        layout: LedgerLayout,
        check_held: Callable[[], None],
        log: Log,
        figures: Figures,
    ) -> None:
        self._adoptions = adoptions
        self._storage = storage
        self._layout = layout
        self._check_held = check_held
        self._log = log
        self._figures = figures
        self._place = 0
        self._due = float("-inf")
        self._folders: set[str] = set()
        self._left: deque[str] = deque()

    def place(self) -> int:
        """See `Follower.place`."""
        return self._place

    def update(self, fold: Fold, since: int, *, again: bool = False) -> None:
        """See `Follower.update`."""
        del since
        if again:
            self._place, self._due = fold.published_through, float("-inf")
            self._folders = {state.location for state in fold.partitions.values()} or {""}
            self._folders.add(self._layout.dirty_relative("").rstrip("/"))

    def follow(self, view: LogView) -> int:
        """See `Follower.follow`.

        Raises:
            FencedError: Another driver has taken over.
            LedgerCorruptError: A record is damaged or gone.
            StorageUnavailableError: The store failed.
        """
        until = time.monotonic() + PIECE_S
        files = (file for each in view.records(self._place) for file in table_files(each.body))
        touched = {file.final.rpartition("/")[0] for file in files}
        self._sweep(touched)
        self._folders |= touched
        self._place = view.through
        # Not by what `update` brings: a topic without new rows brings nothing.
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + ALL_EVERY_S
            self._left = deque(sorted(self._folders))
        while self._left and time.monotonic() < until and not view.over():
            self._sweep((self._left[0],))
            self._left.popleft()
        return self._place

    def rest_s(self) -> float | None:
        """See `Follower.rest_s`."""
        return 0.0 if self._left else max(0.0, self._due - time.monotonic())

    def _sweep(self, folders: Iterable[str]) -> None:
        for folder in folders:
            for status in self._storage.list(self._layout.final(folder).rstrip("/")):
                generation = None if status.is_dir else self._cut_by(status.path)
                if generation is not None:
                    self._check_held()
                    move_aside(self._storage, self._layout, status.path, generation)
                    hint = "stop the copier: rows of these files were read again here"
                    self._figures.add(metrics.CUT_FILES_MOVED, 1)
                    self._log.warning("cut_file_moved", path=status.path, hint=hint)

    def _cut_by(self, path: str) -> int | None:
        """The generation that has cut the epoch of a file; None for a file that is kept."""
        found = file_origin(self._layout.route, path.rpartition("/")[2])
        if found is None:
            return None
        for each in self._adoptions:
            record = each.record
            kept = (found.term, found.epoch) <= (record.kept_term, record.kept_epoch)
            if found.term < record.generation * TERMS and not kept:
                return record.generation
        return None
