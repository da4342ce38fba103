"""Where each row of a table is: its place in the log, and the file that holds it now.

A partition's rows stand in the order of the log: slot by slot, and within a record file by file. A
REPLACE keeps that order. So the rows of a partition up to a slot are its first rows, whatever files
hold them. No replaced file is needed to read them.

A SWAP ends the life of each partition that it names, as an EXPIRE does: rows that were there before
cannot be read as they were, whoever has not read them yet. The new rows come first in the next
life. They have no place of their own, since no reader gets them as rows that have arrived.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice

from sluiceway.errors import InvariantError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.partition_records import ExpireRecord, ReplaceRecord, SwapRecord
from sluiceway.ledger.records import EpochRecord, Record

COUNTED_ONLY = 1 << 62
"""For a `RowBook` that keeps no arrivals: no log has so many slots."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Rows that one file of a record has brought.

    Attributes:
        slot: The record's slot.
        partition: Name of the partition; empty in a table without.
        life: How often the partition had been let go of before.
        first: Place of the first row among the rows of this life.
        place: Place of the first row among all rows that the table ever got.
    """

    slot: int
    partition: str
    life: int
    first: int
    rows: int
    place: int


@dataclass(frozen=True, slots=True)
class FileSpan:
    """Rows `[first_row, first_row + rows)` of a live file.

    Attributes:
        partition: Folder that the partition's first rows went to.
        file: The file.
        first_row: Number of the first row in the file, counted from 0.
        rows: How many rows from there on.
        slot: Slot that brought the rows; of several slots the last one.
        place: Place of the first row, see `Arrival.place`; -1 where it was not asked for.
    """

    partition: str
    file: FileRecord
    first_row: int
    rows: int
    slot: int
    place: int


@dataclass(frozen=True, slots=True)
class LetGo:
    """A partition that an EXPIRE let go of, or whose rows a SWAP has replaced.

    Attributes:
        partition: Folder that its first rows went to.
        slot: Slot of the EXPIRE or SWAP.
        reason: Who dropped or replaced it, in words.
        corrected: Whether it was a SWAP.
    """

    partition: str
    slot: int
    reason: str
    corrected: bool = False


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """What a partition had at a slot.

    Attributes:
        life: How often it was dropped before and came again.
        rows: Rows of this life.
    """

    life: int
    rows: int


class _Steps:
    """What a partition had from each slot on that brought rows or ended a life; 24 bytes a step."""

    def __init__(self) -> None:
        self._slots, self._lives, self._rows = array("q"), array("q"), array("q")

    def add(self, slot: int, now: "_Partition") -> None:
        self._slots.append(slot)
        self._lives.append(now.life)
        self._rows.append(now.rows)

    def at(self, slot: int) -> PartitionRows:
        found = bisect_right(self._slots, slot) - 1
        return PartitionRows(self._lives[found], self._rows[found] if found >= 0 else 0)


@dataclass(slots=True)
class _Partition:
    life: int = 0
    rows: int = 0
    begin: int = 0
    end: int = 0
    live: list[FileRecord] = field(default_factory=list)
    starts: list[int] | None = None


class RowBook:
    """Rows and live files of a table, record by record. Used by one thread.

    Args:
        after: Arrivals of later slots are kept; arrivals up to this slot are only counted.
        every_slot: Whether `counts_at` is asked.

    Attributes:
        slot: Last slot that was taken in; -1 before the first.
        whole_from: Place from which on nothing was let go of.
    """

    def __init__(self, after: int = -1, *, every_slot: bool = False) -> None:
        self.slot = -1
        self.whole_from = 0
        self._after = after
        self._rows = 0
        self._partitions: dict[str, _Partition] = {}
        self._names: dict[str, str] = {}
        self._arrivals: list[Arrival] = []
        self._let_go: dict[tuple[str, int], LetGo] = {}
        self._steps: dict[str, _Steps] | None = {} if every_slot else None

    @property
    def rows(self) -> int:
        """All rows that the table ever got: the place of the next one."""
        return self._rows

    @property
    def first(self) -> int:
        """Place of the first row that is in the table; that of the next one when none is."""
        begins = (each.begin for each in self._partitions.values() if each.rows)
        return min(begins, default=self._rows)

    @property
    def after(self) -> int:
        """Arrivals of later slots are known."""
        return self._after

    def apply(self, record: Record) -> None:
        """Take the record of the next slot in.

        Raises:
            InvariantError: A REPLACE brings another number of rows than there were.
        """
        body = record.body
        if isinstance(body, EpochRecord):
            for file in body.files:
                self._add(record.seq, file)
        elif isinstance(body, ReplaceRecord):
            self._replace(record.seq, body)
        elif isinstance(body, ExpireRecord):
            for each in body.partitions:
                gone = self._partitions.setdefault(each.partition, _Partition())
                key = each.partition, gone.life
                self._let_go[key] = LetGo(each.partition, record.seq, body.reason)
                self.whole_from = max(self.whole_from, gone.end)
                self._partitions[each.partition] = _Partition(gone.life + 1)
                self._names[each.next_folder] = each.partition
                self._step(record.seq, each.partition)
        elif isinstance(body, SwapRecord):
            self._swap(record.seq, body)
        self.slot = record.seq

    def _swap(self, slot: int, body: SwapRecord) -> None:
        for each in body.partitions:
            gone = self._partitions.setdefault(each.partition, _Partition())
            key = each.partition, gone.life
            self._let_go[key] = LetGo(each.partition, slot, body.reason, corrected=True)
            rows = sum(int(file.rows) for file in each.live)
            live = list(each.live)
            begin = gone.begin if gone.rows else self._rows
            self._partitions[each.partition] = _Partition(
                gone.life + 1, rows, begin, gone.end, live
            )
            self._names[each.folder] = each.partition
            self._step(slot, each.partition)

    def _step(self, slot: int, name: str) -> None:
        if self._steps is not None:
            self._steps.setdefault(name, _Steps()).add(slot, self._partitions[name])

    def _add(self, slot: int, file: FileRecord) -> None:
        folder = file.final.rpartition("/")[0]
        name = self._names.get(folder, folder)
        partition = self._partitions.setdefault(name, _Partition())
        rows = int(file.rows)
        if slot > self._after:
            arrival = Arrival(slot, name, partition.life, partition.rows, rows, self._rows)
            self._arrivals.append(arrival)
        if not partition.rows:
            partition.begin = self._rows
        partition.rows += rows
        partition.live.append(file)
        partition.starts = None
        self._rows += rows
        partition.end = self._rows
        self._step(slot, name)

    def _replace(self, slot: int, body: ReplaceRecord) -> None:
        partition = self._partitions.setdefault(body.partition, _Partition())
        rows = sum(int(file.rows) for file in body.added)
        if rows != partition.rows:
            raise InvariantError(
                f"slot {slot} has {rows} rows of {body.partition}, before it had {partition.rows}",
                hint="`sluiceway verify JOB` says what is wrong",
            )
        partition.live = list(body.added)
        partition.starts = None
        self._names[body.folder] = body.partition

    def forget_up_to(self, slot: int) -> None:
        """Drop the arrivals of slots that are read for good."""
        self._after = max(self._after, slot)
        self._arrivals = [each for each in self._arrivals if each.slot > slot]

    def arrivals(self, after: int, through: int) -> list[Arrival]:
        """What came in the slots `(after, through]`, in the order of the log.

        Raises:
            InvariantError: Arrivals of some of these slots were dropped.
        """
        if after < self._after:
            raise InvariantError(f"arrivals up to slot {self._after} are not known any more")
        return [each for each in self._arrivals if after < each.slot <= through]

    def between(self, start: int, stop: int) -> list[Arrival]:
        """The rows with the places `[start, stop)`, in the order of the log.

        Args:
            start: Place of the first row.
            stop: Place after the last one; at most `rows`.

        Raises:
            InvariantError: Arrivals of some of these rows were dropped.
        """
        at = bisect_right(self._arrivals, start, key=lambda each: each.place) - 1
        if start < stop and at < 0:
            raise InvariantError(f"arrivals of row {start} are not known any more")
        found = []
        for each in islice(self._arrivals, max(at, 0), None):
            if each.place >= stop:
                break
            skipped = max(start - each.place, 0)
            rows = min(each.rows, stop - each.place) - skipped
            if rows > 0:
                first, place = each.first + skipped, each.place + skipped
                found.append(replace(each, first=first, rows=rows, place=place))
        return found

    def counts(self) -> dict[str, PartitionRows]:
        """Rows of each partition now; the rows up to this slot are the first ones for ever."""
        return {
            name: PartitionRows(each.life, each.rows)
            for name, each in self._partitions.items()
            if each.rows
        }

    def counts_at(self, slot: int) -> dict[str, PartitionRows]:
        """Rows of each partition at a slot, as `counts` was then; of a book of `every_slot`."""
        then = ((name, steps.at(slot)) for name, steps in (self._steps or {}).items())
        return {name: each for name, each in then if each.rows}

    def live(self) -> Iterator[tuple[str, Sequence[FileRecord]]]:
        """Names of partitions in order, and their live files in the order of their rows."""
        for name, each in sorted(self._partitions.items()):
            yield name, each.live

    def let_go(self, partition: str, life: int) -> LetGo | None:
        """The EXPIRE or SWAP that ended a life of a partition; None while it lasts."""
        return self._let_go.get((partition, life))

    def first_rows(self, name: str, rows: int, slot: int) -> list[FileSpan]:
        """The first rows of a partition in its present life.

        Args:
            name: The partition's name.
            rows: How many.
            slot: Said of the spans.
        """
        return self._spans(Arrival(slot, name, self._partitions[name].life, 0, rows, -1))

    def spans(self, arrivals: Iterable[Arrival]) -> list[FileSpan]:
        """The files that hold these rows now, in the order given.

        Raises:
            InvariantError: A partition of them was let go of; ask `let_go` first.
        """
        return [span for each in arrivals for span in self._spans(each)]

    def _spans(self, asked: Arrival) -> list[FileSpan]:
        partition = self._partitions[asked.partition]
        if partition.life != asked.life or asked.first + asked.rows > partition.rows:
            raise InvariantError(f"{asked.partition} does not have the rows of slot {asked.slot}")
        if partition.starts is None:
            partition.starts = list(
                accumulate((int(file.rows) for file in partition.live), initial=0)
            )
        found, first, left = [], asked.first, asked.rows
        at = bisect_right(partition.starts, first) - 1
        while left:
            file, skipped = partition.live[at], first - partition.starts[at]
            rows = min(left, int(file.rows) - skipped)
            if rows:
                place = -1 if asked.place < 0 else asked.place + first - asked.first
                found.append(FileSpan(asked.partition, file, skipped, rows, asked.slot, place))
            first, left, at = first + rows, left - rows, at + 1
        return found


def joined(spans: Iterable[FileSpan], *, by_slot: bool = False) -> list[FileSpan]:
    """Spans of one file that follow each other, as one.

    Args:
        spans: Rows in order.
        by_slot: Whether spans of different slots stay apart.
    """
    found: list[FileSpan] = []
    for span in spans:
        last = found[-1] if found else None
        if (
            last is not None
            and last.file.final == span.file.final
            and last.first_row + last.rows == span.first_row
            and not (by_slot and last.slot != span.slot)
        ):
            found[-1] = replace(last, rows=last.rows + span.rows, slot=span.slot)
        else:
            found.append(span)
    return found
