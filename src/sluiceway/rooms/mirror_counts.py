"""Whether a copy gets as many rows as the table: else not only the mirror writes, or it repeats.

A position by a tail is exact only if nothing but the mirror wrote before it, each row once. Between
two positions of one log the copy then has as many rows as the ledger. Where that is so from the
beginning of both logs on, it takes the place of an operator's confirmation.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from sluiceway.ledger.records import DataRecord, Record
from sluiceway.ledger.room_files import log_name
from sluiceway.rooms.positions import BEGINNINGS, MIRROR_ONLY, PositionMethod, ResumePosition
from sluiceway.sources.contract import SourcePartition

MOST_COUNTED: Final = 1_000_000
"""Copies with more offsets before their first positions are not counted: that takes too long."""

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
        # Logs whose copy had as many rows as the table up to the last position.
        self._equal: set[SourcePartition] = set()
        self._begun = False
        self._rows: Counter[SourcePartition] = Counter()
        self._places: dict[SourcePartition, tuple[int, int]] = {}

    def begin(self, records: Iterable[Record]) -> None:
        """Take in a ledger from its first record on. Called at most once, before `add`."""
        self._begun = True
        self.add(records)

    def add(self, records: Iterable[Record]) -> None:
        """Take in what was committed since."""
        for record in records:
            if isinstance(record.body, DataRecord):
                for span in record.body.ranges:
                    self._rows[SourcePartition(span.topic, span.partition)] += int(span.rows)

    def judge(
        self, positions: Iterable[ResumePosition], count: CountRows
    ) -> tuple[ResumePosition, ...]:
        """The positions; those of unfaithful logs need a confirmation, those of equal ones do not.

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
        whole = {each.log.partition for each in found if self._begun and _is_whole(each)}
        begun = (whole & inside.keys()) - self._places.keys()
        if sum(inside[one][1] for one in begun) > MOST_COUNTED:
            begun = set()
        spans = {one: (0, inside[one][1]) for one in begun}
        for one, (generation, offset) in inside.items():
            before = self._places.get(one)
            if before is not None and before[0] == generation and before[1] <= offset:
                spans[one] = (before[1], offset)
            else:
                self._equal.discard(one)
        counted = count(spans) if spans else {}
        for one, rows in counted.items():
            if one in begun:
                # Unequal, it says nothing: the copy may have begun before the table.
                self._equal |= {one} if rows == self._rows[one] else set()
            elif rows != self._rows[one]:
                self._equal.discard(one)
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
        if sure and one in self._equal and each.method is PositionMethod.INSIDE:
            needs = tuple(need for need in each.needs if need != MIRROR_ONLY)
            return replace(each, needs=needs, evidence={**each.evidence, "counts": "equal"})
        by_tail = each.method in (PositionMethod.INSIDE, PositionMethod.SHORT)
        if sure or not by_tail or MIRROR_ONLY in each.needs:
            return each
        return replace(each, needs=(MIRROR_ONLY, *each.needs))


def _is_whole(each: ResumePosition) -> bool:
    """Whether log and copy have all rows from their beginning."""
    known, bounds = each.log.known, each.log.bounds
    begun = known.generation == 0 and known.how in BEGINNINGS
    return begun and bounds is not None and bounds.start_offset == 0
