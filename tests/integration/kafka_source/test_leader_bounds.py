"""Questions to leaders that answer in part; the answers are the library's own objects."""

import time
from collections.abc import Sequence
from concurrent.futures import Future
from types import SimpleNamespace

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from sluiceway.sources.contract import LogBounds, SourcePartition
from sluiceway.sources.kafka.leader_bounds import Answers, LeaderBounds

ONE, TWO = SourcePartition("t", 0), SourcePartition("t", 1)
Said = dict[SourcePartition, int | KafkaException | None]


def asked(*kinds: Said, patience_s: float = 60.0) -> LeaderBounds:
    """Questions whose answers are there at once; None never comes."""

    def ask(kind: int, partitions: Sequence[SourcePartition], timeout_s: float) -> Answers:
        assert timeout_s > 0
        answers: dict[TopicPartition, Future[object]] = {}
        for one in partitions:
            future: Future[object] = Future()
            said = kinds[kind][one]
            if isinstance(said, KafkaException):
                future.set_exception(said)
            elif said is not None:
                future.set_result(SimpleNamespace(offset=said, leader_epoch=kind + 4))
            answers[TopicPartition(one.topic, one.partition)] = future
        return answers

    made = LeaderBounds(1, [ONE, TWO], ask, time.monotonic() + patience_s)
    made.begin()
    return made


def run(questions: LeaderBounds) -> dict[SourcePartition, LogBounds]:
    while not questions.advance():
        pass
    return questions.bounds()


def test_all_kinds_make_the_bounds() -> None:
    questions = asked({ONE: 0, TWO: 5}, {ONE: 7, TWO: 8}, {ONE: 9, TWO: 8})
    assert run(questions) == {ONE: LogBounds(0, 7, 9), TWO: LogBounds(5, 8, 8)}
    # Of the high watermark's answer, which is the last.
    assert {one.leader_epoch for one in questions.bounds().values()} == {6}
    assert not questions.is_silent


def test_partition_that_fails_leaves_the_others() -> None:
    moved = KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))
    questions = asked({ONE: 0, TWO: 5}, {ONE: 7, TWO: moved}, {ONE: 9})
    assert run(questions) == {ONE: LogBounds(0, 7, 9)}
    assert list(questions.failures) == [TWO]
    assert not questions.is_silent


def test_offset_that_the_library_does_not_know_is_no_offset() -> None:
    questions = asked({ONE: 0, TWO: 5}, {ONE: 7, TWO: 8}, {ONE: 9, TWO: -1001})
    assert run(questions) == {ONE: LogBounds(0, 7, 9)}
    assert questions.is_silent


def test_leader_that_never_answers_is_silent_and_given_up() -> None:
    questions = asked({ONE: None, TWO: None}, patience_s=-10.0)
    assert run(questions) == {}
    assert questions.failures.keys() == {ONE, TWO}
    assert questions.is_silent
