"""A table as it was at a slot of its ledger: files with row spans, and where its sources were.

It reads the ledger alone and needs no replaced file. The rows of a partition up to a slot are its
first rows, in whatever files they are now.
"""

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sluiceway.audit.open_table import (
    LedgerPlace,
    OpenLedger,
    find_ledger,
    read_ledger,
    refuse_foreign_log,
    refuse_foreign_table,
)
from sluiceway.errors import (
    NotInThisVersionError,
    RequestRefusedError,
    RowsLetGoError,
    WrongUsageError,
)
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.dirty_limits import prepared_ms
from sluiceway.ledger.driver_term import read_owner
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.places import is_below
from sluiceway.ledger.records import Record
from sluiceway.ledger.row_places import (
    COUNTED_ONLY,
    Arrival,
    FileSpan,
    LetGo,
    PartitionRows,
    RowBook,
    joined,
)
from sluiceway.ledger.sealing import NEVER_CLOSED
from sluiceway.sinks.partition_path import requested_folder
from sluiceway.types.log_key import LogKey

_NO_SLOT = -1

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class PointRequest:
    """The point that is asked for; without fields, the newest one with all files published.

    Attributes:
        slot: The state with this slot's rows; None for no slot.
        at_ms: All that was prepared up to this time by the drivers' clocks, ms since the epoch;
            None for no time.
        ready: An announced time of the table, `dt=20261128/hr=08`: its rows alone, as it was
            announced. Empty for no such limit.
        below: A partition, or a folder above some; empty for the whole table.
    """

    slot: int | None = None
    at_ms: int | None = None
    ready: str = ""
    below: str = ""


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """Where a reader of the topics goes on after the rows.

    Attributes:
        topic: The topic.
        partition: Its log: a number, or `broker/queue`.
        offset: First offset that the rows do not hold.
    """

    topic: str
    partition: LogKey
    offset: int


@dataclass(frozen=True, slots=True)
class ReadPoint:
    """The rows of a table up to a slot.

    Attributes:
        ledger: Uuid of the ledger.
        slot: The last slot that is included; -1 when no row is.
        files: Row spans of today's files, by partition and in row order.
        let_go: Partitions whose rows of then are no longer in the table.
    """

    ledger: str
    slot: int
    files: tuple[FileSpan, ...]
    let_go: tuple[LetGo, ...]


def parse_point(text: str) -> PointRequest:
    """Parse a point: `slot:1204`, or a time such as `2026-11-28T08:00:00Z`.

    Raises:
        WrongUsageError: It is neither.
    """
    kind, colon, number = text.partition(":")
    if kind == "slot" and colon and number.isascii() and number.isdigit():
        return PointRequest(slot=int(number))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise WrongUsageError(
            f"expected a slot as slot:1204, or a time with its zone, got {text[:100]!r}",
            hint="write a time as 2026-11-28T08:00:00Z or 2026-11-28T16:00:00+08:00",
        )
    return PointRequest(at_ms=int(moment.timestamp() * 1000))


def open_rows(config: RouteConfig) -> OpenLedger:
    """Read the ledger of a route to answer for its rows.

    Raises:
        NotInThisVersionError: It is a lake table.
        RequestRefusedError: No driver has ever run for it.
        SluicewayError: As `read_ledger`.
    """
    ledger = read_ledger(rows_place(config))
    _refuse_unused(ledger)
    return ledger


def rows_place(config: RouteConfig) -> LedgerPlace:
    """Where the ledger lies that knows the rows of a route's table.

    Raises:
        NotInThisVersionError: It is a lake table.
        SluicewayError: As `find_ledger`.
    """
    if config.table.lake is not None:
        raise NotInThisVersionError(
            "rows of a lake table are not read by the ledger",
            where=f"{config.table.database}.{config.table.table}",
            hint='Spark reads and streams it by spark.read.format("iceberg")',
        )
    return find_ledger(config)


def _refuse_unused(ledger: OpenLedger) -> None:
    if ledger.fold.first_fence is None:
        raise RequestRefusedError(
            "no driver has ever run for this table",
            where=ledger.log.layout.log,
            hint="`sluiceway run JOB` fills it",
        )


class TableRows:
    """Rows of a table at any point. Reads the log once, then what is new. Used by one thread.

    Args:
        place: The answer of `rows_place`.
        by_slot: Whether rows of different slots get spans of their own, with their places.

    Attributes:
        ledger: Read to its tail.

    Raises:
        RequestRefusedError: No driver has ever run for it.
        SluicewayError: As `read_ledger`.
    """

    def __init__(self, place: LedgerPlace, *, by_slot: bool = False) -> None:
        refuse_foreign_table(place)
        log = LedgerLog(place.storage, place.layout)
        self.ledger = OpenLedger(log, log.begun_fold())
        self._place = place
        self._by_slot = by_slot
        self._book = RowBook(_NO_SLOT if by_slot else COUNTED_ONLY, every_slot=True)
        # Slots of epochs, and up to when they and all before them were prepared.
        self._slots, self._prepared = array("q"), array("q")
        self.read_on()
        refuse_foreign_log(place, self.ledger.fold)
        _refuse_unused(self.ledger)

    def is_of(self, place: LedgerPlace, *, by_slot: bool) -> bool:
        """Whether these are the rows of that table still, reached by the same job file.

        Raises:
            LedgerCorruptError: OWNER is damaged.
            StorageUnavailableError: The store failed.
        """
        ours = self._place.config, self._place.layout, self._by_slot
        if (place.config, place.layout, by_slot) != ours:
            return False
        owner, fence = read_owner(place.storage, place.layout), self.ledger.fold.first_fence
        return owner is not None and fence is not None and owner.ledger == fence.ledger

    def read_on(self) -> None:
        """Take in what was published since.

        Raises:
            LedgerCorruptError: A record cannot be read.
            StorageUnavailableError: The store failed.
        """
        log, fold = self.ledger.log, self.ledger.fold
        # Most records are known to be published soon after they are read, by a later one.
        waiting = deque[tuple[Record, bytes]]()
        for record, raw in log.records(self._book.slot + 1):
            if record.seq >= fold.next_seq:
                fold.apply(record, raw)
            waiting.append((record, raw))
            while waiting and waiting[0][0].seq < fold.published_through:
                self._take_in(waiting.popleft()[0])
        log.refuse_hole(fold)
        for record, _ in log.published(waiting, fold.published_through):
            self._take_in(record)

    def _take_in(self, record: Record) -> None:
        self._book.apply(record)
        at_ms = prepared_ms(record.body)
        if not self._prepared or at_ms > self._prepared[-1]:
            self._slots.append(record.seq)
            self._prepared.append(at_ms)

    def at(self, asked: PointRequest) -> ReadPoint:
        """What the table held at a point.

        Raises:
            RequestRefusedError: The slot is not published, or the time is not announced.
        """
        if asked.ready:
            asked = self._announced(asked.ready)
        book, slot = self._book, self._slot_of(asked)
        below = requested_folder(asked.below)
        held = {
            name: each
            for name, each in book.counts_at(slot).items()
            if not below or is_below(name, below)
        }
        spans, gone = _spans(book, held, slot, by_slot=self._by_slot)
        first = self.ledger.fold.first_fence
        ledger = "" if first is None else first.ledger
        return ReadPoint(ledger, slot, tuple(spans), tuple(gone))

    def _slot_of(self, asked: PointRequest) -> int:
        newest = self._book.slot
        if asked.slot is not None:
            if asked.slot > newest:
                raise RequestRefusedError(
                    f"slot {asked.slot} is not published; the newest that is, is {newest}",
                    where=self.ledger.log.layout.log,
                )
            return asked.slot
        if asked.at_ms is None:
            return newest
        later = bisect_right(self._prepared, asked.at_ms)
        return self._slots[later] - 1 if later < len(self._slots) else newest

    def _announced(self, ready: str) -> PointRequest:
        """A time as its newest READY announced it."""
        name, fold = requested_folder(ready), self.ledger.fold
        closed = fold.closed.get(name)
        slot = fold.sealed.get(name, NEVER_CLOSED) if closed is None else closed.ready_seq
        if slot < 0:
            raise RequestRefusedError(
                "it is not announced as complete",
                where=name,
                hint=f"`sluiceway partitions why JOB {name}` says what it waits for",
            )
        return PointRequest(slot=slot, below=name)

    def ends_at(self, slot: int) -> tuple[SourceEnd, ...]:
        """End offsets of the source partitions at a slot, in order. Reads the log up to there.

        Raises:
            LedgerCorruptError: A record cannot be read.
            StorageUnavailableError: The store failed.
        """
        log, then = self.ledger.log, self.ledger.fold
        if slot + 1 < then.next_seq:
            then = Fold()
            for record, raw in log.records():
                if record.seq > slot:
                    break
                then.apply(record, raw)
        return _ends(then)


def _spans(
    book: RowBook, counts: dict[str, PartitionRows], slot: int, *, by_slot: bool
) -> tuple[list[FileSpan], list[LetGo]]:
    gone: list[LetGo] = []
    found: list[FileSpan] = []
    arrived: dict[str, list[Arrival]] = {}
    if by_slot:
        for each in book.arrivals(_NO_SLOT, slot):
            arrived.setdefault(each.partition, []).append(each)
    for name, count in sorted(counts.items()):
        let_go = book.let_go(name, count.life)
        if let_go is not None:
            gone.append(let_go)
        elif by_slot:
            found += book.spans(each for each in arrived[name] if each.life == count.life)
        else:
            found += book.first_rows(name, count.rows, slot)
    return (found if by_slot else joined(found)), gone


def _ends(fold: Fold) -> tuple[SourceEnd, ...]:
    ends = ((key, state.end) for key, state in fold.sources.items() if not state.retired)
    found = (SourceEnd(topic, partition, end) for (topic, partition), end in ends)
    return tuple(
        sorted(found, key=lambda end: (end.topic, str(type(end.partition)), end.partition))
    )


def rows_let_go(gone: Sequence[LetGo]) -> RowsLetGoError:
    """The error for requested rows that are no longer in the table."""
    names = ", ".join(each.partition for each in gone[:_SHOWN])
    more = f" and {len(gone) - _SHOWN} more" if len(gone) > _SHOWN else ""
    slot = gone[0].slot
    what, who = "let go of", "`partitions forget` or the block `retention` of the job file did"
    if gone[0].corrected:
        what, who = "replaced", "`backfill` did, a recompute or a correction"
    return RowsLetGoError(
        f"rows of {names}{more} are asked for, and slot {slot} has {what} them"
        + (f" ({gone[0].reason})" if gone[0].reason else ""),
        hint=f'{who}; to go on without these rows give option("onCorrection", "skip")',
    ).with_report({"slot": slot}, (f"sluiceway ledger show JOB --from {slot} --limit 1",))
