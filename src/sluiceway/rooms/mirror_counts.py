"""Whether a copy gets as many rows as the table: else not only the mirror writes, or it repeats.

A position by a tail is exact only if nothing but the mirror wrote before it, each row once. Between
two positions of one log the copy then has as many rows as the ledger.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from sluiceway.ledger.records import DataRecord, Record
from sluiceway.ledger.room_files import log_name
from sluiceway.rooms.positions import MIRROR_ONLY, PositionMethod, ResumePosition
from sluiceway.sources.contract import SourcePartition

CountRows = Callable[[Mapping[SourcePartition, tuple[int, int]]], Mapping[SourcePartition, int]]
"""Counts the rows of logs from the first to before the second offset."""


class MirrorCounts:
    """Compares counts of rows. Lives as long as its standby; used by one thread.

    Args:
        unfaithful: Logs whose counts differed before, by `log_name`.

    Attributes:
        unfaithful: These, and those found since.
        problems: What was found, in words.
    """

    def __init__(self, unfaithful: Iterable[str] = ()) -> None:
        self.unfaithful = set(unfaithful)
        self.problems: tuple[str, ...] = ()
        self._rows: Counter[SourcePartition] = Counter()
        self._places: dict[SourcePartition, tuple[int, int]] = {}

    def add(self, records: Iterable[Record]) -> None:
        """Take in what was committed since."""
        for record in records:
            if isinstance(record.body, DataRecord):
                for span in record.body.ranges:
                    self._rows[SourcePartition(span.topic, span.partition)] += int(span.rows)

    def judge(
        self, positions: Iterable[ResumePosition], count: CountRows
    ) -> tuple[ResumePosition, ...]:
        """The positions; those of unfaithful logs need a confirmation.

        Args:
            positions: For the ends up to which records were taken in.
            count: Counts the rows of copies.

        Raises:
            SluicewayError: This room's queue does not answer.
        """
        found = tuple(positions)
        inside = {
            each.log.partition: (each.log.known.generation, each.offset)
            for each in found
            if each.method is PositionMethod.INSIDE and not each.log.compacted and each.offset
        }
        spans = {}
        for one, (generation, offset) in inside.items():
            before = self._places.get(one)
            if before is not None and before[0] == generation and before[1] <= offset:
                spans[one] = (before[1], offset)
        counted = count(spans) if spans else {}
        for one, rows in counted.items():
            if rows != self._rows[one]:
                self.unfaithful.add(log_name(one.topic, one.partition))
                text = f"{one}: {rows} rows came to the copy for {self._rows[one]} of the table"
                self.problems = (*self.problems, text)
        self._places |= inside
        for one in inside:
            del self._rows[one]
        return tuple(self._judged(each) for each in found)

    def _judged(self, each: ResumePosition) -> ResumePosition:
        one = each.log.partition
        sure = log_name(one.topic, one.partition) not in self.unfaithful
        by_tail = each.method in (PositionMethod.INSIDE, PositionMethod.SHORT)
        if sure or not by_tail or MIRROR_ONLY in each.needs:
            return each
        return replace(each, needs=(MIRROR_ONLY, *each.needs))
