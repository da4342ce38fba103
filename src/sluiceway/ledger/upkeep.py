"""Keeps the log short to read: SNAPSHOT records, and packs of what they cover."""

from dataclasses import dataclass

from sluiceway.errors import LedgerCorruptError
from sluiceway.ledger.layout import LedgerLayout, is_number
from sluiceway.ledger.sealing import SealChoice, seal_everything, to_seal
from sluiceway.ledger.snapshot import write_hint, write_side_file
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.storage.contract import Storage

SNAPSHOT_EVERY = 1_000
"""Records between two snapshots: what a start reads at most, in addition to the side file."""
SNAPSHOT_BYTES = 4 << 20
"""Bytes of records between two snapshots: few epochs of very many files are as long to read."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What one call has done.

    Attributes:
        snapshot_seq: Slot of a new SNAPSHOT.
        sealed: What it has sealed.
        packed: Number of a log folder that is a pack now.
        damage: Why old records cannot be packed; nothing was removed.
    """

    snapshot_seq: int | None = None
    sealed: tuple[str, ...] = ()
    packed: int | None = None
    damage: LedgerCorruptError | None = None


class LogUpkeep:
    """Upkeep of one route's log by the driver that holds its fence.

    Args:
        writer: The driver's.
        sealing: What the route does not need any more by its job file.
    """

    def __init__(self, writer: LedgerWriter, sealing: SealChoice = seal_everything) -> None:
        self._log = writer.log
        self._sealing = sealing
        self._writer = writer
        # A folder may wait since an earlier driver's SNAPSHOT.
        self._may_pack = True

    def due(self) -> bool:
        """Whether `run` has something to do. Costs nothing."""
        return self._snapshot_due() or self._may_pack

    @property
    def starved(self) -> bool:
        """Whether a SNAPSHOT waits for long for records that are not published. Costs nothing."""
        fold = self._writer.fold
        return fold.next_seq - fold.snapshot_through >= 2 * SNAPSHOT_EVERY

    def run(self) -> Upkeep:
        """Take a SNAPSHOT or pack one folder. Called between two commits of the route.

        Raises:
            FencedError: Another driver has taken over.
            LedgerCorruptError: The record before the next slot is not the one that was read.
            StorageUnavailableError: The store failed; a later call goes on.
        """
        fold, storage, layout = self._writer.fold, self._log.storage, self._log.layout
        if self._snapshot_due():
            before = fold.snapshot_through
            sealed = to_seal(fold, self._sealing)
            committed = self._writer.commit(write_side_file(storage, layout, fold, sealed))
            write_hint(storage, layout, committed.seq)
            _drop_side_files(storage, layout, before)
            self._may_pack = True
            return Upkeep(snapshot_seq=committed.seq, sealed=sealed)
        try:
            packed = self._log.packs.pack_next(fold.snapshot_through)
        except LedgerCorruptError as damage:
            # A SNAPSHOT stands for all of it: neither an epoch nor a start reads it. It stays as
            # it is, for `verify`, and is tried again after the next SNAPSHOT.
            self._may_pack = False
            return Upkeep(damage=damage)
        self._may_pack = packed is not None
        return Upkeep(packed=packed)

    def _snapshot_due(self) -> bool:
        fold = self._writer.fold
        records = fold.next_seq - fold.snapshot_through
        enough = records >= SNAPSHOT_EVERY or fold.bytes_since_snapshot >= SNAPSHOT_BYTES
        return enough and not fold.unpublished


def _drop_side_files(storage: Storage, layout: LedgerLayout, before: int) -> None:
    """Remove side files older than the last SNAPSHOT but one; the log can replace them all."""
    for status in storage.list(layout.snapshots):
        through = status.path.rpartition("/")[2].partition("-")[0]
        if is_number(through) and int(through) < before:
            storage.remove(status.path)
