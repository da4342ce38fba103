"""Where a route's background work asks for records: one writer puts them, between two epochs.

Nothing but the driver's own thread writes the log (commit rule 2). Work outside of the epochs, for
example a compaction, hands in how to make its record from the fold, and waits for its slot.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Protocol, TypeVar

from sluiceway.errors import SluicewayError
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import Body

ResultT = TypeVar("ResultT")

Build = Callable[[Fold], Body | None]
"""A record from the fold of all records before its slot; None when it does not hold any more.

Called by the driver's thread, again after each lost slot; it reads and changes nothing else.
"""


TURN_S = 0.3
"""For how long a turn of the driver's thread begins to put records: commits wait for it."""


class RecordQueue:
    """Between the background work of one route and its driver's thread.

    Args:
        ledger: The route's log.
        closed: Prefixes that are closed in its ledger.

    Attributes:
        ledger: The log, to read.
        turns: How many turns of the driver's thread there were, with the one under way.
    """

    def __init__(self, ledger: LedgerLog, closed: Iterable[str]) -> None:
        self.log = ledger
        self.turns = 0
        self._requested: deque[tuple[Build, Future[int | None]]] = deque()
        self._closed = dict.fromkeys(sorted(closed))
        self._bound_us: int | None = None
        self._counted: frozenset[str] = frozenset()
        self._ended: SluicewayError | None = None
        self._lock = threading.Lock()

    def ask(self, build: Build) -> "Future[int | None]":
        """Have a record put. Returns at once; any thread may ask.

        Returns:
            Its slot, when it has landed and all files that it names are published; None when
            there was nothing to put. Raises what has ended the route.
        """
        answer: Future[int | None] = Future()
        with self._lock:
            if self._ended is None:
                self._requested.append((build, answer))
            else:
                answer.set_exception(self._ended)
        return answer

    def see(self, look: Callable[[Fold], ResultT]) -> ResultT:
        """What the driver's thread sees in its fold, between two epochs. Waits for it.

        Raises:
            FencedError: The route is left, or another driver has taken over.
        """
        seen: list[ResultT] = []

        def build(fold: Fold) -> None:
            seen.append(look(fold))

        self.ask(build).result()
        return seen[-1]

    def close_prefix(self, prefix: str) -> None:
        """Rows that epochs find from now on for what is below reach it by the late policy only.

        An epoch that is in flight was planned before and still writes there. The prefix is closed
        in the ledger by the first record of an epoch that was planned after (commit rule 6).
        """
        self.close_prefixes([prefix], None)

    def close_prefixes(
        self, prefixes: Iterable[str], bound_us: int | None, counted: Iterable[str] = ()
    ) -> None:
        """As `close_prefix`, for several.

        Args:
            prefixes: Prefixes in the order in which they end.
            bound_us: The committed watermark that it took; None in a ledger without one.
            counted: The prefixes among them that have all rows of their audited counts.
        """
        with self._lock:
            self._closed = self._closed | dict.fromkeys(prefixes)
            self._counted = self._counted.union(counted)
            if bound_us is not None:
                self._bound_us = max(bound_us, self._bound_us or bound_us)

    def closed(self) -> tuple[str, ...]:
        """All prefixes that are closed, here or in the ledger, except sealed ones."""
        with self._lock:
            return tuple(self._closed)

    def forget_sealed(self, names: Iterable[str]) -> None:
        """These prefixes are sealed in the ledger, so that no record need name them any more."""
        with self._lock:
            for name in names:
                self._closed.pop(name, None)
            self._counted = self._counted.difference(names)

    @property
    def counted(self) -> tuple[str, ...]:
        """Prefixes that were closed here with all rows of their counts."""
        with self._lock:
            return tuple(sorted(self._counted))

    @property
    def bound_us(self) -> int | None:
        """The watermark that it took to close what was closed here; None without one."""
        with self._lock:
            return self._bound_us

    def is_waited_for(self, fold: Fold) -> bool:
        """Whether a record is asked for. Called by the driver's thread between two epochs."""
        return bool(self._requested) or self.owes_closing(fold)

    def owes_closing(self, fold: Fold) -> bool:
        """Whether something is closed that the ledger has not closed yet."""
        with self._lock:
            unknown = self._closed.keys() - fold.closed.keys()
            return any(name not in fold.sealed for name in unknown)

    def serve(self, put: Callable[[Build], int | None]) -> None:
        """Put what is asked for. Called by the driver's thread between two epochs.

        It goes on for a short while; what is left then is put in the next turn.

        Args:
            put: Lands a record and publishes its files; None when there was nothing to put.

        Raises:
            FencedError: Another driver has taken over: no caller gets what its fold has.
            SluicewayError: As `put`; the work that asked gets it too.
        """
        if self._requested:
            self.log.check_held()
        self.turns += 1
        until = time.monotonic() + TURN_S
        while True:
            with self._lock:
                if not self._requested:
                    return
                build, answer = self._requested.popleft()
            try:
                slot = put(build)
            except BaseException as error:
                # The work that asked waits without a limit: it gets a bug too.
                answer.set_exception(error)
                raise
            answer.set_result(slot)
            if time.monotonic() >= until:
                return

    def end(self, error: SluicewayError) -> None:
        """Nothing is put any more. Safe to repeat."""
        with self._lock:
            self._ended = self._ended or error
            waiting = [answer for _, answer in self._requested]
            self._requested.clear()
        for answer in waiting:
            answer.set_exception(error)


class BackgroundWork(Protocol):
    """What goes on at the same time as a route's epochs, in threads of its own."""

    def close(self) -> None:
        """End it: its route is left. Waits a few seconds at most."""


BeginWork = Callable[[RecordQueue], BackgroundWork]
"""Called once a route has recovered; what it begins ends with the route."""
