"""Reads a small topic to its end, and on as messages come: what other systems send a driver.

Apart from the routes' own reading, which lives in tasks. The caller keeps where it goes on: offsets
that the log does not have any more begin at its earliest one.
"""

import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from sluiceway.errors import InvariantError, JobFileError, SourceUnavailableError
from sluiceway.sources.contract import SourceIdentity
from sluiceway.sources.kafka.client import KafkaSourceClient
from sluiceway.sources.kafka.failures import (
    BrokerTrouble,
    is_retried_by_library,
    kafka_error,
    request_failure,
)
from sluiceway.sources.kafka.settings import consumer_settings
from sluiceway.sources.side_topics import TailMessage

_EARLIEST: Final = -2


class KafkaTopicTail:
    """One reader of one topic. Used by one thread; `open` comes first, and after any error.

    Args:
        servers: The brokers, `host:port` with commas between.
        properties: The user's client properties.
        topic: It has to be there.
        timeout_s: How long brokers may be silent.

    Attributes:
        ends: Partition -> first offset that was not given out.
    """

    def __init__(
        self, servers: str, properties: Mapping[str, str], topic: str, timeout_s: float
    ) -> None:
        self._servers = servers
        self._properties = dict(properties)
        self._topic = topic
        self._timeout_s = timeout_s
        self._trouble = BrokerTrouble()
        self._consumer: Consumer | None = None
        # Partitions that are not read to their end -> seconds for which they were waited for.
        self._behind: dict[int, float] = {}
        self.ends: dict[int, int] = {}

    def describe(self) -> tuple[SourceIdentity, tuple[int, ...]]:
        """Which log it is, and its partitions.

        Raises:
            SourceUnavailableError: No broker answers.
            TopicNotFoundError: It is not there.
            UnhealthyEnvironmentError: The broker refused the login or lacks a permission.
            JobFileError: The library refuses the client properties.
        """
        client = KafkaSourceClient(self._servers, self._properties, self._timeout_s)
        try:
            found = client.discover((self._topic,))
        finally:
            client.close()
        return found[0].identity, tuple(each.partition.number for each in found)

    def open(self, starts: Mapping[int, int | None]) -> None:
        """Begin to read.

        Args:
            starts: Partition -> offset to go on at; None is its earliest.

        Raises:
            JobFileError: The library refuses the client properties.
        """
        self.close()
        settings = consumer_settings(self._servers, self._properties, self._trouble)
        try:
            self._consumer = Consumer(settings | {"auto.offset.reset": "earliest"})
        except KafkaException as failure:
            raise JobFileError(
                f"Kafka properties are not valid: {kafka_error(failure).str()}", where=self._servers
            ) from failure
        self._consumer.assign([
            TopicPartition(self._topic, number, _EARLIEST if start is None else start)
            for number, start in starts.items()
        ])  # fmt: skip
        self.ends = {number: start for number, start in starts.items() if start is not None}
        self._behind = dict.fromkeys(starts, 0.0)

    @property
    def at_end(self) -> bool:
        """Whether all that there was has been given out: the last word on something, too."""
        return not self._behind

    def read(self, most: int, wait_s: float) -> list[TailMessage]:
        """Messages that have come; `at_end` says whether others come after them.

        Args:
            most: Not more are given out at once.
            wait_s: How long to wait for some.

        Raises:
            SourceUnavailableError: The broker of a partition is silent, whatever others say.
            UnhealthyEnvironmentError: The broker refused the login or lacks a permission.
        """
        consumer = self._consumer
        if consumer is None:
            raise InvariantError("a topic is read before it was opened")
        began = time.monotonic()
        try:
            found = consumer.consume(most, wait_s)
        except KafkaException as failure:
            raise request_failure(kafka_error(failure), self._trouble, self._where) from failure
        waited_s = time.monotonic() - began
        self._behind = {number: before + waited_s for number, before in self._behind.items()}
        given = [each for message in found if (each := self._message(message)) is not None]
        silent = sorted(n for n, silent_s in self._behind.items() if silent_s > self._timeout_s)
        if silent:
            reason = self._trouble.connection or "no leader"
            text = f"partitions {silent} do not answer: {reason}"
            raise SourceUnavailableError(text, where=self._where)
        for each in given:
            self.ends[each.partition] = each.offset + 1
        return given

    def close(self) -> None:
        """End the connection. Safe to repeat."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _message(self, message: Message) -> TailMessage | None:
        """The message to give out; None for an event of a partition."""
        error = message.error()
        number, offset = message.partition(), message.offset()
        if error is None and number is not None and offset is not None:
            self._behind[number] = 0.0
            return TailMessage(number, offset, _bytes(message.value()))
        if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
            self._behind.pop(-1 if number is None else number, None)
        elif error is not None and not is_retried_by_library(error):
            raise request_failure(error, self._trouble, self._where)
        return None

    @property
    def _where(self) -> str:
        return f"topic {self._topic}"


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
