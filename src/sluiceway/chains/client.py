"""The driver's view of a table that a route reads."""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from sluiceway.chains.options import FOLLOW, ROOT, UpstreamOptions, missing_yet
from sluiceway.chains.upstream import UpstreamLedger
from sluiceway.errors import (
    MetastoreUnavailableError,
    RequestRefusedError,
    SluicewayError,
    SourceUnavailableError,
    StorageUnavailableError,
    TableNotFoundError,
    TopicNotFoundError,
)
from sluiceway.ledger.places import is_below
from sluiceway.ledger.reader_leases import ReaderLeaseKeeper, lease_name
from sluiceway.ledger.row_places import COUNTED_ONLY, RowBook
from sluiceway.sources.contract import (
    LEDGER_CLUSTER,
    Correction,
    DiscoveredPartition,
    HandOver,
    Inheritance,
    LogBounds,
    SourceClient,
    SourceIdentity,
    SourcePartition,
)

CHECK_S = 30.0


class OneTableClient(SourceClient):
    """What the driver asks of one table, however its rows are read: a topic of one partition.

    Args:
        topic: What stands for a topic.
    """

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._partition = SourcePartition(topic, 0)
        self._next_check_s = 0.0
        self._was_read = False
        self._lock = threading.Lock()

    def list_topics(self) -> tuple[str, ...]:
        """See `SourceClient.list_topics`."""
        return (self._topic,)

    def committed(
        self, group: str, partitions: Sequence[SourcePartition]
    ) -> dict[SourcePartition, int]:
        """See `SourceClient.committed`: a table has no groups."""
        del group, partitions
        return {}

    def expect(self, partitions: Mapping[SourcePartition, SourceIdentity]) -> None:
        """See `SourceClient.expect`."""
        self._was_read |= any(one.topic == self._topic for one in partitions)

    def _dropped(self, *, was_read: bool) -> SluicewayError:
        """The error for a table that its catalog does not have."""
        if not was_read and not self._was_read:
            return missing_yet(self._topic)
        return TopicNotFoundError(
            "the table that this route reads was dropped",
            where=self._topic,
            hint="rows of the route's own table are safe. Bring the table back from a backup, "
            "a Hive table together with its ledger, or let a new route read another one",
        )

    def _refuse_others(self, topics: Sequence[str]) -> None:
        """Refuse topics that are another table."""
        unknown = next((topic for topic in topics if topic != self._topic), None)
        if unknown is not None:
            raise TopicNotFoundError("no such table is read", where=unknown)


class TableClient(OneTableClient):
    """Of one table. Any thread may call; one at a time reads the ledger.

    Args:
        options: How the upstream table is reached.
    """

    inherits = True

    def __init__(self, options: UpstreamOptions) -> None:
        super().__init__(options.topic)
        self._options = options
        self._upstream: UpstreamLedger | None = None
        self._leases: dict[str, ReaderLeaseKeeper] = {}

    def discover(self, topics: Sequence[str]) -> tuple[DiscoveredPartition, ...]:
        """See `SourceClient.discover`: the table is one log.

        Raises:
            SourceUnavailableError: The table, or its ledger, is not there yet.
            TopicNotFoundError: It was there, and was dropped.
            TableMismatchError: It lacks a column that is read.
        """
        if not topics:
            return ()
        self._refuse_others(topics)
        with self._lock:
            upstream = self._read_on(check=True)
            identity, slot = SourceIdentity(LEDGER_CLUSTER, upstream.ledger), upstream.book.slot
        return (DiscoveredPartition(self._partition, identity, None, slot),)

    def bounds(self, partitions: Sequence[SourcePartition]) -> dict[SourcePartition, LogBounds]:
        """See `SourceClient.bounds`: offsets are places of rows."""
        with self._lock:
            upstream = self._read_on()
            begin, end = upstream.book.first, upstream.end
        return {one: LogBounds(begin, end, end) for one in partitions if one == self._partition}

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        """See `SourceClient.offsets_at`: rows have the time at which their epoch was prepared."""
        with self._lock:
            upstream = self._read_on()
            place = max(upstream.place_at(timestamp_ms), upstream.book.first)
        return {one: place for one in partitions if one == self._partition}

    def report(self, group: str, ends: Mapping[SourcePartition, int]) -> None:
        """Say in a lease what is read for good, so that the rest is kept."""
        place = ends.get(self._partition)
        if place is None:
            return
        with self._lock:
            upstream = self._upstream or self._read_on()
            slot = upstream.slot_before(place)
            try:
                lease = self._leases.get(group)
                if lease is None:
                    lease = ReaderLeaseKeeper(
                        upstream.storage, upstream.layout, lease_name(group), upstream.ledger
                    )
                    lease.start(slot)
                    self._leases[group] = lease
                lease.advance(slot)
            except StorageUnavailableError as error:
                raise unavailable(error) from error

    def reader_options(self) -> Mapping[str, str]:
        """See `SourceClient.reader_options`: where the table lies."""
        with self._lock:
            upstream = self._upstream or self._read_on()
            return {ROOT: upstream.layout.table_root}

    def inheritance(self, ends: Mapping[SourcePartition, int]) -> Inheritance | None:
        """See `SourceClient.inheritance`."""
        place = ends.get(self._partition)
        with self._lock:
            if place is None or self._upstream is None:
                return None
            return self._upstream.inheritance(place)

    def hand_over(self, ends: Mapping[SourcePartition, int], within_s: float) -> HandOver | None:
        """See `SourceClient.hand_over`."""
        place = ends.get(self._partition)
        if place is None:
            return None
        with self._lock:
            upstream = self._upstream or self._read_on()
            try:
                return upstream.hand_over(place, int(within_s * 1000))
            except StorageUnavailableError as error:
                raise unavailable(error) from error

    def leave(self, group: str) -> None:
        """See `SourceClient.leave`: files wait for its lease no more."""
        with self._lock:
            upstream, lease = self._upstream, self._leases.pop(group, None)
            if lease is not None:
                lease.release()
            if upstream is not None:
                with suppress(StorageUnavailableError):
                    upstream.storage.remove(upstream.layout.reader(lease_name(group)))

    def corrections(
        self, starts: Mapping[SourcePartition, int], ends: Mapping[SourcePartition, int]
    ) -> tuple[Correction, ...]:
        """See `SourceClient.corrections`."""
        if self._options.on_correction != FOLLOW or self._partition not in ends:
            return ()
        with self._lock:
            upstream = self._read_on()
            return upstream.corrections(starts[self._partition], ends[self._partition])

    def slot_read(self, ends: Mapping[SourcePartition, int], prefix: str) -> tuple[str, int] | None:
        """See `SourceClient.slot_read`."""
        place = ends.get(self._partition)
        if place is None:
            return None
        with self._lock:
            upstream = self._read_on()
            if any(is_below(name, prefix) for name in upstream.partly_read(place)):
                raise RequestRefusedError(
                    f"the route has read only a part of a slot of {self._topic} with rows of it",
                    where=prefix,
                    hint="give the command again once it has read on",
                )
            return upstream.ledger, upstream.slot_through(place)

    def close(self) -> None:
        """See `SourceClient.close`."""
        for lease in self._leases.values():
            lease.release()

    def _read_on(self, *, check: bool = False) -> UpstreamLedger:
        try:
            known = self._upstream
            if known is None or (check and not self._is_same(known)):
                known = self._upstream = self._checked(known)
            known.read_on()
        except (StorageUnavailableError, MetastoreUnavailableError) as error:
            raise unavailable(error) from error
        return known

    def _is_same(self, known: UpstreamLedger) -> bool:
        """Whether nothing has changed, by the folder, and from time to time by the catalog."""
        if time.monotonic() >= self._next_check_s:
            self._next_check_s = time.monotonic() + CHECK_S
            return False
        try:
            return known.is_same()
        except SourceUnavailableError:
            return False

    def _checked(self, known: UpstreamLedger | None) -> UpstreamLedger:
        """The table of now: it may have been dropped, or made again, since it was looked at."""
        try:
            root = self._options.found_root()
        except TableNotFoundError as error:
            raise self._dropped(was_read=known is not None) from error
        if known is not None and known.is_same():
            return known
        self._options.check_columns()
        return UpstreamLedger(root, self._options.stores, RowBook(COUNTED_ONLY))


def unavailable(
    error: StorageUnavailableError | MetastoreUnavailableError,
) -> SourceUnavailableError:
    """The error of a source for an error of its store or catalog."""
    return SourceUnavailableError(error.message, where=error.where, hint=error.hint)
