"""Names next to the ledger under which files waited for their snapshot: they go once it is seen.

A name is a hard link of a file of the table, or a copy. A name that stays keeps the file's bytes
when others have compacted the table. In a table with a key the files of changes also show whether a
replayed dirty row is still the last of its key. So they stay while a dirty row is open (L24). A
file next to the ledger says how far names were removed, so that the next driver removes the rest.
"""

from collections import deque
from dataclasses import dataclass

from sluiceway.ledger.dirty_sources import DirtySource
from sluiceway.ledger.follower import LogView
from sluiceway.ledger.lane_records import LaneDataRecord
from sluiceway.ledger.partition_records import (
    SWAP_PURPOSES,
    AbandonRecord,
    IntentRecord,
    SwapRecord,
)
from sluiceway.ledger.records import DataRecord, Record, table_files
from sluiceway.storage.contract import Storage
from sluiceway.types.strict_json import StrictJsonError, decode, encode

KEPT_S = 3600.0
"""After it was seen that the table has a file; other clean-ups have to leave it alone so long."""
_ADVICE = "lake-names"


@dataclass(frozen=True, slots=True)
class _Removed:
    """Slot below which no name is left, as a driver has written it."""

    through: int


class OpenDirty:
    """Dirty rows that may still be replayed, as the records say that were taken in, in order.

    Attributes:
        next_slot: Slot of the first record that was not taken in.
    """

    def __init__(self) -> None:
        # Of each file with open rows: slot and name -> slot of the queue's records, rows left.
        self._files: dict[tuple[int, str], tuple[int, int]] = {}
        self.next_slot = 0

    def apply(self, record: Record) -> None:
        """Take in the next record. A repeated one changes nothing."""
        body = record.body
        if record.seq < self.next_slot:
            return
        self.next_slot = record.seq + 1
        if not isinstance(body, DataRecord | LaneDataRecord):
            return
        origin = record.seq
        if isinstance(body, LaneDataRecord):
            for span in body.ranges:
                source = DirtySource.parse(span.source)
                origin = min(origin, self._consume(source, int(span.end - span.start)))
        for file in body.dirty_files:
            self._files[record.seq, file.final.rpartition("/")[2]] = origin, int(file.rows)

    def _consume(self, source: DirtySource, rows: int) -> int:
        at = source.seq, source.file
        # An unknown one lies before all names that are left.
        origin, left = self._files.pop(at, (source.seq, rows))
        if left > rows:
            self._files[at] = origin, left - rows
        return origin

    def oldest(self) -> int | None:
        """The slot of the oldest one; None without any."""
        return min((origin for origin, _ in self._files.values()), default=None)


class StagedLakeFiles:
    """Staged names of one route. One thread at a time.

    Args:
        storage: Storage of the ledger and its table.
        for_replay: Whether names stay that are needed to replay open dirty rows.
    """

    def __init__(self, storage: Storage, *, for_replay: bool = False) -> None:
        self._storage = storage
        self._open = OpenDirty() if for_replay else None
        self._left: deque[tuple[float, int, str]] = deque()
        self._swaps = set[int]()
        # Slot below which names are known here; None before the first look.
        self._known: int | None = None

    def release(self, view: LogView, next_slot: int, now_s: float) -> None:
        """The table has all slots below `next_slot`: their names go in a while.

        Called after each look. The first time it takes up names that earlier drivers left.

        Args:
            view: The log as it may be followed now.
            next_slot: First slot that the table was not seen to have.
            now_s: Seconds of a clock that never steps, as in `remove`.

        Raises:
            LedgerCorruptError: A record is damaged or gone.
            StorageUnavailableError: The store failed.
        """
        if self._known is None:
            self._known = self._removed_through(view)
        if self._open is not None:
            # Replays are judged and purges done when they are committed, published or not.
            for record in view.records(max(self._open.next_slot, self._known)):
                self._open.apply(record)
        known, end = self._known, min(next_slot, view.through)
        if end <= known:
            return
        due_s = now_s + KEPT_S
        for record in LogView(view.log, end).records(known):
            self._note_swap(record)
            names = (view.layout.final(file.final) for file in table_files(record.body))
            self._left.extend((due_s, record.seq, name) for name in names)
        self._known = end

    def _note_swap(self, record: Record) -> None:
        """A SWAP carries over what was committed since its INTENT, from under these names."""
        body = record.body
        if isinstance(body, IntentRecord) and body.purpose in SWAP_PURPOSES:
            self._swaps.add(record.seq)
        elif isinstance(body, SwapRecord | AbandonRecord):
            self._swaps.discard(body.intent)

    def fell_back(self, next_slot: int) -> None:
        """The table has lost slots that it had: their names stay, for they are published again.

        Args:
            next_slot: First slot that it does not have.
        """
        self._left = deque(each for each in self._left if each[1] < next_slot)
        if self._known is not None:
            self._known = min(self._known, next_slot)

    def remove(self, view: LogView, now_s: float) -> None:
        """Remove names whose time has come.

        Raises:
            Fatal: The ledger is another driver's by now.
            StorageUnavailableError: The store failed; the rest goes later.
        """
        if self._known is None or not self._left or self._left[0][0] > now_s:
            return
        held = self._held_from()
        if held is not None and self._left[0][1] >= held:
            return
        while self._left and self._left[0][0] <= now_s and not view.over():
            if held is not None and self._left[0][1] >= held:
                break
            view.log.check_held()
            self._storage.remove(self._left[0][2])
            self._left.popleft()
        through = self._left[0][1] if self._left else self._known
        # The next driver has to meet the dirty rows for which names stay.
        through = through if held is None else min(through, held)
        view.log.check_held()
        self._storage.overwrite(view.layout.announced(_ADVICE), encode(_Removed(through)))

    def _held_from(self) -> int | None:
        """Slot from which on names stay, whatever their age; None where none has to."""
        oldest = None if self._open is None else self._open.oldest()
        return min([*self._swaps, *([] if oldest is None else [oldest])], default=None)

    def _removed_through(self, view: LogView) -> int:
        raw = self._storage.read(view.layout.announced(_ADVICE))
        try:
            return 0 if raw is None else decode(raw, _Removed).through
        except StrictJsonError:
            return 0
