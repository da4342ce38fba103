"""Transactions: aborted rows are never seen, ranges end behind markers."""

from collections.abc import Callable

import pytest

from sluiceway.conformance.sources import (
    log_of,
    range_of,
    read_for,
    read_to_end,
    read_to_stop,
    row_values,
)
from sluiceway.sources.contract import Split
from sluiceway.sources.kafka.client import KafkaSourceClient
from sluiceway.sources.kafka.reader import KafkaSplitReader
from tools.lab_fixture import TopicFactory
from tools.topic_writer import TopicWriter

TIMEOUT_S = 120.0

MakeReader = Callable[..., KafkaSplitReader]


def test_transactions_aborted_rows_are_gaps_and_never_seen(
    new_topic: TopicFactory, writer: TopicWriter, make_reader: MakeReader
) -> None:
    topic = new_topic()
    writer.commit(topic, row_values(10, "kept"))
    writer.abort(topic, row_values(5, "gone"))
    writer.commit(topic, row_values(3, "kept"))
    reader = make_reader(Split(log_of(topic), 0))
    rows = read_to_end(reader, [21])
    assert rows.offsets() == [*range(10), 17, 18, 19]
    assert all(value is not None and value.startswith(b"kept") for value in rows.values())
    assert range_of(reader) == (21, 13, 8)


def test_transactions_only_aborted_move_the_end_without_rows(
    new_topic: TopicFactory, writer: TopicWriter, make_reader: MakeReader
) -> None:
    topic = new_topic()
    writer.abort(topic, row_values(5))
    reader = make_reader(Split(log_of(topic), 0))
    assert read_to_end(reader, [6]).count() == 0
    assert range_of(reader) == (6, 0, 6)


@pytest.mark.parametrize("stop", [10, 11], ids=["at_marker", "behind_marker"])
def test_transactions_stop_at_a_marker_ends_the_split(
    new_topic: TopicFactory, writer: TopicWriter, make_reader: MakeReader, stop: int
) -> None:
    topic = new_topic()
    writer.commit(topic, row_values(10))
    reader = make_reader(Split(log_of(topic), 0, stop_offset=stop))
    assert read_to_stop(reader).offsets() == list(range(10))
    assert range_of(reader) == (stop, 10, stop - 10)


def test_transactions_range_may_start_at_a_marker(
    new_topic: TopicFactory, writer: TopicWriter, make_reader: MakeReader
) -> None:
    topic = new_topic()
    writer.commit(topic, row_values(10))
    writer.commit(topic, row_values(2))
    reader = make_reader(Split(log_of(topic), 10))
    assert read_to_end(reader, [14]).offsets() == [11, 12]
    assert range_of(reader) == (14, 2, 2)


def test_transactions_open_one_hides_its_rows_and_all_behind(
    new_topic: TopicFactory,
    writer: TopicWriter,
    make_reader: MakeReader,
    client: KafkaSourceClient,
) -> None:
    topic = new_topic()
    writer.write(topic, row_values(4))
    with writer.transaction(topic, row_values(3, "open")) as producer:
        writer.write(topic, row_values(2, "behind"))
        reader = make_reader(Split(log_of(topic), 0))
        rows = read_for(reader, 1.0)
        bounds = client.bounds([log_of(topic)])[log_of(topic)]
        assert (bounds.start_offset, bounds.end_offset, bounds.high_watermark) == (0, 4, 9)
        assert range_of(reader) == (4, 4, 0)
        producer.abort_transaction(TIMEOUT_S)
    rows.add(read_to_end(reader, [10]).batches)
    assert rows.offsets() == [0, 1, 2, 3, 7, 8]
    assert range_of(reader) == (10, 6, 4)
