"""Who is told of announcements: a webhook, and a topic."""

from sluiceway.config.http_receiver import HttpReceiver
from sluiceway.config.ready_rule import ReadyRule
from sluiceway.errors import Retriable
from sluiceway.followers.announcements import Announcement, Announcer, Receiver
from sluiceway.followers.http_post import post_json
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.failpoints import edge
from sluiceway.sources.side_registry import open_message_sender
from sluiceway.sources.side_topics import SideTopic
from sluiceway.spec.webhook_body import fill_body


class WebhookReceiver(Receiver):
    """A URL that gets a POST; an answer of 2xx says that it knows.

    Args:
        rule: Whom to call.
        body: Template of what is sent; None sends the announcement as it is.
    """

    name = "webhook"

    def __init__(self, rule: HttpReceiver, body: str | None = None) -> None:
        self._rule = rule
        self._body = body

    def send(self, announcement: Announcement) -> None:
        """See `Receiver.send`."""
        host, body = self._rule.host, announcement.body
        if self._body is not None:
            body = fill_body(self._body, body)
        try:
            with edge("announce.webhook", host):
                post_json(self._rule, body, {"Idempotency-Key": announcement.key})
        except OSError as error:
            raise Retriable(f"does not answer: {type(error).__name__}", where=host) from None


class TopicReceiver(Receiver):
    """A topic; the message's key is the announcement's."""

    def __init__(self, topic: SideTopic) -> None:
        # Its place in the log is kept under this name.
        self.name = topic.kind
        self._sender = open_message_sender(topic)

    def send(self, announcement: Announcement) -> None:
        """See `Receiver.send`."""
        self._sender.send(announcement.key, announcement.body)

    def close(self) -> None:
        """See `Receiver.close`."""
        self._sender.close()


def announcers_of(rule: ReadyRule | None, ledger_log: LedgerLog) -> tuple[Announcer, ...]:
    """One for each receiver of a route's announcements."""
    receivers: list[Receiver] = []
    if rule is not None and rule.webhook is not None:
        receivers.append(WebhookReceiver(rule.webhook, rule.webhook_body))
    if rule is not None and rule.topic is not None:
        receivers.append(TopicReceiver(rule.topic))
    return tuple(Announcer(each, ledger_log) for each in receivers)
