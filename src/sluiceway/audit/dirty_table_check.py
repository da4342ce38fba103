"""Does the table of dirty rows hold each dirty file of a ledger once?"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sluiceway.errors import SluicewayError
from sluiceway.followers.dirty_feed import DirtyPlace
from sluiceway.followers.dirty_table import DirtyTable, day_of
from sluiceway.ledger.dirty_files import CommittedDirty, committed_dirty
from sluiceway.ledger.dirty_sources import DirtySource
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.lane_records import PURGE, LaneDataRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.records import Record
from sluiceway.storage.contract import Storage
from sluiceway.storage.copying import stream_crc32c


@dataclass(slots=True)
class NotedDirty:
    """One dirty file.

    Attributes:
        consumed: Rows that lanes have read once more or given up, and `purged` those given up.
    """

    committed: CommittedDirty
    consumed: int = 0
    purged: int = 0

    def may_be_gone(self, *, expires: bool) -> bool:
        """Whether no reader can ask for a row of it again, so that the driver removes the file.

        Args:
            expires: Whether dirty rows are kept for a limited time: then files of replayed rows go
                too.
        """
        whole = self.consumed == int(self.committed.file.rows)
        return whole and (self.purged > 0 or expires)


@dataclass(slots=True)
class DirtyFold:
    """Folds a ledger's records, in their order."""

    layout: LedgerLayout
    files: dict[str, NotedDirty] = field(default_factory=dict)

    def apply(self, fold: Fold, record: Record) -> None:
        """Fold one record, after `fold` has folded it."""
        first, body = fold.first_fence, record.body
        if first is None:
            return
        for found in committed_dirty(self.layout, first.ledger, record):
            self.files[str(found.source)] = NotedDirty(found)
        if isinstance(body, LaneDataRecord):
            gives_up = fold.lanes.lanes[body.lane].kind == PURGE
            for span in body.ranges:
                noted = self.files.get(span.source)
                if noted is not None:
                    noted.consumed += int(span.end - span.start)
                    noted.purged += int(span.end - span.start) * gives_up


Found = tuple[str, str, str]
"""Kind, place and message; an empty kind marks what could not be compared."""


def dirty_table_problems(
    table: DirtyTable, storage: Storage, files: Iterable[NotedDirty], *, deep: bool
) -> Iterator[Found]:
    """Compare a route's dirty files with their copies. Changes nothing; closes the table.

    A day that readers do not see was dropped from the table, with all files in it.

    Args:
        table: Where the copies are.
        storage: Where the dirty files are.
        files: In the order of the log.
        deep: Compare the checksums of the copies too.
    """
    try:
        if not table.find():
            yield "", str(table), "the table of dirty rows is not there yet"
            return
        yield from _problems(table, storage, list(files), deep=deep)
    except SluicewayError as error:
        # The files at the ledger are the truth, and they were checked before.
        yield "", str(table), f"the table of dirty rows: {error}"
    finally:
        table.close()


def _problems(
    table: DirtyTable, storage: Storage, files: list[NotedDirty], *, deep: bool
) -> Iterator[Found]:
    # Read before the copies: files that are copied from now on count as not yet fed.
    fed = table.place()
    there = [each for each in files if storage.status(each.committed.path) is not None]
    by_day: dict[str, list[NotedDirty]] = {}
    for each in there:
        committed = each.committed
        by_day.setdefault(day_of(committed.record, storage, committed.path), []).append(each)
    shown = table.days(sorted(by_day))
    late = _behind(fed, files)
    named: set[str] = set()
    waiting = 0
    for day, found in by_day.items():
        for each in found:
            copy = table.copy_of(each.committed.file, day)
            named.add(copy)
            if each.committed.source in late:
                waiting += 1
            elif day in shown:
                yield from _differences(table.storage, each, copy, deep=deep)
    if waiting:
        yield "", str(table), f"{waiting} dirty files after its place: they may not be in it yet"
    ours = {copy.rpartition("/")[2] for copy in named}
    for day in sorted(shown):
        for status in table.storage.list(table.folder(day)):
            if status.path not in named and status.path.rpartition("/")[2] in ours:
                yield "file_twice", status.path, "is a copy of a dirty file that lies elsewhere"


def _behind(fed: DirtyPlace, files: Iterable[NotedDirty]) -> set[DirtySource]:
    """The files that are not fed yet."""
    sources = [each.committed.source for each in files]
    names = [source.file for source in sources if source.seq == fed.seq]
    done = set(names[: names.index(fed.file) + 1] if fed.file in names else ())
    return {
        source
        for source in sources
        if source.seq > fed.seq or (source.seq == fed.seq and source.file not in done)
    }


def _differences(storage: Storage, noted: NotedDirty, copy: str, *, deep: bool) -> Iterator[Found]:
    file = noted.committed.file
    status = storage.status(copy)
    if status is None:
        yield "file_missing", copy, f"the copy of a dirty file of {file.rows} rows is gone"
    elif status.size_bytes != file.size_bytes:
        size = f"has {status.size_bytes} bytes, committed {file.size_bytes}"
        yield "file_changed", copy, size
    elif deep:
        with storage.open_read(copy) as stream:
            found = stream_crc32c(stream)
        if found != file.crc32c:
            yield "file_changed", copy, f"has crc32c {found}, committed {file.crc32c}"
