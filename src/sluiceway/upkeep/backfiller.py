"""Backfills prefixes of one route between its epochs: reads again, and replaces the rows at once.

It has turns of the process's pool. Another process reads and writes; the driver puts the records
(`upkeep.swapping`). A request stays until its answer is there, so that the next driver goes on.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sluiceway.errors import (
    FencedError,
    NotInThisVersionError,
    RequestRefusedError,
    RowsDifferError,
    SluicewayError,
    TaskFailedError,
)
from sluiceway.host.work_pool import process_upkeep
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.partition_records import SwapCounts, SwapInput
from sluiceway.observe.log import Log
from sluiceway.sources.contract import Correction, SourcePartition
from sluiceway.types.log_key import SourceKey
from sluiceway.types.strict_json import BigInt, encode
from sluiceway.upkeep.partition_requests import BackfillAnswer, BackfillRequest, RowOrigin
from sluiceway.upkeep.record_queue import RecordQueue
from sluiceway.upkeep.replacing import carried_copy
from sluiceway.upkeep.rereading import ReadSoFar, Rereading, refuse_lost, with_kept
from sluiceway.upkeep.swapping import SwapContent, SwapOrder, Swapped, SwapStaging, Write, swap
from sluiceway.worker.backfill_task import BackfillFiles
from sluiceway.worker.plan import TaskFailure

if TYPE_CHECKING:
    from sluiceway.upkeep.earlier_rows import EarlierRange
    from sluiceway.upkeep.prefix_history import PrefixHistory

_LAST_WAIT_S = 5.0
_LOOK_EVERY_S = 5.0
_LOOK_WHILE_REFUSED_S = 60.0
_NOTHING = SwapCounts(BigInt(0), BigInt(0))


def refuse_open(fold: Fold, prefix: str, origin: str) -> None:
    """Refuse to replace rows of an open prefix by those of an origin that does not say which.

    A table that closes nothing has no open prefix.

    Args:
        fold: What the ledger has.
        prefix: Folder of a partition or above several.
        origin: A `RowOrigin`. For `ledger`, slots say which rows are read again.

    Raises:
        RequestRefusedError: Rows in time still come for it.
    """
    if origin == RowOrigin.LEDGER or not fold.closed or fold.closed_above(prefix) is not None:
        return
    below = [state.folder for state in fold.below(prefix)]
    if not below or any(fold.closed_above(name) is None for name in below):
        raise RequestRefusedError(
            f"it is open: rows still come for it, and {origin} do not say which they have",
            where=prefix,
            hint="wait until it is closed (`partitions why` says when), or read it `--from ledger`",
        )


class Backfiller:
    """Backfills one route while its driver lives. Any thread may ask it.

    Where the route reads a table, it also rebuilds what was corrected there: without being asked,
    and again until a SWAP with the correction is in the ledger.

    Args:
        record_queue: The route's record queue.
        reading: Reads what made a prefix; owned from here on.
        log: Bound to the route.
        follows: Whether corrections of a table that is read are followed.
        computes: Returns what computes a unit again; None in a route that appends rows.
    """

    def __init__(
        self,
        record_queue: RecordQueue,
        reading: Rereading,
        log: Log,
        *,
        follows: bool = False,
        computes: Callable[[str], Write] | None = None,
    ) -> None:
        self._record_queue = record_queue
        self._reading = reading
        self._log = log
        self._requested: deque[BackfillRequest] = deque()
        self._taken: set[str] = set()
        self._closed = False
        self._lock = threading.Lock()
        self._follows = follows
        self._computes = computes
        self._look_due = time.monotonic() + _LOOK_EVERY_S
        # Slots of the ledger at the last look, if nothing was left to follow; and what was refused.
        self._followed = -1
        self._refused: tuple[str, ...] = ()
        self._work = process_upkeep().add(self._turn)
        if follows:
            self._work.wake()

    def has_followed(self, slots: int) -> bool:
        """Whether each correction is followed, or waits for an operator; else looks at once.

        Called by the driver's thread when a bounded run has read everything.

        Args:
            slots: Number of slots of the ledger.
        """
        if not self._follows or self._followed == slots:
            return True
        self._look_due = time.monotonic()
        self._work.wake()
        return False

    def enqueue(self, request: BackfillRequest) -> None:
        """Have a request carried out, unless it is under way or waits already."""
        with self._lock:
            if request.id in self._taken or self._closed:
                return
            self._taken.add(request.id)
            self._requested.append(request)
        self._work.wake()

    def close(self) -> None:
        """Give up what is under way: its route is left. Safe to repeat."""
        with self._lock:
            self._closed = True
            self._requested.clear()
        self._reading.cancelled.set()
        self._work.end(_LAST_WAIT_S)

    def _turn(self) -> float | None:
        """Carry out the next request."""
        with self._lock:
            if self._closed:
                return None
            request = self._requested.popleft() if self._requested else None
        if request is None:
            return self._correct()
        try:
            self._answer(request, self._carried_out(request))
        except SluicewayError as error:
            # The route is left, or the store is away: the request stays, and comes again.
            self._log.info("backfill_ends", prefix=request.prefix, error=str(error))
        finally:
            with self._lock:
                self._taken.discard(request.id)
        return 0.0

    def _correct(self) -> float | None:
        """Rebuild what was corrected in the table that is read; the seconds until the next look."""
        if not self._follows:
            return None
        wait_s = self._look_due - time.monotonic()
        if wait_s > 0:
            return wait_s
        self._look_due = time.monotonic() + _LOOK_EVERY_S
        queue = self._record_queue
        try:
            read = queue.see(ReadSoFar.of)
            due = self._reading.due(read, queue.log)
            refused = tuple(why for each in due if (why := self._followed_or_why(each, read)))
        except SluicewayError as error:
            if not self._closed:
                self._log.info("correction_waits", error=str(error))
            return _LOOK_EVERY_S
        except Exception as error:  # noqa: BLE001 - the turn's boundary: never end silently
            text = f"a bug: {type(error).__name__}: {str(error)[:300]}"
            self._log.warning("backfill_failed", prefix="", error=text)
            return _LOOK_EVERY_S
        if refused != self._refused:
            for each in refused:
                self._log.warning("correction_refused", error=each)
            self._refused = refused
        if len(refused) < len(due):
            # Their records have made the ledger longer.
            self._look_due = time.monotonic()
            return 0.0
        self._followed = read.slots
        if refused:
            self._look_due += _LOOK_WHILE_REFUSED_S - _LOOK_EVERY_S
        return _LOOK_EVERY_S

    def _followed_or_why(self, correction: Correction, read: ReadSoFar) -> str:
        """Why a correction has to wait for an operator; empty once it is followed."""
        try:
            self._reading.refuse_twice(self._record_queue.log, read, correction.prefix, read.slots)
            self._rebuild(correction)
        except (RequestRefusedError, NotInThisVersionError) as error:
            return str(error)
        return ""

    def _rebuild(self, correction: Correction) -> None:
        """Give a prefix the rows that the upstream table had at our own committed end."""
        made: list[Correction] = []

        def write(staging: SwapStaging) -> SwapContent:
            queue = self._record_queue
            # An epoch may have put rows aside since the look; later ones are not read here.
            read_now = queue.see(ReadSoFar.of)
            self._reading.refuse_twice(queue.log, read_now, correction.prefix, staging.intent)
            now = self._reading.as_of_ends(correction, staging.ends)
            made.append(now)
            read = self._reading.read_corrected(now, staging.folder)
            read_from = SwapInput(now.ledger, now.prefix, 0, now.as_of)
            return SwapContent(read.files, read.counts, read.dirty_files, inputs=(read_from,))

        done = swap(self._record_queue, SwapOrder(correction.prefix, "correct"), write)
        self._log.info(
            "corrected",
            seq=done.slot,
            prefix=correction.prefix,
            as_of=made[-1].as_of,
            rows_before=int(done.record.rows_before),
            rows_after=int(done.record.rows_after),
        )

    def _answer(self, request: BackfillRequest, answer: BackfillAnswer) -> None:
        log = self._record_queue.log
        log.check_held()
        log.storage.overwrite(log.layout.answer(request.id), encode(answer))
        log.storage.remove(log.layout.request(request.id))

    def _carried_out(self, request: BackfillRequest) -> BackfillAnswer:
        """What became of a request.

        Raises:
            FencedError: The route is left.
        """
        work = _Backfill(request, self._reading, self._record_queue, self._computes)
        try:
            done = work.run()
        except FencedError:
            raise
        except SluicewayError as error:
            if self._closed:
                raise
            return self._failed(request, work, error)
        except Exception as error:  # noqa: BLE001 - the turn's boundary: never end silently
            text = f"a bug: {type(error).__name__}: {str(error)[:300]}"
            return self._failed(request, work, TaskFailedError(text, where=request.prefix))
        body = done.record
        self._log.info(
            "backfilled",
            seq=done.slot,
            prefix=request.prefix,
            origin=request.origin,
            rows_before=int(body.rows_before),
            rows_after=int(body.rows_after),
            operator=request.operator,
        )
        return BackfillAnswer(
            finished=True,
            slot=done.slot,
            rows_before=body.rows_before,
            rows_after=body.rows_after,
            counts=body.counts,
            dirty_reasons=work.dirty_reasons,
            failure=None,
        )

    def _failed(
        self, request: BackfillRequest, work: "_Backfill", error: SluicewayError
    ) -> BackfillAnswer:
        self._log.warning("backfill_failed", prefix=request.prefix, error=str(error))
        return BackfillAnswer(
            finished=True,
            slot=-1,
            rows_before=BigInt(work.rows_before),
            rows_after=BigInt(work.rows_before),
            counts=work.counts,
            dirty_reasons=work.dirty_reasons,
            failure=TaskFailure.of(error),
        )


class _Backfill:
    """One request.

    Attributes:
        rows_before: Rows of the prefix in the slot of the INTENT.
        counts: Where the rows went that were read.
        dirty_reasons: Dirty rows among them, by reason.
    """

    def __init__(
        self,
        request: BackfillRequest,
        reading: Rereading,
        record_queue: RecordQueue,
        computes: Callable[[str], Write] | None = None,
    ) -> None:
        self._request = request
        self._reading = reading
        self._record_queue = record_queue
        self._computes = computes if request.origin == RowOrigin.INPUTS else None
        self._earlier: PrefixHistory | None = None
        self._pinned: Sequence[EarlierRange] = ()
        self.rows_before = 0
        self.counts = _NOTHING
        self.dirty_reasons: dict[str, int] = {}

    def run(self) -> Swapped:
        """Replace the rows.

        Raises:
            SluicewayError: Nothing was changed; says why.
        """
        request = self._request
        order = SwapOrder(request.prefix, "backfill", request.operator, request.reason)
        queue, origin = self._record_queue, request.origin
        if origin not in (*RowOrigin,):
            raise RequestRefusedError(f"rows are not read from `{origin}`")
        if self._computes is not None:
            compute = self._computes(request.prefix)
            return swap(queue, order, lambda staging: self._computed(compute, staging))
        queue.see(lambda fold: refuse_open(fold, request.prefix, origin))
        # What the broker has lost is known before anything is begun.
        if origin == RowOrigin.LEDGER:
            history = self._reading.history(
                queue.log, request.prefix, queue.see(lambda fold: fold.next_seq)
            )
            refuse_lost(self._reading.lost(history), request.prefix)
        if origin == RowOrigin.INPUTS:
            self._inputs()
        if origin == RowOrigin.OFFSETS:
            slots = queue.see(lambda fold: fold.next_seq)
            self._earlier = self._reading.earlier(queue.log, request.prefix, slots)
        return swap(queue, order, self._write)

    def _computed(self, compute: Write, staging: SwapStaging) -> SwapContent:
        self.rows_before = staging.rows
        content = compute(staging)
        self.counts = content.counts
        self._refuse_another_number()
        return content

    def _write(self, staging: SwapStaging) -> SwapContent:
        self.rows_before = staging.rows
        made, inputs = self._read(staging)
        self.counts, self.dirty_reasons = made.counts, made.dirty_reasons
        self._refuse_another_number()
        pins = dict(each.pin() for each in self._pinned)
        return SwapContent(made.files, made.counts, made.dirty_files, inputs, pins)

    def _read(self, staging: SwapStaging) -> tuple[BackfillFiles, tuple[SwapInput, ...]]:
        request, reading = self._request, self._reading
        prefix, folder = staging.prefix, staging.folder
        if request.origin == RowOrigin.FILES:
            return reading.read_files(request.names, prefix, folder), ()
        if request.origin == RowOrigin.TABLE:
            made, read = reading.read_table(request.names[0], prefix, folder)
            return made, (read,)
        if request.origin == RowOrigin.INPUTS:
            # What epochs commit after the INTENT is carried over, and not read here.
            read = self._inputs(staging.ends)
            return reading.read_inputs(read, folder), (read,)
        if self._earlier is not None:
            self._pinned = self._earlier.earlier
            return self._added(reading.read(self._earlier, prefix, folder), staging), ()
        history = reading.history(self._record_queue.log, prefix, staging.intent)
        self._pinned = history.earlier
        return reading.read(history, prefix, folder), ()

    def _added(self, made: BackfillFiles, staging: SwapStaging) -> BackfillFiles:
        """What was made, with copies of what the prefix has."""
        log = self._record_queue.log
        files = [
            staging.record_of(
                carried_copy(log, file, staging.folder), name, file.final.rpartition("/")[2]
            )
            for name, held in staging.live.items()
            for file in held
        ]
        return with_kept(made, staging.rows, files)

    def _inputs(self, ends: Mapping[SourceKey, int] | None = None) -> SwapInput:
        queue = self._record_queue
        read = queue.see(ReadSoFar.of)
        if ends is not None:
            read = replace(read, ends={SourcePartition(*key): end for key, end in ends.items()})
        return self._reading.inputs(queue.log, read, self._request.prefix)

    def _refuse_another_number(self) -> None:
        wanted = self._request.accept_rows
        wanted = wanted if wanted >= 0 else BigInt(self.rows_before)
        counts = self.counts
        if counts.written == wanted:
            return
        raise RowsDifferError(
            f"it has {self.rows_before} rows, and would have {counts.written}: of {counts.read} "
            f"rows that were read, {counts.outside} are of other prefixes, {counts.dirty} dirty, "
            f"{counts.filtered} filtered and {counts.skipped} skipped",
            where=self._request.prefix,
            hint=f"nothing was changed; `--accept-rows {counts.written}` goes on",
        )
