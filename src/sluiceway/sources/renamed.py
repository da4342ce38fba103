"""Topics under another name: a room's queue has copies of them under names of its own.

All but the connection knows the job's name of a topic. Names are looked up per call and per fetch,
never per row.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from sluiceway.sources.contract import (
    DiscoveredPartition,
    Headers,
    LogBounds,
    Origins,
    RawRecords,
    SourceBatch,
    SourceClient,
    SourcePartition,
    Split,
    SplitEnd,
    SplitReader,
)
from sluiceway.sources.copies import CopyTraits

_Value = TypeVar("_Value")
TopicNames = Mapping[str, str]
"""Name of a topic in the job -> its name here."""


class RenamedClient(SourceClient):
    """A client whose topics have other names here.

    Args:
        inner: The queue's own client.
        names: The names.
    """

    def __init__(self, inner: SourceClient, names: TopicNames) -> None:
        self._inner = inner
        self._names = names
        self._back = {here: name for name, here in names.items()}
        self.inherits = inner.inherits

    def _here(self, topics: Iterable[str]) -> list[str]:
        return [self._names.get(topic, topic) for topic in topics]

    def _to(self, partitions: Iterable[SourcePartition]) -> list[SourcePartition]:
        return [_named(one, self._names) for one in partitions]

    def _from(self, found: Mapping[SourcePartition, _Value]) -> dict[SourcePartition, _Value]:
        return {_named(one, self._back): value for one, value in found.items()}

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        """See the contract."""
        found = self._inner.discover(self._here(topics))
        renamed = [replace(each, partition=_named(each.partition, self._back)) for each in found]
        return tuple(sorted(renamed, key=lambda each: each.partition))

    def list_topics(self) -> tuple[str, ...]:
        """See the contract."""
        return tuple(sorted(self._back.get(each, each) for each in self._inner.list_topics()))

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        """See the contract."""
        return self._from(self._inner.bounds(self._to(partitions)))

    def copies(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        """See the contract."""
        return self._from(self._inner.copies(self._to(partitions)))

    def gone(self, partitions: Sequence[SourcePartition]) -> frozenset[SourcePartition]:
        """See the contract."""
        found = self._inner.gone(self._to(partitions))
        return frozenset(_named(one, self._back) for one in found)

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        """See the contract."""
        return self._from(self._inner.offsets_at(self._to(partitions), timestamp_ms))

    def offsets_at_times(
        self, times_ms: Mapping[SourcePartition, int]
    ) -> dict[SourcePartition, int]:
        """See the contract."""
        times = {_named(one, self._names): each for one, each in times_ms.items()}
        return self._from(self._inner.offsets_at_times(times))

    def committed(
        self, group: str, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, int]:
        """See the contract."""
        return self._from(self._inner.committed(group, self._to(partitions)))

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        """See the contract."""
        self._inner.report(group, {_named(one, self._names): end for one, end in ends.items()})

    def reader_options(self) -> Mapping[str, str]:
        """See the contract."""
        return self._inner.reader_options()

    def one_place_problems(self, topics: Sequence[str]) -> tuple[str, ...]:
        """See the contract."""
        return self._inner.one_place_problems(self._here(topics))

    def copy_traits(self, topics: Sequence[str]) -> dict[str, CopyTraits]:
        """See the contract."""
        found = self._inner.copy_traits(self._here(topics))
        return {self._back.get(topic, topic): traits for topic, traits in found.items()}

    def writers(self, topic: str) -> tuple[str, ...] | None:
        """See the contract."""
        (here,) = self._here([topic])
        return self._inner.writers(here)

    def end_transactions(self, ids: Sequence[str]) -> None:
        """See the contract."""
        self._inner.end_transactions(ids)

    def close(self) -> None:
        """See the contract."""
        self._inner.close()


def _named(one: SourcePartition, names: TopicNames) -> SourcePartition:
    name = names.get(one.topic)
    return one if name is None else SourcePartition(name, one.partition)


class RenamedReader(SplitReader):
    """A reader whose splits have other topics here.

    Args:
        open_inner: Opens the queue's own reader of splits.
        splits: The splits.
        names: The names.
    """

    def __init__(
        self,
        open_inner: Callable[[list[Split]], SplitReader],
        splits: Sequence[Split],
        names: TopicNames,
    ) -> None:
        self._topics = [split.partition.topic for split in splits]
        renamed = [replace(each, partition=_named(each.partition, names)) for each in splits]
        self._inner = open_inner(renamed)
        self.reused = self._inner.reused

    def read(self, timeout_s: float) -> list[SourceBatch]:
        """See the contract."""
        found = self._inner.read(timeout_s)
        return [RenamedBatch(batch, self._topics[batch.split_index]) for batch in found]

    def finished(self) -> bool:
        """See the contract."""
        return self._inner.finished()

    def ends(self) -> tuple[SplitEnd, ...]:
        """See the contract."""
        return self._inner.ends()

    def close(self, *, reusable: bool) -> None:
        """See the contract."""
        self._inner.close(reusable=reusable)


class RenamedBatch(SourceBatch):
    """A fetch whose records have the job's name of their topic."""

    __slots__ = ("_inner", "_topic", "offsets", "split_index", "values")

    def __init__(self, inner: SourceBatch, topic: str) -> None:
        self._inner, self._topic = inner, topic
        self.split_index, self.values, self.offsets = inner.split_index, inner.values, inner.offsets

    def timestamps_ms(self) -> Sequence[int | None]:
        """See the contract."""
        return self._inner.timestamps_ms()

    def sampled_times_ms(self, step: int) -> Sequence[int | None]:
        """See the contract."""
        return self._inner.sampled_times_ms(step)

    def value_bytes(self) -> int:
        """See the contract."""
        return self._inner.value_bytes()

    def records(self, rows: Sequence[int]) -> RawRecords:
        """See the contract."""
        return replace(self._inner.records(rows), topics=[self._topic] * len(rows))

    def origins(self) -> Origins | None:
        """See the contract."""
        return self._inner.origins()

    def keys(self) -> Sequence[bytes | None]:
        """See the contract."""
        return self._inner.keys()

    def may_have_headers(self) -> bool:
        """See the contract."""
        return self._inner.may_have_headers()

    def headers(self) -> Sequence[Headers]:
        """See the contract."""
        return self._inner.headers()
