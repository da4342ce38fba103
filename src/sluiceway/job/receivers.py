"""Who is told of announcements: a webhook, and a Kafka topic."""

import http.client
import urllib.error
import urllib.request
from email.message import Message
from typing import IO

from confluent_kafka import KafkaError, KafkaException, Producer

from sluiceway.errors import Retriable
from sluiceway.job.announcements import Announcement, Receiver, Teller
from sluiceway.job.ready_rule import ReadyRule, TopicRule, WebhookRule
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.log import Log

_FLUSH_S = 30.0
_MOST_ANSWER_BYTES = 64 * 1024


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """An answer that sends elsewhere is a failure: the job file says who is told."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> None:
        del req, fp, code, msg, headers, newurl


class WebhookReceiver(Receiver):
    """A URL that gets a POST; an answer of 2xx says that it knows."""

    name = "webhook"

    def __init__(self, rule: WebhookRule) -> None:
        self._rule = rule
        self._opener = urllib.request.build_opener(_NoRedirects())

    def send(self, announcement: Announcement) -> None:
        """See `Receiver.send`."""
        headers = {
            "Content-Type": "application/json",
            **dict(self._rule.headers),
            "Idempotency-Key": announcement.key,
        }
        request = urllib.request.Request(  # noqa: S310 - http or https, as the job file was checked
            self._rule.url, data=announcement.body, headers=headers, method="POST"
        )
        try:
            with self._opener.open(request, timeout=self._rule.timeout_s) as answer:
                answer.read(_MOST_ANSWER_BYTES)
        except urllib.error.HTTPError as error:
            error.close()
            raise Retriable(f"answers {error.code}", where=self._rule.host) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            # Its words may hold the URL, and that a secret.
            what = type(getattr(error, "reason", error)).__name__
            raise Retriable(f"does not answer: {what}", where=self._rule.host) from None


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


def tellers_of(rule: ReadyRule | None, ledger_log: LedgerLog, log: Log) -> tuple[Teller, ...]:
    """One for each receiver of a route's announcements; not begun yet."""
    receivers: list[Receiver] = []
    if rule is not None and rule.webhook is not None:
        receivers.append(WebhookReceiver(rule.webhook))
    if rule is not None and rule.topic is not None:
        receivers.append(TopicReceiver(rule.topic))
    return tuple(Teller(each, ledger_log, log) for each in receivers)
