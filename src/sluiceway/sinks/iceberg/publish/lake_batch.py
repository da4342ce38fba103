"""Which slots go into the table next, as one snapshot (none left out, in their order)."""

from collections.abc import Callable
from dataclasses import dataclass, field

from sluiceway.errors import InvariantError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.follower import LogView
from sluiceway.ledger.lane_records import LaneDataRecord
from sluiceway.ledger.partition_records import (
    ExpireRecord,
    ReadyRecord,
    ReplaceRecord,
    SwapRecord,
)
from sluiceway.ledger.records import DataRecord, Record
from sluiceway.types.log_key import SourceKey

MOST_FILES = 5_000
MOST_SLOTS = 1_000


@dataclass(slots=True)
class LakeBatch:
    """Slots `first` .. `last`, and what they bring.

    Attributes:
        last: -1 when there is no slot at all.
        files: Clean files with the slot of each.
        rows: Rows of the files.
        ends: Offsets up to which they were read, by topic and partition.
        watermark_us: Watermark of the last record that has one; None without such a record.
        ready: Prefixes that were announced, with the READY's version.
        swap: The SWAP in slot `last`, whose files are the only ones; None in most batches.
        more: Whether slots are left for the next batch.
    """

    first: int
    last: int = -1
    files: list[tuple[int, FileRecord]] = field(default_factory=list)
    rows: int = 0
    ends: dict[SourceKey, int] = field(default_factory=dict)
    watermark_us: int | None = None
    ready: list[tuple[str, int]] = field(default_factory=list)
    swap: SwapRecord | None = None
    more: bool = False

    @property
    def is_due(self) -> bool:
        """Whether there is anything to publish: rows, or an announcement."""
        return bool(self.files or self.ready or self.swap)

    def add(self, record: Record) -> None:
        """Take in the record of the next slot.

        Raises:
            InvariantError: A lake table's ledger never has such a record.
        """
        self.last = record.seq
        match record.body:
            case DataRecord() as body:
                self.files.extend((record.seq, file) for file in body.files)
                self.rows += sum(int(file.rows) for file in body.files)
                for span in body.ranges:
                    self.ends[span.topic, span.partition] = int(span.end)
                if body.watermark is not None and body.watermark.us is not None:
                    self.watermark_us = int(body.watermark.us)
            case LaneDataRecord() as body:
                self.files.extend((record.seq, file) for file in body.files)
                self.rows += sum(int(file.rows) for file in body.files)
            case ReadyRecord() as body:
                self.ready.append((body.prefix, body.version))
            case SwapRecord() as body:
                self.swap = body
                self.files.extend((record.seq, file) for file in body.live)
                self.rows += int(body.rows_after)
            case ReplaceRecord() | ExpireRecord():
                raise InvariantError(
                    f"slot {record.seq} moves or drops a partition, which no lake table has"
                )
            case _:
                return


def next_batch(
    view: LogView,
    first: int,
    over: Callable[[], bool],
    *,
    clear: int = 0,
    most_rows: int | None = None,
) -> LakeBatch:
    """The records from slot `first` on, as many as one snapshot should bring.

    A SWAP has a snapshot of its own: it removes what was there before.

    Args:
        view: The log as it may be followed now.
        first: First slot that the table does not have.
        over: Whether to end early with what there is.
        clear: Slots below it are known to bring nothing; they are in the batch, and not read.
        most_rows: No further slot is taken when there are as many; None bounds nothing.

    Raises:
        LedgerCorruptError: A record is damaged or gone.
        StorageUnavailableError: The store failed.
    """
    batch, begin = LakeBatch(first), max(first, clear)
    for record in view.records(begin):
        if isinstance(record.body, SwapRecord) and batch.is_due:
            batch.more = True
            break
        batch.add(record)
        full = (
            batch.swap is not None
            or len(batch.files) >= MOST_FILES
            or batch.last - begin + 1 >= MOST_SLOTS
        )
        full = full or (most_rows is not None and batch.rows >= most_rows)
        if full or (over() and batch.files):
            batch.more = batch.last + 1 < view.through
            break
    return batch
