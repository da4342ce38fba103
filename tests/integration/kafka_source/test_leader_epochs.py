"""Leader epochs: what stands beside an end, and what a truncated log is told by."""

from collections.abc import Iterator

import pytest

from sluiceway.conformance.sources import log_of, read_for, read_to_end, read_to_stop, row_values
from sluiceway.errors import OffsetsLostError
from sluiceway.lab.lab import Lab
from sluiceway.sources.contract import Split
from sluiceway.sources.kafka.client import KafkaSourceClient
from sluiceway.sources.kafka.consumer_cache import ConsumerCache
from sluiceway.sources.kafka.reader import KafkaSplitReader
from tools.cut_log import cut_log
from tools.lab_fixture import TopicFactory
from tools.test_plan import slow_after
from tools.topic_writer import TopicWriter

TIMEOUT_S = 120.0


class Tasks:
    """Readers of which each may have a consumer of its own, as in a fresh worker."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        # A server on a slow machine is away for longer than a consumer rests by default.
        self.cache = ConsumerCache(idle_close_s=600.0)

    def reader(self, split: Split) -> KafkaSplitReader:
        return KafkaSplitReader(
            [split],
            bootstrap_servers=self._servers,
            properties={},
            owner="ledger/1",
            cache=self.cache,
        )

    def read(self, split: Split, end: int) -> tuple[list[int], int | None]:
        """Offsets of the rows up to the log's end, and the epoch beside it."""
        reader = self.reader(split)
        try:
            rows = read_to_end(reader, [end])
            return rows.offsets(), reader.ends()[0].leader_epoch
        finally:
            reader.close(reusable=True)
            self.cache.close()


@pytest.fixture
def tasks(bootstrap_servers: str) -> Iterator[Tasks]:
    tasks = Tasks(bootstrap_servers)
    yield tasks
    tasks.cache.close()


def _elect_anew(lab: Lab) -> None:
    lab.stop_server("kafka")
    lab.start_server("kafka")


def test_epoch_of_a_row_is_not_kept_past_a_marker_of_a_newer_one(
    lab: Lab, new_topic: TopicFactory, writer: TopicWriter, tasks: Tasks
) -> None:
    log = log_of(new_topic())
    with writer.transaction(log.topic, row_values(5)) as producer:
        _elect_anew(lab)
        producer.commit_transaction(TIMEOUT_S)
    offsets, epoch = tasks.read(Split(log, 0), 6)
    assert (offsets, epoch) == ([0, 1, 2, 3, 4], None)
    writer.write(log.topic, row_values(2))
    offsets, epoch = tasks.read(Split(log, 6, leader_epoch=epoch), 8)
    assert offsets == [6, 7]
    assert epoch is not None


def test_leader_that_led_all_the_time_vouches_for_an_end_behind_a_marker(
    lab: Lab,
    new_topic: TopicFactory,
    writer: TopicWriter,
    tasks: Tasks,
    client: KafkaSourceClient,
) -> None:
    log = log_of(new_topic())
    with writer.transaction(log.topic, row_values(5)) as producer:
        _elect_anew(lab)
        producer.commit_transaction(TIMEOUT_S)
    tasks.read(Split(log, 0), 6)
    epoch = client.bounds([log])[log].leader_epoch
    assert epoch is not None
    writer.write(log.topic, row_values(2))
    _elect_anew(lab)
    writer.write(log.topic, row_values(2))
    offsets, _ = tasks.read(Split(log, 6, leader_epoch=epoch, new_leader=True), 10)
    assert offsets == [6, 7, 8, 9]


def test_piece_that_begins_behind_an_election_is_read(
    lab: Lab, new_topic: TopicFactory, writer: TopicWriter, tasks: Tasks
) -> None:
    log = log_of(new_topic())
    writer.write(log.topic, row_values(3))
    _, epoch = tasks.read(Split(log, 0), 3)
    _elect_anew(lab)
    writer.write(log.topic, row_values(6))
    reader = tasks.reader(Split(log, 3, stop_offset=6, leader_epoch=epoch, new_leader=True))
    assert read_to_stop(reader).offsets() == [3, 4, 5]
    reader.close(reusable=False)
    offsets, _ = tasks.read(Split(log, 6), 9)
    assert offsets == [6, 7, 8]


@pytest.mark.parametrize("regrown", slow_after(1, [9, 2]), ids=["longer", "shorter"])
def test_log_that_was_cut_and_has_grown_again_reports_lost_offsets_with_numbers(
    lab: Lab, new_topic: TopicFactory, writer: TopicWriter, tasks: Tasks, *, regrown: int
) -> None:
    log = log_of(new_topic())
    for row in row_values(10):
        writer.write(log.topic, [row])
    _, epoch = tasks.read(Split(log, 0), 10)
    assert epoch is not None
    lab.kill_server("kafka")
    cut_log(lab, log.topic, 6)
    lab.start_server("kafka")
    writer.write(log.topic, row_values(regrown, "other"))
    end = 6 + regrown
    reader = tasks.reader(Split(log, 10, leader_epoch=epoch, new_leader=True))
    with pytest.raises(OffsetsLostError, match=f"from 0 to {end}, .* {epoch} ends at 6") as lost:
        read_for(reader, TIMEOUT_S)
    reader.close(reusable=False)
    assert {"committed_end": "10", "cut_at": "6", "log_end": str(end)}.items() <= (
        lost.value.evidence.items()
    )


def test_consumer_that_stands_elsewhere_is_replaced_when_there_is_a_new_leader(
    lab: Lab, new_topic: TopicFactory, writer: TopicWriter, tasks: Tasks
) -> None:
    log = log_of(new_topic())
    for row in row_values(10):
        writer.write(log.topic, [row])
    _, epoch = tasks.read(Split(log, 0), 10)
    # A worker that has read little of the log, and was idle since.
    reader = tasks.reader(Split(log, 10))
    read_for(reader, 0.5)
    reader.close(reusable=True)
    lab.kill_server("kafka")
    cut_log(lab, log.topic, 6)
    lab.start_server("kafka")
    writer.write(log.topic, row_values(9))
    reader = tasks.reader(Split(log, 12, leader_epoch=epoch, new_leader=True))
    with pytest.raises(OffsetsLostError, match="ends at 6"):
        read_for(reader, TIMEOUT_S)
    reader.close(reusable=False)
    counts = tasks.cache.reuse_counts()
    assert (counts.reassigned, counts.closed_behind) == (0, 1)
