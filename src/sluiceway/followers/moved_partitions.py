"""Partitions that have moved: checked for a day, and their old folders removed.

A call of a dead driver may still change the metastore, which has no fencing. A reader may have
asked for a partition's place just before it moved (commit rule 16). So each look comes before this
driver corrects anything: it sees what others have left in the metastore.
"""

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sluiceway.errors import InvariantError, LedgerCorruptError, StorageUnavailableError
from sluiceway.followers.ready_effects import SUCCESS
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import (
    ExpireRecord,
    RemovedFile,
    ReplaceRecord,
    SwapRecord,
)
from sluiceway.ledger.places import folder_to_remove, partition_in
from sluiceway.ledger.reader_leases import slot_of_slowest
from sluiceway.ledger.records import Body
from sluiceway.observe.log import Log
from sluiceway.schedule.steady_clock import process_clock
from sluiceway.sinks.contract import DesiredPartition, TableSink
from sluiceway.storage.locations import same_location

READERS_GRACE_S = 3600.0
"""How long an old folder stays after the metastore was seen to show the new one."""

_LOOK_EVERY_S = 60.0
_LOOK_FOR_S = 24 * 3600.0
# With longer pauses between looks, a late call could send readers to the old folder and back.
_LOOKS_APART = 3


@dataclass(frozen=True, slots=True)
class OldFolder:
    """A folder that a partition has left.

    Attributes:
        folder: Folder, relative to the table.
        seq: Slot of the REPLACE or EXPIRE that names its files.
        now: The desired state of the partition.
    """

    folder: str
    seq: int
    now: DesiredPartition


@dataclass(slots=True)
class _Waiting:
    old: OldFolder
    through: int
    shown_since: float | None = None
    shown_last: float = 0.0

    def shown(self, now: float) -> float:
        """Record that the new folder is shown; returns for how long every look has found that."""
        if self.shown_since is None or now > self.shown_last + _LOOKS_APART * _LOOK_EVERY_S:
            # A driver that stood still, and may have been replaced, starts the wait again.
            self.shown_since = now
        self.shown_last = now
        return now - self.shown_since

    @property
    def is_unseen(self) -> bool:
        """Whether all looks of the readers' grace period have found the new folder in its place."""
        since = self.shown_since
        return since is not None and self.shown_last - since >= READERS_GRACE_S


@dataclass(frozen=True, slots=True)
class _Watched:
    now: DesiredPartition
    through: int
    until: float


class MovedPartitions:
    """Moved partitions of one route, while its driver lives.

    The driver's thread adds moved partitions; the thread that applies effects does the rest.
    """

    def __init__(self, ledger: LedgerLog, log: Log) -> None:
        self._ledger = ledger
        self._storage = ledger.storage
        self._log = log
        self._watched: dict[tuple[str, ...], _Watched] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._gone: set[str] = set()
        self._looked = time.monotonic()
        self._lock = threading.Lock()

    def add(
        self, moved: Sequence[DesiredPartition], old: Sequence[OldFolder], through: int
    ) -> None:
        """Add moved partitions. Called by the driver's thread, at START and after each record.

        Args:
            moved: Desired states of partitions; partitions that never moved are ignored.
            old: All folders that were left and may still exist.
            through: Slot below which all records of these moves are.
        """
        until = time.monotonic() + _LOOK_FOR_S
        with self._lock:
            for each in moved:
                if each.first:
                    self._watched[each.values] = _Watched(each, through, until)
            for left in old:
                known = self._waiting.get(left.folder)
                if known is None:
                    self._waiting[left.folder] = _Waiting(left, through)
                elif known.old.now != left.now:
                    known.old, known.through, known.shown_since = left, through, None

    def pop_removed(self) -> set[str]:
        """Old folders that were removed since the last call. For the driver's thread."""
        with self._lock:
            gone, self._gone = self._gone, set()
        return gone

    def pause_s(self) -> float | None:
        """Seconds until the next look; None when nothing has moved."""
        with self._lock:
            if not self._watched and not self._waiting:
                return None
        return max(0.0, self._looked + _LOOK_EVERY_S - time.monotonic())

    def due(
        self, sink: TableSink, through: int, wanted: Collection[tuple[str, ...]] = ()
    ) -> list[DesiredPartition]:
        """Check when it is due where readers are sent; returns partitions to correct or compare.

        Called by the thread that applies effects, before it applies. A partition that is shown as
        desired is not returned. So each look finds what others have left since the look before, not
        what was written in between. Partitions that are applied for another reason are checked each
        time.

        Args:
            sink: Sink of the route.
            through: Slot below which all files have final names: readers are not sent to a folder
                with other files.
            wanted: Values of the partitions that are applied in any case.

        Raises:
            MetastoreUnavailableError: The metastore does not answer.
            TableMismatchError: The table was dropped or created again.
        """
        if self.pause_s() != 0.0:
            with self._lock:
                waiting = [
                    (each, each.old)
                    for each in self._waiting.values()
                    if each.old.now.values in wanted
                ]
            for each, _, is_shown in _with_shown(sink, waiting):
                if not is_shown:
                    each.shown_since = None
            return []
        now = time.monotonic()
        with self._lock:
            # A partition that moves during the look may have files without final names.
            waiting = [
                (each, each.old) for each in self._waiting.values() if each.through <= through
            ]
            self._watched = {
                values: each for values, each in self._watched.items() if each.until > now
            }
            again = {
                values: each.now
                for values, each in self._watched.items()
                if each.through <= through
            }
        looked = _with_shown(sink, waiting)
        with self._lock:
            for each, old, is_shown in looked:
                if not is_shown:
                    each.shown_since = None
                    again[old.now.values] = old.now
                    continue
                again.pop(old.now.values, None)
                if each.old is old:
                    each.shown(now)
        self._looked = now
        return list(again.values())

    def sweep(self, sink: TableSink) -> None:
        """Remove old folders that no look has seen in use for long, and that no query may read.

        Called after each look.

        Raises:
            FencedError: Another driver has taken over.
            MetastoreUnavailableError: The metastore does not answer.
            StorageUnavailableError: It is not known whether another driver has taken over.
        """
        with self._lock:
            waiting = [each for each in self._waiting.values() if each.is_unseen]
        if not waiting:
            return
        try:
            now_ms = process_clock().now_us() // 1000
            slowest = slot_of_slowest(self._storage, self._ledger.layout, now_ms)
        except StorageUnavailableError as error:
            self._log.info("garbage_left", path=self._ledger.layout.readers, error=str(error))
            return
        for each in waiting:
            # A query that has passed that slot has planned its reads from new files.
            if slowest is None or each.old.seq <= slowest:
                self._ledger.check_held()
                self._remove(each, sink)

    def _remove(self, waiting: _Waiting, sink: TableSink) -> None:
        """Remove the files that the record names, and the folder when nothing else is in it."""
        old = waiting.old
        try:
            found = self._files_of(old)
            # Since this turn's look, partitions were applied and a store was asked.
            ((_, _, is_shown),) = _with_shown(sink, [(waiting, old)])
            if not is_shown:
                waiting.shown_since = None
                self._looked = time.monotonic() - _LOOK_EVERY_S
                return
            self._remove_files(old, *found)
        except (StorageUnavailableError, LedgerCorruptError) as error:
            # A damaged old record keeps the folder; `verify` reports it, and no epoch reads it.
            self._log.info("garbage_left", path=old.folder, error=str(error))
            return
        with self._lock:
            del self._waiting[old.folder]
            self._gone.add(old.folder)

    def _files_of(self, old: OldFolder) -> tuple[set[str], set[str]]:
        """Files in the folder; and files that the record allows to remove, present or not."""
        found = self._ledger.read_slot(old.seq)
        removed = _removed(old, None if found is None else found[0].body)
        folder = self._ledger.layout.final(old.folder)
        listed = {status.path for status in self._storage.list(folder)}
        named = {f"{folder}/{file.name}" for file in removed}
        # The new folder marks the partition as complete now.
        named.add(f"{folder}/{SUCCESS}")
        return listed, named

    def _remove_files(self, old: OldFolder, listed: set[str], named: set[str]) -> None:
        for path in sorted(listed & named):
            self._storage.remove(path)
        if listed <= named:
            self._storage.remove(self._ledger.layout.final(folder_to_remove(old.folder)))
        self._log.info("old_folder_removed", folder=old.folder, files=len(listed & named))


def _with_shown(
    sink: TableSink, waiting: Sequence[tuple[_Waiting, OldFolder]]
) -> list[tuple[_Waiting, OldFolder, bool]]:
    """Each partition with whether the metastore sends readers to the old folder now."""
    shown = sink.shown([old.now for _, old in waiting]) if waiting else {}
    return [(each, old, shown is not None and _is_shown(old.now, shown)) for each, old in waiting]


def _removed(old: OldFolder, body: Body | None) -> tuple[RemovedFile, ...]:
    """Files that may be removed."""
    if isinstance(body, ReplaceRecord):
        return body.removed
    if isinstance(body, ExpireRecord | SwapRecord):
        for each in body.partitions:
            # A SWAP also leaves the folder of a partition that was empty.
            named = bool(each.removed) or isinstance(body, SwapRecord)
            if each.partition == partition_in(old.folder) and named:
                return each.removed
    raise InvariantError(f"slot {old.seq} names no files of {old.folder}, which stays")


def _is_shown(wanted: DesiredPartition, shown: Mapping[tuple[str, ...], str]) -> bool:
    found = shown.get(wanted.values)
    if found is None or not wanted.exists:
        return found is None and not wanted.exists
    return same_location(found, wanted.location)
