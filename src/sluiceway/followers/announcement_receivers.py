"""Who is told of announcements: a webhook, and a Kafka topic."""

from confluent_kafka import KafkaError, KafkaException, Producer

from sluiceway.config.http_receiver import HttpReceiver
from sluiceway.config.ready_rule import ReadyRule, TopicRule
from sluiceway.errors import Retriable
from sluiceway.followers.announcements import Announcement, Receiver, Teller
from sluiceway.followers.http_post import post_json
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.failpoints import edge

_FLUSH_S = 30.0


class WebhookReceiver(Receiver):
    """A URL that gets a POST; an answer of 2xx says that it knows."""

    name = "webhook"

    def __init__(self, rule: HttpReceiver) -> None:
        self._rule = rule

    def send(self, announcement: Announcement) -> None:
        """See `Receiver.send`."""
        host = self._rule.host
        try:
            with edge("announce.webhook", host):
                post_json(self._rule, announcement.body, {"Idempotency-Key": announcement.key})
        except OSError as error:
            raise Retriable(f"does not answer: {type(error).__name__}", where=host) from None


class TopicReceiver(Receiver):
    """A Kafka topic; the message's key is the announcement's."""

    name = "kafka"

    def __init__(self, rule: TopicRule) -> None:
        self._rule = rule
        self._producer: Producer | None = None

    def send(self, announcement: Announcement) -> None:
        """See `Receiver.send`."""
        outcome: list[KafkaError | None] = []
        try:
            if self._producer is None:
                self._producer = Producer(self._settings())
            with edge("announce.kafka", self._rule.topic):
                self._producer.produce(
                    self._rule.topic,
                    announcement.body,
                    key=announcement.key,
                    on_delivery=lambda error, _: outcome.append(error),
                )
                self._producer.flush(_FLUSH_S)
        except (KafkaException, BufferError) as error:
            raise self._failed(str(error)) from None
        if not outcome:
            # It may still arrive, and is sent again: its key tells.
            self.close()
            raise self._failed("no broker has answered")
        if outcome[0] is not None:
            raise self._failed(outcome[0].str())

    def close(self) -> None:
        """See `Receiver.close`."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(0)

    def _settings(self) -> dict[str, str | int | bool]:
        return {
            "log_level": 0,
            **dict(self._rule.options),
            "enable.idempotence": True,
            "message.timeout.ms": int(_FLUSH_S * 1000),
        }

    def _failed(self, why: str) -> Retriable:
        return Retriable(why, where=f"topic {self._rule.topic}")


def tellers_of(rule: ReadyRule | None, ledger_log: LedgerLog) -> tuple[Teller, ...]:
    """One for each receiver of a route's announcements."""
    receivers: list[Receiver] = []
    if rule is not None and rule.webhook is not None:
        receivers.append(WebhookReceiver(rule.webhook))
    if rule is not None and rule.topic is not None:
        receivers.append(TopicReceiver(rule.topic))
    return tuple(Teller(each, ledger_log) for each in receivers)
