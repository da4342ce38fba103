"""Garbage collection of one route: list, decide, remove. For drivers and tools."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from sluiceway.errors import LedgerCorruptError, StorageUnavailableError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.garbage import (
    Decided,
    Decision,
    Epoch,
    EpochFiles,
    NameKind,
    classify,
    decide,
    epochs_to_look_up,
)
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import EpochRecord, FenceRecord, Record
from sluiceway.storage.contract import FileStatus

MAX_NAMES_PER_PASS = 1000

Stopped = Callable[[], bool]
"""Asked between two names: whether to leave the rest to the next pass."""


@dataclass(frozen=True, slots=True)
class GarbagePlace:
    """A decision about a place, with what lies there.

    Attributes:
        path: Absolute.
        files: Files below it; 1 for a file.
        size_bytes: Size of all these files together.
    """

    path: str
    removable: bool
    reason: str
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Collected:
    """What a pass did, or with a dry run would do.

    Attributes:
        removed: Places that are gone now.
        kept: Places that may not go yet.
        failed: Places that could not be removed, and why.
        unseen: Names that a bounded pass left to the next one.
    """

    removed: tuple[GarbagePlace, ...]
    kept: tuple[GarbagePlace, ...]
    failed: tuple[tuple[GarbagePlace, str], ...]
    unseen: int

    @property
    def size_bytes(self) -> int:
        """Bytes removed."""
        return sum(place.size_bytes for place in self.removed)


class GarbageCollector:
    """Removes what the garbage rule lets go. Safe while live, dead and fenced drivers exist.

    Args:
        ledger: The route's log.
        decided: What its log says; an old answer only removes less.
    """

    def __init__(self, ledger: LedgerLog, decided: Decided) -> None:
        self._log = ledger
        self._storage = ledger.storage
        self._layout = ledger.layout
        self._decided = decided

    def survey(self, most: int = MAX_NAMES_PER_PASS) -> tuple[list[GarbagePlace], int]:
        """List everything under stage/, and temporary files next to it, and decide about each.

        Changes nothing.

        Args:
            most: Names to check; the rest is for another pass.

        Returns:
            The places, in name order, and how many names were left out.

        Raises:
            LedgerCorruptError: The log does not hold what it held when it was folded.
            StorageUnavailableError: The store failed; nothing was changed.
        """
        if self._decided.next_seq == 0:
            return [], 0
        found = self._list()
        decided = replace(self._decided, packed=self._packed(found))
        names = _promising(decided, found, most)
        named = self._look_up(epochs_to_look_up(decided, names))
        published = self._published(names, named)
        decisions = decide(decided, names, named, published)
        return [self._place(each, found[each.name]) for each in decisions], len(found) - len(names)

    def collect(
        self,
        *,
        dry_run: bool = False,
        most: int = MAX_NAMES_PER_PASS,
        stopped: Stopped = lambda: False,
    ) -> Collected:
        """Remove what may go. Safe to repeat, to stop anywhere and to run twice at once.

        Raises:
            LedgerCorruptError: As in `survey`.
            StorageUnavailableError: As in `survey`.
        """
        places, unseen = self.survey(most)
        removed, kept, failed = [], [], []
        for place in places:
            if not place.removable:
                kept.append(place)
            elif dry_run:
                removed.append(place)
            elif stopped():
                unseen += 1
            else:
                try:
                    self._storage.remove(place.path)
                except StorageUnavailableError as error:
                    failed.append((place, str(error)))
                else:
                    removed.append(place)
        return Collected(tuple(removed), tuple(kept), tuple(failed), unseen)

    def _list(self) -> dict[str, FileStatus]:
        stage = self._layout.stage
        found = {}
        for status in self._storage.list(stage):
            name = status.path.rpartition("/")[2]
            # Snapshots and the reserve are the driver's to tend.
            if (
                status.path != self._layout.all_results
                and classify(name).kind is not NameKind.UPKEEP
            ):
                found[name] = status
        for status in self._storage.list(self._layout.all_results):
            found[f"results/{status.path.rpartition('/')[2]}"] = status
        beside = [self._storage.list(each) for each in (self._layout.root, self._layout.readers)]
        for status in chain.from_iterable(beside):
            name = f"..{status.path.removeprefix(self._layout.root)}"
            # Of what lies here, advice that was never given is all that can be garbage.
            if classify(name).kind is NameKind.ADVICE_TMP and not status.is_dir:
                found[name] = status
        return found

    def _packed(self, names: Iterable[str]) -> frozenset[int]:
        """Numbers of the log folders that a pack was staged for and that have their pack."""
        staged = {item.folder for item in map(classify, names) if item.kind is NameKind.PACK}
        return frozenset(
            folder
            for folder in staged
            if self._log.packs.covers(self._layout.slots_of(folder).start)
        )

    def _look_up(self, epochs: Iterable[Epoch]) -> dict[Epoch, EpochFiles]:
        found = {}
        for epoch in sorted(epochs):
            record = find_epoch(self._log, self._decided.next_seq, epoch)
            if record is not None and isinstance(record.body, EpochRecord):
                body = record.body
                files = (*body.files, *body.dirty_files, *body.late_files)
                found[epoch] = EpochFiles(record.seq, files)
        return found

    def _published(self, names: Iterable[str], named: Mapping[Epoch, EpochFiles]) -> set[str]:
        """Final names that are there and durable, of the files that these folders are named for."""
        folders = set(names)
        files = [
            file
            for each in named.values()
            for file in each.files
            if file.staged.partition("/")[0] in folders
        ]
        published = {file.final for file in files if self._is_final(file)}
        # A link that is seen may not be durable yet: its publisher is perhaps just before its
        # sync. The staged name must not go first, or a power cut could take both.
        for folder in sorted({final.rpartition("/")[0] for final in published}):
            self._storage.sync_folder(
                self._layout.final(folder) if folder else self._layout.table_root
            )
        return published

    def _is_final(self, file: FileRecord) -> bool:
        status = self._storage.status(self._layout.final(file.final))
        return status is not None and status.size_bytes == file.size_bytes

    def _place(self, decision: Decision, status: FileStatus) -> GarbagePlace:
        files, size_bytes = self._measure(status)
        return GarbagePlace(status.path, decision.removable, decision.reason, files, size_bytes)

    def _measure(self, status: FileStatus) -> tuple[int, int]:
        if not status.is_dir or status.is_link:
            return 1, status.size_bytes
        below = [self._measure(each) for each in self._storage.list(status.path)]
        return sum(files for files, _ in below), sum(size for _, size in below)


def _promising(decided: Decided, found: Iterable[str], most: int) -> list[str]:
    """The names to check, in order; names that may go by now come first."""
    hopes = decide(decided, found, {}, frozenset())
    chosen = sorted((not hope.removable, hope.name) for hope in hopes)[:most]
    return sorted(name for _, name in chosen)


def garbage_of(ledger: LedgerLog, fold: Fold) -> GarbageCollector:
    """A collector that decides by this fold."""
    return GarbageCollector(ledger, Decided.of(fold))


def find_epoch(ledger: LedgerLog, next_seq: int, epoch: Epoch) -> Record | None:
    """The DATA record of a term's epoch, by bisection: terms rise, and epochs within a term.

    Args:
        ledger: The log.
        next_seq: First slot that is not searched.
        epoch: Epoch of a term whose FENCE is below `next_seq`.

    Raises:
        LedgerCorruptError: A slot below `next_seq` is empty.
        StorageUnavailableError: The store failed.
    """
    low, high = 0, next_seq
    while low < high:
        middle = (low + high) // 2
        at = middle
        record = _slot(ledger, at)
        # FENCE begins a term; other records have no epoch and stand where the one before does.
        while at > low and not isinstance(record.body, EpochRecord | FenceRecord):
            at -= 1
            record = _slot(ledger, at)
        body = record.body
        here = (record.term, body.epoch if isinstance(body, EpochRecord) else -1)
        if isinstance(body, EpochRecord) and here == epoch:
            return record
        if here < epoch:
            low = middle + 1
        else:
            high = at
    return None


def _slot(ledger: LedgerLog, seq: int) -> Record:
    found = ledger.read_slot(seq)
    if found is None:
        raise LedgerCorruptError(
            f"slot {seq} was there and is gone", where=ledger.layout.record(seq)
        )
    return found[0]
