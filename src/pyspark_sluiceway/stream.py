"""A stream over the rows of a table: where it is, what comes next, and its lease."""

from collections.abc import Mapping

from pyspark_sluiceway.options import EARLIEST, LATEST, ReadOptions
from sluiceway.audit.read_point import open_rows, parse_point, rows_let_go
from sluiceway.errors import LedgerMismatchError, WrongUsageError
from sluiceway.ledger.reader_leases import ReaderLeaseKeeper
from sluiceway.ledger.row_places import Arrival, FileSpan, LetGo, RowBook, joined

_NO_SLOT = -1


class RowStream:
    """Rows for one query, in the one process that Spark keeps for it. Used by one thread.

    Spark calls `between` first, with one offset twice, when a query goes on from a checkpoint. A
    new one calls `next_end` and then `first`. Each batch is `next_end`, `commit` of the one before,
    and `between`.

    Args:
        options: Options of the query.

    Attributes:
        config: The route.
        ledger: The ledger; each call reads on.

    Raises:
        SluicewayError: The job file is not valid, or the ledger cannot be read.
    """

    def __init__(self, options: ReadOptions) -> None:
        self.config = options.config()
        self.ledger = open_rows(self.config)
        fence = self.ledger.fold.first_fence
        self._uuid = "" if fence is None else fence.ledger
        self._options = options
        self._book = RowBook()
        self._at: int | None = None
        self._first: int | None = None
        log = self.ledger.log
        name = options.query or f"spark-{self.config.route}"
        self._lease = ReaderLeaseKeeper(log.storage, log.layout, name, self._uuid)
        self._leased = False

    def first(self) -> dict[str, str | int]:
        """Where a new query begins, by the option `start`.

        Raises:
            ReaderNameTakenError: Another live query has this one's name.
            WrongUsageError: The slot to start from is not published.
        """
        if self._first is None:
            self._first = self._start()
            self._be_at(self._first)
        return self._offset(self._first)

    def _start(self) -> int:
        start = self._options.start
        if start == EARLIEST:
            return _NO_SLOT
        self._read_on()
        slot = self._book.slot if start == LATEST else parse_point(start).slot or 0
        if slot > self._book.slot:
            raise WrongUsageError(
                f"option start: slot {slot} is not published; the newest is {self._book.slot}"
            )
        return slot

    def next_end(self) -> dict[str, str | int]:
        """Where the next batch ends: never beyond what is published.

        It is where the stream is as long as no rows have come, whatever else the ledger got. All
        batches before are done when Spark asks.

        Raises:
            ReaderNameTakenError: Another query has taken this one's name.
            LedgerCorruptError: A record cannot be read.
            StorageUnavailableError: The store failed.
        """
        if self._at is None:
            self.first()
        self._lease.check()
        self._read_on()
        at = self._book.slot if self._at is None else self._at
        arrived = self._book.arrivals(at, self._book.slot)
        # Where nothing has come, nothing below the newest slot is needed any more.
        self._done(at if arrived else self._book.slot)
        return self._offset(self._cut(arrived) if arrived else at)

    def _cut(self, arrived: list[Arrival]) -> int:
        """The slot up to which there are as many rows as a batch may have, at least one record."""
        by_slot = dict[int, int]()
        for each in arrived:
            by_slot[each.slot] = by_slot.get(each.slot, 0) + each.rows
        total, last, most = 0, _NO_SLOT, self._options.most_rows
        for slot, rows in by_slot.items():
            if most is not None and total and total + rows > most:
                return last
            total, last = total + rows, slot
        return self._book.slot

    def between(
        self, start: Mapping[str, str | int], end: Mapping[str, str | int]
    ) -> list[FileSpan]:
        """Rows of the slots `(start, end]`, in the files that have them now.

        Raises:
            LedgerMismatchError: An offset is of another ledger, or of a slot that it does not have.
            RowsLetGoError: Some of the rows are not in the table any more.
            ReaderNameTakenError: Another live query has this one's name.
        """
        after, through = self._slot(start), self._slot(end)
        self._be_at(after)
        self._at = through
        if after < self._book.after or self._book.slot < 0:
            self._book = RowBook(after)
        if after == through:
            return []
        self._read_on()
        if self._book.slot < through:
            raise LedgerMismatchError(
                f"the checkpoint is of slot {through}, the ledger ends with slot {self._book.slot}",
                where=self.ledger.log.layout.log,
                hint="was the table put back from a backup? Start the query with a new checkpoint",
            )
        arrived = self._book.arrivals(after, through)
        gone = {
            let_go: None
            for each in arrived
            if (let_go := self._book.let_go(each.partition, each.life)) is not None
        }
        if gone and not self._options.skip:
            raise rows_let_go(list(gone))
        spans = self._book.spans(each for each in arrived if not self._is_gone(each, gone))
        apart = self._options.meta
        return spans if apart else joined(spans, by_slot=self._options.files)

    def commit(self, end: Mapping[str, str | int]) -> None:
        """Everything up to there is done: say so in the lease.

        Raises:
            ReaderNameTakenError: Another query has taken this one's name.
            LedgerMismatchError: The offset is of another ledger.
            StorageUnavailableError: The store failed.
        """
        self._done(self._slot(end))

    def close(self) -> None:
        """Give the lease back. Safe to repeat; never raises."""
        self._lease.release()

    def _done(self, slot: int) -> None:
        self._lease.advance(slot)
        self._book.forget_up_to(min(slot, self._at if self._at is not None else slot))

    def _be_at(self, slot: int) -> None:
        """Take the lease, once, at the place where the stream is."""
        if not self._leased:
            self._lease.start(slot)
            self._leased = True
        if self._at is None:
            self._at = slot

    def _is_gone(self, arrival: Arrival, gone: Mapping[LetGo, None]) -> bool:
        return self._book.let_go(arrival.partition, arrival.life) in gone

    def _read_on(self) -> None:
        """Take in what was published since."""
        log, fold = self.ledger.log, self.ledger.fold
        log.advance(fold)
        records = log.records(self._book.slot + 1)
        for record, _ in log.published(records, fold.published_through):
            self._book.apply(record)

    def _offset(self, slot: int) -> dict[str, str | int]:
        generation = len(self.ledger.fold.adoptions)
        offset: dict[str, str | int] = {"ledger": self._uuid, "slot": slot}
        return {**offset, "generation": generation} if generation else offset

    def _slot(self, offset: Mapping[str, str | int]) -> int:
        if offset.get("ledger") != self._uuid:
            raise LedgerMismatchError(
                f"the checkpoint is of the ledger {offset.get('ledger')}, the table has "
                f"{self._uuid}",
                where=self.ledger.log.layout.log,
                hint="the table was made again: start the query with a new checkpoint and a name "
                "of its own",
            )
        slot, generation = int(offset["slot"]), int(offset.get("generation", 0))
        for each in self.ledger.fold.adoptions[generation:]:
            if slot >= each.seq:
                raise LedgerMismatchError(
                    f"the checkpoint is of slot {slot}, which the adopt of the table by room "
                    f"{each.room} has cut: its rows have come again in other slots",
                    where=self.ledger.log.layout.log,
                    hint="start the query with a new checkpoint and a name of its own, from slot "
                    f"{each.seq - 1} and what it had until then",
                )
        return slot
