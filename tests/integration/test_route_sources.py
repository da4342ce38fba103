"""Where reading begins, and what a log may hold besides rows."""

import itertools
import time
from collections.abc import Container, Sequence
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from sluiceway.errors import OffsetsLostError, TopicNotFoundError
from sluiceway.ledger.records import SourcesRecord
from sluiceway.observe.steps import Step
from sluiceway.sources.contract import LogBounds, SourcePartition, Split
from sluiceway.sources.kafka.client import KafkaSourceClient
from sluiceway.sources.kafka.consumer_cache import ConsumerCache
from sluiceway.sources.kafka.reader import KafkaSplitReader
from tools.job_files import event
from tools.lab_fixture import TopicFactory
from tools.route_faults import (
    Crash,
    CrashAt,
    NewRun,
    Pause,
    counts,
    data_records,
    live,
    offsets,
    wait_until,
)
from tools.route_runs import RouteRun
from tools.topic_writer import TopicWriter

_TIMEOUT_S = 120.0


def _events(span: range) -> list[bytes]:
    return [event(n) for n in span]


def _add_partition(admin: AdminClient, topic: str, total: int) -> None:
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(_TIMEOUT_S)
    deadline = time.monotonic() + _TIMEOUT_S
    while len(admin.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions) < total:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _delete_before(admin: AdminClient, topic: str, offset: int) -> None:
    (answer,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    answer.result(_TIMEOUT_S)


def _create_anew(admin: AdminClient, topic: str) -> None:
    admin.delete_topics([topic], operation_timeout=_TIMEOUT_S)[topic].result(_TIMEOUT_S)
    deadline = time.monotonic() + _TIMEOUT_S
    while topic in admin.list_topics(timeout=_TIMEOUT_S).topics:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(_TIMEOUT_S)


def _pins(run: RouteRun) -> list[tuple[int, int, str]]:
    bodies = [record.body for record in run.records() if isinstance(record.body, SourcesRecord)]
    return [(int(pin.partition), pin.start, pin.how) for body in bodies for pin in body.partitions]


@pytest.mark.parametrize("crashed", [True, False])
def test_start_latest_is_pinned_before_the_first_read_and_never_resolved_again(
    new_run: NewRun, writer: TopicWriter, *, crashed: bool
) -> None:
    run, topic = new_run(start="latest")
    writer.write(topic, _events(range(10)))
    if crashed:
        with pytest.raises(Crash):
            run.catch_up(observe=CrashAt(Step.PINNED))
    else:
        run.catch_up()
    writer.write(topic, _events(range(10, 15)))
    run.catch_up()
    assert _pins(run) == [(0, 10, "latest")]
    assert run.rows() == offsets(0, range(10, 15))
    run.assert_verified()


@pytest.mark.parametrize("start", ["latest", "earliest"])
def test_partition_that_is_found_later_is_read_from_its_first_offset(
    new_run: NewRun, bootstrap_servers: str, admin: AdminClient, start: str
) -> None:
    run, topic = new_run(start=start)
    run.catch_up()
    _add_partition(admin, topic, 2)
    TopicWriter(bootstrap_servers).write(topic, _events(range(7)), partition=1)
    run.catch_up()
    with live(run) as running:
        _add_partition(admin, topic, 3)
        writer = TopicWriter(bootstrap_servers)  # an older one does not know of the partition
        writer.write(topic, _events(range(5)), partition=2)
        writer.write(topic, _events(range(4)), partition=0)
        running.wait_for(lambda: len(run.rows()) == 16)
        running.stop()
    assert _pins(run) == [(0, 0, start), (1, 0, "discovered"), (2, 0, "discovered")]
    assert run.rows() == [*offsets(0, range(4)), *offsets(1, range(7)), *offsets(2, range(5))]
    run.assert_verified()


def test_topic_that_does_not_exist_stops_the_route_and_is_named(
    new_run: NewRun, new_run_topic: str
) -> None:
    name = new_run_topic[:-1]
    run, _ = new_run(topic=name)
    with pytest.raises(TopicNotFoundError, match=rf"{name} .*did you mean .*{new_run_topic}"):
        run.catch_up()
    assert _pins(run) == []


@pytest.fixture
def new_run_topic(new_run: NewRun) -> str:
    return new_run()[1]


def test_topic_created_anew_is_refused_at_the_start(
    new_run: NewRun, writer: TopicWriter, admin: AdminClient
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(5)))
    run.catch_up()
    _create_anew(admin, topic)
    writer.write(topic, _events(range(9)))
    with pytest.raises(OffsetsLostError, match=r"topic id .* committed end 5"):
        run.catch_up()
    assert run.rows() == offsets(0, range(5))


def test_topic_created_anew_between_two_epochs_halts_before_the_commit(
    new_run: NewRun, writer: TopicWriter, admin: AdminClient
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(5)))
    run.catch_up()
    writer.write(topic, _events(range(5, 8)))
    pause = Pause(Step.PLANNED)
    with live(run, pause) as running:
        assert pause.reached.wait(_TIMEOUT_S)
        _create_anew(admin, topic)
        writer.write(topic, _events(range(9)))
        pause.goes_on.set()
        error = running.error()
    assert isinstance(error, OffsetsLostError)
    assert "committed end 5" in str(error)
    assert run.rows() == offsets(0, range(5))


# Brokers are asked before and after the tasks of an epoch.
@pytest.mark.parametrize("look", [0, 1])
def test_leader_that_lags_for_a_moment_is_asked_again(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch, look: int
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    run.catch_up()
    writer.write(topic, _events(range(10, 20)))
    lagged = _lag(monkeypatch, {look})
    run.catch_up()
    assert lagged == [look]
    assert run.rows() == offsets(0, range(20))
    run.assert_verified()


def test_log_that_stays_short_halts_as_truncated(
    new_run: NewRun, writer: TopicWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    run.catch_up()
    lagged = _lag(monkeypatch, range(1_000))
    with pytest.raises(OffsetsLostError, match="ends at 9, the committed end is 10: it was trunc"):
        run.catch_up()
    assert len(lagged) > 1
    assert run.rows() == offsets(0, range(10))


def _lag(monkeypatch: pytest.MonkeyPatch, looks: Container[int]) -> list[int]:
    """At these looks leaders say that logs end at offset 9.

    Returns:
        The looks at which they did, as they come.
    """
    count = itertools.count()
    lagged: list[int] = []
    real = KafkaSourceClient.bounds

    def bounds(
        client: KafkaSourceClient, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, LogBounds]:
        found = real(client, partitions)
        look = next(count)
        if look not in looks:
            return found
        lagged.append(look)
        return {one: replace(place, end_offset=9, high_watermark=9) for one, place in found.items()}

    monkeypatch.setattr(KafkaSourceClient, "bounds", bounds)
    return lagged


def test_retention_past_the_committed_end_halts_with_the_numbers(
    new_run: NewRun, writer: TopicWriter, admin: AdminClient
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    run.catch_up()
    writer.write(topic, _events(range(10, 30)))
    _delete_before(admin, topic, 25)
    with pytest.raises(OffsetsLostError, match="starts at 25, the committed end is 10: 15 offsets"):
        run.catch_up()
    assert run.rows() == offsets(0, range(10))


def _read_and_gaps(run: RouteRun) -> tuple[range, int]:
    """What the records of one partition cover, and their gaps; a busy machine makes several."""
    read = [each for record in data_records(run) for each in record.ranges]
    assert [each.start for each in read[1:]] == [each.end for each in read[:-1]]
    return range(read[0].start, read[-1].end), sum(each.gaps for each in read)


def test_retention_before_the_first_commit_is_a_counted_gap(
    new_run: NewRun, writer: TopicWriter, admin: AdminClient
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    with pytest.raises(Crash):
        run.catch_up(observe=CrashAt(Step.PREPARED))
    _delete_before(admin, topic, 4)
    run.catch_up()
    assert run.rows() == offsets(0, range(4, 10))
    assert _read_and_gaps(run) == (range(10), 4)
    run.assert_verified()


def test_retention_between_planning_and_reading_halts_with_the_numbers(
    new_run: NewRun, writer: TopicWriter, admin: AdminClient
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    run.catch_up()
    writer.write(topic, _events(range(10, 30)))
    pause = Pause(Step.PLANNED)
    with live(run, pause) as running:
        assert pause.reached.wait(_TIMEOUT_S)
        _delete_before(admin, topic, 25)
        pause.goes_on.set()
        error = running.error()
    assert isinstance(error, OffsetsLostError)
    assert "10" in str(error)
    assert "25" in str(error)
    assert run.rows() == offsets(0, range(10))


def test_retention_between_planning_and_the_first_read_is_a_counted_gap(
    new_run: NewRun, writer: TopicWriter, admin: AdminClient
) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(10)))
    pause = Pause(Step.PLANNED)
    with live(run, pause) as running:
        assert pause.reached.wait(_TIMEOUT_S)
        _delete_before(admin, topic, 4)
        pause.goes_on.set()
        running.wait_for(lambda: run.rows() == offsets(0, range(4, 10)))
    assert _read_and_gaps(run) == (range(10), 4)
    run.assert_verified()


def test_bounded_run_ends_when_retention_took_all_that_it_was_to_read(
    new_run: NewRun, writer: TopicWriter, admin: AdminClient
) -> None:
    run, topic = new_run()
    run.catch_up()
    writer.write(topic, _events(range(5)))
    _delete_before(admin, topic, 5)
    run.catch_up()
    assert data_records(run) == []
    writer.write(topic, _events(range(5, 7)))
    run.catch_up()
    assert run.rows() == offsets(0, range(5, 7))
    assert _read_and_gaps(run) == (range(7), 5)
    run.assert_verified()


def test_aborted_transactions_never_appear_and_are_counted_as_gaps(
    new_run: NewRun, writer: TopicWriter
) -> None:
    run, topic = new_run()
    writer.abort(topic, _events(range(4)))
    writer.commit(topic, _events(range(3)))
    writer.abort(topic, _events(range(2)))
    run.catch_up()
    # Four aborted and a marker, three rows and a marker, two aborted and a marker.
    assert run.rows() == offsets(0, range(5, 8))
    assert _read_and_gaps(run) == (range(12), 9)
    writer.abort(topic, _events(range(3)))
    run.catch_up()
    writer.commit(topic, _events(range(1)))
    run.catch_up()
    assert run.rows() == [*offsets(0, range(5, 8)), (0, 16)]
    assert counts(run).read == 4
    run.assert_verified()


def test_rows_of_an_open_transaction_wait_for_its_end(new_run: NewRun, writer: TopicWriter) -> None:
    run, topic = new_run()
    writer.write(topic, _events(range(2)))
    with writer.transaction(topic, _events(range(3))) as producer:
        writer.write(topic, _events(range(2)))
        run.catch_up()
        assert run.rows() == offsets(0, range(2))
        producer.commit_transaction(_TIMEOUT_S)
    with live(run) as running:
        running.wait_for(lambda: len(run.rows()) == 7)
        running.stop()
    assert run.rows() == offsets(0, range(7))
    run.assert_verified()


@pytest.fixture(scope="module", autouse=True)
def compacted_topic(new_topic: TopicFactory, bootstrap_servers: str) -> str:
    """900 rows of five keys; made first, since the broker compacts while other tests run."""
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
    }
    topic = new_topic(config=config)
    writer = TopicWriter(bootstrap_servers)
    for _ in range(3):
        writer.write_keyed(topic, [(b"k%d" % (n % 5), event(n)) for n in range(300)])
        time.sleep(0.15)
    return topic


def _rows_left(bootstrap_servers: str, topic: str) -> int:
    cache = ConsumerCache()
    split = Split(SourcePartition(topic, 0), 0, 900)
    reader = KafkaSplitReader(
        [split], bootstrap_servers=bootstrap_servers, properties={}, owner="test", cache=cache
    )
    rows = 0
    while not reader.finished():
        rows += sum(len(batch.values) for batch in reader.read(0.2))
    reader.close(reusable=False)
    return rows


def test_compacted_topic_is_read_with_its_gaps_counted(
    new_run: NewRun, writer: TopicWriter, bootstrap_servers: str, compacted_topic: str
) -> None:
    run, topic = new_run(topic=compacted_topic, tombstones="skip")
    wait_until(lambda: _rows_left(bootstrap_servers, topic) < 400)
    run.catch_up()
    spans = [span for record in data_records(run) for span in record.ranges]
    gaps = sum(span.gaps for span in spans)
    assert gaps > 500
    assert counts(run).read + gaps == 900
    assert (spans[0].start, spans[-1].end) == (0, 900)
    assert len(run.rows()) == counts(run).written == counts(run).read
    writer.write_keyed(topic, [(b"k1", None), (b"k9", event(1))])
    run.catch_up()
    assert run.rows()[-1] == (0, 901)
    assert counts(run).skipped == 1
    run.assert_verified()
