"""Who is told of announcements: a webhook, and a Kafka topic."""

import http.client
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from functools import partial
from typing import IO, Any

from confluent_kafka import KafkaError, KafkaException, Producer

from sluiceway.config.ready_rule import ReadyRule, TopicRule, WebhookRule
from sluiceway.errors import Retriable
from sluiceway.followers.announcements import Announcement, Receiver, Teller
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.failpoints import edge

_FLUSH_S = 30.0
_LOOK_S = 0.5


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


class _Connections:
    """Those of one call, which is cut off when its time is over.

    A timeout of a socket begins anew with each byte that comes.
    """

    def __init__(self) -> None:
        self._made: list[http.client.HTTPConnection] = []
        self._cut = False

    def make(self, kind: Any, *args: Any, **options: Any) -> http.client.HTTPConnection:
        """A connection of this class, not opened yet."""
        made: http.client.HTTPConnection = kind(*args, **options)
        self._made.append(made)
        return made

    @contextmanager
    def cut_off(self, timeout_s: float) -> Iterator[None]:
        """Let what is done within take so long.

        Raises:
            TimeoutError: It took longer.
        """
        done, until = threading.Event(), time.monotonic() + timeout_s
        thread = threading.Thread(target=self._watch, args=(done, until), name="cut_off")
        thread.daemon = True
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        if self._cut:
            # What came before may look like a whole answer.
            raise TimeoutError

    def _watch(self, done: threading.Event, until: float) -> None:
        while not done.wait(max(_LOOK_S, until - time.monotonic())):
            self._cut = True
            for made in list(self._made):
                opened = made.sock
                if opened is not None:
                    with suppress(OSError):
                        opened.shutdown(socket.SHUT_RDWR)


class _Known(urllib.request.AbstractHTTPHandler):
    """Opens connections that can be cut off."""

    def __init__(self, connections: _Connections) -> None:
        super().__init__()
        self._connections = connections

    def do_open(self, http_class: Any, *args: Any, **options: Any) -> Any:
        return super().do_open(partial(self._connections.make, http_class), *args, **options)


class _Http(_Known, urllib.request.HTTPHandler):
    pass


class _Https(_Known, urllib.request.HTTPSHandler):
    pass


class WebhookReceiver(Receiver):
    """A URL that gets a POST; an answer of 2xx says that it knows."""

    name = "webhook"

    def __init__(self, rule: WebhookRule) -> None:
        self._rule = rule

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
        made, timeout_s = _Connections(), self._rule.timeout_s
        # Whoever is told is told by the job file, not by http_proxy in the environment.
        direct = urllib.request.ProxyHandler({})
        opener = urllib.request.build_opener(direct, _NoRedirects(), _Http(made), _Https(made))
        try:
            # What it says behind its status is not asked for.
            with (
                edge("announce.webhook", self._rule.host),
                made.cut_off(timeout_s),
                opener.open(request, timeout=timeout_s),
            ):
                pass
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
