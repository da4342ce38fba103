"""Effects in the catalog, as desired state, outside the commit path (commit rule 16)."""

import threading
import time
from collections.abc import Callable

from sluiceway.errors import Fatal, InvariantError, SluicewayError
from sluiceway.job.moved_partitions import MovedPartitions
from sluiceway.job.ready_effects import ReadyEffects
from sluiceway.observe.failpoints import reach
from sluiceway.observe.log import Log
from sluiceway.sinks.contract import DesiredPartition, ParkedPartition, TableSink

_RETRY_S = 5.0
_PARKED_RETRY_S = 60.0
# With nothing to apply, the catalog is only asked whether the table is there still.
_LOOK_INTERVAL_S = 30.0


class EffectsApplier:
    """Makes the catalog equal to what the fold asks for, from a thread of its own.

    A catalog that is down delays partitions, never commits. `failure` is set when the table
    itself is gone; the loop then halts. Commits that bring no partition cost the catalog one
    call in 30 s, however many there are; that is how late a table that is gone may be noticed.
    """

    def __init__(
        self,
        sink: TableSink,
        log: Log,
        on_applied: Callable[[int], None],
        moved: MovedPartitions,
        *,
        ready: ReadyEffects | None = None,
    ) -> None:
        self._sink = sink
        self._ready = ready
        self._log = log
        self._on_applied = on_applied
        self._moved = moved
        self._wanted: dict[tuple[str, ...], DesiredPartition] = {}
        self._parked: dict[tuple[str, ...], DesiredPartition] = {}
        self._through = 0
        self._state = threading.Condition()
        self._closed = False
        self._idle = True
        self._looked = 0.0
        self._look_owed = False
        self._in_haste = False
        self._applying = False
        self.failure: Fatal | None = None
        self._thread = threading.Thread(target=self._run, name="effects", daemon=True)

    def start(self) -> None:
        """Begin to work. Called once, soon after the table was opened."""
        self._looked = time.monotonic()
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
        """Wait until all is applied and the table was looked at since the last commit.

        What the catalog is at work on is waited for beyond the time, thousands of partitions too:
        each of its calls has a limit of its own.

        Returns:
            False when the time is over first.
        """
        with self._state:
            self._in_haste = True
            self._state.notify_all()
            if not self._state.wait_for(self._is_settled, timeout_s):
                self._state.wait_for(lambda: self._is_settled() or not self._applying)
            return self._is_settled()

    def _is_settled(self) -> bool:
        return (self._idle and not self._look_owed) or self.failure is not None

    def close(self) -> None:
        """Stop; what is not applied is applied by the next driver. Safe to repeat."""
        with self._state:
            self._closed = True
            self._state.notify_all()
        if self._thread.is_alive():
            self._thread.join(_RETRY_S)
        if self._ready is not None:
            self._ready.close()

    def _run(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._closed or self._is_due(), self._pause_s())
                if self._closed:
                    return
                again = self._moved.due()
                if not self._is_due() and not self._parked and not again:
                    continue
                self._wanted = self._parked | self._wanted
                wanted = {each.values: each for each in again} | self._wanted
                batch, through = list(wanted.values()), self._through
                look = self._applying = bool(batch) or self._look_is_due()
            parked = self._apply(batch) if look else ()
            if parked is None:
                if self.failure is not None:
                    return
                continue
            if look:
                self._looked = time.monotonic()
            self._look_owed = not look
            self._note(batch, parked, through)

    def _is_due(self) -> bool:
        return not self._idle or (self._look_owed and self._look_is_due())

    def _look_is_due(self) -> bool:
        return self._in_haste or time.monotonic() >= self._looked + _LOOK_INTERVAL_S

    def _pause_s(self) -> float:
        """How long to wait for something to do; called with the lock held."""
        moved_s = self._moved.pause_s()
        pause_s = _PARKED_RETRY_S if moved_s is None else min(moved_s, _PARKED_RETRY_S)
        if not self._look_owed:
            return pause_s
        return min(pause_s, max(0.0, self._looked + _LOOK_INTERVAL_S - time.monotonic()))

    def _note(
        self, batch: list[DesiredPartition], parked: tuple[ParkedPartition, ...], through: int
    ) -> None:
        reasons = {each.values: each.reason for each in parked}
        with self._state:
            for partition in batch:
                # Another record may have asked for something else meanwhile.
                if self._wanted.get(partition.values) == partition:
                    del self._wanted[partition.values]
                if partition.values not in reasons:
                    self._parked.pop(partition.values, None)
                elif self._parked.get(partition.values) != partition:
                    self._parked[partition.values] = partition
                    self._log.warning(
                        "partition_parked",
                        values="/".join(partition.values),
                        reason=reasons[partition.values],
                    )
            self._idle = not self._wanted and self._through == through
            self._applying = False
            self._state.notify_all()
        if self._ready is not None:
            # Others are not kept waiting by one partition that somebody has made himself.
            self._ready.shown(through)
        # A parked partition is asked for again, by this driver now and then, and by the next one.
        if not self._parked:
            self._on_applied(through)

    def _apply(self, batch: list[DesiredPartition]) -> tuple[ParkedPartition, ...] | None:
        """Parked partitions, or None when the call has to be made again or the table is gone."""
        try:
            reach("effects.apply")
            if self._ready is not None:
                self._ready.before(batch)
            # Also without partitions: this is how a table that was dropped is noticed.
            parked = self._sink.apply(batch)
            if self._ready is not None:
                self._ready.after()
            reach("effects.applied")
            self._moved.sweep(self._sink)
        except Fatal as error:
            self._give_up(error)
        except SluicewayError as error:
            self._log.warning("effects_wait", code=error.code, waiting=len(batch), error=str(error))
            with self._state:
                self._applying = False
                self._state.notify_all()
                self._state.wait_for(lambda: self._closed, _RETRY_S)
        except Exception as error:  # noqa: BLE001 - the thread's boundary: never end silently
            self._give_up(InvariantError(f"effects failed: {type(error).__name__}: {error}"))
        else:
            return parked
        return None

    def _give_up(self, error: Fatal) -> None:
        self._log.error("table_gone", error=str(error))
        with self._state:
            self.failure = error
            self._state.notify_all()
