"""Effects in the catalog, as desired state, outside the commit path (commit rule 16)."""

import threading
from collections.abc import Callable

from sluiceway.errors import Fatal, MetastoreUnavailableError, StorageUnavailableError
from sluiceway.observe.log import Log
from sluiceway.sinks.contract import DesiredPartition, TableSink

_RETRY_S = 5.0


class EffectsApplier:
    """Makes the catalog equal to what the fold asks for, from a thread of its own.

    A catalog that is down delays partitions, never commits. `failure` is set when the table
    itself is gone; the loop then halts.
    """

    def __init__(self, sink: TableSink, log: Log, on_applied: Callable[[int], None]) -> None:
        self._sink = sink
        self._log = log
        self._on_applied = on_applied
        self._wanted: dict[tuple[str, ...], DesiredPartition] = {}
        self._through = 0
        self._state = threading.Condition()
        self._closed = False
        self._idle = True
        self.failure: Fatal | None = None
        self._thread = threading.Thread(target=self._run, name="effects", daemon=True)

    def start(self) -> None:
        """Begin to work. Called once."""
        self._thread.start()

    def want(self, partitions: list[DesiredPartition], through: int) -> None:
        """Ask for partitions; returns at once.

        Args:
            partitions: Those that records below `through` ask for and nobody has applied yet.
            through: Slot up to which the catalog will be equal afterwards.
        """
        with self._state:
            self._wanted.update((partition.values, partition) for partition in partitions)
            self._through = max(self._through, through)
            self._idle = False
            self._state.notify_all()

    def settle(self, timeout_s: float) -> bool:
        """Wait until all is applied; False when the time is over first."""
        with self._state:
            return self._state.wait_for(lambda: self._idle or self.failure is not None, timeout_s)

    def close(self) -> None:
        """Stop; what is not applied is applied by the next driver. Safe to repeat."""
        with self._state:
            self._closed = True
            self._state.notify_all()
        if self._thread.is_alive():
            self._thread.join(_RETRY_S)

    def _run(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._closed or not self._idle)
                if self._closed:
                    return
                batch, through = list(self._wanted.values()), self._through
            if not self._apply(batch):
                if self.failure is not None:
                    return
                continue
            with self._state:
                for partition in batch:
                    self._wanted.pop(partition.values, None)
                self._idle = not self._wanted and self._through == through
                self._state.notify_all()
            self._on_applied(through)

    def _apply(self, batch: list[DesiredPartition]) -> bool:
        try:
            # Also without partitions: this is how a table that was dropped is noticed.
            for parked in self._sink.apply(batch):
                self._log.warning(
                    "partition_parked", values="/".join(parked.values), reason=parked.reason
                )
        except MetastoreUnavailableError as error:
            self._log.warning("metastore_down", waiting=len(batch), error=str(error))
            self._pause()
            return False
        except StorageUnavailableError as error:
            self._log.warning("storage_unavailable", waiting=len(batch), error=str(error))
            self._pause()
            return False
        except Fatal as error:
            self._log.error("table_gone", error=str(error))
            with self._state:
                self.failure = error
                self._state.notify_all()
            return False
        return True

    def _pause(self) -> None:
        with self._state:
            self._state.wait_for(lambda: self._closed, _RETRY_S)
