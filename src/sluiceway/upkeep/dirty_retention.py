"""Lets go of dirty rows past their keeping time, and of the files of purged ones.

Likewise of files of late rows, once copies of them are in their partitions.

Only the log decides that a dirty file may go: when lanes have consumed each of its rows, no lane
can ever read it again. Nothing here writes the log; what is too old is asked for as `dirty purge`
asks for it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from sluiceway.errors import StorageUnavailableError
from sluiceway.jobfile.compile.dirty_limits import prepared_ms
from sluiceway.ledger.dirty_files import (
    CommittedDirty,
    committed_dirty,
    committed_for_lanes,
    records_of,
)
from sluiceway.ledger.dirty_sources import DirtySource, LateSource
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_lanes import source_kind
from sluiceway.ledger.lane_records import LATE, PURGE, LaneRange, LaneRecord
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.log import Log
from sluiceway.schedule.steady_clock import process_clock
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.requests import MOST_RANGES, REQUEST_VERSION, LaneRequest, put_request

READERS_GRACE_S: Final = 3600.0
"""How long a driver sees that a dirty file may go before it removes it."""

Stopped = Callable[[], bool]
Intervals = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ObservedLanes:
    """What the ledger says of its dirty rows at one moment; later only more is consumed.

    Attributes:
        published_through: All files of records below this slot are at their final names.
        snapshot_through: Below it no start reads files, whatever this driver knows of them.
        taken: Source -> rows that belong to lanes.
        unfinished: Sources of lanes that have rows left.
        purges: (id, slot) of the finished lanes that gave rows up, or brought late ones in.
    """

    ledger: str
    published_through: int
    snapshot_through: int
    taken: Mapping[str, Intervals]
    unfinished: frozenset[str]
    purges: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, fold: Fold) -> "ObservedLanes":
        """As the fold has it now. Called by the driver's thread."""
        book = fold.lanes
        return cls(
            ledger="" if fold.first_fence is None else fold.first_fence.ledger,
            published_through=fold.published_through,
            snapshot_through=fold.snapshot_through,
            taken={source: tuple(each) for source, each in book.taken.items()},
            unfinished=frozenset(each.source for lane in book.open_lanes() for each in lane.ranges),
            purges=tuple(
                (lane.lane, lane.seq)
                for lane in book.lanes.values()
                if lane.kind in (PURGE, LATE) and lane.finished
            ),
        )

    def consumed(self, source: str, rows: int) -> bool:
        """Whether every row of a file was read once more or given up, and that is committed."""
        return self.taken.get(source) == ((0, rows),) and source not in self.unfinished


class DirtyCopies(Protocol):
    """Copies of dirty files in a table, which go before the files. Used by one thread."""

    def find(self) -> bool:
        """Whether the table is there."""

    def drop(self, found: CommittedDirty) -> None:
        """Remove the copy of a file, if it is there.

        Raises:
            SluicewayError: The store or the metastore failed; nothing of the file was changed.
        """

    def close(self) -> None:
        """Safe to repeat."""


class DirtyRetention:
    """Retention of one route's dirty rows while its driver lives. Its housekeeper calls it.

    Args:
        ledger: The route's log.
        keep_ms: How long dirty rows are kept after their commit; None for ever.
        table: Table with copies of the files; None when there is none. It is closed here.
        fed_through: Slot below which all dirty files are in every further store; None without one.
        log: Bound to the route.
    """

    def __init__(
        self,
        ledger: LedgerLog,
        keep_ms: int | None,
        log: Log,
        *,
        table: DirtyCopies | None = None,
        fed_through: Callable[[], int] | None = None,
    ) -> None:
        self._log = ledger
        self._keep_ms = keep_ms
        self._events = log
        self._table = table
        self._fed_through = fed_through
        self._requested: str | None = None
        self._aged_through = 0
        self._purges_observed: set[str] = set()
        self._files: dict[DirtySource, CommittedDirty] = {}
        self._since: dict[DirtySource, float] = {}

    def run_pass(self, seen: ObservedLanes, stopped: Stopped) -> None:
        """Ask for what is too old, and remove what may go. In the housekeeper's thread.

        Raises:
            SluicewayError: The store, the metastore or the log could not be read: another time.
        """
        self._find_purged(seen, stopped)
        if self._keep_ms is not None:
            self._find_old(seen, process_clock().now_us() // 1000, self._keep_ms, stopped)
        if stopped():
            return
        if self._keep_ms is not None:
            self._ask(seen)
        try:
            self._sweep(seen, stopped)
        finally:
            if self._table is not None:
                self._table.close()

    def _find_purged(self, seen: ObservedLanes, stopped: Stopped) -> None:
        """Look up the files that purges have taken rows of, once a purge."""
        for lane, seq in seen.purges:
            if stopped():
                return
            if lane in self._purges_observed:
                continue
            found = self._log.read_slot(seq)
            if found is not None and isinstance(found[0].body, LaneRecord):
                body = found[0].body
                sources = {source_kind(body.kind).parse(each.source) for each in body.ranges}
                for record in records_of(self._log, sources):
                    for committed in committed_for_lanes(self._log.layout, seen.ledger, record):
                        if committed.source in sources:
                            self._add_file(committed)
            self._purges_observed.add(lane)

    def _find_old(self, seen: ObservedLanes, now_ms: int, keep_ms: int, stopped: Stopped) -> None:
        """Look up the dirty files of epochs that were prepared longer ago than rows are kept."""
        before_ms = now_ms - keep_ms
        waiting: list[CommittedDirty] = []
        for record, _ in self._log.records(self._aged_through):
            if record.seq >= seen.published_through or stopped():
                break
            at_ms = prepared_ms(record.body)
            if at_ms > now_ms:
                # By a clock that was wrong: its time is unknown, and it holds no later file.
                at_ms = 0
            if at_ms >= before_ms:
                break
            waiting += committed_dirty(self._log.layout, seen.ledger, record)
            if at_ms:
                # A file of unknown time is at least as old as what comes after it.
                for each in waiting:
                    self._add_file(each)
                waiting, self._aged_through = [], record.seq + 1

    def _add_file(self, found: CommittedDirty) -> None:
        if self._log.storage.status(found.path) is not None:
            self._files.setdefault(found.source, found)

    def _ask(self, seen: ObservedLanes) -> None:
        """Put a request to purge what is open and too old, as `dirty purge` does."""
        layout, storage = self._log.layout, self._log.storage
        if self._requested is not None:
            # A lane takes its rows once it is gone: the next pass finds that, not this one.
            if storage.status(layout.request(self._requested)) is None:
                self._requested = None
            return
        ranges: list[LaneRange] = []
        dirty = ((s, f) for s, f in self._files.items() if not isinstance(s, LateSource))
        for source, found in sorted(dirty):
            if source.seq < self._aged_through:
                ranges += open_ranges(str(source), int(found.file.rows), seen)
        if not ranges:
            return
        request = LaneRequest(
            REQUEST_VERSION,
            seen.ledger,
            PURGE,
            "dirty.retention",
            f"kept for {(self._keep_ms or 0) // 1000} s",
            tuple(ranges[:MOST_RANGES]),
        )
        self._log.check_held()
        put_request(storage, layout, request)
        self._requested = request.id
        rows = sum(int(each.stop - each.start) for each in request.ranges)
        self._events.info("dirty_rows_expire", rows=rows, lane=request.id)

    def _sweep(self, seen: ObservedLanes, stopped: Stopped) -> None:
        """Remove files of which nothing is left to read, copies first."""
        now = time.monotonic()
        fed = seen.published_through if self._fed_through is None else self._fed_through()
        due = []
        for source, found in self._files.items():
            through = seen.snapshot_through if isinstance(source, LateSource) else fed
            if source.seq >= through or not seen.consumed(str(source), int(found.file.rows)):
                continue
            if now - self._since.setdefault(source, now) >= READERS_GRACE_S:
                due.append(found)
        table = self._table
        if due and table is not None and not table.find():
            # It was dropped: its copies belong to no table. The feeder may create it again before
            # the next pass, so that is asked again.
            table = None
        for found in sorted(due, key=lambda each: (each.source.seq, each.source.file)):
            if stopped():
                return
            try:
                # Another driver may have been faster, after it had taken the copy away.
                if self._log.storage.status(found.path) is not None:
                    self._drop(found, table)
            except StorageUnavailableError as error:
                self._events.info("garbage_left", path=found.path, error=str(error))
                continue
            del self._files[found.source], self._since[found.source]
            late = isinstance(found.source, LateSource)
            event = "late_file_removed" if late else "dirty_file_removed"
            self._events.info(event, path=found.path, rows=int(found.file.rows))

    def _drop(self, found: CommittedDirty, table: DirtyCopies | None) -> None:
        self._log.check_held()
        if table is not None and not isinstance(found.source, LateSource):
            table.drop(found)
        self._log.storage.remove(found.path)


def open_ranges(source: str, rows: int, seen: ObservedLanes) -> Sequence[LaneRange]:
    """Rows of a file that no lane has taken."""
    found, at = [], 0
    for start, stop in (*seen.taken.get(source, ()), (rows, rows)):
        if at < start:
            found.append(LaneRange(source, BigInt(at), BigInt(start)))
        at = stop
    return found
