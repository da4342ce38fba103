"""Compacts partitions of one route between its epochs: what is asked for, and what is to be shown.

A thread of its own that lives while there is something to do. One group of partitions at a time;
the driver puts the records (`upkeep.replacing`), and another process writes the files
(`upkeep.rewriting`).
"""

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sluiceway.errors import SluicewayError
from sluiceway.host.work_pool import process_upkeep
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.observe.log import Log
from sluiceway.types.strict_json import BigInt, encode
from sluiceway.upkeep.compaction_choice import meant, why_left
from sluiceway.upkeep.partition_requests import (
    CompactAnswer,
    CompactionOutcome,
    CompactRequest,
    PartitionDone,
)
from sluiceway.upkeep.record_queue import RecordQueue
from sluiceway.upkeep.replacing import ReplacedFiles, Staging, move_partitions
from sluiceway.upkeep.rewriting import Rewriter, Rewritten

BEFORE_READY_S = 280.0
"""How long compaction before an announcement may take: READY waits for 300 s (commit rule 30c)."""

MOST_IN_A_GROUP = 64
MOST_GROUP_FILES = 20_000
MOST_GROUP_BYTES = 256 << 20
"""Bytes moved together: its files' records are held in memory, and a driver that dies leaves all
of it to be done again. A partition that has more is a group of its own."""

_LAST_WAIT_S = 5.0
_TELL_EVERY_S = 1.0
"""How often a growing answer is rewritten: it names all partitions so far."""


@dataclass(slots=True, eq=False)
class _Order:
    """Partitions to be compacted.

    Attributes:
        names: Names as in a request.
        until: On the monotonic clock; None has time.
        request: Whose answer is kept up to date.
        over: Set at the end.
        waiting: Their states when they were read; None before that.
        done: What became of the others.
        told_at: When the answer was written last.
    """

    names: tuple[str, ...]
    until: float | None = None
    request: CompactRequest | None = None
    over: threading.Event | None = None
    waiting: deque[PartitionDone] | None = None
    done: list[PartitionDone] = field(default_factory=list)
    told_at: float = -_TELL_EVERY_S


class Compactor:
    """Compacts one route while its driver lives. Any thread may ask it.

    Args:
        record_queue: The route's record queue.
        rewriter: Rewrites files; owned from here on.
        target_bytes: Size that files are to have.
        log: Bound to the route.
    """

    def __init__(
        self, record_queue: RecordQueue, rewriter: Rewriter, target_bytes: int, log: Log
    ) -> None:
        self._record_queue = record_queue
        self._rewriter = rewriter
        self._target_bytes = target_bytes
        self._log = log
        self._urgent: deque[_Order] = deque()
        self._requests: deque[_Order] = deque()
        self._taken: set[str] = set()
        self._awaited: dict[str, threading.Event] = {}
        self._work = process_upkeep().add(self._turn)
        self._closed = False
        self._lock = threading.Lock()

    def enqueue(self, request: CompactRequest) -> None:
        """Have a request carried out, unless the same request is under way or waits already."""
        with self._lock:
            if request.id in self._taken or self._closed:
                return
            self._taken.add(request.id)
        self._add(_Order(request.partitions, request=request))

    def is_done(self, prefix: str) -> bool:
        """Whether all below a prefix is compacted, or left alone, or put off; begins it first.

        Called by the driver's thread before it announces the prefix, again and again, when no
        epoch writes there any more. Comes before requests. What is not done in time is
        done later, and no step waits for it (commit rule 30c).

        Args:
            prefix: Closed in the ledger.
        """
        with self._lock:
            known = self._awaited.get(prefix)
            if known is None:
                # Whoever asks for another one has announced the finished ones.
                self._awaited = {p: e for p, e in self._awaited.items() if not e.is_set()}
            done = self._awaited.setdefault(prefix, threading.Event())
        if known is None:
            until = time.monotonic() + BEFORE_READY_S
            self._add(_Order((prefix,), until=until, over=done))
        return done.is_set()

    def close(self) -> None:
        """Give up what is under way: its route is left. Safe to repeat."""
        with self._lock:
            self._closed = True
            waiting = [*self._urgent, *self._requests]
            self._urgent.clear()
            self._requests.clear()
        self._rewriter.cancel()
        for order in waiting:
            _report_order(order)
        self._work.end(_LAST_WAIT_S)

    def _add(self, order: _Order) -> None:
        with self._lock:
            if self._closed:
                _report_order(order)
                return
            (self._requests if order.until is None else self._urgent).append(order)
        self._work.wake()

    def _turn(self) -> float | None:
        """Compact the next group; what is to be announced does not wait for requests."""
        with self._lock:
            orders = self._urgent or self._requests
            if not orders:
                return None
            order = orders[0]
        is_over = True
        try:
            is_over = self._go_on(order)
        except SluicewayError as error:
            # The route is left, or the store is away: a request stays, and comes again.
            self._log.info("compaction_ends", code=error.code, error=str(error))
        except Exception as error:  # noqa: BLE001 - the turn's boundary: never end silently
            reason = f"a bug: {type(error).__name__}: {str(error)[:300]}"
            self._log.warning("compaction_failed", partition="", reason=reason)
        finally:
            if is_over:
                self._end(order)
        # Others have their turns in between.
        return 0.0

    def _end(self, order: _Order) -> None:
        _report_order(order)
        with self._lock:
            for orders in (self._urgent, self._requests):
                if order in orders:
                    orders.remove(order)
            if order.request is not None:
                self._taken.discard(order.request.id)

    def _go_on(self, order: _Order) -> bool:
        """Compact the next group of an order; whether that was the last one.

        Raises:
            SluicewayError: The route has ended, or the answer cannot be written.
        """
        if order.waiting is None:
            order.waiting = deque(
                self._record_queue.see(lambda fold: self._outcomes(fold, order.names))
            )
        if order.waiting and time.monotonic() - order.told_at >= _TELL_EVERY_S:
            self._report_progress(order)
            order.told_at = time.monotonic()
        left, group = next_group(order.waiting)
        order.done += left
        rest = []
        for found in self._compact(group, order.until):
            if is_late(order.until) and found.outcome == CompactionOutcome.FAILED:
                rest.append(found.partition)
            else:
                self._log_outcome(found)
                order.done.append(found)
        if is_late(order.until):
            rest += [
                each.partition for each in order.waiting if each.outcome != CompactionOutcome.LEFT
            ]
            if rest:
                self._put_off(rest)
            return True
        if order.waiting:
            return False
        self._report_progress(order)
        if order.request is not None:
            self._record_queue.log.check_held()
            self._record_queue.log.storage.remove(
                self._record_queue.log.layout.request(order.request.id)
            )
        return True

    def _outcomes(self, fold: Fold, names: Iterable[str]) -> list[PartitionDone]:
        """The partitions asked for: to be left alone with a reason, or without an outcome.

        All at once, since the driver's thread has time for us once an epoch, and most of
        many need nothing.
        """
        return [_as_it_is(fold, name, self._target_bytes) for name in meant(fold, names)]

    def _put_off(self, names: Iterable[str]) -> None:
        self._log.warning("compaction_late", partitions=list(names), after_s=BEFORE_READY_S)
        self._add(_Order(tuple(names)))

    def _report_progress(self, order: _Order) -> None:
        if order.request is None:
            return
        waiting = len(order.waiting or ())
        answer = CompactAnswer(waiting == 0, tuple(order.done), waiting)
        layout = self._record_queue.log.layout
        self._record_queue.log.check_held()
        self._record_queue.log.storage.overwrite(layout.answer(order.request.id), encode(answer))

    def _compact(self, names: Sequence[str], until: float | None) -> list[PartitionDone]:
        """Compact a group of partitions, each if it is still worth it.

        Raises:
            FencedError: The route is left, or another driver has taken over.
        """
        if not names:
            return []
        costs: dict[str, Rewritten] = {}

        def rewrite(staged: Sequence[Staging]) -> list[Sequence[FileRecord] | SluicewayError]:
            asked = [(each.folder, each.live) for each in staged]
            made = self._rewriter.rewrite(asked, until=until)
            found: list[Sequence[FileRecord] | SluicewayError] = []
            for each, one in zip(staged, made, strict=True):
                if isinstance(one, Rewritten):
                    costs[each.partition] = one
                found.append(one.files if isinstance(one, Rewritten) else one)
            return found

        moved = move_partitions(self._record_queue, names, self._why_left, rewrite)
        return [_done(each, costs.get(each.partition)) for each in moved]

    def _why_left(self, fold: Fold, partition: str) -> str:
        return why_left(fold, partition, self._target_bytes)

    def _log_outcome(self, done: PartitionDone) -> None:
        if done.outcome == CompactionOutcome.COMPACTED:
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
        elif done.outcome == CompactionOutcome.FAILED:
            self._log.warning("compaction_failed", partition=done.partition, reason=done.reason)


def is_late(until: float | None) -> bool:
    """Whether the time of an order is over."""
    return until is not None and time.monotonic() >= until


def next_group(waiting: deque[PartitionDone]) -> tuple[list[PartitionDone], list[str]]:
    """Take from the front what is compacted together next.

    Returns:
        The partitions that are left alone, and the names of the others.
    """
    left: list[PartitionDone] = []
    group: list[str] = []
    files = size_bytes = 0
    while waiting:
        first = waiting[0]
        if first.outcome == CompactionOutcome.LEFT:
            left.append(waiting.popleft())
            continue
        files, size_bytes = files + first.files_before, size_bytes + int(first.bytes_before)
        too_large = files > MOST_GROUP_FILES or size_bytes > MOST_GROUP_BYTES
        if group and (too_large or len(group) == MOST_IN_A_GROUP):
            break
        group.append(waiting.popleft().partition)
    return left, group


def _done(moved: ReplacedFiles, cost: Rewritten | None) -> PartitionDone:
    outcome = CompactionOutcome.COMPACTED
    if moved.slot is None:
        outcome = CompactionOutcome.LEFT if moved.left else CompactionOutcome.FAILED
    return PartitionDone(
        partition=moved.partition,
        outcome=outcome,
        reason=moved.left or moved.failed,
        files_before=moved.before.files,
        files_after=moved.after.files,
        bytes_before=BigInt(moved.before.size_bytes),
        bytes_after=BigInt(moved.after.size_bytes),
        wall_ms=0 if cost is None else int(cost.wall_s * 1000),
        cpu_ms=0 if cost is None else int(cost.cpu_s * 1000),
    )


def _as_it_is(fold: Fold, partition: str, target_bytes: int) -> PartitionDone:
    """A partition before anything is done: left alone for a reason, or without an outcome yet."""
    reason = why_left(fold, partition, target_bytes)
    files, size_bytes = _sizes(fold, partition)
    return PartitionDone(
        partition=partition,
        outcome=CompactionOutcome.LEFT if reason else "",
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


def _report_order(order: _Order) -> None:
    if order.over is not None:
        order.over.set()
