"""Dirty rows in a Kafka topic: each once, whole, behind the commits, whoever feeds it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sluiceway.errors import FencedError, LedgerCorruptError, SourceUnavailableError
from sluiceway.followers import runner
from sluiceway.followers.dirty_feed import DirtyPlace
from sluiceway.followers.dirty_topic import kept_place, place_of
from sluiceway.sources.kafka.row_feed import KafkaRowFeed
from sluiceway.sources.side_topics import FeedPlace, FeedRow, RowsTooLargeError
from tools.job_files import event
from tools.lab_fixture import TopicFactory
from tools.route_faults import NewRun, live
from tools.topic_writer import TopicWriter


@pytest.fixture
def read_all(bootstrap_servers: str) -> Callable[[str], list[Message]]:
    """All committed rows of a topic, in the order of its partitions."""

    def read(topic: str) -> list[Message]:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "reads-only",
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        found: list[Message] = []
        try:
            partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
            ended = 0
            while ended < len(partitions):
                message = consumer.poll(30)
                assert message is not None, "the broker is silent"
                if message.error() is None:
                    found.append(message)
                else:
                    ended += 1
        finally:
            consumer.close()
        return found

    return read


def _header(message: Message, name: str) -> str:
    found = dict(message.headers() or ())[f"sluiceway.{name}"]
    assert isinstance(found, bytes)
    return found.decode()


def _places(messages: list[Message]) -> list[tuple[str, int, int]]:
    return sorted(
        (_header(m, "topic"), int(_header(m, "partition")), int(_header(m, "offset")))
        for m in messages
    )


def _payloads(first: int, last: int) -> list[bytes]:
    """Each third one is dirty."""
    return [b"{" if n % 3 == 0 else event(n) for n in range(first, last)]


def test_each_dirty_row_comes_once_whole_and_with_its_reason_over_several_drivers(
    new_run: NewRun,
    new_topic: TopicFactory,
    writer: TopicWriter,
    read_all: Callable[[str], list[Message]],
) -> None:
    target = new_topic(2, prefix="dirty_of")
    run, topic = new_run(partitions=1, dirty=f"{{store: {{topic: {target}}}}}")
    for turn in range(3):
        writer.write(topic, _payloads(30 * turn, 30 * turn + 29))
        writer.write_record(topic, b"\xff", key=b"k", headers=[("a", b"1"), ("a", None)])
        # The driver may end before its feeder has fed all; the next one's goes on.
        run.catch_up()
    with live(run) as running:
        dirty = len(run.dirty())
        running.wait_for(lambda: len(read_all(target)) >= dirty)
        running.stop()
    fed = read_all(target)
    places = [("", partition, offset) for partition, offset, _ in run.dirty()]
    assert [(p, o) for _, p, o in _places(fed)] == sorted((p, o) for _, p, o in places)
    assert {_header(m, "topic") for m in fed} == {topic}
    odd = next(m for m in fed if m.value() == b"\xff")
    assert odd.key() == b"k"
    assert (odd.headers() or [])[:2] == [("a", b"1"), ("a", None)]
    assert (_header(odd, "stage"), _header(odd, "reason")) == ("decode", "encoding")
    assert _header(odd, "source").startswith("dirty:")
    run.assert_verified()


def test_topic_that_is_missing_stops_no_commit_and_is_fed_when_it_is_there(
    new_run: NewRun,
    bootstrap_servers: str,
    writer: TopicWriter,
    read_all: Callable[[str], list[Message]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "LONGEST_PAUSE_S", 1.0)
    run, topic = new_run(partitions=1, dirty="{store: {topic: not-there-yet}}")
    target = "not-there-yet"
    writer.write(topic, _payloads(0, 6))
    run.catch_up()
    assert len(run.dirty()) == 2
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    with live(run) as running:
        writer.write(topic, _payloads(6, 9))
        running.wait_for(lambda: len(run.dirty()) == 3)
        assert target not in admin.list_topics(timeout=30).topics
        admin.create_topics([NewTopic(target, 1)])[target].result(30)
        try:
            running.wait_for(lambda: len(read_all(target)) == 3)
            running.stop()
        finally:
            admin.delete_topics([target])[target].result(30)


@contextmanager
def _feed(servers: str, topic: str, name: str) -> Iterator[KafkaRowFeed]:
    feed = KafkaRowFeed((servers, {}), topic, name, 30.0)
    try:
        yield feed
    finally:
        feed.close()


def _row(text: str) -> FeedRow:
    return FeedRow(None, text.encode(), (), None)


def test_place_and_rows_come_together_and_a_feeder_that_was_replaced_sends_nothing(
    bootstrap_servers: str, new_topic: TopicFactory, read_all: Callable[[str], list[Message]]
) -> None:
    topic = new_topic(1, prefix="feed")
    with (
        _feed(bootstrap_servers, topic, topic) as first,
        _feed(bootstrap_servers, topic, topic) as second,
    ):
        assert first.open() is None
        first.send([_row("a"), _row("b")], FeedPlace(7, "f/2"))
        assert second.open() == FeedPlace(7, "f/2")
        with pytest.raises(FencedError):
            first.send([_row("c")], FeedPlace(7, "f/3"))
        second.send([_row("c")], FeedPlace(7, "f/3"))
        second.send([], FeedPlace(9, "/0"))
        assert second.open() == FeedPlace(9, "/0")
    assert [m.value() for m in read_all(topic)] == [b"a", b"b", b"c"]


def test_batch_with_a_row_that_is_too_large_is_refused_whole(
    bootstrap_servers: str, new_topic: TopicFactory, read_all: Callable[[str], list[Message]]
) -> None:
    topic = new_topic(1, prefix="feed", config={"max.message.bytes": "2000"})
    with _feed(bootstrap_servers, topic, topic) as feed:
        feed.open()
        with pytest.raises(RowsTooLargeError):
            feed.send([_row("a"), FeedRow(None, _noise(5000), (), None)], FeedPlace(1, "f/2"))
        assert feed.open() is None
        feed.send([_row("a")], FeedPlace(1, "f/1"))
    assert [m.value() for m in read_all(topic)] == [b"a"]


def _noise(size: int) -> bytes:
    """Bytes that no codec makes smaller."""
    return bytes((n * 197 + (n >> 3) * 59 + (n * n >> 5)) % 251 for n in range(size))


def test_row_that_is_too_large_comes_without_its_value_and_the_others_whole(
    new_run: NewRun,
    new_topic: TopicFactory,
    writer: TopicWriter,
    read_all: Callable[[str], list[Message]],
) -> None:
    target = new_topic(1, prefix="dirty_of", config={"max.message.bytes": "4000"})
    run, topic = new_run(partitions=1, dirty=f"{{store: {{topic: {target}}}}}")
    writer.write(topic, [b"{1", b"{" + _noise(9000), b"{2"])
    with live(run) as running:
        running.wait_for(lambda: len(read_all(target)) == 3)
        running.stop()
    fed = sorted(read_all(target), key=lambda m: int(_header(m, "offset")))
    assert [m.value() for m in fed] == [b"{1", None, b"{2"]
    assert _header(fed[1], "value") == "too large for this topic"
    assert _header(fed[1], "source").endswith("#1")


def test_unknown_topic_is_named(bootstrap_servers: str) -> None:
    with (
        _feed(bootstrap_servers, "no-such-topic", "n") as feed,
        pytest.raises(SourceUnavailableError, match="no such topic"),
    ):
        feed.open()


def test_places_are_kept_as_number_and_text_and_others_are_refused() -> None:
    place = DirtyPlace(12, "orders-1-2-0-x.parquet", 40)
    assert place_of(kept_place(place)) == place
    assert place_of(None) == DirtyPlace(0, "", 0)
    with pytest.raises(LedgerCorruptError, match="delete the group"):
        place_of(FeedPlace(12, "somebody's"))
