"""Records of every kind and codec come as they were written."""

import os
from collections.abc import Callable
from dataclasses import fields

import pytest

from sluiceway.conformance.sources import (
    ReadRows,
    log_of,
    read_rows,
    read_to_stop,
    row_values,
)
from sluiceway.sources.contract import RawRecords, Split
from sluiceway.sources.kafka.native_consumer import NativeConsumer
from sluiceway.sources.kafka.reader import KafkaSplitReader
from tools.lab_fixture import TopicFactory
from tools.topic_writer import TopicWriter

MakeReader = Callable[..., KafkaSplitReader]


def test_record_with_everything_is_kept_whole(
    new_topic: TopicFactory, writer: TopicWriter, make_reader: MakeReader
) -> None:
    topic = new_topic()
    headers: list[tuple[str, bytes | None]] = [("a", b"\x00\xff"), ("a", b""), ("b", None)]
    writer.write_record(topic, None, key=b"key-\x00", headers=headers, timestamp_ms=1_700_000_000)
    writer.write_record(topic, b"", key=None, timestamp_ms=5)
    rows = read_rows(make_reader(Split(log_of(topic), 0)), 2)
    records = [b.records(range(len(b.offsets))) for b in rows.batches]
    assert rows.values() == [None, b""]
    assert [row for each in records for row in _by_row(each)] == [
        (topic, 0, 0, 1_700_000_000, b"key-\x00", None, tuple(headers)),
        (topic, 0, 1, 5, None, b"", ()),
    ]


def _by_row(records: RawRecords) -> list[tuple[object, ...]]:
    columns = [getattr(records, column.name) for column in fields(RawRecords)]
    return list(zip(*columns, strict=True))


def test_reader_uses_the_consumer_that_was_chosen(
    new_topic: TopicFactory, make_reader: MakeReader, consumer: str
) -> None:
    leased = make_reader(Split(log_of(new_topic()), 0))._leased
    assert leased is not None
    assert isinstance(leased.consumer, NativeConsumer) == (consumer == "native")


def test_record_of_10_megabytes_is_read_among_small_ones(
    new_topic: TopicFactory, writer: TopicWriter, make_reader: MakeReader
) -> None:
    topic = new_topic(config={"max.message.bytes": "12000000"})
    large = os.urandom(10_000_000)
    for value in (b"small", large, b"small", large):
        writer.write_record(topic, value)
    rows = read_rows(make_reader(Split(log_of(topic), 0)), 4)
    assert rows.values() == [b"small", large, b"small", large]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_topic_gives_the_same_rows(
    bootstrap_servers: str, new_topic: TopicFactory, make_reader: MakeReader, codec: str
) -> None:
    topic = new_topic()
    TopicWriter(bootstrap_servers, codec=codec).write(topic, row_values(5_000))
    # In the middle of a compressed batch: what comes before the start must not be returned.
    reader = make_reader(Split(log_of(topic), 1_234, stop_offset=4_321))
    rows: ReadRows = read_to_stop(reader)
    assert rows.offsets() == list(range(1_234, 4_321))
    assert rows.values() == row_values(5_000)[1_234:4_321]


def test_several_topics_and_partitions_in_one_reader(
    new_topic: TopicFactory, writer: TopicWriter, make_reader: MakeReader
) -> None:
    topics = [new_topic(partitions=3), new_topic(partitions=3)]
    logs = [log_of(topic, partition) for topic in topics for partition in (2, 0, 1)]
    for number, log in enumerate(logs):
        writer.write(log.topic, row_values(1_000 + number, f"{number}"), partition=log.number)
    reader = make_reader(*(Split(log, number) for number, log in enumerate(logs)))
    rows = read_rows(reader, 6_000)
    for number in range(6):
        assert rows.offsets(number) == list(range(number, 1_000 + number))
        assert rows.values(number) == row_values(1_000 + number, f"{number}")[number:]
