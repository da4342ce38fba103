"""Feeds dirty rows to a Kafka topic, behind the commits and exactly once (commit rule 15).

The dirty files beside the ledger are the truth. A thread reads them in the order of the log, and
keeps its place (slot, file, row) in the topic's own transactions. A topic that is down stops this
and nothing else.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from sluiceway.errors import FencedError, LedgerCorruptError, SluicewayError
from sluiceway.job.config import RouteConfig
from sluiceway.job.desk import BackgroundWork
from sluiceway.job.takeover import OwnedLedger
from sluiceway.ledger.dirty_files import dirty_sources
from sluiceway.ledger.dirty_sources import DirtySource
from sluiceway.ledger.file_records import FileRecord
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.log import Log
from sluiceway.sources.kafka.row_feed import FeedPlace, FeedRow, KafkaRowFeed, RowsTooLargeError
from sluiceway.sources.kafka.source import BOOTSTRAP_SERVERS
from sluiceway.worker.dirty_reader import read_dirty_rows

_LOOK_EVERY_S: Final = 1.0
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
_LAST_WAIT_S: Final = 5.0
_TIMEOUT_S: Final = 30.0
_KEEP_EVERY: Final = 1_000
# Brokers forget a place that nobody has kept anew for a week, and all rows would be fed again.
_KEEP_WITHIN_S: Final = 3600.0
_TEXT: Final = re.compile(r"(?P<file>[^/]*)/(?P<row>0|[1-9][0-9]{0,18})")


class RowFeed(Protocol):
    """Where rows and the place behind them go; see `KafkaRowFeed`."""

    def open(self) -> FeedPlace | None:
        """Fence all before; how far they came."""

    def send(self, rows: Sequence[FeedRow], place: FeedPlace) -> None:
        """Both or neither."""

    def close(self) -> None:
        """Safe to repeat."""


@dataclass(frozen=True, slots=True)
class DirtyPlace:
    """The next row: of a file of a slot; no file is the slot's first one."""

    seq: int = 0
    file: str = ""
    row: int = 0

    def to_feed(self) -> FeedPlace:
        """As the topic keeps it."""
        return FeedPlace(self.seq, f"{self.file}/{self.row}")

    @classmethod
    def of(cls, kept: FeedPlace | None) -> "DirtyPlace":
        """From what the topic has kept.

        Raises:
            LedgerCorruptError: Somebody else's offsets are there.
        """
        if kept is None:
            return cls()
        found = _TEXT.fullmatch(kept.text)
        if found is None:
            raise LedgerCorruptError(
                f"the group of the dirty rows has an offset with the note {kept.text[:80]!r}, "
                "which is no place in the ledger",
                hint="something else commits offsets for this group; delete the group",
            )
        return cls(kept.number, found["file"], int(found["row"]))


class DirtyFeeder(BackgroundWork):
    """Of one route, from its START to its end, in a thread of its own.

    Args:
        log: Of the route.
        ledger: Its uuid.
        published: Slot below which all files are at their final names; called by the thread.
        feed: The topic; closed here.
        eyes: Told of waits and of what was fed.
    """

    def __init__(
        self, log: LedgerLog, ledger: str, published: Callable[[], int], feed: RowFeed, eyes: Log
    ) -> None:
        self._log = log
        self._ledger = ledger
        self._published = published
        self._feed = feed
        self._eyes = eyes
        self._place = DirtyPlace()
        self._kept = 0
        self._keep_due = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dirty_feed", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; the next driver goes on from the place. Safe to repeat."""
        self._end.set()
        self._thread.join(_LAST_WAIT_S)

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        try:
            while not self._end.is_set():
                try:
                    self._place = DirtyPlace.of(self._feed.open())
                    self._kept, self._keep_due = self._place.seq, 0.0
                    pause_s = _FIRST_PAUSE_S
                    self._go_on()
                except FencedError as error:
                    # By the feeder of a driver that took over, or of one that was: each sends the
                    # same rows from the same place, so trying again harms nothing.
                    pause_s = _LONGEST_PAUSE_S
                    self._eyes.info("dirty_feed_fenced", error=str(error), retry_in_s=pause_s)
                except SluicewayError as error:
                    self._eyes.warning("dirty_feed_waits", error=str(error), retry_in_s=pause_s)
                except Exception as error:  # noqa: BLE001 - the thread's boundary: never silent
                    text = f"{type(error).__name__}: {error}"
                    self._eyes.warning("dirty_feed_waits", error=text, retry_in_s=pause_s)
                self._end.wait(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        finally:
            self._feed.close()

    def _go_on(self) -> None:
        """Feed what there is, and what comes, until the end."""
        while not self._end.is_set():
            through = self._published()
            before = self._place
            rows = 0
            for source, file in self._files(through):
                rows += self._feed_file(source, file)
                if self._end.is_set():
                    return
            if self._place.seq < through:
                self._place = DirtyPlace(through)
            if through - self._kept >= _KEEP_EVERY or time.monotonic() >= self._keep_due:
                # Without a row, too: a start should not read a long log again.
                self._send_all([], self._place)
            if rows:
                self._eyes.info("dirty_rows_fed", rows=rows, since=before.seq, through=through)
            self._end.wait(_LOOK_EVERY_S)

    def _files(self, through: int) -> Iterator[tuple[DirtySource, FileRecord]]:
        """Dirty files of the slots from the place on, below `through`."""
        if self._place.seq >= through:
            return
        for record, _ in self._log.records(self._place.seq):
            if record.seq >= through:
                return
            found = dirty_sources(self._ledger, record)
            names = [source.file for source in found]
            at = self._place
            done = names.index(at.file) if (record.seq, at.file in names) == (at.seq, True) else 0
            yield from list(found.items())[done:]

    def _feed_file(self, source: DirtySource, file: FileRecord) -> int:
        at = self._place
        start = at.row if (at.seq, at.file) == (source.seq, source.file) else 0
        path = self._log.layout.final(file.final)
        if self._log.storage.status(path) is None:
            self._eyes.warning("dirty_file_gone", path=path, rows=int(file.rows) - start)
            return 0
        sent = 0
        for first, batch in read_dirty_rows(self._log.storage, path, start, int(file.rows)):
            rows = [_feed_row(row, source, first + n) for n, row in enumerate(batch.to_pylist())]
            self._send(rows, DirtyPlace(source.seq, source.file, first))
            sent += len(rows)
            if self._end.is_set():
                break
        return sent

    def _send(self, rows: list[FeedRow], first: DirtyPlace) -> None:
        """Send rows; those that are too large for the topic one by one, without their value."""
        try:
            self._send_all(rows, replace(first, row=first.row + len(rows)))
        except RowsTooLargeError:
            self._feed.open()
            if len(rows) > 1:
                half = len(rows) // 2
                self._send(rows[:half], first)
                self._send(rows[half:], replace(first, row=first.row + half))
                return
            headers = (*rows[0].headers, ("sluiceway.value", b"too large for this topic"))
            self._eyes.warning("dirty_row_too_large", seq=first.seq, file=first.file, row=first.row)
            bare = FeedRow(None, None, headers[-_OWN_HEADERS - 1 :], rows[0].timestamp_ms)
            self._send_all([bare], replace(first, row=first.row + 1))

    def _send_all(self, rows: Sequence[FeedRow], behind: DirtyPlace) -> None:
        self._feed.send(rows, behind.to_feed())
        self._place = behind
        self._kept, self._keep_due = behind.seq, time.monotonic() + _KEEP_WITHIN_S


_FIELDS: Final = ("topic", "partition", "offset", "stage", "reason", "path", "message")
_OWN_HEADERS: Final = len(_FIELDS) + 2


def _feed_row(row: dict[str, object], source: DirtySource, number: int) -> FeedRow:
    """The record as the queue had it; why it is dirty stands in headers behind its own."""
    own: list[tuple[str, bytes | None]] = [
        (f"sluiceway.{name}", str(row[name]).encode()) for name in _FIELDS
    ]
    own.append(("sluiceway.schema_version", str(row["schema_version"]).encode()))
    own.append(("sluiceway.source", f"{source}#{number}".encode()))
    found = row["headers"]
    before = (
        tuple((each["name"], each["value"]) for each in found) if isinstance(found, list) else ()
    )
    key, value, at = row["key"], row["value"], row["timestamp_ms"]
    return FeedRow(
        key=key if isinstance(key, bytes) else None,
        value=value if isinstance(value, bytes) else None,
        headers=(*before, *own),
        timestamp_ms=at if isinstance(at, int) else None,
    )


def begin(config: RouteConfig, owned: OwnedLedger, eyes: Log) -> tuple[DirtyFeeder, ...]:
    """Begin to feed a route's dirty rows. Called once the route has recovered.

    Returns:
        The feeder; none when the job file names no topic.
    """
    if config.dirty_topic is None:
        return ()
    properties = dict(config.source.options)
    servers = properties.pop(BOOTSTRAP_SERVERS)
    name = feed_name(owned.owner.ledger)
    feed = KafkaRowFeed((servers, properties), config.dirty_topic, name, _TIMEOUT_S)
    ledger = owned.owner.ledger
    return (DirtyFeeder(owned.log, ledger, lambda: owned.fold.published_through, feed, eyes),)


def feed_name(ledger: str) -> str:
    """Group and transactional id of a ledger's dirty rows; for access rules on the brokers."""
    return f"sluiceway-dirty-{ledger}"
