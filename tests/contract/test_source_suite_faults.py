"""Sources with a planted fault: the suite has to find each of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest

from sluiceway.conformance.sources import SourceConformance, SourceUnderTest
from sluiceway.sources.contract import (
    DiscoveredPartition,
    LogBounds,
    RawRecords,
    SourceBatch,
    SourceClient,
    SourcePartition,
    Split,
    SplitEnd,
    SplitReader,
)
from sluiceway.sources.kafka.consumer_cache import process_cache
from tools.kafka_under_test import KafkaUnderTest
from tools.lab_fixture import TopicFactory
from tools.suite_runs import fails, names_of_tests

Records = Callable[[Sequence[int]], RawRecords]


class Reader(SplitReader):
    """A sound reader; faults come with its subclasses."""

    def __init__(self, sound: SplitReader) -> None:
        self._sound = sound

    def read(self, timeout_s: float) -> list[SourceBatch]:
        return self._sound.read(timeout_s)

    def finished(self) -> bool:
        return self._sound.finished()

    def ends(self) -> tuple[SplitEnd, ...]:
        return self._sound.ends()

    def close(self, *, reusable: bool) -> None:
        self._sound.close(reusable=reusable)


class DoublesARow(Reader):
    def read(self, timeout_s: float) -> list[SourceBatch]:
        batches = super().read(timeout_s)
        for batch in batches:
            batch.values = [*batch.values, batch.values[-1]]
            batch.offsets = [*batch.offsets, batch.offsets[-1]]
        return batches


class LosesARow(Reader):
    def read(self, timeout_s: float) -> list[SourceBatch]:
        batches = super().read(timeout_s)
        for batch in batches:
            batch.values, batch.offsets = list(batch.values)[1:], batch.offsets[1:]
        return batches


class NullIsEmpty(Reader):
    def read(self, timeout_s: float) -> list[SourceBatch]:
        batches = super().read(timeout_s)
        for batch in batches:
            batch.values = [value or b"" for value in batch.values]
        return batches


class MixesSplitsUp(Reader):
    def read(self, timeout_s: float) -> list[SourceBatch]:
        batches = super().read(timeout_s)
        for batch in batches:
            batch.split_index = 0
        return batches


class ChangesRecords(Reader):
    """Sound batches, but for the records of rows."""

    def read(self, timeout_s: float) -> list[SourceBatch]:
        batches = super().read(timeout_s)
        for batch in batches:
            vars(batch)["records"] = partial(self.records, batch.records, len(batch.values))
        return batches

    def records(self, sound: Records, count: int, rows: Sequence[int]) -> RawRecords:
        raise NotImplementedError


class GivesTheFirstRecords(ChangesRecords):
    def records(self, sound: Records, count: int, rows: Sequence[int]) -> RawRecords:
        del count
        return sound(range(len(rows)))


class GivesAllRecords(ChangesRecords):
    def records(self, sound: Records, count: int, rows: Sequence[int]) -> RawRecords:
        del rows
        return sound(range(count))


class SwapsKeysAndValues(ChangesRecords):
    def records(self, sound: Records, count: int, rows: Sequence[int]) -> RawRecords:
        del count
        found = sound(rows)
        return replace(found, keys=found.values, values=found.keys)


class TellsThePosition(Reader):
    def ends(self) -> tuple[SplitEnd, ...]:
        return tuple(replace(end, end_offset=end.end_offset + 1) for end in super().ends())


class CountsNoRows(Reader):
    def ends(self) -> tuple[SplitEnd, ...]:
        return tuple(replace(end, rows=0, gaps=end.rows + end.gaps) for end in super().ends())


class FinishesWhenQuiet(Reader):
    def finished(self) -> bool:
        return True


class FailsWhenClosedTwice(Reader):
    _closed = False

    def close(self, *, reusable: bool) -> None:
        if self._closed:
            raise RuntimeError("it is closed")
        self._closed = True
        super().close(reusable=reusable)


class Client(SourceClient):
    """A sound client; faults come with its subclasses."""

    def __init__(self, sound: SourceClient) -> None:
        self._sound = sound

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        return self._sound.discover(topics)

    def list_topics(self) -> tuple[str, ...]:
        return self._sound.list_topics()

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        return self._sound.bounds(partitions)

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        return self._sound.offsets_at(partitions, timestamp_ms)

    def committed(
        self, group: str, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, int]:
        return self._sound.committed(group, partitions)

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        self._sound.report(group, ends)

    def close(self) -> None:
        self._sound.close()


class ListsInAnyOrder(Client):
    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        return super().discover(topics)[::-1]

    def list_topics(self) -> tuple[str, ...]:
        return super().list_topics()[::-1]


class LeavesUnknownTopicsOut(Client):
    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        return super().discover([topic for topic in topics if topic in self.list_topics()])


class BoundsAreOneShort(Client):
    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        found = super().bounds(partitions)
        return {
            log: replace(place, end_offset=max(0, place.end_offset - 1))
            for log, place in found.items()
        }


class NothingCommittedIsZero(Client):
    def committed(
        self, group: str, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, int]:
        return dict.fromkeys(partitions, 0) | super().committed(group, partitions)


class TimesAreSeconds(Client):
    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        return super().offsets_at(partitions, timestamp_ms // 1000)


class Broken(SourceUnderTest):
    """A source with a broken client or broken readers."""

    def __init__(self, sound: KafkaUnderTest, fault: type[Reader] | type[Client]) -> None:
        self._sound, self._fault = sound, fault
        self.client = fault(sound.client) if issubclass(fault, Client) else sound.client

    def new_topic(self, partitions: int) -> str:
        return self._sound.new_topic(partitions)

    def write(self, topic: str, values: Sequence[bytes | None], partition: int = 0) -> None:
        self._sound.write(topic, values, partition)

    def reader(self, splits: Sequence[Split]) -> SplitReader:
        sound = self._sound.reader(splits)
        return self._fault(sound) if issubclass(self._fault, Reader) else sound


@pytest.fixture
def sound(bootstrap_servers: str, new_topic: TopicFactory) -> Iterator[KafkaUnderTest]:
    source = KafkaUnderTest(bootstrap_servers, new_topic)
    yield source
    source.client.close()
    process_cache().close()


FAULTS: list[tuple[type[Reader] | type[Client], str]] = [
    (DoublesARow, "test_reader_stops_before_the_stop_offset"),
    (LosesARow, "test_reader_stops_before_the_stop_offset"),
    (TellsThePosition, "test_reader_stops_before_the_stop_offset"),
    (TellsThePosition, "test_reader_of_empty_log_returns_nothing_in_time"),
    (CountsNoRows, "test_reader_returns_every_row_once_in_order"),
    (MixesSplitsUp, "test_reader_starts_where_its_split_does"),
    (MixesSplitsUp, "test_reader_one_read_has_at_most_one_batch_a_split"),
    (NullIsEmpty, "test_reader_keeps_null_empty_and_big_values_apart"),
    (GivesTheFirstRecords, "test_batch_gives_the_records_of_the_rows_that_are_asked_for"),
    (GivesAllRecords, "test_batch_gives_the_records_of_the_rows_that_are_asked_for"),
    (SwapsKeysAndValues, "test_batch_gives_the_records_of_the_rows_that_are_asked_for"),
    (FinishesWhenQuiet, "test_reader_without_stop_is_never_finished"),
    (FailsWhenClosedTwice, "test_reader_close_may_be_repeated"),
    (ListsInAnyOrder, "test_discover_two_topics_lists_partitions_in_order"),
    (ListsInAnyOrder, "test_list_topics_names_all_but_the_internal_ones_in_order"),
    (LeavesUnknownTopicsOut, "test_discover_unknown_topic_names_it"),
    (BoundsAreOneShort, "test_bounds_follow_what_is_written"),
    (NothingCommittedIsZero, "test_committed_is_what_was_reported_of_the_group"),
    (TimesAreSeconds, "test_offsets_at_gives_first_row_not_older_or_the_end"),
]


@pytest.mark.parametrize(("fault", "test"), FAULTS)
def test_planted_fault_is_found(
    fault: type[Reader] | type[Client], test: str, sound: KafkaUnderTest
) -> None:
    base = Reader if issubclass(fault, Reader) else Client
    assert test in names_of_tests(SourceConformance)
    assert not fails(SourceConformance(), test, source=Broken(sound, base))
    assert fails(SourceConformance(), test, source=Broken(sound, fault))
