"""Tells lag tools how far ledgers are, beside the routes: nothing ever waits for it."""

import threading
import time
from collections.abc import Callable, Mapping

from sluiceway.errors import FencedError, SluicewayError
from sluiceway.ledger.fold import Fold
from sluiceway.observe.log import Log
from sluiceway.sources.contract import SourceClient, SourcePartition

_REST_S = 60.0
_LAST_WAIT_S = 5.0


class OffsetReports:
    """Reports the newest ends of each group, from one thread a connection.

    A group's coordinator that does not answer costs seconds each time. Routes of one connection
    hand their ends over and go on; only the newest of a group are kept. A group whose report
    failed rests for a minute.

    Args:
        source: Of the connection; closed by its owner, after this.
        log: What fails is only noted: nobody reads the offsets back.
        rest_s: How long a group rests.
    """

    def __init__(self, source: SourceClient, log: Log, *, rest_s: float = _REST_S) -> None:
        self._source = source
        self._log = log
        self._rest_s = rest_s
        self._state = threading.Condition()
        self._wanted: dict[str, tuple[Mapping[SourcePartition, int], Callable[[], None]]] = {}
        self._rests_until: dict[str, float] = {}
        self._closed = False
        self._thread: threading.Thread | None = None

    def want(
        self, group: str, ends: Mapping[SourcePartition, int], check_held: Callable[[], None]
    ) -> None:
        """Ask for a report in place of an older one that still waits; returns at once.

        Called after each commit, by the routes' threads.

        Args:
            group: Of the route.
            ends: Committed end of each source partition.
            check_held: Raises FencedError once another driver reports for the route.
        """
        with self._state:
            if self._closed:
                return
            self._wanted[group] = ends, check_held
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="reports", daemon=True)
                self._thread.start()
            self._state.notify_all()

    def close(self) -> None:
        """Report what still waits, for a few seconds at most, and end. Safe to repeat."""
        with self._state:
            self._closed = True
            self._state.notify_all()
        if self._thread is not None:
            self._thread.join(_LAST_WAIT_S)

    def _run(self) -> None:
        while True:
            with self._state:
                while (group := self._due()) is None:
                    if self._closed:
                        return
                    self._state.wait(self._pause_s())
                ends, check_held = self._wanted.pop(group)
            if self._report(group, ends, check_held):
                continue
            with self._state:
                if self._closed:
                    # The others would most likely fail in the same way, one by one.
                    return
                self._rests_until[group] = time.monotonic() + self._rest_s
                self._wanted.setdefault(group, (ends, check_held))

    def _due(self) -> str | None:
        now = time.monotonic()
        return next((one for one in self._wanted if self._rests_until.get(one, now) <= now), None)

    def _pause_s(self) -> float | None:
        """Until the first rest is over; None when nothing waits. Called with the lock held."""
        over = [self._rests_until[group] for group in self._wanted]
        return max(0.0, min(over) - time.monotonic()) if over else None

    def _report(
        self, group: str, ends: Mapping[SourcePartition, int], check_held: Callable[[], None]
    ) -> bool:
        """Whether it is done, or not this driver's any more."""
        try:
            check_held()
            self._source.report(group, ends)
        except FencedError:
            return True
        except SluicewayError as error:
            self._log.info("report_failed", group=group, error=str(error))
        except Exception as error:  # noqa: BLE001 - the thread's boundary: never end silently
            self._log.info("report_failed", group=group, error=f"{type(error).__name__}: {error}")
        else:
            return True
        return False


def committed_ends(fold: Fold) -> dict[SourcePartition, int]:
    """What a route reports: the committed end of each source partition that it reads."""
    return {
        SourcePartition(topic, number): known.end
        for (topic, number), known in fold.sources.items()
        if not known.retired
    }
