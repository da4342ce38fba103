"""What a running driver does for its ledger between its epochs: garbage, snapshots, packs."""

import threading
import time
from collections.abc import Callable

from sluiceway.errors import SluicewayError, StorageUnavailableError
from sluiceway.host.work_pool import process_upkeep
from sluiceway.ledger.collect import GarbageCollector, garbage_of
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.upkeep import LogUpkeep
from sluiceway.observe.log import Log
from sluiceway.upkeep.dirty_retention import DirtyRetention, ObservedLanes

_EVERY_S = 600.0
_LAST_WAIT_S = 5.0


class FileCleaner:
    """Runs a pass at the route's start and every ten minutes, each in a turn of the process's pool.

    A pass checks a bounded number of names and decides by the fold of the moment in which it
    began. What fails is only logged: garbage is never in the way of a row.

    Attributes:
        dirty: Lets go of dirty files in each pass; None leaves them.
    """

    def __init__(self, ledger: LedgerLog, log: Log, *, every_s: float = _EVERY_S) -> None:
        self._ledger = ledger
        self._log = log
        self._every_s = every_s
        self._due = 0.0
        self._closing = threading.Event()
        self._over = threading.Event()
        self._over.set()
        self.dirty: DirtyRetention | None = None

    def tidy(self, fold: Fold) -> None:
        """Begin a pass when one is due and none runs; returns at once.

        Called by the driver's thread between epochs.

        Args:
            fold: State up to the tail; read before this returns.
        """
        if not self._over.is_set() or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + self._every_s
        collector = garbage_of(self._ledger, fold)
        keeper, seen = self.dirty, ObservedLanes.of(fold)

        def stopped() -> bool:
            self._ledger.check_held()
            return self._closing.is_set()

        def work() -> None:
            try:
                self._noting(lambda: self._collect(collector, stopped))
                if keeper is not None:
                    self._noting(lambda: keeper.run_pass(seen, stopped))
            finally:
                self._over.set()

        self._over.clear()
        process_upkeep().add(work).wake()

    def close(self) -> None:
        """End a running pass at its next name. Safe to repeat."""
        self._closing.set()
        self._over.wait(_LAST_WAIT_S)

    def _noting(self, work: Callable[[], None]) -> None:
        try:
            work()
        except SluicewayError as error:
            self._log.info("garbage_left", error=str(error))
        except Exception as error:  # noqa: BLE001 - the thread's boundary: never end silently
            self._log.info("garbage_left", error=f"a bug: {type(error).__name__}: {error}")

    def _collect(self, collector: GarbageCollector, stopped: Callable[[], bool]) -> None:
        done = collector.collect(stopped=stopped)
        for place, why in done.failed:
            self._log.info("garbage_left", path=place.path, error=why)
        if done.removed:
            self._log.info(
                "garbage_removed",
                places=len(done.removed),
                size_bytes=done.size_bytes,
                unseen=done.unseen,
            )


def keep_log_short(upkeep: LogUpkeep, log: Log) -> tuple[str, ...]:
    """Snapshot and pack between two commits; a store that fails now is asked again later.

    Damage that a SNAPSHOT covers is logged, and reading goes on.

    Returns:
        What was sealed (`ledger.sealing`).

    Raises:
        FencedError: Another driver has taken over.
        LedgerCorruptError: The record before the next slot is not the one that was read.
    """
    if not upkeep.due():
        return ()
    try:
        done = upkeep.run()
    except StorageUnavailableError as error:
        log.info("upkeep_failed", error=str(error))
        return ()
    if done.snapshot_seq is not None:
        log.info("snapshot", seq=done.snapshot_seq, sealed=len(done.sealed))
    if done.packed is not None:
        log.info("log_packed", folder=done.packed)
    if done.damage is not None:
        log.warning("old_records_damaged", code=done.damage.code, error=str(done.damage))
    return done.sealed
