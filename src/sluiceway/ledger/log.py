"""Reading the log: slots and packs, tail, fold."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from sluiceway.errors import LedgerCorruptError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.generations import Generation, read_generations
from sluiceway.ledger.layout import LedgerLayout, is_number
from sluiceway.ledger.packs import Packs
from sluiceway.ledger.records import Record, decode_record, table_files
from sluiceway.ledger.snapshot import load_snapshot, read_hint
from sluiceway.storage.contract import Storage


def _nobody_holds() -> None:
    """Check of a log that no driver has fenced here: always passes."""


class LedgerLog:
    """Read side of one route's log; used by drivers and tools alike.

    Args:
        storage: The ledger's storage.
        layout: The ledger's layout.
        generations: Generations that are read; None looks for all, in the first call that reads.

    Attributes:
        layout: The ledger's; once the log was read, it knows where each generation begins.
        packs: The log's packs.
        check_held: Asked before anything outside is changed by what the log says, see
            `DriverTerm.check`. Readers and tools hold nothing: theirs lets all pass.
    """

    def __init__(
        self,
        storage: Storage,
        layout: LedgerLayout,
        generations: tuple[Generation, ...] | None = None,
    ) -> None:
        self.storage = storage
        self.layout = layout
        self.packs = Packs(storage, layout)
        self.check_held: Callable[[], None] = _nobody_holds
        self._generations: tuple[Generation, ...] | None = None
        if generations is not None:
            self._follow(generations)

    def generations(self) -> tuple[Generation, ...]:
        """Generations that were claimed when the log was first read, in order.

        Raises:
            LedgerCorruptError: A claim is damaged.
            StorageUnavailableError: The store failed.
        """
        if self._generations is None:
            return self._follow(read_generations(self.storage, self.layout))
        return self._generations

    def _follow(self, found: tuple[Generation, ...]) -> tuple[Generation, ...]:
        self._generations = found
        if found:
            self.layout = replace(self.layout, cuts=tuple(each.kept_slot for each in found))
            self.packs = Packs(self.storage, self.layout)
        return found

    def read_slot(self, seq: int) -> tuple[Record, bytes] | None:
        """The record of a slot and its bytes; None when the slot is empty.

        Raises:
            LedgerCorruptError: The slot holds something else.
            StorageUnavailableError: The store failed.
        """
        raw = self.read_bytes(seq)
        return None if raw is None else (self._decoded(raw, seq), raw)

    def read_bytes(self, seq: int) -> bytes | None:
        """Stored bytes of a slot; None when it is empty.

        Raises:
            LedgerCorruptError: The slot is in a pack that is damaged.
            StorageUnavailableError: The store failed.
        """
        self.generations()
        raw = self.storage.read(self.layout.record(seq))
        # Asked after the slot was read. A pack is there before the first of its slots is emptied,
        # so a slot that was read while there was none held what was decided.
        return next(self.packs.lines(seq), None) if self.packs.covers(seq) else raw

    def records(self, start: int = 0) -> Iterator[tuple[Record, bytes]]:
        """Records from slot `start` up to the first empty slot.

        Raises:
            LedgerCorruptError: A slot or pack holds something else.
            StorageUnavailableError: The store failed.
        """
        self.generations()
        seq = start
        while True:
            if self.packs.covers(seq):
                for raw in self.packs.lines(seq):
                    yield self._decoded(raw, seq), raw
                    seq += 1
            elif (found := self.read_slot(seq)) is not None:
                yield found
                seq += 1
            else:
                return

    def published(
        self, records: Iterable[tuple[Record, bytes]], through: int
    ) -> Iterator[tuple[Record, bytes]]:
        """Of records in order, those up to the first one whose files are not all in the table.

        Args:
            records: Records and their bytes, as `records` gives them.
            through: Slot below which all files are in the table (`published_through`).

        Raises:
            StorageUnavailableError: The store failed.
        """
        for record, raw in records:
            if record.seq >= through and not self._has_files(record):
                return
            yield record, raw

    def _has_files(self, record: Record) -> bool:
        """Whether the files that a record adds are all at their final names."""
        places = (self.layout.final(file.final) for file in table_files(record.body))
        return all(self.storage.status(place) is not None for place in places)

    def _decoded(self, raw: bytes, seq: int) -> Record:
        path = self.layout.record(seq)
        record = decode_record(raw, path)
        if record.seq != seq:
            raise LedgerCorruptError(
                f"slot {seq} holds the record of slot {record.seq}", where=path
            )
        return record

    def fold(self) -> Fold:
        """Fold of the log, from its newest SNAPSHOT where there is one; empty without a log.

        Called once at a driver's start. What lies below the SNAPSHOT is not read: `verify` does.

        Raises:
            LedgerCorruptError: A slot that was read, or the one at the tail, is missing or bad.
            InvariantError: The records contradict each other.
            StorageUnavailableError: The store failed.
        """
        fold = self.begun_fold()
        self.advance(fold)
        self.refuse_hole(fold)
        return fold

    def begun_fold(self) -> Fold:
        """The fold of the SNAPSHOT that the hint names, if all of it is there; else an empty one.

        Raises:
            StorageUnavailableError: The store failed.
        """
        seq = read_hint(self.storage, self.layout)
        try:
            found = None if seq is None else self.read_slot(seq)
        except LedgerCorruptError:
            # The hint is advice; reading from slot 0 says what is wrong, if anything is.
            return Fold()
        read = None if found is None else load_snapshot(self.storage, self.layout, found[0])
        return read or Fold()

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
        tail = self.layout.folder_of(fold.next_seq)
        # Above a cut, older generations have slots that mean nothing any more.
        newest = self.layout.log_of(len(self.generations()))
        folders = [
            status.path
            for status in self.storage.list(newest)
            if is_number(name := status.path.rpartition("/")[2]) and int(name) >= tail
        ]
        names = [
            status.path.rpartition("/")[2].removesuffix(".json")
            for folder in folders
            for status in self.storage.list(folder)
        ]
        above = [int(name) for name in names if is_number(name) and int(name) > fold.next_seq]
        # The slot at the tail itself may have been filled after the fold was made.
        if above and self.read_slot(fold.next_seq) is None:
            raise LedgerCorruptError(
                f"slot {fold.next_seq} is missing below slot {max(above)}",
                where=self.layout.record(fold.next_seq),
                hint="restore the record from a backup; never renumber the log",
            )
