"""Logs of one cluster in memory, with holes, that a driver asks and whose rows it reads."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sluiceway.ledger.log_tail import row_hash, tail_of
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    SourceClient,
    SourceIdentity,
    SourcePartition,
    Split,
)
from sluiceway.sources.copies import CopyTraits
from sluiceway.sources.registry import SourceAccess
from tools.small_task import MadeBatch

ACCESS = SourceAccess("kafka", ())
_FETCH = 3


@dataclass
class MadeLog:
    """A log whose record times are the numbers of its rows.

    Attributes:
        rows: Offset and number of each row, in order.
        start: First offset that it still has.
        end: First offset that it has not.
    """

    rows: list[tuple[int, int]]
    start: int
    end: int

    @classmethod
    def of(cls, numbers: Sequence[int], *, step: int = 1, start: int = 0) -> "MadeLog":
        """Rows at every so manieth offset."""
        rows = [(start + step * place, number) for place, number in enumerate(numbers)]
        return cls(rows, start, start + step * len(numbers))


def value_of(number: int) -> bytes:
    """Payload of a row."""
    return b"row %d" % number


def tail_before(numbers: Sequence[int]) -> str:
    """What a driver keeps of rows."""
    return tail_of((row_hash(None, value_of(number), number), number) for number in numbers)


@dataclass
class MadeLogs(SourceClient):
    """The driver's view of them, and what `read_splits` returns.

    Attributes:
        ended: Transactional ids that were taken over.
    """

    logs: dict[SourcePartition, MadeLog]
    cluster_id: str = "c2"
    topic_id: str = "t2"
    traits: CopyTraits = field(default_factory=CopyTraits)
    ended: list[str] = field(default_factory=list)

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        identity = SourceIdentity(self.cluster_id, self.topic_id)
        return tuple(
            DiscoveredPartition(one, identity, None)
            for one in sorted(self.logs)
            if one.topic in topics
        )

    def list_topics(self) -> tuple[str, ...]:
        return tuple(sorted({one.topic for one in self.logs}))

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        return {
            one: LogBounds(self.logs[one].start, self.logs[one].end, self.logs[one].end)
            for one in partitions
        }

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        return {
            one: next(
                (at for at, n in self.logs[one].rows if n >= timestamp_ms), self.logs[one].end
            )
            for one in partitions
        }

    def committed(
        self, group: str, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, int]:
        return {}

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        return

    def copy_traits(self, topics: Sequence[str]) -> dict[str, CopyTraits]:
        return dict.fromkeys(topics, self.traits)

    def end_transactions(self, ids: Sequence[str]) -> None:
        self.ended += ids

    def read(
        self, access: SourceAccess, splits: list[Split], deadline: float | None = None
    ) -> Iterator[MadeBatch]:
        """As `topic_sample.read_splits`."""
        for index, split in enumerate(splits):
            assert split.stop_offset is not None
            log = self.logs[split.partition]
            assert log.start <= split.start_offset < split.stop_offset <= log.end, split
            rows = [row for row in log.rows if split.start_offset <= row[0] < split.stop_offset]
            for first in range(0, len(rows), _FETCH):
                part = rows[first : first + _FETCH]
                yield MadeBatch(
                    index,
                    [value_of(number) for _, number in part],
                    [offset for offset, _ in part],
                    [number for _, number in part],
                )

    def close(self) -> None:
        return
