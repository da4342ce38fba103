"""Holes that are believed and rows that are missed; offsets that are gone."""

import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sluiceway.conformance.sources import (
    log_of,
    range_of,
    read_for,
    read_rows,
    read_to_end,
    row_values,
)
from sluiceway.errors import (
    OffsetsLostError,
    TaskFailedError,
    TopicNotFoundError,
)
from sluiceway.sources.contract import SourcePartition, Split
from sluiceway.sources.kafka import client as kafka_client
from sluiceway.sources.kafka.client import KafkaSourceClient
from sluiceway.sources.kafka.jump_check import check_jumps
from sluiceway.sources.kafka.progress import Jump
from sluiceway.sources.kafka.reader import KafkaSplitReader
from tools.lab_fixture import TopicFactory
from tools.route_faults import wait_until
from tools.topic_writer import TopicWriter

TIMEOUT_S = 120.0

MakeReader = Callable[..., KafkaSplitReader]


def _delete_before(admin: AdminClient, topic: str, offset: int) -> None:
    (answer,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    answer.result(TIMEOUT_S)


def test_compacted_topic_counts_what_is_gone_as_gaps(
    new_topic: TopicFactory, writer: TopicWriter, make_reader: MakeReader
) -> None:
    topic = new_topic(
        config={
            "cleanup.policy": "compact",
            "segment.ms": "100",
            "min.cleanable.dirty.ratio": "0.001",
        }
    )
    for _ in range(4):
        writer.write_keyed(topic, [(b"k%d" % (number % 5), b"v") for number in range(1_000)])
        time.sleep(0.15)
    deadline_s = time.monotonic() + 60
    while True:
        reader = make_reader(Split(log_of(topic), 0))
        rows = read_to_end(reader, [4_000])
        reader.close(reusable=False)
        if rows.count() < 2_000 or time.monotonic() > deadline_s:
            break
        time.sleep(1)
    assert rows.count() < 2_000
    assert range_of(reader) == (4_000, rows.count(), 4_000 - rows.count())
    last_of_key = {
        key: offset
        for batch in rows.batches
        for key, offset in zip(batch.keys(), batch.offsets, strict=True)
    }
    assert sorted(last_of_key.values()) == [3_995, 3_996, 3_997, 3_998, 3_999]


def test_jump_over_rows_fails_the_task(
    bootstrap_servers: str, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    topic = new_topic()
    writer.write(topic, row_values(50))
    with pytest.raises(TaskFailedError, match=rf"{topic}\[0\]: the row at offset 20 was skipped"):
        check_jumps(bootstrap_servers, {}, {log_of(topic): [Jump(20, 40)]})


def test_jump_over_deleted_offsets_reports_them_lost(
    bootstrap_servers: str, new_topic: TopicFactory, writer: TopicWriter, admin: AdminClient
) -> None:
    topic = new_topic()
    writer.write(topic, row_values(50))
    _delete_before(admin, topic, 30)
    with pytest.raises(OffsetsLostError, match=r"offset 20 is gone: the log runs from 30 to 50"):
        check_jumps(bootstrap_servers, {}, {log_of(topic): [Jump(20, 25)]})


def test_jump_over_aborted_rows_is_believed(
    bootstrap_servers: str, new_topic: TopicFactory, writer: TopicWriter
) -> None:
    topic = new_topic()
    writer.write(topic, row_values(3))
    writer.abort(topic, row_values(2_000))
    writer.write(topic, row_values(3))
    check_jumps(bootstrap_servers, {}, {log_of(topic): [Jump(3, 2_004)]})
    with pytest.raises(TaskFailedError, match="2004"):
        check_jumps(bootstrap_servers, {}, {log_of(topic): [Jump(3, 2_004), Jump(2_004, 2_005)]})


@pytest.mark.parametrize("ahead_at", [1, 20, 50], ids=["by_one", "by_many", "at_the_end"])
def test_consumer_ahead_of_its_split_fails_the_task(
    new_topic: TopicFactory, writer: TopicWriter, make_reader: MakeReader, ahead_at: int
) -> None:
    topic = new_topic()
    writer.write(topic, row_values(50))
    reader = make_reader(Split(log_of(topic), 0))
    assert reader._leased is not None
    reader._leased.consumer.assign([TopicPartition(topic, 0, ahead_at)])
    with pytest.raises(TaskFailedError, match="the row at offset 0 was skipped"):
        read_for(reader, TIMEOUT_S)


def test_consumer_that_skips_rows_in_the_middle_fails_the_task(
    new_topic: TopicFactory, writer: TopicWriter, make_reader: MakeReader
) -> None:
    topic = new_topic()
    writer.write(topic, row_values(3_000))
    reader = make_reader(Split(log_of(topic), 0))
    last = read_rows(reader, 1).offsets()[-1]
    assert last < 1_500
    assert reader._leased is not None
    reader._leased.consumer.assign([TopicPartition(topic, 0, last + 1_002)])
    with pytest.raises(TaskFailedError, match=f"the row at offset {last + 1} was skipped"):
        read_for(reader, TIMEOUT_S)


def test_consumer_that_goes_back_fails_the_task(
    new_topic: TopicFactory, writer: TopicWriter, make_reader: MakeReader
) -> None:
    topic = new_topic()
    writer.write(topic, row_values(50))
    reader = make_reader(Split(log_of(topic), 10))
    read_rows(reader, 40)
    assert reader._leased is not None
    reader._leased.consumer.assign([TopicPartition(topic, 0, 49)])
    with pytest.raises(TaskFailedError, match="offset 49 came"):
        read_for(reader, TIMEOUT_S)


def test_deleted_start_reports_lost_offsets_with_numbers(
    new_topic: TopicFactory, writer: TopicWriter, make_reader: MakeReader, admin: AdminClient
) -> None:
    topic = new_topic()
    writer.write(topic, row_values(50))
    _delete_before(admin, topic, 30)
    reader = make_reader(Split(log_of(topic), 12))
    with pytest.raises(
        OffsetsLostError, match=rf"{topic}\[0\]: offset 12 is gone: the log runs from 30 to 50"
    ):
        read_for(reader, TIMEOUT_S)


def test_bounds_after_deletion_start_higher(
    new_topic: TopicFactory, writer: TopicWriter, client: KafkaSourceClient, admin: AdminClient
) -> None:
    topic = new_topic()
    writer.write(topic, row_values(50))
    _delete_before(admin, topic, 30)
    assert client.bounds([log_of(topic)])[log_of(topic)].start_offset == 30


def test_recreated_topic_has_another_identity(
    client: KafkaSourceClient, new_topic: TopicFactory, admin: AdminClient
) -> None:
    topic = new_topic()
    (before,) = client.discover([topic])
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(TIMEOUT_S)
    # The broker answers before all of it knows the new topic.
    wait_until(lambda: topic in client.list_topics() and _knows(client, topic))
    (after,) = client.discover([topic])
    assert after.partition == before.partition
    assert after.identity.cluster_id == before.identity.cluster_id
    assert after.identity.topic_id != before.identity.topic_id


def _knows(client: KafkaSourceClient, topic: str) -> bool:
    try:
        return bool(client.discover([topic]))
    except TopicNotFoundError:
        return False


def test_topic_is_gone_once_it_was_denied_for_some_seconds(
    client: KafkaSourceClient,
    admin: AdminClient,
    new_topic: TopicFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, stays = new_topic(2), new_topic(1)
    asked = [SourcePartition(topic, 0), SourcePartition(topic, 1), SourcePartition(stays, 0)]
    assert client.gone(asked) == frozenset()
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    wait_until(lambda: topic not in client.list_topics())
    # One answer may be that of a broker that is behind.
    monkeypatch.setattr(kafka_client, "_DENIED_FOR_S", 3600.0)
    assert [client.gone(asked) for _ in range(2)] == [frozenset()] * 2
    monkeypatch.setattr(kafka_client, "_DENIED_FOR_S", 0.0)
    wait_until(lambda: bool(client.gone(asked)))
    assert client.gone(asked) == set(asked[:2])
    # One that is there again is asked about from the beginning.
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(TIMEOUT_S)
    wait_until(lambda: not client.gone(asked))
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    wait_until(lambda: topic not in client.list_topics())
    monkeypatch.setattr(kafka_client, "_DENIED_FOR_S", 3600.0)
    assert client.gone(asked) == frozenset()


def test_recreated_topic_that_grew_past_the_start_is_told_by_its_identity_only(
    new_topic: TopicFactory,
    writer: TopicWriter,
    make_reader: MakeReader,
    admin: AdminClient,
    client: KafkaSourceClient,
) -> None:
    topic = new_topic()
    writer.write(topic, row_values(5))
    (before,) = client.discover([topic])
    reader = make_reader(Split(log_of(topic), 0))
    read_rows(reader, 5)
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(TIMEOUT_S)
    writer.write(topic, row_values(9, "other"))
    # The library takes the new topic for the old one; so a driver compares identities afterwards.
    # It is only told when it asks while the new log is still shorter.
    with suppress(TaskFailedError):
        assert read_rows(reader, 4).values()[0] == b"other-5"
    assert client.discover([topic])[0].identity != before.identity


def test_topic_deleted_under_a_reader_gives_no_more_rows(
    new_topic: TopicFactory, writer: TopicWriter, make_reader: MakeReader, admin: AdminClient
) -> None:
    topic = new_topic()
    writer.write(topic, row_values(5))
    reader = make_reader(Split(log_of(topic), 0))
    read_rows(reader, 5)
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    assert read_for(reader, 1.5).count() == 0
    assert range_of(reader) == (5, 5, 0)
