"""Dirty rows in a topic: rows and the place after them in one transaction."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from sluiceway.errors import LedgerCorruptError
from sluiceway.followers.dirty_feed import DirtyPlace, DirtyStore
from sluiceway.ledger.dirty_files import CommittedDirty
from sluiceway.ledger.dirty_sources import DirtySource
from sluiceway.observe.log import Log
from sluiceway.sources.side_topics import FeedPlace, FeedRow, RowFeed, RowsTooLargeError
from sluiceway.storage.contract import Storage
from sluiceway.worker.dirty_reader import read_dirty_rows

_TEXT: Final = re.compile(r"(?P<file>[^/]*)/(?P<row>0|[1-9][0-9]{0,18})")
_FIELDS: Final = ("topic", "partition", "offset", "stage", "reason", "path", "message")
_OWN_HEADERS: Final = len(_FIELDS) + 2


class DirtyTopic(DirtyStore):
    """A topic that gets each dirty row once.

    Args:
        feed: The transactional producer of the topic.
        storage: The store of the dirty files.
        log: Gets events about rows that are too large for the topic.
    """

    def __init__(self, feed: RowFeed, storage: Storage, log: Log) -> None:
        self._feed = feed
        self._storage = storage
        self._events = log

    def open(self) -> DirtyPlace:
        """See `DirtyStore.open`."""
        return place_of(self._feed.open())

    def feed(self, found: CommittedDirty, start: int) -> Iterator[tuple[int, DirtyPlace]]:
        """See `DirtyStore.feed`."""
        source = found.source
        stop = int(found.file.rows)
        for first, batch in read_dirty_rows(self._storage, found.path, start, stop):
            rows = [_feed_row(row, source, first + n) for n, row in enumerate(batch.to_pylist())]
            yield from self._send(rows, DirtyPlace(source.seq, source.file, first))

    def keep(self, place: DirtyPlace) -> None:
        """See `DirtyStore.keep`."""
        self._feed.send([], kept_place(place))

    def close(self) -> None:
        """See `DirtyStore.close`."""
        self._feed.close()

    def _send(self, rows: Sequence[FeedRow], first: DirtyPlace) -> Iterator[tuple[int, DirtyPlace]]:
        """Send rows; rows that are too large for the topic go one by one, without their value."""
        behind = replace(first, row=first.row + len(rows))
        try:
            self._feed.send(rows, kept_place(behind))
        except RowsTooLargeError:
            self._feed.open()
            if len(rows) > 1:
                half = len(rows) // 2
                yield from self._send(rows[:half], first)
                yield from self._send(rows[half:], replace(first, row=first.row + half))
                return
            headers = (*rows[0].headers, ("sluiceway.value", b"too large for this topic"))
            self._events.warning(
                "dirty_row_too_large", seq=first.seq, file=first.file, row=first.row
            )
            bare = FeedRow(None, None, headers[-_OWN_HEADERS - 1 :], rows[0].timestamp_ms)
            self._feed.send([bare], kept_place(behind))
        yield len(rows), behind


def kept_place(place: DirtyPlace) -> FeedPlace:
    """The place as the topic keeps it."""
    return FeedPlace(place.seq, f"{place.file}/{place.row}")


def place_of(kept: FeedPlace | None) -> DirtyPlace:
    """The place that the topic has kept.

    Raises:
        LedgerCorruptError: The offsets are another writer's.
    """
    if kept is None:
        return DirtyPlace()
    found = _TEXT.fullmatch(kept.text)
    if found is None:
        raise LedgerCorruptError(
            f"the group of the dirty rows has an offset with the note {kept.text[:80]!r}, "
            "which is no place in the ledger",
            hint="something else commits offsets for this group; delete the group",
        )
    return DirtyPlace(kept.number, found["file"], int(found["row"]))


def _feed_row(row: dict[str, object], source: DirtySource, number: int) -> FeedRow:
    """The record as the queue had it; headers after its own say why it is dirty."""
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
