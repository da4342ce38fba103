"""Lets go of partitions of one route between its epochs: requested ones, and old ones.

It has turns of the process's pool. It finds files and decides; the driver puts the EXPIRE
records, and the metastore and the old folders follow by what they say
(`followers.catalog`, `followers.moved_partitions`).
A crash anywhere leaves a record or none.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sluiceway.errors import LedgerCorruptError, SluicewayError
from sluiceway.host.work_pool import process_upkeep
from sluiceway.jobfile.compile.retention import RetentionRule, expired_by_age
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import PartitionState
from sluiceway.ledger.live_files import readers_of
from sluiceway.ledger.partition_records import ExpireRecord
from sluiceway.ledger.reader_leases import slot_of_slowest
from sluiceway.observe.log import Log
from sluiceway.upkeep.partition_bodies import expire_body
from sluiceway.upkeep.partition_requests import MOST_FORGOTTEN, ForgetRequest
from sluiceway.upkeep.record_queue import RecordQueue
from sluiceway.upkeep.requests import put_answer

_EVERY_S = 600.0
_FIRST_S = 30.0
_AGAIN_S = 2.0
_LAST_WAIT_S = 5.0
_MOST_TRIES = 4

Choose = Callable[[Fold], Sequence[str]]
"""Which partitions to let go of, by name."""


@dataclass(frozen=True, slots=True)
class _Order:
    choose: Choose
    reason: str
    drop: bool


class Expirer:
    """Expiry of one route while its driver lives. Any thread may ask it.

    Args:
        record_queue: The route's record queue.
        rule: What is too old; None lets go of what is asked for only.
        log: Bound to the route.
    """

    def __init__(self, record_queue: RecordQueue, rule: RetentionRule | None, log: Log) -> None:
        self._record_queue = record_queue
        self._rule = rule
        self._log = log
        self._requested: deque[ForgetRequest] = deque()
        self._taken: set[str] = set()
        self._state = threading.Condition()
        self._closed = False
        self._due = time.monotonic() + _FIRST_S
        self._work = process_upkeep().add(self._turn)
        if rule is not None:
            self._work.wake()

    def enqueue(self, request: ForgetRequest) -> None:
        """Have a request carried out, unless the same request is under way or waits already."""
        with self._state:
            if request.id in self._taken or self._closed:
                return
            self._taken.add(request.id)
            self._requested.append(request)
        self._work.wake()

    def close(self) -> None:
        """End it: its route is left. Safe to repeat."""
        with self._state:
            self._closed = True
            self._state.notify_all()
        self._work.end(_LAST_WAIT_S)

    def _turn(self) -> float | None:
        """Carry out what is asked for, or let go of what is old; the seconds until the next."""
        with self._state:
            if self._closed:
                return None
            request = self._requested.popleft() if self._requested else None
            pause_s = self._pause_s()
        if request is None and pause_s != 0.0:
            return pause_s
        try:
            if request is None:
                self._expire_old()
            else:
                self._forget(request)
        except SluicewayError as error:
            # The route is left, or the store is away: what is asked for comes again.
            self._log.info("expiry_ends", code=error.code, error=str(error))
        except Exception as error:  # noqa: BLE001 - the turn's boundary: never end silently
            text = f"a bug: {type(error).__name__}: {str(error)[:300]}"
            self._log.warning("expiry_waits", partition="", error=text)
        finally:
            if request is not None:
                self._taken.discard(request.id)
        return 0.0 if self._requested else self._pause_s()

    def _pause_s(self) -> float | None:
        return None if self._rule is None else max(0.0, self._due - time.monotonic())

    def _expire_old(self) -> None:
        rule = self._rule
        if rule is None:
            return
        self._due = time.monotonic() + _EVERY_S
        reason = f"older than {rule.text}"
        log = self._record_queue.log
        slowest = slot_of_slowest(log.storage, log.layout, time.time_ns() // 1_000_000)

        def choose(fold: Fold) -> list[str]:
            old = expired_by_age(fold, rule, time.time_ns() // 1000)
            # A query has still to read what came since; it is asked again after a while.
            through = fold.next_seq if slowest is None else slowest
            return [name for name in old if fold.partitions[name].last_seq <= through]

        if self._put(_Order(choose, reason, rule.drop)) is not None:
            # More may be due, after a while: epochs go on meanwhile.
            self._due = time.monotonic() + _AGAIN_S

    def _forget(self, request: ForgetRequest) -> None:
        """Carry a request out, then take it away; what it names and is not so any more is left.

        Raises:
            SluicewayError: The route has ended, or the store failed.
        """
        storage, layout = self._record_queue.log.storage, self._record_queue.log.layout
        self._record_queue.log.check_held()
        if len(request.partitions) > MOST_FORGOTTEN:
            text = f"it names more than {MOST_FORGOTTEN} partitions"
            put_answer(storage, layout, request.id, text)
            return
        versions = {each.partition: each.version for each in request.partitions}
        busy = False

        def choose(fold: Fold) -> list[str]:
            nonlocal busy
            left = _unchanged(fold, versions)
            busy = busy or any(map(fold.is_worked_on, left))
            return left

        self._put(_Order(choose, request.reason, request.drop))
        left = self._record_queue.see(choose)
        self._record_queue.log.check_held()
        if not left:
            storage.remove(layout.request(request.id))
        elif not busy:
            text = f"{left[0]} cannot be let go of now: rows come for it, or a record is damaged"
            put_answer(storage, layout, request.id, text)
        # Else the request file is found again in the next turn.

    def _put(self, order: _Order) -> int | None:
        """Put one EXPIRE; its slot, or None when there is nothing to let go of."""
        for _ in range(_MOST_TRIES):
            chosen = self._record_queue.see(order.choose)
            if not chosen:
                return None
            live = self._live(chosen) if order.drop else None
            slot = self._put_record(order, chosen, live)
            if slot is not None:
                return slot
        return None

    def _put_record(
        self, order: _Order, chosen: Sequence[str], live: Mapping[str, Sequence[FileRecord]] | None
    ) -> int | None:
        found: list[ExpireRecord] = []

        def build(fold: Fold) -> ExpireRecord | None:
            still = set(order.choose(fold))
            body = expire_body(fold, (n for n in chosen if n in still), order.reason, live)
            found[:] = [] if body is None else [body]
            return body

        slot = self._record_queue.ask(build).result()
        if slot is not None:
            for each in found[-1].partitions:
                self._log.info(
                    "partition_expired",
                    seq=slot,
                    partition=each.partition,
                    rows=each.rows,
                    files=each.files,
                    reason=order.reason,
                    drop=order.drop,
                )
        return slot

    def _live(self, names: Sequence[str]) -> dict[str, Sequence[FileRecord]]:
        """Files of these partitions, by the log; partitions with damaged records are left out."""

        def look(fold: Fold) -> list[PartitionState]:
            # A SNAPSHOT since they were chosen may have forgotten some.
            known = (fold.partitions.get(name) for name in names)
            return [replace(state) for state in known if state is not None]

        found: dict[str, Sequence[FileRecord]] = {}
        states = self._record_queue.see(look)
        for state, files in zip(states, readers_of(self._record_queue.log, states), strict=True):
            try:
                found[state.folder] = files.of(state)
            except LedgerCorruptError as error:
                self._log.warning("expiry_waits", partition=state.folder, error=str(error))
        return found


def _unchanged(fold: Fold, versions: Mapping[str, int]) -> list[str]:
    """Partitions that are still as they were at the decision."""
    found = ((name, fold.partitions.get(name)) for name in versions)
    return [
        name
        for name, state in found
        if state is not None and not state.expired and state.version == versions[name]
    ]
