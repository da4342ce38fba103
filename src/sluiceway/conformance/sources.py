"""What every source must do."""

import pickle
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pytest

from sluiceway.errors import OffsetsLostError, SourceUnavailableError, TopicNotFoundError
from sluiceway.sources.contract import (
    Headers,
    LogBounds,
    SourceBatch,
    SourceClient,
    SourcePartition,
    Split,
    SplitReader,
)

READ_TIMEOUT_S = 0.2
DEADLINE_S = 30.0


@dataclass(slots=True)
class ReadRows:
    """Rows of all splits of one reader: per split the offsets and values, in order."""

    batches: list[SourceBatch] = field(default_factory=list)

    def add(self, batches: list[SourceBatch]) -> None:
        """Add the result of one read."""
        self.batches += batches

    def count(self) -> int:
        """How many rows came."""
        return sum(len(batch.offsets) for batch in self.batches)

    def offsets(self, split_index: int = 0) -> list[int]:
        """Offsets of one split."""
        return [o for b in self.batches if b.split_index == split_index for o in b.offsets]

    def values(self, split_index: int = 0) -> list[bytes | None]:
        """Values of one split."""
        return [v for b in self.batches if b.split_index == split_index for v in b.values]


def log_of(topic: str, partition: int = 0) -> SourcePartition:
    """One log of a topic."""
    return SourcePartition(topic, partition)


def row_values(count: int, name: str = "row") -> list[bytes]:
    """Values that differ: `name-0`, `name-1` and so on."""
    return [f"{name}-{number}".encode() for number in range(count)]


def range_of(reader: SplitReader, split_index: int = 0) -> tuple[int, int, int]:
    """End offset, rows and gaps of one split."""
    end = reader.ends()[split_index]
    return end.end_offset, end.rows, end.gaps


def read_rows(reader: SplitReader, wanted: int) -> ReadRows:
    """Read until at least `wanted` rows came."""
    rows = ReadRows()
    deadline_s = time.monotonic() + DEADLINE_S
    while rows.count() < wanted:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{rows.count()} of {wanted} rows came in {DEADLINE_S:.0f} s")
        rows.add(reader.read(READ_TIMEOUT_S))
    return rows


def read_for(reader: SplitReader, seconds: float) -> ReadRows:
    """Read for some seconds, whatever comes."""
    rows = ReadRows()
    deadline_s = time.monotonic() + seconds
    while (left_s := deadline_s - time.monotonic()) > 0:
        rows.add(reader.read(min(left_s, READ_TIMEOUT_S)))
    return rows


def read_to_stop(reader: SplitReader) -> ReadRows:
    """Read until every split has reached its stop offset."""
    rows = ReadRows()
    deadline_s = time.monotonic() + DEADLINE_S
    while not reader.finished():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not at the stop after {DEADLINE_S:.0f} s: {reader.ends()}")
        rows.add(reader.read(READ_TIMEOUT_S))
    return rows


def read_to_end(reader: SplitReader, ends: list[int]) -> ReadRows:
    """Read until the end of every split's range reaches its wanted offset."""
    rows = ReadRows()
    deadline_s = time.monotonic() + DEADLINE_S
    while any(found.end_offset < wanted for found, wanted in zip(reader.ends(), ends, strict=True)):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not at {ends} after {DEADLINE_S:.0f} s: {reader.ends()}")
        rows.add(reader.read(READ_TIMEOUT_S))
    return rows


REQUEST_TIMEOUT_S = 20.0
_BIG_BYTES = 700_000
T = TypeVar("T")


class SourceUnderTest(ABC):
    """One real source: its client, its readers and a way to fill it.

    Attributes:
        client: Opened with `REQUEST_TIMEOUT_S`; the suite closes it.
        has_nulls: Whether rows may have no value.
        has_empty: Whether rows may have an empty value.
        own_headers: Names of headers that the queue adds to each row.
        knows_silent_groups: Whether the source distinguishes a group without reported offsets from
            a group that reported 0.
        knows_groups: Whether the source keeps offsets of groups.
        knows_times: Whether rows have the time at which they were written.
        most_partitions: Most source partitions of a topic; None is no limit.
    """

    client: SourceClient
    has_nulls: bool = True
    has_empty: bool = True
    own_headers: frozenset[str] = frozenset()
    knows_silent_groups: bool = True
    knows_groups: bool = True
    knows_times: bool = True
    most_partitions: int | None = None

    @abstractmethod
    def new_topic(self, partitions: int) -> str:
        """Create a topic with a unique name, ready for use."""

    @abstractmethod
    def write(self, topic: str, values: Sequence[bytes | None], partition: int = 0) -> None:
        """Append rows; they can be read when it returns."""

    def log(self, topic: str, partition: int) -> SourcePartition:
        """The source partition for a partition number of `write`, from 0.

        Override it where keys of source partitions are texts. Keys have to rise with numbers.
        """
        return SourcePartition(topic, partition)

    def up_to(self, partitions: int) -> int:
        """So many source partitions, or as many as a topic can have."""
        most = self.most_partitions
        return partitions if most is None else min(partitions, most)

    def value(self, read: bytes | None) -> bytes | None:
        """What `write` was given, from the value that a reader has returned."""
        return read

    def values(self, rows: ReadRows, split_index: int = 0) -> list[bytes | None]:
        """The same of all rows of a split."""
        return [self.value(each) for each in rows.values(split_index)]

    def given(self, headers: Headers) -> Headers:
        """Headers without the queue's own ones."""
        return tuple(each for each in headers if each[0] not in self.own_headers)

    @abstractmethod
    def reader(self, splits: Sequence[Split]) -> SplitReader:
        """A task's reader, as `Source.open_reader` opens it."""


def _when_ready(ask: Callable[[], T]) -> T:
    """Repeat a call: a cluster that has just started has no group coordinator for a while."""
    deadline_s = time.monotonic() + 2 * REQUEST_TIMEOUT_S
    while True:
        try:
            return ask()
        except SourceUnavailableError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.2)


def _gone(log: SourcePartition) -> str:
    return rf"{re.escape(str(log))}: offset 500 .* from 0 to 5"


def _skip_unless(holds: bool, why: str) -> None:  # noqa: FBT001 - as an assertion
    if not holds:
        pytest.skip(why)


def _values(count: int, name: str = "row") -> list[bytes]:
    return [f"{name}-{number}".encode() for number in range(count)]


class SourceConformance:
    """Subclass it and override the fixture `opened`."""

    @pytest.fixture
    def opened(self) -> SourceUnderTest:
        """The source under test."""
        raise NotImplementedError

    @pytest.fixture
    def source(self, opened: SourceUnderTest) -> Iterator[SourceUnderTest]:
        """The source; its client is closed after the test."""
        yield opened
        opened.client.close()

    def test_discover_two_topics_lists_partitions_in_order(self, source: SourceUnderTest) -> None:
        _skip_unless(source.most_partitions is None, "a client knows one topic")
        topics = sorted([source.new_topic(2), source.new_topic(3)])
        found = source.client.discover(list(reversed(topics)))
        partitions = [one.partition for one in found]
        assert partitions == sorted(partitions)
        assert {one.topic for one in partitions} == set(topics)
        assert len(partitions) == 5
        assert len({one.identity.cluster_id for one in found}) == 1
        assert len({one.identity.topic_id for one in found}) == 2
        assert source.client.discover(topics) == found

    def test_discover_unknown_topic_names_it(self, source: SourceUnderTest) -> None:
        known = source.new_topic(1)
        with pytest.raises(TopicNotFoundError, match="no_such_topic_here"):
            source.client.discover([known, "no_such_topic_here"])

    def test_list_topics_names_all_but_the_internal_ones_in_order(
        self, source: SourceUnderTest
    ) -> None:
        _skip_unless(source.most_partitions is None, "a client knows one topic")
        topics = sorted([source.new_topic(1), source.new_topic(2)])
        listed = source.client.list_topics()
        assert set(topics) <= set(listed)
        assert list(listed) == sorted(set(listed))
        assert not [name for name in listed if name.startswith("__")]

    def test_committed_is_what_was_reported_of_the_group(self, source: SourceUnderTest) -> None:
        _skip_unless(source.knows_groups, "it keeps no offsets of groups")
        topic = source.new_topic(3)
        logs = [source.log(topic, number) for number in range(3)]
        source.write(topic, _values(9), partition=1)
        group = f"g-{topic}"
        silent = {} if source.knows_silent_groups else dict.fromkeys(logs, 0)
        assert _when_ready(lambda: source.client.committed(group, logs)) == silent
        _when_ready(lambda: source.client.report(group, {logs[0]: 0, logs[1]: 7}))
        assert source.client.committed(group, logs) == {**silent, logs[0]: 0, logs[1]: 7}
        assert source.client.committed(group, logs[1:2]) == {logs[1]: 7}
        assert source.client.committed(group, []) == {}

    def test_bounds_follow_what_is_written(self, source: SourceUnderTest) -> None:
        count = source.up_to(2)
        topic = source.new_topic(count)
        logs = [source.log(topic, number) for number in range(count)]
        assert source.client.bounds(logs) == dict.fromkeys(logs, LogBounds(0, 0, 0))
        source.write(topic, _values(7), partition=count - 1)
        assert source.client.bounds(logs) == {
            **dict.fromkeys(logs, LogBounds(0, 0, 0)),
            logs[-1]: LogBounds(0, 7, 7),
        }

    def test_bounds_of_nothing_is_nothing(self, source: SourceUnderTest) -> None:
        assert source.client.bounds([]) == {}

    def test_offsets_at_gives_first_row_not_older_or_the_end(self, source: SourceUnderTest) -> None:
        _skip_unless(source.knows_times, "its rows have no times")
        topic = source.new_topic(1)
        log = source.log(topic, 0)
        source.write(topic, _values(3))
        time.sleep(0.05)
        between_ms = int(time.time() * 1000)
        time.sleep(0.05)
        source.write(topic, _values(2))
        assert source.client.offsets_at([log], 0) == {log: 0}
        assert source.client.offsets_at([log], between_ms) == {log: 3}
        assert source.client.offsets_at([log], between_ms + 3_600_000) == {log: 5}

    def test_client_close_may_be_repeated(self, source: SourceUnderTest) -> None:
        source.client.close()
        source.client.close()
        assert source.reader([]).finished()

    def test_reader_returns_every_row_once_in_order(self, source: SourceUnderTest) -> None:
        count = source.up_to(2)
        topic = source.new_topic(count)
        partitions = list(reversed(range(count)))
        for partition in range(count):
            source.write(topic, _values(500, f"p{partition}"), partition=partition)
        splits = [Split(source.log(topic, partition), 0) for partition in partitions]
        reader = source.reader(splits)
        rows = read_rows(reader, 500 * count)
        ends = reader.ends()
        reader.close(reusable=True)
        for index, partition in enumerate(partitions):
            assert rows.offsets(index) == list(range(500))
            assert source.values(rows, index) == _values(500, f"p{partition}")
        assert [(end.end_offset, end.rows, end.gaps) for end in ends] == [(500, 500, 0)] * count

    def test_reader_one_read_has_at_most_one_batch_a_split(self, source: SourceUnderTest) -> None:
        count = source.up_to(3)
        topic = source.new_topic(count)
        for partition in range(count):
            source.write(topic, _values(300), partition=partition)
        splits = [Split(source.log(topic, partition), 0) for partition in range(count)]
        reader = source.reader(splits)
        seen = 0
        deadline_s = time.monotonic() + REQUEST_TIMEOUT_S
        while seen < 300 * count and time.monotonic() < deadline_s:
            batches = reader.read(0.5)
            indexes = [batch.split_index for batch in batches]
            assert len(indexes) == len(set(indexes))
            seen += sum(len(batch.offsets) for batch in batches)
        reader.close(reusable=True)
        assert seen == 300 * count

    def test_reader_of_empty_log_returns_nothing_in_time(self, source: SourceUnderTest) -> None:
        reader = source.reader([Split(source.log(source.new_topic(1), 0), 0)])
        began_s = time.monotonic()
        assert reader.read(0.3) == []
        assert 0.2 < time.monotonic() - began_s < 2.0
        (end,) = reader.ends()
        reader.close(reusable=True)
        assert (end.end_offset, end.rows, end.gaps, end.leader_epoch) == (0, 0, 0, None)

    def test_reader_without_stop_is_never_finished(self, source: SourceUnderTest) -> None:
        topic = source.new_topic(1)
        source.write(topic, _values(3))
        reader = source.reader([Split(source.log(topic, 0), 0)])
        read_rows(reader, 3)
        assert not reader.finished()
        reader.close(reusable=True)

    def test_reader_stops_before_the_stop_offset(self, source: SourceUnderTest) -> None:
        topic = source.new_topic(1)
        source.write(topic, _values(100))
        reader = source.reader([Split(source.log(topic, 0), 10, stop_offset=60)])
        rows = read_to_stop(reader)
        (end,) = reader.ends()
        assert reader.read(0.1) == []
        reader.close(reusable=True)
        assert rows.offsets() == list(range(10, 60))
        assert (end.end_offset, end.rows, end.gaps) == (60, 50, 0)

    def test_reader_with_start_at_stop_is_finished_at_once(self, source: SourceUnderTest) -> None:
        topic = source.new_topic(1)
        source.write(topic, _values(5))
        reader = source.reader([Split(source.log(topic, 0), 5, stop_offset=5)])
        assert reader.finished()
        assert reader.read(5.0) == []
        (end,) = reader.ends()
        reader.close(reusable=True)
        assert (end.end_offset, end.rows, end.gaps) == (5, 0, 0)

    def test_readers_one_after_the_other_lose_and_double_nothing(
        self, source: SourceUnderTest
    ) -> None:
        topic = source.new_topic(1)
        log = source.log(topic, 0)
        offsets: list[int] = []
        start = 0
        for written in (30, 1, 0, 40):
            source.write(topic, _values(written))
            reader = source.reader([Split(log, start)])
            offsets += read_rows(reader, written).offsets()
            start = reader.ends()[0].end_offset
            reader.close(reusable=True)
        assert offsets == list(range(71))

    def test_reader_start_behind_the_end_reports_lost_offsets(
        self, source: SourceUnderTest
    ) -> None:
        topic = source.new_topic(1)
        source.write(topic, _values(5))
        log = source.log(topic, 0)
        reader = source.reader([Split(log, 500)])
        with pytest.raises(OffsetsLostError, match=_gone(log)):
            read_for(reader, 10.0)
        reader.close(reusable=False)

    def test_batch_knows_times_and_whole_records(self, source: SourceUnderTest) -> None:
        topic = source.new_topic(1)
        before_ms = int(time.time() * 1000) - 5_000
        source.write(topic, _values(3))
        reader = source.reader([Split(source.log(topic, 0), 1)])
        (batch,) = read_rows(reader, 2).batches
        reader.close(reusable=True)
        times = batch.timestamps_ms()
        assert len(times) == 2
        if source.knows_times:
            assert all(time_ms is not None and time_ms > before_ms for time_ms in times)
        assert list(batch.keys()) == [None, None]
        assert [source.given(headers) for headers in batch.headers()] == [(), ()]

    def test_batch_gives_the_records_of_the_rows_that_are_asked_for(
        self, source: SourceUnderTest
    ) -> None:
        topic = source.new_topic(1)
        source.write(topic, _values(6))
        reader = source.reader([Split(source.log(topic, 0), 1, stop_offset=6)])
        for batch in read_to_stop(reader).batches:
            count = len(batch.values)
            times = batch.timestamps_ms()
            for rows in ([], [count - 1], list(range(0, count, 2)), list(range(count))):
                found = batch.records(rows)
                assert list(found.topics) == [topic] * len(rows)
                assert list(found.partitions) == [source.log(topic, 0).partition] * len(rows)
                assert list(found.offsets) == [batch.offsets[row] for row in rows]
                assert list(found.timestamps_ms) == [times[row] for row in rows]
                assert list(found.keys) == [None] * len(rows)
                assert list(found.values) == [batch.values[row] for row in rows]
                assert [source.given(each) for each in found.headers] == [()] * len(rows)
        reader.close(reusable=True)

    def test_reader_close_may_be_repeated(self, source: SourceUnderTest) -> None:
        topic = source.new_topic(1)
        source.write(topic, _values(3))
        reader = source.reader([Split(source.log(topic, 0), 0)])
        read_rows(reader, 3)
        reader.close(reusable=True)
        reader.close(reusable=True)
        reader.close(reusable=False)
        again = source.reader([Split(source.log(topic, 0), 0)])
        assert read_rows(again, 3).offsets() == [0, 1, 2]
        again.close(reusable=True)

    def test_reader_keeps_null_empty_and_big_values_apart(self, source: SourceUnderTest) -> None:
        topic = source.new_topic(1)
        null = None if source.has_nulls else b"no null"
        empty = b"" if source.has_empty else b"none empty"
        values = [b"first", null, empty, bytes(range(256)) * (_BIG_BYTES // 256), null, b"last"]
        source.write(topic, values)
        reader = source.reader([Split(source.log(topic, 0), 0, stop_offset=6)])
        rows = read_to_stop(reader)
        reader.close(reusable=True)
        assert source.values(rows) == values

    def test_reader_starts_where_its_split_does(self, source: SourceUnderTest) -> None:
        starts = (7, 49)[: source.up_to(2)]
        topic = source.new_topic(len(starts))
        for partition in range(len(starts)):
            source.write(topic, _values(50, f"p{partition}"), partition=partition)
        splits = [
            Split(source.log(topic, partition), start, stop_offset=50)
            for partition, start in enumerate(starts)
        ]
        reader = source.reader(splits)
        rows = read_to_stop(reader)
        ends = reader.ends()
        reader.close(reusable=True)
        for index, start in enumerate(starts):
            assert rows.offsets(index) == list(range(start, 50))
            assert source.values(rows, index)[0] == f"p{index}-{start}".encode()
        assert [(end.end_offset, end.rows) for end in ends] == [(50, 50 - at) for at in starts]

    def test_splits_cross_process_borders(self, source: SourceUnderTest) -> None:
        topic = source.new_topic(1)
        source.write(topic, _values(4))
        (found,) = source.client.discover([topic])
        split = Split(found.partition, 1, stop_offset=4, leader_epoch=found.leader_epoch)
        reader = source.reader([pickle.loads(pickle.dumps(split))])  # noqa: S301 - our own
        assert read_to_stop(reader).offsets() == [1, 2, 3]
        reader.close(reusable=True)
