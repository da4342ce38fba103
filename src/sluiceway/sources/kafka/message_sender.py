"""Sends a topic single messages, each at least once: announcements."""

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, Producer

from sluiceway.errors import Retriable
from sluiceway.observe.failpoints import edge

_FLUSH_S = 30.0


class KafkaMessageSender:
    """See `MessageSender`. The producer is made with the first message.

    Args:
        options: Options of the connection, as the library takes them.
        topic: Where messages go.
    """

    def __init__(self, options: Mapping[str, str], topic: str) -> None:
        self._options = options
        self._topic = topic
        self._producer: Producer | None = None

    def send(self, key: str, body: bytes) -> None:
        """See `MessageSender.send`."""
        outcome: list[KafkaError | None] = []
        try:
            if self._producer is None:
                self._producer = Producer(self._settings())
            with edge("announce.kafka", self._topic):
                self._producer.produce(
                    self._topic,
                    body,
                    key=key,
                    on_delivery=lambda error, _: outcome.append(error),
                )
                self._producer.flush(_FLUSH_S)
        except (KafkaException, BufferError) as error:
            raise self._failed(str(error)) from None
        if not outcome:
            # It may still arrive, and is sent again: its key identifies it.
            self.close()
            raise self._failed("no broker has answered")
        if outcome[0] is not None:
            raise self._failed(outcome[0].str())

    def close(self) -> None:
        """See `MessageSender.close`."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(0)

    def _settings(self) -> dict[str, str | int | bool]:
        return {
            "log_level": 0,
            **self._options,
            "enable.idempotence": True,
            "message.timeout.ms": int(_FLUSH_S * 1000),
        }

    def _failed(self, why: str) -> Retriable:
        return Retriable(why, where=f"topic {self._topic}")
