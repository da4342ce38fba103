"""Consumers that live across epochs: which are used again, which are closed, and no row lost."""

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from sluiceway.conformance.sources import (
    ReadRows,
    read_for,
    read_rows,
    read_to_end,
    read_to_stop,
    row_values,
)
from sluiceway.sources.contract import SourcePartition, Split, SplitEnd
from sluiceway.sources.kafka.consumer_cache import ConsumerCache, ReuseCounts
from sluiceway.sources.kafka.reader import KafkaSplitReader
from tools.lab_fixture import TopicFactory
from tools.topic_writer import TopicWriter

TIMEOUT_S = 120.0


class Epochs:
    """Reads short epochs of some logs through one cache, as tasks in one worker do."""

    def __init__(self, bootstrap_servers: str, cache: ConsumerCache) -> None:
        self._bootstrap_servers = bootstrap_servers
        self.cache = cache

    def reader(self, *splits: Split, owner: str = "ledger/1") -> KafkaSplitReader:
        return KafkaSplitReader(
            splits,
            bootstrap_servers=self._bootstrap_servers,
            properties={},
            owner=owner,
            cache=self.cache,
        )

    def read(
        self, log: SourcePartition, start: int, end: int, *, owner: str = "ledger/1"
    ) -> tuple[ReadRows, SplitEnd]:
        """One epoch of one log that ends when its range reaches `end`."""
        reader = self.reader(Split(log, start), owner=owner)
        rows = read_to_end(reader, [end])
        found = reader.ends()[0]
        reader.close(reusable=True)
        return rows, found


@pytest.fixture
def epochs(bootstrap_servers: str) -> Iterator[Epochs]:
    epochs = Epochs(bootstrap_servers, ConsumerCache())
    yield epochs
    epochs.cache.close()


def test_cache_next_epoch_goes_on_without_a_seek(
    epochs: Epochs, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    log = SourcePartition(new_topic(), 0)
    for number in range(3):
        writer.write(log.topic, row_values(10))
        rows, end = epochs.read(log, number * 10, number * 10 + 10)
        assert rows.offsets() == list(range(number * 10, number * 10 + 10))
        assert end.gaps == 0
    assert epochs.cache.reuse_counts() == ReuseCounts(reused=2, created=1)


def test_cache_end_met_in_an_earlier_epoch_lets_a_bounded_split_end(
    epochs: Epochs, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    log = SourcePartition(new_topic(), 0)
    writer.commit(log.topic, row_values(5))
    _, end = epochs.read(log, 0, 6)
    assert end.end_offset == 6
    reader = epochs.reader(Split(log, 6, stop_offset=6))
    assert reader.finished()
    reader.close(reusable=True)
    writer.commit(log.topic, row_values(2))
    reader = epochs.reader(Split(log, 6, stop_offset=9))
    assert read_to_stop(reader).offsets() == [6, 7]
    reader.close(reusable=True)
    assert epochs.cache.reuse_counts() == ReuseCounts(reused=1, created=1)


def test_cache_behind_the_start_is_assigned_again(
    epochs: Epochs, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    log = SourcePartition(new_topic(), 0)
    writer.write(log.topic, row_values(10))
    epochs.read(log, 0, 10)
    writer.write(log.topic, row_values(10))
    rows, _ = epochs.read(log, 15, 20)
    assert rows.offsets() == [15, 16, 17, 18, 19]
    assert epochs.cache.reuse_counts() == ReuseCounts(reassigned=1, created=1)


def test_cache_ahead_after_a_thrown_away_epoch_is_closed(
    epochs: Epochs, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    log = SourcePartition(new_topic(), 0)
    writer.write(log.topic, row_values(10))
    epochs.read(log, 0, 10)
    rows, _ = epochs.read(log, 4, 10)
    assert rows.offsets() == [4, 5, 6, 7, 8, 9]
    assert epochs.cache.reuse_counts() == ReuseCounts(created=2, closed_ahead=1)


def test_cache_ahead_in_one_of_two_partitions_is_closed(
    epochs: Epochs, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    topic = new_topic(2)
    first, second = SourcePartition(topic, 0), SourcePartition(topic, 1)
    for partition in (0, 1):
        writer.write(topic, row_values(10), partition=partition)
    reader = epochs.reader(Split(first, 0), Split(second, 0))
    read_rows(reader, 20)
    reader.close(reusable=True)
    writer.write(topic, row_values(10), partition=0)
    reader = epochs.reader(Split(first, 15), Split(second, 9))
    rows = read_rows(reader, 6)
    reader.close(reusable=True)
    assert (rows.offsets(0), rows.offsets(1)) == ([15, 16, 17, 18, 19], [9])
    assert epochs.cache.reuse_counts() == ReuseCounts(created=2, closed_ahead=1)


def test_cache_rows_behind_a_stop_are_read_again(
    epochs: Epochs, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    log = SourcePartition(new_topic(), 0)
    writer.write(log.topic, row_values(20))
    reader = epochs.reader(Split(log, 0, stop_offset=7))
    assert read_to_stop(reader).offsets() == list(range(7))
    reader.close(reusable=True)
    rows, _ = epochs.read(log, 7, 20)
    assert rows.offsets() == list(range(7, 20))
    assert epochs.cache.reuse_counts() == ReuseCounts(created=2)


def test_cache_stop_at_the_end_of_the_log_keeps_the_consumer(
    epochs: Epochs, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    log = SourcePartition(new_topic(), 0)
    writer.write(log.topic, row_values(20))
    reader = epochs.reader(Split(log, 0, stop_offset=20))
    read_to_stop(reader)
    reader.close(reusable=True)
    writer.write(log.topic, row_values(5))
    rows, _ = epochs.read(log, 20, 25)
    assert rows.offsets() == list(range(20, 25))
    assert epochs.cache.reuse_counts() == ReuseCounts(reassigned=1, created=1)


def test_cache_other_term_gets_a_consumer_of_its_own(
    epochs: Epochs, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    log = SourcePartition(new_topic(), 0)
    writer.write(log.topic, row_values(10))
    epochs.read(log, 0, 10)
    writer.write(log.topic, row_values(1))
    rows, _ = epochs.read(log, 10, 11, owner="ledger/2")
    assert rows.offsets() == [10]
    assert epochs.cache.reuse_counts() == ReuseCounts(created=2, closed_owner=1)


def test_cache_consumer_that_is_not_reusable_is_not_kept(
    epochs: Epochs, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    log = SourcePartition(new_topic(), 0)
    writer.write(log.topic, row_values(10))
    reader = epochs.reader(Split(log, 0))
    read_rows(reader, 10)
    reader.close(reusable=False)
    epochs.read(log, 0, 10)
    assert epochs.cache.reuse_counts() == ReuseCounts(created=2)


def test_cache_keeps_a_few_consumers_and_closes_the_oldest(
    bootstrap_servers: str, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    epochs = Epochs(bootstrap_servers, ConsumerCache(max_consumers=2))
    logs = [SourcePartition(new_topic(), 0) for _ in range(3)]
    for log in logs:
        writer.write(log.topic, row_values(3))
        epochs.read(log, 0, 3)
    writer.write(logs[1].topic, row_values(1))
    writer.write(logs[0].topic, row_values(1))
    epochs.read(logs[1], 3, 4)
    epochs.read(logs[0], 3, 4)
    assert epochs.cache.reuse_counts() == ReuseCounts(reused=1, created=4)
    epochs.cache.close()


def test_cache_closes_idle_consumers_by_itself(
    bootstrap_servers: str, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    closed = threading.Event()

    class Cache(ConsumerCache):
        def close_idle(self) -> None:
            super().close_idle()
            if not self._resting:
                closed.set()

    epochs = Epochs(bootstrap_servers, Cache(idle_close_s=0.2))
    log = SourcePartition(new_topic(), 0)
    writer.write(log.topic, row_values(3))
    epochs.read(log, 0, 3)
    assert closed.wait(TIMEOUT_S)
    writer.write(log.topic, row_values(1))
    epochs.read(log, 3, 4)
    assert epochs.cache.reuse_counts() == ReuseCounts(created=2)
    epochs.cache.close()


def test_cache_of_a_parent_process_is_never_used_by_its_child(
    bootstrap_servers: str, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    topic = new_topic()
    writer.write(topic, row_values(10))
    script = f"""
import os, sys
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.sources.kafka.consumer_cache import process_cache
from sluiceway.sources.kafka.reader import KafkaSplitReader
def epoch(start, end):
    reader = KafkaSplitReader([Split(SourcePartition("{topic}", 0), start)],
        bootstrap_servers="{bootstrap_servers}", properties={{}}, owner="o")
    offsets = []
    while reader.ends()[0].end_offset < end:
        offsets += [offset for batch in reader.read(0.2) for offset in batch.offsets]
    reader.close(reusable=True)
    return offsets
assert epoch(0, 10) == list(range(10))
child = os.fork()
if child == 0:
    good = epoch(2, 10) == list(range(2, 10)) and process_cache().reuse_counts().created == 1
    process_cache().close()
    os._exit(0 if good else 1)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=600
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactions"])
def test_caches_alternating_over_50_epochs_lose_and_double_nothing(
    bootstrap_servers: str, new_topic: TopicFactory, writer: TopicWriter, *, transactional: bool
) -> None:
    topic = new_topic(2)
    logs = [SourcePartition(topic, partition) for partition in (0, 1)]
    workers = [Epochs(bootstrap_servers, ConsumerCache()) for _ in range(2)]
    stop = threading.Event()
    written = [0, 0]

    def produce() -> None:
        while not stop.wait(0.005):
            for partition in (0, 1):
                values = [b"%d" % (written[partition] + number) for number in range(100)]
                if transactional and partition == 0:
                    writer.abort(topic, [b"never"])
                    writer.commit(topic, values)
                else:
                    writer.write(topic, values, partition=partition)
                written[partition] += 100

    producer = threading.Thread(target=produce)
    producer.start()
    splits, read, gaps = [Split(log, 0) for log in logs], ReadRows(), 0
    try:
        for number in range(50):
            worker = workers[number % 3 // 2]
            reader = worker.reader(*splits)
            read.add(read_for(reader, 0.06).batches)
            ends = reader.ends()
            reader.close(reusable=True)
            splits = [
                Split(log, end.end_offset, leader_epoch=end.leader_epoch)
                for log, end in zip(logs, ends, strict=True)
            ]
            gaps += sum(end.gaps for end in ends)
    finally:
        stop.set()
        producer.join()
    for partition in (0, 1):
        values = read.values(partition)
        assert values == [b"%d" % number for number in range(len(values))]
        assert len(values) > 100
    assert (gaps > 0) == transactional
    for worker in workers:
        counts = worker.cache.reuse_counts()
        assert counts.created == 1
        assert counts.closed_ahead == 0
        worker.cache.close()
    assert workers[0].cache.reuse_counts().reused >= 10
