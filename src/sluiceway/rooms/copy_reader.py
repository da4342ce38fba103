"""Reads logs for their tails: the rows before an offset, and where a tail ends. Commits nothing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sluiceway.ledger.log_tail import (
    NO_TAIL,
    RUNS,
    joined_tails,
    tail_runs,
)
from sluiceway.ledger.records import SourcesRecord
from sluiceway.rooms.positions import BEGINNINGS, CopiedLog, TailReader
from sluiceway.rooms.tail_search import TailMatch, TailSearch
from sluiceway.sources.contract import SourceBatch, SourceClient, SourcePartition, Split
from sluiceway.sources.missing_rows import row_hashes
from sluiceway.sources.registry import SourceAccess
from sluiceway.sources.topic_sample import read_splits
from sluiceway.worker.split_tail import batch_tail

UNREAD: Final = frozenset({*BEGINNINGS, "resumed"})
"""`PinnedPartition.how` of pins that need no tail: none is there, or the fold has it."""

_FIRST_OFFSETS: Final = 32
_MOST_OFFSETS: Final = 8192
# Gaps are read again by one more consumer, which then asks for the bounds of each log.
_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class CopyReader:
    """Reads committed rows, up to the ends that the logs had when they were asked for.

    Args:
        access: Access to the queue.
        client: The driver's view of it.
    """

    access: SourceAccess
    client: SourceClient

    def reader(self) -> TailReader:
        """What `resume_positions` asks."""
        return TailReader(self.search, self.before)

    def search(self, logs: Sequence[CopiedLog]) -> dict[SourcePartition, TailMatch]:
        """Where the tails end.

        Args:
            logs: Logs with a tail and bounds.

        Raises:
            SluicewayError: The queue does not answer.
        """
        tails = {log.partition: tail_runs(log.known.tail) for log in logs}
        times = {one: min(run.least_ms for run in runs) for one, runs in tails.items()}
        starts = self.client.offsets_at_times(times)
        searches = {
            log.partition: TailSearch(
                tails[log.partition],
                compacted=log.compacted,
                lacked=tail_runs(log.known.missing),
            )
            for log in logs
        }
        ends = {log.partition: log.bounds.end_offset for log in logs if log.bounds is not None}
        for one, batch in self._read({one: (starts[one], end) for one, end in ends.items()}):
            search = searches[one]
            for offset, row in zip(batch.offsets, row_hashes(batch), strict=True):
                search.add(int(offset), row)
        return {
            log.partition: replace(
                searches[log.partition].result(),
                complete=_is_complete(log, starts[log.partition]),
            )
            for log in logs
        }

    def before(self, ends: Mapping[SourcePartition, int]) -> dict[SourcePartition, str]:
        """Tails of the rows before these offsets; empty where there is no row.

        Raises:
            SluicewayError: The queue does not answer.
        """
        bounds = self.client.bounds(list(ends))
        tails = dict.fromkeys(ends, NO_TAIL)
        offsets, left = _FIRST_OFFSETS, [one for one in ends if one in bounds]
        while left and offsets <= _MOST_OFFSETS:
            firsts = {one: max(bounds[one].start_offset, ends[one] - offsets) for one in left}
            tails |= dict.fromkeys(left, NO_TAIL)
            for one, batch in self._read({one: (firsts[one], ends[one]) for one in left}):
                tails[one] = joined_tails(tails[one], batch_tail(batch))
            left = [
                one
                for one in left
                if len(tail_runs(tails[one])) < RUNS and firsts[one] > bounds[one].start_offset
            ]
            offsets *= 4
        return tails

    def count(self, spans: Mapping[SourcePartition, tuple[int, int]]) -> dict[SourcePartition, int]:
        """Rows of each log from the first to before the second offset.

        Raises:
            SluicewayError: The queue does not answer.
        """
        counted = dict.fromkeys(spans, 0)
        for one, batch in self._read(spans):
            counted[one] += len(batch.values)
        return counted

    def _read(
        self, spans: Mapping[SourcePartition, tuple[int, int]]
    ) -> Iterator[tuple[SourcePartition, SourceBatch]]:
        splits = [Split(one, first, end) for one, (first, end) in spans.items() if first < end]
        for some in (splits[n : n + _AT_ONCE] for n in range(0, len(splits), _AT_ONCE)):
            for batch in read_splits(self.access, some):
                yield some[batch.split_index].partition, batch


def with_tails(record: SourcesRecord, reader: CopyReader) -> SourcesRecord:
    """The record with the rows before each pin. Called before it is put, where tails are kept.

    Args:
        record: New source partitions, perhaps next to others.
        reader: Reads the logs that are pinned.

    Raises:
        SluicewayError: The queue does not answer; nothing was pinned.
    """
    starts = {
        SourcePartition(pin.topic, pin.partition): int(pin.start)
        for pin in record.partitions
        if not pin.retired and pin.how not in UNREAD
    }
    if not starts:
        return record
    tails = reader.before(starts)
    pins = tuple(
        replace(pin, tail=tails.get(SourcePartition(pin.topic, pin.partition), NO_TAIL))
        for pin in record.partitions
    )
    return replace(record, partitions=pins)


def _is_complete(log: CopiedLog, first: int) -> bool:
    """Whether retention has removed no row that the tail may be: it removes the oldest first."""
    bounds = log.bounds
    return bounds is not None and (bounds.start_offset == 0 or bounds.start_offset < first)
