"""Compacts partitions of one route beside its epochs: what is asked for, and what is to be shown.

A thread of its own that lives while there is something to do. One partition at a time; the driver
puts the records (`job.replacing`), and another process writes the files (`job.rewriting`).
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sluiceway.errors import FencedError, SluicewayError
from sluiceway.job.compact_requests import CompactAnswer, CompactRequest, Outcome, PartitionDone
from sluiceway.job.compaction_choice import meant, why_left
from sluiceway.job.desk import RouteDesk
from sluiceway.job.replacing import move_partition
from sluiceway.job.rewriting import Rewriter
from sluiceway.ledger.file_records import FileRecord
from sluiceway.ledger.fold import Fold
from sluiceway.observe.log import Log
from sluiceway.types.strict_json import BigInt, encode

BEFORE_READY_S = 280.0
"""How long compaction before an announcement may take: READY waits for 300 s (commit rule 30c)."""

_LAST_WAIT_S = 5.0
_TELL_EVERY_S = 1.0
"""How often an answer is written anew while it grows: it names all partitions so far."""

Value = TypeVar("Value")


@dataclass(slots=True)
class _Order:
    """Partitions to be compacted.

    Attributes:
        names: As in a request.
        until: On the monotonic clock; None has time.
        request: Whose answer is kept up to date.
        done: Told at the end.
    """

    names: tuple[str, ...]
    until: float | None = None
    request: CompactRequest | None = None
    done: threading.Event | None = None


class Compactor:
    """Of one route, while its driver lives. Any thread may ask it.

    Args:
        desk: Of the route.
        rewriter: Writes files anew; owned from here on.
        target_bytes: Size that files are to have.
        log: Bound to the route.
    """

    def __init__(self, desk: RouteDesk, rewriter: Rewriter, target_bytes: int, log: Log) -> None:
        self._desk = desk
        self._rewriter = rewriter
        self._target_bytes = target_bytes
        self._log = log
        self._urgent: deque[_Order] = deque()
        self._requests: deque[_Order] = deque()
        self._taken: set[str] = set()
        self._awaited: dict[str, threading.Event] = {}
        self._thread: threading.Thread | None = None
        self._closed = False
        self._lock = threading.Lock()

    def take(self, request: CompactRequest) -> None:
        """Have a request carried out; one that is under way or waits already is left alone."""
        with self._lock:
            if request.id in self._taken or self._closed:
                return
            self._taken.add(request.id)
        self._add(_Order(request.partitions, request=request))

    def is_done(self, prefix: str) -> bool:
        """Whether all below a prefix is compacted, or left alone, or put off; begins it first.

        Called by the driver's thread before it announces the prefix, again and again, when no
        epoch writes there any more. Comes before requests. What is not done in time is
        done later, without anybody waiting for it (commit rule 30c).

        Args:
            prefix: Closed in the ledger.
        """
        with self._lock:
            known = self._awaited.get(prefix)
            if known is None:
                # Whoever asks for another one has announced those that are done.
                self._awaited = {p: e for p, e in self._awaited.items() if not e.is_set()}
            done = self._awaited.setdefault(prefix, threading.Event())
        if known is None:
            until = time.monotonic() + BEFORE_READY_S
            self._add(_Order((prefix,), until=until, done=done))
        return done.is_set()

    def close(self) -> None:
        """Give up what is under way: its route is left. Safe to repeat."""
        with self._lock:
            self._closed = True
            waiting = [*self._urgent, *self._requests]
            self._urgent.clear()
            self._requests.clear()
            thread = self._thread
        self._rewriter.cancel()
        for order in waiting:
            _tell(order)
        if thread is not None:
            thread.join(_LAST_WAIT_S)

    def _add(self, order: _Order) -> None:
        with self._lock:
            if self._closed:
                _tell(order)
                return
            (self._requests if order.until is None else self._urgent).append(order)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="compaction", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                orders = self._urgent or self._requests
                if not orders:
                    self._thread = None
                    return
                order = orders.popleft()
            try:
                self._carry_out(order)
            except SluicewayError as error:
                # The route is left, or the store is away: a request stays, and comes again.
                self._log.info("compaction_ends", code=error.code, error=str(error))
            except Exception as error:  # noqa: BLE001 - the thread's boundary: never end silently
                reason = f"a bug: {type(error).__name__}: {str(error)[:300]}"
                self._log.warning("compaction_failed", partition="", reason=reason)
            finally:
                _tell(order)
                self._forget(order)

    def _forget(self, order: _Order) -> None:
        if order.request is not None:
            with self._lock:
                self._taken.discard(order.request.id)

    def _carry_out(self, order: _Order) -> None:
        """Compact one partition after the other.

        Raises:
            SluicewayError: The route has ended, or the answer cannot be written.
        """
        waiting = deque(self._ask(lambda fold: self._look(fold, order.names)))
        done: list[PartitionDone] = []
        told_at = -_TELL_EVERY_S
        while waiting:
            if time.monotonic() - told_at >= _TELL_EVERY_S:
                self._tell_progress(order, done, len(waiting))
                told_at = time.monotonic()
            found = waiting[0]
            if found.outcome != Outcome.LEFT:
                found = self._compact(found.partition, order.until)
            over = order.until is not None and time.monotonic() >= order.until
            if not (over and found.outcome == Outcome.FAILED):
                self._note(found)
                done.append(found)
                waiting.popleft()
            if over and (rest := [e.partition for e in waiting if e.outcome != Outcome.LEFT]):
                self._put_off(rest)
                return
        self._tell_progress(order, done, 0)
        if order.request is not None:
            self._desk.log.storage.remove(self._desk.log.layout.request(order.request.id))

    def _look(self, fold: Fold, names: Iterable[str]) -> list[PartitionDone]:
        """Those that are meant, as they are: to be left alone with a reason, or without an outcome.

        All in one look, since the driver's thread has one for us in each epoch only, and most of
        many need nothing.
        """
        return [_as_it_is(fold, name, self._target_bytes) for name in meant(fold, names)]

    def _put_off(self, names: Iterable[str]) -> None:
        self._log.warning("compaction_late", partitions=list(names), after_s=BEFORE_READY_S)
        self._add(_Order(tuple(names)))

    def _tell_progress(self, order: _Order, done: list[PartitionDone], waiting: int) -> None:
        if order.request is None:
            return
        answer = CompactAnswer(waiting == 0, tuple(done), waiting)
        layout = self._desk.log.layout
        self._desk.log.storage.overwrite(layout.answer(order.request.id), encode(answer))

    def _compact(self, partition: str, until: float | None) -> PartitionDone:
        """Compact a partition, if it is worth it.

        Raises:
            FencedError: The route is left, or another driver has taken over.
        """
        began = time.monotonic()
        reason = ""
        cpu_s = 0.0
        before = (0, 0)

        def choose(fold: Fold) -> str | None:
            nonlocal before, reason
            before = _sizes(fold, partition)
            reason = why_left(fold, partition, self._target_bytes)
            return None if reason else partition

        def rewrite(folder: str, live: Sequence[FileRecord]) -> Sequence[FileRecord]:
            nonlocal cpu_s
            made = self._rewriter.rewrite(folder, live, until=until)
            cpu_s = made.cpu_s
            return made.files

        outcome = Outcome.COMPACTED
        try:
            if move_partition(self._desk, choose, rewrite) is None:
                outcome = Outcome.LEFT if reason else Outcome.FAILED
                reason = reason or "files came faster than they were carried over"
        except FencedError:
            raise
        except SluicewayError as error:
            outcome, reason = Outcome.FAILED, str(error)
        after = self._ask(lambda fold: _sizes(fold, partition))
        return PartitionDone(
            partition=partition,
            outcome=outcome,
            reason=reason,
            files_before=before[0],
            files_after=after[0],
            bytes_before=BigInt(before[1]),
            bytes_after=BigInt(after[1]),
            wall_ms=int((time.monotonic() - began) * 1000),
            cpu_ms=int(cpu_s * 1000),
        )

    def _note(self, done: PartitionDone) -> None:
        if done.outcome == Outcome.COMPACTED:
            self._log.info(
                "compacted",
                partition=done.partition,
                files_before=done.files_before,
                files_after=done.files_after,
                bytes_before=done.bytes_before,
                bytes_after=done.bytes_after,
                wall_s=done.wall_ms / 1000,
                cpu_s=done.cpu_ms / 1000,
            )
        elif done.outcome == Outcome.FAILED:
            self._log.warning("compaction_failed", partition=done.partition, reason=done.reason)

    def _ask(self, look: Callable[[Fold], Value]) -> Value:
        """What the driver's thread sees in its fold, between two epochs.

        Raises:
            FencedError: The route is left, or another driver has taken over.
        """
        found: list[Value] = []

        def build(fold: Fold) -> None:
            found.append(look(fold))

        self._desk.ask(build).result()
        return found[-1]


def _as_it_is(fold: Fold, partition: str, target_bytes: int) -> PartitionDone:
    """A partition before anything is done: left alone for a reason, or without an outcome yet."""
    reason = why_left(fold, partition, target_bytes)
    files, size_bytes = _sizes(fold, partition)
    return PartitionDone(
        partition=partition,
        outcome=Outcome.LEFT if reason else "",
        reason=reason,
        files_before=files,
        files_after=files,
        bytes_before=BigInt(size_bytes),
        bytes_after=BigInt(size_bytes),
        wall_ms=0,
        cpu_ms=0,
    )


def _sizes(fold: Fold, partition: str) -> tuple[int, int]:
    """Files and bytes of a partition now."""
    state = fold.partitions.get(partition)
    return (0, 0) if state is None else (state.files, state.size_bytes)


def _tell(order: _Order) -> None:
    if order.done is not None:
        order.done.set()
