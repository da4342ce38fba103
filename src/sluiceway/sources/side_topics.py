"""Topics that a route uses next to its source: dirty rows go there, counts come from there.

What a route receives and sends there is no part of its source: another queue may serve it, or the
same one with another login.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sluiceway.sources.contract import Headers, SourceIdentity


@dataclass(frozen=True, slots=True)
class SideTopic:
    """A topic and how it is reached; a value.

    Attributes:
        options: The connection's options, names and values as text. Maybe secret: never logged.
        topic: Where the messages are.
        kind: Kind of the connection.
    """

    options: tuple[tuple[str, str], ...]
    topic: str
    kind: str = "kafka"

    def __repr__(self) -> str:
        return f"SideTopic({self.kind!r}, {self.topic!r}, <{len(self.options)} options>)"


@dataclass(frozen=True, slots=True)
class FeedRow:
    """A record for a topic.

    Attributes:
        timestamp_ms: None takes the time at which it is sent.
    """

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class FeedPlace:
    """How far a topic is fed; what number and text mean is the caller's."""

    number: int
    text: str


class RowsTooLargeError(Exception):
    """Client or broker takes no record of the size that some of the rows have; none was sent."""


class RowFeed(Protocol):
    """Feeds a topic exactly once: rows and the place after them, both or neither."""

    def open(self) -> FeedPlace | None:
        """Fence all before; how far they came."""

    def send(self, rows: Sequence[FeedRow], place: FeedPlace) -> None:
        """Both or neither.

        Raises:
            RowsTooLargeError: A row is larger than the topic takes; nothing was sent.
        """

    def close(self) -> None:
        """Safe to repeat."""


@dataclass(frozen=True, slots=True)
class TailMessage:
    """A message; a value of None is a tombstone."""

    partition: int
    offset: int
    value: bytes | None


class TopicTail(Protocol):
    """Reads a small topic to its end, and on as messages come.

    Attributes:
        ends: Partition -> first offset that was not given out.
    """

    ends: dict[int, int]

    def describe(self) -> tuple[SourceIdentity, tuple[int, ...]]:
        """Which log it is, and its partitions."""

    def open(self, starts: Mapping[int, int | None]) -> None:
        """Begin to read."""

    @property
    def at_end(self) -> bool:
        """Whether all that there was has been given out."""

    def read(self, most: int, wait_s: float) -> Sequence[TailMessage]:
        """What has come."""

    def close(self) -> None:
        """Safe to repeat."""


class MessageSender(Protocol):
    """Sends a topic single messages, each at least once."""

    def send(self, key: str, body: bytes) -> None:
        """Returns when the topic has it.

        Raises:
            Retriable: It may have it or not: send it again, with the same key.
        """

    def close(self) -> None:
        """Safe to repeat."""
