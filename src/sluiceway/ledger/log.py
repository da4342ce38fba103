"""Reading the log: slots, tail, fold."""

from collections.abc import Iterator

from sluiceway.errors import LedgerCorruptError
from sluiceway.ledger.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.records import Record, decode_record
from sluiceway.storage.contract import Storage


class LedgerLog:
    """Read side of one route's log. Stateless; used by drivers and tools alike."""

    def __init__(self, storage: Storage, layout: LedgerLayout) -> None:
        self.storage = storage
        self.layout = layout

    def read_slot(self, seq: int) -> tuple[Record, bytes] | None:
        """The record of a slot and its bytes; None when the slot is empty.

        Raises:
            LedgerCorruptError: The slot holds something else.
            StorageUnavailableError: The store failed.
        """
        path = self.layout.record(seq)
        raw = self.storage.read(path)
        if raw is None:
            return None
        record = decode_record(raw, path)
        if record.seq != seq:
            raise LedgerCorruptError(
                f"slot {seq} holds the record of slot {record.seq}", where=path
            )
        return record, raw

    def records(self, start: int = 0) -> Iterator[tuple[Record, bytes]]:
        """Records from slot `start` up to the first empty slot."""
        seq = start
        while (found := self.read_slot(seq)) is not None:
            yield found
            seq += 1

    def fold(self) -> Fold:
        """Fold of the whole log; empty when there is none. Called once at a driver's start.

        Raises:
            LedgerCorruptError: A slot below the tail is missing or bad.
            InvariantError: The records contradict each other.
            StorageUnavailableError: The store failed.
        """
        fold = Fold()
        self.advance(fold)
        self.refuse_hole(fold)
        return fold

    def advance(self, fold: Fold) -> list[Record]:
        """Take in every record from the fold's next slot to the tail.

        Returns:
            The records taken in, in slot order.
        """
        taken = []
        for record, raw in self.records(fold.next_seq):
            fold.apply(record, raw)
            taken.append(record)
        return taken

    def refuse_hole(self, fold: Fold) -> None:
        """A listing decides nothing, but a slot above the tail proves that one below is gone.

        Raises:
            LedgerCorruptError: Such a slot exists.
        """
        folders = [status for status in self.storage.list(self.layout.log) if status.is_dir]
        names = [
            status.path.rpartition("/")[2].removesuffix(".json")
            for folder in folders
            for status in self.storage.list(folder.path)
        ]
        above = [int(name) for name in names if name.isdecimal() and int(name) > fold.next_seq]
        # The slot at the tail itself may have been filled after the fold was made.
        if above and self.read_slot(fold.next_seq) is None:
            raise LedgerCorruptError(
                f"slot {fold.next_seq} is missing below slot {max(above)}",
                where=self.layout.record(fold.next_seq),
                hint="restore the record from a backup; never renumber the log",
            )
