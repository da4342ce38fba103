"""Replaces all rows of a prefix at once, while the epochs of its route go on.

First comes the INTENT: rows that were committed before it are replaced. Then the caller writes the
new files. Then comes the SWAP, with copies of the files that epochs have committed below the prefix
meanwhile. Readers see the old rows or the new ones. A driver that dies leaves an INTENT, which the
next one abandons, or a SWAP, which the next one publishes.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sluiceway.errors import (
    FencedError,
    SluicewayError,
    StorageUnavailableError,
    TaskFailedError,
    WrongUsageError,
)
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.live_files import readers_of
from sluiceway.ledger.partition_records import (
    AbandonRecord,
    IntentRecord,
    SwapCounts,
    SwapInput,
    SwapRecord,
)
from sluiceway.ledger.places import intent_folder, is_below, partition_of
from sluiceway.ledger.records import EpochRecord
from sluiceway.observe.failpoints import reach
from sluiceway.types.log_key import SourceKey
from sluiceway.upkeep.partition_bodies import (
    SwapParts,
    abandon_body,
    swap_body,
    swap_intent_body,
    why_not_swapped,
)
from sluiceway.upkeep.record_queue import RecordQueue
from sluiceway.upkeep.replacing import MOST_ROUNDS, CarryAllowance, carried_copy

if TYPE_CHECKING:
    from sluiceway.ledger.folding.fold_state import PartitionState

_BUSY_PAUSE_S = 0.2
_MOST_LAST_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class SwapOrder:
    """What is to be replaced, and why.

    Attributes:
        prefix: Folder, `dt=20261120/hr=08`; a partition or above several, perhaps still empty.
        purpose: One of `SWAP_PURPOSES`.
        operator: `user@host` who asks for it; empty when no one does.
        reason: In the operator's words.
        busy_s: How long other work below the prefix, such as a compaction, is waited for.
    """

    prefix: str
    purpose: str
    operator: str = ""
    reason: str = ""
    busy_s: float = 600.0


@dataclass(frozen=True, slots=True)
class SwapStaging:
    """Where the new files of a prefix go.

    Attributes:
        intent: Slot of the INTENT. The new rows stand for all rows of the prefix in earlier slots.
        folder: Staged folder, an absolute path that exists. Staged names begin with its own name.
        live: Files that are live in the slot of the INTENT, by the name of their partition.
        ends: Committed ends of the source partitions in that slot.
    """

    prefix: str
    intent: int
    folder: str
    live: Mapping[str, Sequence[FileRecord]]
    ends: Mapping[SourceKey, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows of the prefix in the slot of the INTENT."""
        return sum(int(file.rows) for files in self.live.values() for file in files)

    def record_of(self, file: FileRecord, partition: str, name: str) -> FileRecord:
        """A new file's record.

        Args:
            file: Its rows, size, checksum, values and bounds.
            partition: Name of its partition.
            name: Its name in the folder.
        """
        staged = f"{self.folder.rpartition('/')[2]}/{name}"
        return replace(file, staged=staged, final=f"{partition}/{name}")


@dataclass(frozen=True, slots=True)
class SwapContent:
    """What a prefix is to have.

    Attributes:
        files: New files, staged and durable. The folder of a final name is the partition's name.
            A partition below the prefix without one is empty from then on.
        counts: Where the rows went that were read for them.
        dirty_files: Rows that could not be written, staged and durable, with their final names.
        inputs: What the rows were made from.
        pins: Name of a table that was looked up -> its state then.
        sql: Hash of the SQL that made the rows; empty without.
    """

    files: Sequence[FileRecord]
    counts: SwapCounts
    dirty_files: Sequence[FileRecord] = ()
    inputs: Sequence[SwapInput] = ()
    pins: Mapping[str, str] = field(default_factory=dict)
    sql: str = ""


Write = Callable[[SwapStaging], SwapContent]
"""Makes the new files of a prefix; raises `SluicewayError` to give the work up."""


@dataclass(frozen=True, slots=True)
class Swapped:
    """A SWAP that is committed and published.

    Attributes:
        slot: Its slot.
        record: The record.
    """

    slot: int
    record: SwapRecord


def swap(record_queue: RecordQueue, order: SwapOrder, write: Write) -> Swapped:
    """Replace the rows of a prefix by others, at once.

    Called in a thread of its own; waits for the driver's thread between two epochs. When it
    returns, all files have their final names. The catalog and a READY follow by themselves.

    Args:
        record_queue: The route's record queue.
        order: What is replaced.
        write: Makes the new files.

    Raises:
        WrongUsageError: The rows of this prefix can never be replaced.
        TaskFailedError: It was given up: other work goes on below the prefix, or files come faster
            than they are carried over.
        FencedError: The route is left, or another driver has taken over.
        SluicewayError: As `write`, or the store failed. An ABANDON was put.
    """
    work = _begin(record_queue, order)
    try:
        reach("swap.begun", order.prefix)
        content = write(work.stage())
        reach("swap.written", order.prefix)
        return work.land(content)
    except FencedError:
        raise
    except BaseException as error:
        work.abandon(error)
        raise


class _Opening:
    """A prefix in the slot of its INTENT."""

    def __init__(self, order: SwapOrder) -> None:
        self._order = order
        self.why = ""
        self.body: IntentRecord | None = None
        self.states: list[PartitionState] = []
        self.ends: dict[SourceKey, int] = {}

    def intent(self, fold: Fold) -> IntentRecord | None:
        """The record; None when it cannot be begun now. Called by the driver's thread."""
        prefix = self._order.prefix
        self.why = why_not_swapped(fold, prefix)
        self.body = swap_intent_body(fold, prefix, self._order.purpose)
        self.states = [replace(state) for state in fold.below(prefix)]
        self.ends = {key: known.end for key, known in fold.sources.items() if not known.retired}
        return self.body


def _begin(record_queue: RecordQueue, order: SwapOrder) -> "_Work":
    until = time.monotonic() + order.busy_s
    opening = _Opening(order)
    while (slot := record_queue.ask(opening.intent).result()) is None:
        if opening.why:
            raise WrongUsageError(f"its rows cannot be replaced: {opening.why}", where=order.prefix)
        if time.monotonic() >= until:
            raise TaskFailedError("other work goes on there", where=order.prefix)
        time.sleep(_BUSY_PAUSE_S)
    assert opening.body is not None  # noqa: S101 - it was put
    return _Work(record_queue, order, slot, opening)


class _Work:
    """A prefix from its INTENT on."""

    def __init__(
        self, record_queue: RecordQueue, order: SwapOrder, slot: int, opening: _Opening
    ) -> None:
        assert opening.body is not None  # noqa: S101 - it was put
        self._record_queue = record_queue
        self._log = record_queue.log
        self._order = order
        self._slot = slot
        self._states = opening.states
        self._ends = opening.ends
        self._folder = self._log.layout.attempt(intent_folder(slot, opening.body.uuid))
        self._live: dict[str, Sequence[FileRecord]] = {}
        self._content: SwapContent | None = None
        self._read = slot
        self._since: dict[str, list[FileRecord]] = {}
        self._carried: dict[str, FileRecord] = {}
        self._record: SwapRecord | None = None
        self._failure: SluicewayError | None = None

    def stage(self) -> SwapStaging:
        """Make the folder for the new files, and find the live ones."""
        readers = readers_of(self._log, self._states)
        self._live = {
            state.folder: files.of(state)
            for state, files in zip(self._states, readers, strict=True)
            if state.files
        }
        self._log.storage.make_folders(self._folder)
        return SwapStaging(self._order.prefix, self._slot, self._folder, self._live, self._ends)

    def land(self, content: SwapContent) -> Swapped:
        """Put the SWAP, with what has come since the INTENT."""
        self._check(content)
        self._content = content
        self._log.storage.sync_folder(self._folder)
        for _ in range(MOST_ROUNDS):
            self._carry_over(self._record_queue.see(_published), None)
            if (done := self._put(self._built)) is not None:
                return done
        allowance = CarryAllowance(self._record_queue)
        for _ in range(_MOST_LAST_ROUNDS):
            done = self._put(lambda fold: self._built_with_the_last(fold, allowance))
            if done is not None:
                return done
            self._carry_over(self._record_queue.see(_published), None)
        raise TaskFailedError(
            "files come faster than they are carried over", where=self._order.prefix
        )

    def _check(self, content: SwapContent) -> None:
        """Refuse what the fold would halt the route for.

        Raises:
            TaskFailedError: Rows do not add up, or a file is not of this prefix.
        """
        prefix, counts = self._order.prefix, content.counts
        sums = [
            sum(int(file.rows) for file in files) for files in (content.files, content.dirty_files)
        ]
        if not counts.balanced() or sums != [counts.written, counts.dirty]:
            raise TaskFailedError(f"rows do not add up: {counts}, files {sums}", where=prefix)
        for file in content.files:
            if not is_below(file.final.rpartition("/")[0], prefix):
                raise TaskFailedError(f"{file.final} is not of this prefix", where=prefix)

    def abandon(self, error: BaseException) -> None:
        """End the work without an effect. A record that landed unseen has ended it already."""
        reason = str(error) or type(error).__name__

        def build(fold: Fold) -> AbandonRecord | None:
            return abandon_body(fold, self._slot, reason[:500])

        while True:
            try:
                self._record_queue.ask(build).result()
            except StorageUnavailableError:
                # The route waits before its next turn, or halts and ends this.
                continue
            except SluicewayError:
                # The route is left: its next START abandons what is open.
                return
            return

    def _put(self, build: Callable[[Fold], SwapRecord | None]) -> Swapped | None:
        reach("swap.landing", self._order.prefix)
        slot = self._record_queue.ask(build).result()
        if self._failure is not None:
            raise self._failure
        if slot is None or self._record is None:
            return None
        reach("swap.landed", self._order.prefix)
        return Swapped(slot, self._record)

    def _built(self, fold: Fold) -> SwapRecord | None:
        assert self._content is not None  # noqa: S101 - written before
        content, order = self._content, self._order
        added: dict[str, list[FileRecord]] = {}
        for file in content.files:
            added.setdefault(file.final.rpartition("/")[0], []).append(file)
        carried = {
            name: [self._carried[file.final] for file in files]
            for name, files in self._since.items()
        }
        parts = SwapParts(
            live=self._live,
            added=added,
            since=self._since,
            carried=carried,
            counts=content.counts,
            dirty_files=content.dirty_files,
            inputs=content.inputs,
            pins=content.pins,
            sql=content.sql,
            operator=order.operator,
            reason=order.reason,
        )
        self._record = swap_body(fold, self._slot, parts)
        return self._record

    def _built_with_the_last(self, fold: Fold, allowance: CarryAllowance) -> SwapRecord | None:
        """As `_built`, but what has come is carried over while no epoch can commit more."""
        self._record = None
        try:
            if not self._carry_over(_published(fold), allowance):
                return None
        except SluicewayError as error:
            # This work's trouble, not that of the route.
            self._failure = error
            return None
        return self._built(fold)

    def _carry_over(self, through: int, allowance: CarryAllowance | None) -> bool:
        """Copy what has come below the prefix; False when that is too much for now.

        Args:
            through: Slot below which all files have their final names.
            allowance: What may still be copied; None for any number.
        """
        self._read_on(through)
        new = [
            file
            for files in self._since.values()
            for file in files
            if file.final not in self._carried
        ]
        if allowance is not None and not allowance.takes(new):
            return False
        for file in new:
            self._carried[file.final] = carried_copy(self._log, file, self._folder)
        if new:
            self._log.storage.sync_folder(self._folder)
        return True

    def _read_on(self, through: int) -> None:
        """Find the files of later slots; no other work goes on below the prefix."""
        for record, _ in self._log.records(self._read + 1):
            if record.seq >= through:
                return
            self._read = record.seq
            if not isinstance(record.body, EpochRecord):
                continue
            for file in record.body.files:
                name = partition_of(file.final)
                if is_below(name, self._order.prefix):
                    self._since.setdefault(name, []).append(file)


def _published(fold: Fold) -> int:
    return fold.published_through
