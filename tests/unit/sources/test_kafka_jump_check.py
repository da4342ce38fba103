"""A hole in a log is believed only when a second consumer finds none of its rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaError, TopicPartition

from sluiceway.errors import (
    OffsetsLostError,
    SluicewayError,
    SourceUnavailableError,
    TaskFailedError,
)
from sluiceway.sources.contract import SourcePartition
from sluiceway.sources.kafka import jump_check
from sluiceway.sources.kafka.jump_check import check_jumps
from sluiceway.sources.kafka.progress import Jump

LOG, OTHER = SourcePartition("orders", 0), SourcePartition("orders", 1)


@dataclass(frozen=True, slots=True)
class Message:
    """A row of a log, or the end of it."""

    log: SourcePartition
    at: int
    failure: KafkaError | None = None

    def topic(self) -> str:
        return self.log.topic

    def partition(self) -> int:
        return int(self.log.partition)

    def offset(self) -> int:
        return self.at

    def error(self) -> KafkaError | None:
        return self.failure


def end_of(log: SourcePartition, at: int) -> Message:
    return Message(log, at, KafkaError(KafkaError._PARTITION_EOF))


class Consumer:
    """Hands out what it was given, in parts; its logs begin where `starts` says."""

    def __init__(self) -> None:
        self.parts: list[list[Message]] = []
        self.starts: dict[int, int] = {}
        self.assigned: list[tuple[int, int]] = []
        self.closed = 0
        self.fetches, self.asked_busily = True, 0

    def assign(self, wanted: Sequence[TopicPartition]) -> None:
        self.assigned = [(each.partition, each.offset) for each in wanted]

    def unassign(self) -> None:
        self.fetches = False

    def consume(self, most: int, timeout_s: float) -> list[Message]:
        del most, timeout_s
        return self.parts.pop(0) if self.parts else []

    def get_watermark_offsets(self, log: TopicPartition, timeout: float) -> tuple[int, int]:
        del timeout
        self.asked_busily += self.fetches
        return self.starts.get(log.partition, 0), 100

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Consumer:
    made = Consumer()
    monkeypatch.setattr(jump_check, "Consumer", lambda _: made)
    return made


def check(jumps: Sequence[Jump] = (Jump(10, 20),)) -> None:
    check_jumps("127.0.0.1:9", {}, {LOG: jumps})


@pytest.mark.parametrize("then", [Message(LOG, 20), Message(LOG, 25), end_of(LOG, 20)])
def test_hole_in_which_nobody_finds_a_row_is_believed(consumer: Consumer, then: Message) -> None:
    consumer.parts = [[then]]
    check()
    assert consumer.assigned == [(0, 10)]
    assert consumer.asked_busily == 0
    assert consumer.closed == 1


@pytest.mark.parametrize("offset", [10, 19])
def test_row_in_the_hole_fails_the_task(consumer: Consumer, offset: int) -> None:
    consumer.parts = [[Message(LOG, offset), Message(LOG, 20)]]
    with pytest.raises(TaskFailedError, match=f"offset {offset} was skipped"):
        check()
    assert consumer.closed == 1


def test_rows_below_and_behind_the_hole_are_none_that_were_skipped(consumer: Consumer) -> None:
    consumer.parts = [[Message(LOG, 9), Message(LOG, 20), Message(LOG, 21)]]
    check()
    assert consumer.closed == 1


def test_rows_between_two_holes_are_none_that_were_skipped(consumer: Consumer) -> None:
    consumer.parts = [[Message(LOG, 20), Message(LOG, 29)], [end_of(LOG, 40)]]
    check((Jump(10, 20), Jump(30, 40)))
    consumer.parts = [[Message(LOG, 20), Message(LOG, 39)], [end_of(LOG, 40)]]
    with pytest.raises(TaskFailedError, match="offset 39 was skipped"):
        check((Jump(10, 20), Jump(30, 40)))


def test_all_logs_with_a_hole_are_read_to_its_end(consumer: Consumer) -> None:
    jumps = {LOG: (Jump(10, 20),), OTHER: (Jump(5, 6),)}
    consumer.parts = [[Message(LOG, 20)], [Message(OTHER, 5)]]
    with pytest.raises(TaskFailedError, match="offset 5 was skipped"):
        check_jumps("127.0.0.1:9", {}, jumps)


def test_hole_that_nobody_can_read_again_is_not_believed(
    consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jump_check, "_TIMEOUT_S", 0.0)
    consumer.parts = [[end_of(LOG, 15)]]
    with pytest.raises(SourceUnavailableError, match="could not be read again"):
        check()


def test_hole_that_retention_has_taken_meanwhile_is_a_loss(consumer: Consumer) -> None:
    consumer.parts = [[Message(LOG, 20)]]
    consumer.starts = {0: 10}
    check()
    consumer.parts = [[Message(LOG, 20)]]
    consumer.starts = {0: 11}
    with pytest.raises(OffsetsLostError, match="nothing is known of offsets 10 to 11"):
        check()


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (KafkaError.OFFSET_OUT_OF_RANGE, OffsetsLostError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, SluicewayError),
        (KafkaError._BAD_MSG, TaskFailedError),
    ],
)
def test_hole_of_a_log_that_cannot_be_read_is_not_believed(
    consumer: Consumer, failure: int, error: type[SluicewayError]
) -> None:
    consumer.starts = {0: 15}
    consumer.parts = [[Message(LOG, 10, KafkaError(failure)), Message(LOG, 20)]]
    with pytest.raises(error):
        check()


def test_broker_that_is_away_for_a_moment_is_waited_for(consumer: Consumer) -> None:
    consumer.parts = [[Message(LOG, 0, KafkaError(KafkaError._TRANSPORT))], [Message(LOG, 20)]]
    check()
    assert consumer.parts == []
