"""Files that lanes read, by the slots that committed them: dirty files, and files of late rows."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sluiceway.ledger.data_parts import TablePin
from sluiceway.ledger.dirty_sources import DirtySource, LateSource
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import SwapRecord
from sluiceway.ledger.records import EpochRecord, Record


def dirty_sources(ledger: str, record: Record) -> dict[DirtySource, FileRecord]:
    """The dirty files that a record commits, as sources of lanes."""
    return _sources(DirtySource, ledger, record)


def late_sources(ledger: str, record: Record) -> dict[DirtySource, FileRecord]:
    """The files of late rows that a record commits, as sources of lanes."""
    return _sources(LateSource, ledger, record)


def _sources(kind: type[DirtySource], ledger: str, record: Record) -> dict[DirtySource, FileRecord]:
    body, files = record.body, tuple[FileRecord, ...]()
    if isinstance(body, EpochRecord):
        files = body.late_files if kind is LateSource else body.dirty_files
    elif isinstance(body, SwapRecord) and kind is DirtySource:
        files = body.dirty_files
    return {kind(ledger, record.seq, each.final.rpartition("/")[2]): each for each in files}


def records_of(ledger: LedgerLog, sources: Iterable[DirtySource]) -> Iterator[Record]:
    """The records that commit dirty files, rising; slots of one pack are read in one go.

    Raises:
        LedgerCorruptError: A slot or pack holds something else.
        StorageUnavailableError: The store failed.
    """
    seqs = sorted({each.seq for each in sources})
    at = 0
    while at < len(seqs):
        # After a slot that is asked for, others follow soon, or are in the same folder.
        folder = ledger.layout.folder_of(seqs[at])
        last = at
        while last + 1 < len(seqs) and ledger.layout.folder_of(seqs[last + 1]) == folder:
            last += 1
        yield from _records(ledger, seqs[at : last + 1])
        at = last + 1


def _records(ledger: LedgerLog, seqs: list[int]) -> Iterable[Record]:
    """Records of slots of one folder, rising."""
    if not ledger.packs.covers(seqs[0]):
        for seq in seqs:
            slot = ledger.read_slot(seq)
            if slot is not None:
                yield slot[0]
        return
    asked = set(seqs)
    for record, _ in ledger.records(seqs[0]):
        if record.seq in asked:
            yield record
        if record.seq >= seqs[-1]:
            return


@dataclass(frozen=True, slots=True)
class CommittedDirty:
    """A dirty file, or one of late rows, at its final name.

    Attributes:
        source: Its name as a source of lanes.
        record: Record that committed it.
        path: Where it lies; a file that no lane reads again may be gone (`upkeep.dirty_retention`).
    """

    source: DirtySource
    file: FileRecord
    record: Record
    path: str

    @property
    def pins(self) -> tuple[TablePin, ...]:
        """States of the tables that the SQL joined when the rows became dirty."""
        body = self.record.body
        return body.pins if isinstance(body, EpochRecord) else ()


def find_lane_files(
    log: LedgerLog, sources: Iterable[DirtySource]
) -> dict[DirtySource, CommittedDirty]:
    """Find sources in the records of their slots; a source that names no file is left out.

    Raises:
        LedgerCorruptError: A slot or pack holds something else.
        StorageUnavailableError: The store failed.
    """
    wanted = set(sources)
    found: dict[DirtySource, CommittedDirty] = {}
    for record in records_of(log, wanted):
        for ledger in {each.ledger for each in wanted}:
            of_record = committed_for_lanes(log.layout, ledger, record)
            found |= {each.source: each for each in of_record if each.source in wanted}
    return found


def committed_dirty(layout: LedgerLayout, ledger: str, record: Record) -> list[CommittedDirty]:
    """The dirty files that a record commits, in its order.

    Args:
        layout: The route's layout.
        ledger: Its uuid.
        record: A record of any kind.
    """
    return _committed(layout, record, dirty_sources(ledger, record))


def committed_for_lanes(layout: LedgerLayout, ledger: str, record: Record) -> list[CommittedDirty]:
    """As `committed_dirty`, with the files of late rows."""
    late = late_sources(ledger, record)
    return _committed(layout, record, dirty_sources(ledger, record) | late)


def _committed(
    layout: LedgerLayout, record: Record, named: Mapping[DirtySource, FileRecord]
) -> list[CommittedDirty]:
    return [
        CommittedDirty(source, file, record, layout.final(file.final))
        for source, file in named.items()
    ]
