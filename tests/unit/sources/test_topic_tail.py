"""What a small topic's reader says of its ends, with a client of our own."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from confluent_kafka import KafkaError

from sluiceway.errors import SourceUnavailableError
from sluiceway.sources.kafka import topic_tail
from sluiceway.sources.kafka.topic_tail import KafkaTopicTail
from sluiceway.sources.side_topics import TailMessage


@dataclass(frozen=True)
class Said:
    """A message, or the end of a partition."""

    number: int
    at: int
    end: bool = False

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self.end else None

    def partition(self) -> int:
        return self.number

    def offset(self) -> int:
        return self.at

    def value(self) -> bytes:
        return b"v"


@dataclass
class Client:
    """Of librdkafka, as far as it is asked."""

    says: list[Said] = field(default_factory=list)
    most_asked: int = 0

    def assign(self, places: Sequence[object]) -> None:
        assert len(places) == 2

    def consume(self, most: int, wait_s: float) -> list[Said]:
        assert wait_s > 0
        self.most_asked = max(self.most_asked, most)
        time.sleep(0.002)
        found, self.says = self.says[:most], self.says[most:]
        return found

    def close(self) -> None:
        return


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()
    monkeypatch.setattr(topic_tail, "Consumer", lambda _: made)
    return made


def test_messages_are_given_out_as_they_come_and_the_end_is_told(client: Client) -> None:
    tail = KafkaTopicTail("127.0.0.1:9", {}, "audit", 3600.0)
    tail.open({0: None, 1: 5})
    client.says = [Said(0, 0), Said(0, 1), Said(0, 2, end=True), Said(1, 5), Said(1, 6, end=True)]
    assert tail.read(2, 0.1) == [TailMessage(0, 0, b"v"), TailMessage(0, 1, b"v")]
    assert (tail.ends, tail.at_end) == ({0: 2, 1: 5}, False)
    assert tail.read(2, 0.1) == [TailMessage(1, 5, b"v")]
    assert (tail.ends, tail.at_end) == ({0: 2, 1: 6}, False)
    assert tail.read(2, 0.1) == []
    assert tail.at_end
    # No more are asked for at once than the caller has room for.
    assert client.most_asked == 2


def test_partition_that_is_silent_is_told_while_others_speak(client: Client) -> None:
    tail = KafkaTopicTail("127.0.0.1:9", {}, "audit", 0.05)
    tail.open({0: None, 1: None})

    def read() -> None:
        for at in range(10_000):
            client.says = [Said(0, at), Said(0, at + 1, end=True)]
            tail.read(100, 0.1)

    with pytest.raises(SourceUnavailableError, match=r"partitions \[1\]"):
        read()
