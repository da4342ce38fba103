"""A table as it was at a slot of its ledger: files with row spans, and where its sources were.

It reads the ledger alone and needs no replaced file. The rows of a partition up to a slot are its
first rows, in whatever files they are now.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sluiceway.audit.open_table import OpenLedger, find_ledger, read_ledger
from sluiceway.errors import (
    NotInThisVersionError,
    RequestRefusedError,
    RowsLetGoError,
    WrongUsageError,
)
from sluiceway.jobfile.compile.config import RouteConfig
from sluiceway.jobfile.compile.dirty_limits import prepared_ms
from sluiceway.ledger.folding.fold import Fold
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
        ends: End offsets of the source partitions that were read then, in order.
        let_go: Partitions whose rows of then are no longer in the table.
    """

    ledger: str
    slot: int
    files: tuple[FileSpan, ...]
    ends: tuple[SourceEnd, ...]
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
    if config.table.lake is not None:
        raise NotInThisVersionError(
            "rows of a lake table are not read by the ledger",
            where=f"{config.table.database}.{config.table.table}",
            hint='Spark reads and streams it by spark.read.format("iceberg")',
        )
    ledger = read_ledger(find_ledger(config))
    if ledger.fold.first_fence is None:
        raise RequestRefusedError(
            "no driver has ever run for this table",
            where=ledger.log.layout.log,
            hint="`sluiceway run JOB` fills it",
        )
    return ledger


def read_point(ledger: OpenLedger, asked: PointRequest, *, by_slot: bool = False) -> ReadPoint:
    """What a table held at a point. Reads the whole log once.

    Args:
        ledger: The answer of `open_rows`.
        asked: Which point.
        by_slot: Whether rows of different slots get spans of their own, with their places.

    Raises:
        RequestRefusedError: The slot is not published, or the time is not announced.
        LedgerCorruptError: A record cannot be read.
        StorageUnavailableError: The store failed.
    """
    if asked.ready:
        return _ready_point(ledger, asked.ready, by_slot=by_slot)
    book = RowBook(_NO_SLOT if by_slot else COUNTED_ONLY)
    then = Fold()
    counts: dict[str, PartitionRows] | None = None
    slot = _NO_SLOT
    records = ledger.log.published(ledger.log.records(), ledger.fold.published_through)
    for record, raw in records:
        if counts is None and _is_later(record, asked):
            counts, slot = book.counts(), book.slot
        if counts is None:
            then.apply(record, raw)
        book.apply(record)
    if asked.slot is not None and asked.slot > book.slot:
        raise RequestRefusedError(
            f"slot {asked.slot} is not published; the newest that is, is {book.slot}",
            where=ledger.log.layout.log,
        )
    if counts is None:
        counts, slot = book.counts(), book.slot
    below = requested_folder(asked.below)
    held = {name: each for name, each in counts.items() if not below or is_below(name, below)}
    spans, gone = _spans(book, held, slot, by_slot=by_slot)
    first = ledger.fold.first_fence
    return ReadPoint(
        ledger="" if first is None else first.ledger,
        slot=slot,
        files=tuple(spans),
        ends=_ends(then),
        let_go=tuple(gone),
    )


def _is_later(record: Record, asked: PointRequest) -> bool:
    if asked.slot is not None:
        return record.seq > asked.slot
    return asked.at_ms is not None and prepared_ms(record.body) > asked.at_ms


def _ready_point(ledger: OpenLedger, ready: str, *, by_slot: bool) -> ReadPoint:
    """A time as its newest READY announced it."""
    name = requested_folder(ready)
    closed = ledger.fold.closed.get(name)
    slot = ledger.fold.sealed.get(name, NEVER_CLOSED) if closed is None else closed.ready_seq
    if slot < 0:
        raise RequestRefusedError(
            "it is not announced as complete",
            where=name,
            hint=f"`sluiceway partitions why JOB {name}` says what it waits for",
        )
    return read_point(ledger, PointRequest(slot=slot, below=name), by_slot=by_slot)


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
