"""Effects of an announcement in the table itself: `_SUCCESS` files and a table property.

They are desired state, like all effects in the catalog: applied apart from commits, and again after
a crash. A file `_SUCCESS` is written before the metastore gets its partition, so that readers of
the partition find the file too. With on_commit the partition is there before.
"""

from collections.abc import Iterable, Sequence

from sluiceway.errors import Retriable
from sluiceway.followers.announcements import Announcement, Announcer, Receiver
from sluiceway.host.http import post_json
from sluiceway.host.http_receiver import HttpReceiver
from sluiceway.jobfile.blocks.http_receiver import fill_body
from sluiceway.jobfile.compile.ready_rule import AnnounceRule
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.failpoints import edge
from sluiceway.sinks.contract import DesiredPartition, TableSink
from sluiceway.sources.registry import open_message_sender
from sluiceway.sources.side_topics import SideTopic
from sluiceway.storage.contract import Storage


class WebhookReceiver(Receiver):
    """A URL that gets a POST; a 2xx answer confirms it.

    Args:
        rule: URL and headers of the receiver.
        body: Template of the body; None sends the announcement as it is.
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


def announcers_of(rule: AnnounceRule | None, ledger: LedgerLog) -> tuple[Announcer, ...]:
    """One follower for each receiver of a route's announcements."""
    receivers: list[Receiver] = []
    if rule is not None and rule.webhook is not None:
        receivers.append(WebhookReceiver(rule.webhook, rule.webhook_body))
    if rule is not None and rule.topic is not None:
        receivers.append(TopicReceiver(rule.topic))
    return tuple(Announcer(each, ledger) for each in receivers)


SUCCESS = "_SUCCESS"


class ReadyEffects:
    """The effects of one route, while its driver lives.

    All of it is done in the catalog's turns.

    Attributes:
        announcers: Followers that send the announcements.
    """

    def __init__(
        self,
        rule: AnnounceRule,
        storage: Storage,
        sink: TableSink,
        announcers: Sequence[Announcer] = (),
    ) -> None:
        self._rule = rule
        self.announcers = tuple(announcers)
        self._storage = storage
        self._sink = sink
        self._said_us: int | None = None

    def find_first(self, fold: Fold) -> None:
        """Find each receiver's first slot. Called once, at START.

        Args:
            fold: State of the ledger at START.

        Raises:
            StorageUnavailableError: The store failed.
            FencedError: Another driver has taken over.
        """
        for each in self.announcers:
            each.find_first(fold)

    @property
    def unannounced_from(self) -> int | None:
        """Slot of the first announcement that some receiver lacks; None when there is none.

        The next driver finds announcements by the closed prefixes, so none of these may be sealed.
        """
        waiting = [each.first_waiting for each in self.announcers]
        return min((slot for slot in waiting if slot is not None), default=None)

    def before(self, partitions: Iterable[DesiredPartition]) -> None:
        """Called before the catalog gets partitions. Safe to repeat.

        Raises:
            StorageUnavailableError: The store failed.
        """
        if not self._rule.success_file:
            return
        for each in partitions:
            if not (each.announced and each.exists):
                continue
            path = f"{each.location}/{SUCCESS}"
            if self._storage.status(path) is None:
                self._storage.make_folders(each.location)
                self._storage.overwrite(path, b"")

    def after(self, complete_us: int | None) -> None:
        """Called when the catalog has all desired partitions. Safe to repeat.

        Args:
            complete_us: All hours that end at this time or before were announced, and are among
                these partitions; microseconds since 1970. None when there is none.

        Raises:
            MetastoreUnavailableError: The catalog does not answer.
            TableMismatchError: The table was dropped or created again.
        """
        if not self._rule.table_property or complete_us is None or complete_us == self._said_us:
            return
        self._sink.mark_complete(complete_us)
        self._said_us = complete_us


def ready_effects(
    rule: AnnounceRule | None, ledger: LedgerLog, sink: TableSink
) -> ReadyEffects | None:
    """The effects of a route; None when it announces nothing."""
    if rule is None:
        return None
    return ReadyEffects(rule, ledger.storage, sink, announcers_of(rule, ledger))
