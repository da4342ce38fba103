"""The ledger of a table that is read: row places, published slots, what is complete."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from sluiceway.errors import SourceUnavailableError, TableMismatchError
from sluiceway.ledger.driver_term import Owner, read_owner
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import ReadyRecord, SwapRecord
from sluiceway.ledger.places import is_below, partition_of
from sluiceway.ledger.records import DataRecord, EpochRecord, Record
from sluiceway.ledger.row_places import RowBook
from sluiceway.sources.contract import (
    TABLE_TOPIC,
    Correction,
    DiscoveredPartition,
    HandOver,
    Inheritance,
    InheritedReady,
    SourceIdentity,
    SourcePartition,
)
from sluiceway.storage.access import Stores
from sluiceway.storage.contract import Storage
from sluiceway.storage.locations import normalise_location
from sluiceway.storage.registry import open_storage

_PREPARED_AT = "prepared_at"


@dataclass(frozen=True, slots=True)
class _Step:
    """A DATA record of the table.

    Attributes:
        slot: Its slot.
        end: Place after its last row.
        at_ms: When it was prepared, by its driver's clock; 0 unknown.
        watermark_us: Watermark of the upstream route at that record, in microseconds; None before
            the first.
    """

    slot: int
    end: int
    at_ms: int
    watermark_us: int | None


class UpstreamLedger:
    """What is published of a table, read on again and again. Used by one thread at a time.

    Args:
        root: Where the table lies.
        stores: How its store is reached.
        book: Rows and files of the table so far.
        also: Called with each record that is taken in; None calls nothing.

    Attributes:
        ledger: Uuid of the ledger.
        route: Name of the route that fills the table.

    Raises:
        SourceUnavailableError: No driver has ever run for it.
        StorageUnavailableError: The store failed.
    """

    def __init__(
        self,
        root: str,
        stores: Stores,
        book: RowBook,
        also: Callable[[Record], None] | None = None,
    ) -> None:
        self.storage, place = open_storage(normalise_location(root), stores)
        owner = upstream_owner(self.storage, place)
        self.ledger, self.route = owner.ledger, owner.route
        self.layout = LedgerLayout(place, owner.route)
        self.book = book
        self._also = also
        self._log = LedgerLog(self.storage, self.layout)
        self._published = 0
        self._watermark_us: int | None = None
        self._steps: list[_Step] = []
        self._ready: list[InheritedReady] = []
        self._swaps: dict[str, int] = {}

    @property
    def end(self) -> int:
        """Place of the next row."""
        return self.book.rows

    def read_on(self, through: int | None = None) -> None:
        """Take in what was published since.

        Args:
            through: Last slot to take in; None for all.

        Raises:
            LedgerCorruptError: A record cannot be read.
            StorageUnavailableError: The store failed.
        """
        records = list(self._log.records(self.book.slot + 1))
        ends = (record.published_through for record, _ in records)
        self._published = max([self._published, *ends])
        for record, _ in self._log.published(records, self._published):
            if through is not None and record.seq > through:
                return
            self._apply(record)

    def read_through(self, slot: int) -> None:
        """Take in all up to a slot that the table is known to have.

        Raises:
            LedgerCorruptError: A record cannot be read.
            StorageUnavailableError: The store failed.
        """
        self._published = max(self._published, slot + 1)
        self.read_on(slot)

    def is_same(self) -> bool:
        """Whether the table is still the one whose ledger was read."""
        return upstream_owner(self.storage, self.layout.table_root).ledger == self.ledger

    def _apply(self, record: Record) -> None:
        body = record.body
        if self._also is not None:
            self._also(record)
        self.book.apply(record)
        if isinstance(body, ReadyRecord):
            self._ready.append(
                InheritedReady(self.ledger, body.prefix, body.version, record.seq, self.end)
            )
        if isinstance(body, SwapRecord):
            self._swaps[body.prefix] = record.seq
        if not isinstance(body, EpochRecord):
            return
        if isinstance(body, DataRecord) and body.watermark is not None:
            us = body.watermark.us
            self._watermark_us = self._watermark_us if us is None else int(us)
        at_ms = body.timings_ms.get(_PREPARED_AT, 0)
        self._steps.append(_Step(record.seq, self.end, at_ms, self._watermark_us))

    def slot_before(self, place: int) -> int:
        """The last slot whose rows lie before a place, all of them; -1 for none."""
        at = bisect_right(self._steps, place, key=lambda step: step.end)
        return self._steps[at - 1].slot if at else -1

    def slot_through(self, place: int) -> int:
        """The last published slot with no row at or after a place in it, or before it."""
        at = bisect_right(self._steps, place, key=lambda step: step.end)
        return self._steps[at].slot - 1 if at < len(self._steps) else self.book.slot

    def partly_read(self, place: int) -> tuple[str, ...]:
        """Partitions with rows before a place in a slot that goes on there.

        No slot has exactly the rows of them that lie before the place.

        Raises:
            LedgerCorruptError: The record cannot be read.
            StorageUnavailableError: The store failed.
        """
        at = bisect_right(self._steps, place, key=lambda step: step.end)
        left = place - (self._steps[at - 1].end if at else 0)
        goes_on = left and at < len(self._steps)
        found = self._log.read_slot(self._steps[at].slot) if goes_on else None
        names = []
        if found is not None and isinstance(found[0].body, EpochRecord):
            for file in found[0].body.files:
                if left > 0:
                    names.append(partition_of(file.final))
                left -= int(file.rows)
        return tuple(names)

    def corrections(self, start: int, place: int) -> tuple[Correction, ...]:
        """Prefixes whose rows were replaced after the slot of a place and before another one.

        Where a slot was read in part, its partitions wait for the other rows of the slot.
        """
        as_of, begun = self.slot_through(place), self.slot_before(start)
        due = {prefix: slot for prefix, slot in self._swaps.items() if begun < slot <= as_of}
        waiting = self.partly_read(place) if due else ()
        return tuple(
            Correction(self.ledger, prefix, slot, as_of)
            for prefix, slot in sorted(due.items())
            if not any(is_below(name, prefix) for name in waiting)
        )

    def place_at(self, timestamp_ms: int) -> int:
        """Place of the first row of an epoch that was prepared then or later."""
        before = 0
        for step in self._steps:
            if step.at_ms >= timestamp_ms:
                return before
            before = step.end
        return self.end

    def hand_over(self, place: int, within_ms: int) -> HandOver | None:
        """Where this table's topics were when it had exactly the rows before a place.

        Args:
            place: Place of the next row to read.
            within_ms: How much later than the last row read the newest one may have come.

        Returns:
            None as long as rows of the slot are left, or of too many slots.

        Raises:
            TableMismatchError: The table is not filled from topics.
            LedgerCorruptError: A record cannot be read.
            StorageUnavailableError: The store failed.
        """
        at = bisect_right(self._steps, place, key=lambda step: step.end)
        if not at or self._steps[at - 1].end != place:
            return None
        last, newest = self._steps[at - 1], self._steps[-1]
        if at < len(self._steps) and newest.at_ms - last.at_ms >= within_ms:
            return None
        then = Fold()
        for record, raw in self._log.records():
            if record.seq > last.slot:
                break
            then.apply(record, raw)
        starts = []
        for (topic, key), known in sorted(then.sources.items()):
            if topic.startswith(TABLE_TOPIC):
                raise TableMismatchError(
                    f"the table that is read first is filled from {topic}, not from topics",
                    where=self.layout.table_root,
                    hint="name the table that the topics fill in `bootstrap`",
                )
            if not known.retired:
                identity = SourceIdentity(known.cluster_id, known.topic_id)
                found = DiscoveredPartition(SourcePartition(topic, key), identity, None)
                starts.append((found, known.end))
        return HandOver(self.ledger, last.slot, tuple(starts))

    def inheritance(self, place: int) -> Inheritance:
        """What is known to be complete of the rows before a place."""
        at = bisect_right(self._steps, place, key=lambda step: step.end)
        passed = bisect_right(self._ready, place, key=lambda ready: ready.end)
        watermark_us = self._steps[at - 1].watermark_us if at else None
        return Inheritance(watermark_us, tuple(self._ready[:passed]))


def upstream_owner(storage: Storage, root: str) -> Owner:
    """To whom a table belongs that is read.

    Raises:
        SourceUnavailableError: The table has no owner: no driver has ever run for it.
        LedgerCorruptError: OWNER is damaged.
        StorageUnavailableError: The store failed.
    """
    layout = LedgerLayout(root, "")
    owner = read_owner(storage, layout)
    if owner is None:
        raise SourceUnavailableError(
            "no route of ours has ever filled the table; it is looked for again",
            where=layout.owner,
            hint="run the job that fills it",
        )
    return owner
