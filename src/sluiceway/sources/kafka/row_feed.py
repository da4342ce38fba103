"""Feeds a topic exactly once: rows and the place after them in one transaction.

The place is kept as the committed offset of a consumer group on the topic's partition 0: a number,
and a text with it. The group has no members; its offset says nothing about the topic's log.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from sluiceway.errors import (
    FencedError,
    InvariantError,
    JobFileError,
    SluicewayError,
    SourceUnavailableError,
)
from sluiceway.sources.kafka.failures import BrokerTrouble, kafka_error, request_failure
from sluiceway.sources.kafka.settings import consumer_settings, feed_settings
from sluiceway.sources.side_topics import FeedPlace, FeedRow, RowsTooLargeError

_FENCED: Final = frozenset({"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "_FENCED"})
_TOO_LARGE: Final = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})


class KafkaRowFeed:
    """One feeder of one topic; a newer one of the same name fences it. Used by one thread.

    Args:
        access: The brokers and the user's client properties.
        topic: Where rows go; it has to be there.
        name: Name of the feed: its group, and what its transactions are known by.
        timeout_s: Longest wait for the brokers in one call.
    """

    def __init__(
        self, access: tuple[str, Mapping[str, str]], topic: str, name: str, timeout_s: float
    ) -> None:
        self._access = access
        self._topic = topic
        self._name = name
        self._timeout_s = timeout_s
        self._trouble = BrokerTrouble()
        self._producer: Producer | None = None
        self._group: Consumer | None = None

    def open(self) -> FeedPlace | None:
        """Fence all feeders before, then say how far they came; None when there was none.

        Raises:
            SourceUnavailableError: The brokers do not answer, or the topic is not there.
            UnhealthyEnvironmentError: A permission is missing.
            JobFileError: The library refuses the client properties.
        """
        self.close()
        servers, properties = self._access
        settings = consumer_settings(servers, properties, self._trouble)
        try:
            self._group = Consumer(settings | {"group.id": self._name})
            self._producer = Producer(
                feed_settings(servers, properties, self._trouble) | {"transactional.id": self._name}
            )
        except KafkaException as failure:
            raise JobFileError(
                f"Kafka properties are not valid: {kafka_error(failure).str()}", where=servers
            ) from failure
        asked = [TopicPartition(self._topic, 0)]
        try:
            # Ends what an earlier feeder has left open, so the place is settled.
            self._producer.init_transactions(self._timeout_s)
            self._look_for_topic(self._group)
            (found,) = self._group.committed(asked, timeout=self._timeout_s)
        except KafkaException as failure:
            raise self._failure(failure) from failure
        if found.error is not None:
            raise request_failure(found.error, self._trouble, self._where)
        return FeedPlace(found.offset, found.metadata or "") if found.offset >= 0 else None

    def _look_for_topic(self, consumer: Consumer) -> None:
        """Refuse a topic that is not there; producing would make the broker create it."""
        listed = consumer.list_topics(self._topic, timeout=self._timeout_s)
        error = listed.topics[self._topic].error
        if error is not None:
            raise KafkaException(error)

    def send(self, rows: Sequence[FeedRow], place: FeedPlace) -> None:
        """Append rows and move the place, both or neither. Called after `open`.

        After any error the feed has to be opened again: it says what became of the rows.

        Args:
            rows: Rows in the order that rows of one key keep.
            place: Place after the last of them.

        Raises:
            RowsTooLargeError: A row is larger than client or broker take; nothing was sent.
            FencedError: A newer feeder of this name goes on.
            SourceUnavailableError: The brokers do not answer; whether the rows came is not known.
        """
        producer, group = self._producer, self._group
        if producer is None or group is None:
            raise InvariantError("a topic is fed before its feed was opened")
        refused: list[KafkaError] = []
        try:
            producer.begin_transaction()
            for row in rows:
                self._produce(producer, row, refused)
            self._flush(producer)
            if refused:
                self._refuse(producer, refused)
            behind = TopicPartition(self._topic, 0, place.number, place.text)
            producer.send_offsets_to_transaction(
                [behind], group.consumer_group_metadata(), self._timeout_s
            )
            producer.commit_transaction(self._timeout_s)
        except KafkaException as failure:
            raise self._failure(failure) from failure

    def _produce(self, producer: Producer, row: FeedRow, refused: list[KafkaError]) -> None:
        def delivered(error: KafkaError | None, message: object) -> None:
            del message
            if error is not None:
                refused.append(error)

        while True:
            try:
                producer.produce(
                    self._topic,
                    row.value,
                    row.key,
                    headers=list(row.headers),
                    timestamp=row.timestamp_ms or 0,
                    on_delivery=delivered,
                )
            except BufferError:
                # The client's queue is full; what it holds goes out first.
                self._flush(producer)
            except KafkaException as failure:
                refused.append(kafka_error(failure))
                return
            else:
                producer.poll(0)
                return

    def _flush(self, producer: Producer) -> None:
        left = producer.flush(self._timeout_s)
        if left:
            raise SourceUnavailableError(
                f"{left} rows were not taken within {self._timeout_s:.0f} s", where=self._where
            )

    def _refuse(self, producer: Producer, refused: Sequence[KafkaError]) -> None:
        producer.abort_transaction(self._timeout_s)
        if any(error.name() in _TOO_LARGE for error in refused):
            raise RowsTooLargeError
        raise KafkaException(refused[0])

    def close(self) -> None:
        """End the feed; an open transaction is aborted. Safe to repeat."""
        producer, self._producer = self._producer, None
        group, self._group = self._group, None
        if producer is not None:
            # Without this its destructor would wait for what cannot be delivered.
            producer.purge()
        if group is not None:
            group.close()

    @property
    def _where(self) -> str:
        return f"topic {self._topic}"

    def _failure(self, failure: KafkaException) -> SluicewayError:
        error = kafka_error(failure)
        if error.name() in _FENCED:
            return FencedError(f"another feeder goes on: {error.str()}", where=self._where)
        if error.name() in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"):
            return SourceUnavailableError(
                "there is no such topic", where=self._where, hint="create it; it is tried again"
            )
        return request_failure(error, self._trouble, self._where)
