"""Topics in memory, as drivers and tasks see it; each call takes a turn of the simulation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sim.scheduler import Scheduler
from sluiceway.errors import SourceUnavailableError
from sluiceway.sources.contract import (
    DiscoveredPartition,
    Headers,
    LogBounds,
    RawRecords,
    SourceBatch,
    SourceClient,
    SourceIdentity,
    SourcePartition,
    Split,
    SplitEnd,
    SplitReader,
)

TOPIC, OTHER = "events", "a_other"
"""What all routes read, and what one of them reads besides."""
_MOST_ROWS = 4
_FAILS = 0.01


class Cluster(Protocol):
    """The world, as its source sees it."""

    scheduler: Scheduler

    def topic_here(self) -> "Topic": ...


@dataclass(frozen=True, slots=True)
class Note:
    """What a row has in addition to its payload."""

    time_ms: int | None = None
    headers: Headers = ()


NOTHING = Note()


@dataclass
class Topic:
    """Payloads of each log of the topics, and whether brokers fail now and then.

    Attributes:
        notes: What rows have in addition.
    """

    logs: dict[SourcePartition, list[bytes]] = field(default_factory=dict)
    cluster: str = "c1"
    well: bool = False
    topic_id: str = "t1"
    notes: dict[tuple[SourcePartition, int], Note] = field(default_factory=dict)

    def end(self, partition: SourcePartition) -> int:
        """First offset that cannot be read yet."""
        return len(self.logs[partition])


class SharedClient(SourceClient):
    """The driver's view of the topics."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        self._ask()
        topic = self._cluster.topic_here()
        identity = SourceIdentity(topic.cluster, topic.topic_id)
        logs = [one for one in sorted(self._cluster.topic_here().logs) if one.topic in topics]
        return tuple(DiscoveredPartition(one, identity, None) for one in logs)

    def list_topics(self) -> tuple[str, ...]:
        return (OTHER, TOPIC)

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        self._ask()
        ends = {one: len(self._cluster.topic_here().logs[one]) for one in partitions}
        return {one: LogBounds(0, end, end) for one, end in ends.items()}

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        self._ask()
        return {one: len(self._cluster.topic_here().logs[one]) for one in partitions}

    def committed(
        self, group: str, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, int]:
        return {}

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        return

    def close(self) -> None:
        return

    def _ask(self) -> None:
        scheduler = self._cluster.scheduler
        if scheduler.current is None:
            return
        scheduler.call()
        if not self._cluster.topic_here().well and scheduler.rng.random() < _FAILS:
            raise SourceUnavailableError("no broker answers")


class SharedBatch(SourceBatch):
    """Rows of one fetch."""

    def __init__(
        self, split_index: int, split: Split, first: int, values: list[bytes], notes: list[Note]
    ) -> None:
        self.split_index = split_index
        self.offsets = list(range(first, first + len(values)))
        self.values = values
        self._partition = split.partition
        self._notes = notes

    def timestamps_ms(self) -> list[int | None]:
        return [note.time_ms for note in self._notes]

    def headers(self) -> list[Headers]:
        return [note.headers for note in self._notes]

    def records(self, rows: Sequence[int]) -> RawRecords:
        return RawRecords(
            topics=[self._partition.topic] * len(rows),
            partitions=[self._partition.partition] * len(rows),
            offsets=[self.offsets[row] for row in rows],
            timestamps_ms=[self._notes[row].time_ms for row in rows],
            keys=[None] * len(rows),
            values=[self.values[row] for row in rows],
            headers=[self._notes[row].headers for row in rows],
        )


class SharedReader(SplitReader):
    """A task's reader: some rows of some splits a read, and sometimes none."""

    def __init__(self, cluster: Cluster, splits: Sequence[Split]) -> None:
        self._cluster = cluster
        self._splits = splits
        self._ends = [split.start_offset for split in splits]

    def read(self, timeout_s: float) -> list[SourceBatch]:
        scheduler = self._cluster.scheduler
        rng, topic = scheduler.rng, self._cluster.topic_here()
        scheduler.wait(None, timeout_s * rng.random())
        if not topic.well and rng.random() < _FAILS:
            raise SourceUnavailableError("connection lost")
        found: list[SourceBatch] = []
        for number, split in enumerate(self._splits):
            first, log = self._ends[number], topic.logs[split.partition]
            end = topic.end(split.partition)
            stop = end if split.stop_offset is None else min(split.stop_offset, end)
            values = log[first : min(stop, first + rng.randint(0, _MOST_ROWS))]
            if values:
                notes = [
                    topic.notes.get((split.partition, first + n), NOTHING)
                    for n in range(len(values))
                ]
                found.append(SharedBatch(number, split, first, values, notes))
                self._ends[number] = first + len(values)
        return found

    def finished(self) -> bool:
        stops = [split.stop_offset for split in self._splits]
        ends = zip(stops, self._ends, strict=True)
        return all(stop is not None and end >= stop for stop, end in ends)

    def ends(self) -> tuple[SplitEnd, ...]:
        ends = zip(self._splits, self._ends, strict=True)
        return tuple(SplitEnd(end, end - split.start_offset, 0, None) for split, end in ends)

    def close(self, *, reusable: bool) -> None:
        return
