"""Where a copied ledger is cut: the last slot whose live files are all in the copy.

A copier brings objects in any order. So records may be there whose files are not, and files whose
records are not. Nothing here changes the copy.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sluiceway.errors import InvariantError, LedgerCorruptError
from sluiceway.ledger.dirty_files import dirty_sources, late_sources
from sluiceway.ledger.file_names import FileRecord, file_origin
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout, is_number
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import ExpireRecord, ReplaceRecord, SwapRecord
from sluiceway.ledger.places import partition_of
from sluiceway.ledger.placing import all_files
from sluiceway.ledger.records import FilesRecord, Record
from sluiceway.storage.contract import Storage

Sizes = Mapping[str, int]
"""Absolute path -> size in bytes, of all files below a table."""


def list_copy(storage: Storage, layout: LedgerLayout) -> dict[str, int]:
    """All files below the table, staged ones too. Called once a plan, and again to see changes.

    Raises:
        StorageUnavailableError: The store failed.
    """
    found: dict[str, int] = {}
    folders = [layout.table_root]
    while folders:
        for status in storage.list(folders.pop()):
            if status.is_dir:
                folders.append(status.path)
            else:
                found[status.path] = status.size_bytes
    return found


@dataclass(slots=True)
class NeededFiles:
    """Files that readers of the slots so far must find: live ones, and dirty and late rows.

    Attributes:
        named: Final names of all files that a record has named.
    """

    layout: LedgerLayout
    sizes: Sizes
    named: dict[str, FileRecord] = field(default_factory=dict)
    _live: dict[str, dict[str, FileRecord]] = field(default_factory=dict)
    _aside: dict[str, tuple[str, FileRecord]] = field(default_factory=dict)
    _missing: set[str] = field(default_factory=set)

    def apply(self, record: Record, fold: Fold) -> None:
        """Take in a record that the fold has taken in."""
        body = record.body
        if isinstance(body, ReplaceRecord):
            self._drop(body.partition)
        elif isinstance(body, SwapRecord | ExpireRecord):
            for each in body.partitions:
                self._drop(each.partition)
        if not isinstance(body, FilesRecord):
            return
        ledger = "" if fold.first_fence is None else fold.first_fence.ledger
        sources = dirty_sources(ledger, record) | late_sources(ledger, record)
        for source, file in sources.items():
            self._aside[file.final] = (str(source), file)
        for file in all_files(body):
            self.named[file.final] = file
            if file.final not in self._aside:
                partition = partition_of(file.final)
                self._live.setdefault(partition, {})[file.final] = file
            if self.place(file) is None:
                self._missing.add(file.final)

    def _drop(self, partition: str) -> None:
        self._missing -= self._live.pop(partition, {}).keys()

    def is_whole(self, fold: Fold) -> bool:
        """Whether each of the files is there, or no reader needs it any more."""
        for final in sorted(self._missing & self._aside.keys()):
            source, file = self._aside[final]
            if _is_consumed(fold, source, int(file.rows)):
                self._missing.discard(final)
                del self._aside[final]
        return not self._missing

    def live(self) -> Iterator[FileRecord]:
        """The files, in no order."""
        for files in self._live.values():
            yield from files.values()
        yield from (file for _, file in self._aside.values())

    def place(self, file: FileRecord) -> str | None:
        """Where a file lies whole, at its final name or staged; None when it is not there."""
        size = int(file.size_bytes)
        for path in (self.layout.final(file.final), self.layout.attempt(file.staged)):
            if self.sizes.get(path) == size:
                return path
        return None


def _is_consumed(fold: Fold, source: str, rows: int) -> bool:
    """Whether lanes have read all rows of a dirty or late file, so that it may be gone."""
    unfinished = {each.source for lane in fold.lanes.open_lanes() for each in lane.ranges}
    return fold.lanes.taken.get(source) == [(0, rows)] and source not in unfinished


@dataclass(frozen=True, slots=True)
class LedgerCut:
    """Where a copied ledger is cut.

    Attributes:
        chained: Number of slots that follow from each other, from slot 0 on.
        last: State at the end of these.
        kept: State at the cut: `kept.next_seq` is the first slot that goes.
        files: Files of the slots that are kept.
    """

    chained: int
    last: Fold
    kept: Fold
    files: NeededFiles

    @property
    def slots(self) -> int:
        """Number of slots in the copy after the cut, those after a missing one too."""
        log = f"{self.files.layout.logs[-1]}/"
        names = (path.rpartition("/")[2] for path in self.files.sizes if path.startswith(log))
        stems = (name.removesuffix(".json") for name in names)
        return sum(is_number(stem) and int(stem) >= self.kept.next_seq for stem in stems)

    @property
    def to_place(self) -> list[FileRecord]:
        """Live files that came only as staged ones, in name order."""
        layout, files = self.files.layout, self.files
        found = (f for f in files.live() if files.place(f) not in (layout.final(f.final), None))
        return sorted(found, key=lambda file: file.final)

    @property
    def to_move(self) -> list[str]:
        """Files of the route that no kept slot names, or that are torn, in name order."""
        layout, files = self.files.layout, self.files
        apart = (f"{layout.stage}/", f"{layout.root}/cut/")
        found = []
        for path, size in files.sizes.items():
            name = path.rpartition("/")[2]
            if path.startswith(apart) or file_origin(layout.route, name) is None:
                continue
            named = files.named.get(path.removeprefix(f"{layout.table_root}/"))
            if named is None or int(named.size_bytes) != size:
                found.append(path)
        return sorted(found)


def find_cut(log: LedgerLog, sizes: Sizes, at: int | None = None) -> LedgerCut | None:
    """Find the last slot whose live files are all there.

    Args:
        log: The copied log, of the generations before the new one.
        sizes: What `list_copy` has found.
        at: The slot that is to be kept last; None for the last whole slot.

    Returns:
        None when no slot, or not this one, has all its files.

    Raises:
        StorageUnavailableError: The store failed.
    """
    last, files, whole = Fold(), NeededFiles(log.layout, sizes), -1
    for record, raw in _chain(log):
        try:
            last.apply(record, raw)
        except InvariantError:
            break
        files.apply(record, last)
        if (at is None or record.seq == at) and files.is_whole(last):
            whole = record.seq
    if whole < 0:
        return None
    kept, files = Fold(), NeededFiles(log.layout, sizes)
    for record, raw in _chain(log):
        kept.apply(record, raw)
        files.apply(record, kept)
        if record.seq == whole:
            break
    files.is_whole(kept)
    return LedgerCut(last.next_seq, last, kept, files)


def _chain(log: LedgerLog) -> Iterator[tuple[Record, bytes]]:
    """Records from slot 0 up to the first that is missing or torn."""
    records = log.records()
    while True:
        try:
            found = next(records, None)
        except LedgerCorruptError:
            return
        if found is None:
            return
        yield found
