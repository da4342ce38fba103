"""Moves partitions to new folders with other files: what compaction does, in its own thread.

A group of partitions goes together, so that their records wait for one turn of the driver's thread
and not each for its own. First comes the INTENT of all, then their files are rewritten, then the
REPLACE of all. Each has records of its own, and a partition that fails is given up alone.

The epochs go on meanwhile. Files that they commit before a REPLACE has its slot are carried over
into the new folder as they are. When every epoch brings more, the driver's own thread carries the
last ones, between two epochs. When they are too many for that, the work is given up.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from sluiceway.errors import (
    FencedError,
    FileLostError,
    SluicewayError,
    StorageUnavailableError,
    TaskFailedError,
)
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import PartitionState
from sluiceway.ledger.live_files import LiveFiles, readers_of
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import AbandonRecord, IntentRecord, ReplaceRecord
from sluiceway.ledger.places import intent_folder
from sluiceway.storage.copying import copy_staged
from sluiceway.upkeep.partition_bodies import abandon_body, intent_body, replace_body
from sluiceway.upkeep.record_queue import Build, RecordQueue

if TYPE_CHECKING:
    from concurrent.futures import Future

MOST_ROUNDS = 3
"""How often files that have come are carried over before the driver's thread does it."""

_MOST_HELD_FILES = 64
_MOST_HELD_BYTES = 64 << 20
"""What the driver's thread carries over in one turn at most: commits wait for it."""


@dataclass(frozen=True, slots=True)
class Staging:
    """Files of a partition that are to be rewritten.

    Attributes:
        folder: Staged folder for the new ones, an absolute path that exists. Their staged names
            begin with its own name, as staged names of an attempt do.
        live: Live files in the order of their commits.
    """

    partition: str
    folder: str
    live: tuple[FileRecord, ...]


Rewrite = Callable[[Sequence[Staging]], Sequence[Sequence[FileRecord] | SluicewayError]]
"""Writes the rows of partitions to new files; for each these, or why there are none, in order."""

WhyLeft = Callable[[Fold, str], str]
"""Why a partition is left alone, by the fold of that moment; empty when it is to be moved."""


@dataclass(frozen=True, slots=True)
class Size:
    """Live files of a partition, and their bytes."""

    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ReplacedFiles:
    """What became of a partition of a group.

    Attributes:
        slot: Slot of the REPLACE; None when it has not moved.
        left: Why nothing was begun; empty when something was.
        failed: Why it was given up; empty when it has moved.
    """

    partition: str
    slot: int | None
    left: str
    failed: str
    before: Size
    after: Size


def move_partitions(
    record_queue: RecordQueue, names: Sequence[str], why_left: WhyLeft, rewrite: Rewrite
) -> list[ReplacedFiles]:
    """Replace the files of partitions by others with the same rows, each in a new folder.

    Called in a thread of its own; waits for the driver's thread between two epochs.

    Args:
        record_queue: The route's record queue.
        names: Names of the partitions; so few that the records of all their files can be held.
        why_left: Asked for each in the slot of its INTENT.
        rewrite: Makes the new files.

    Returns:
        What became of each, in their order.

    Raises:
        FencedError: The route is left, or another driver has taken over.
    """
    found: dict[str, ReplacedFiles] = {}
    works = _begin(record_queue, names, why_left, found)
    try:
        _find_live(record_queue, works)
        _rewrite_all(works, rewrite)
        _replace_all(record_queue, works)
    except FencedError:
        raise
    except Exception as error:  # noqa: BLE001 - given to each; raised, it would come again
        for work in works:
            work.fail(TaskFailedError(f"a bug: {type(error).__name__}: {str(error)[:300]}"))
    _give_up(record_queue, works)
    found.update((work.partition, work.moved()) for work in works)
    return [found[name] for name in names]


class _Work:
    """A partition of a group, from its INTENT on.

    Attributes:
        partition: Its name.
        folder: Where its new files are staged.
        files: Finds its live files; of the group.
        slot: Slot of the REPLACE; None as long as there is none.
        failure: Why it is given up.
    """

    def __init__(
        self, record_queue: RecordQueue, seq: int, intent: IntentRecord, state: PartitionState
    ) -> None:
        self.partition = intent.partition
        self.folder = record_queue.log.layout.attempt(intent_folder(seq, intent.uuid))
        self.files = LiveFiles(record_queue.log, [state])
        self.slot: int | None = None
        self.failure: SluicewayError | None = None
        self._record_queue = record_queue
        self._seq = seq
        self._before = _size_of(state)
        self._state = state
        self._live: tuple[FileRecord, ...] = ()
        self._added: list[FileRecord] = []
        self._carried: dict[str, FileRecord] = {}
        self._body: ReplaceRecord | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has neither moved nor failed."""
        return self.slot is None and self.failure is None

    @property
    def state(self) -> PartitionState:
        """The partition when it was read last."""
        return self._state

    def fail(self, error: SluicewayError) -> None:
        """Have it given up, unless it is over."""
        if self.is_open:
            self.failure = error

    def stage(self) -> Staging:
        """Look up the live files, and make the folder for the new ones."""
        self._live = self.files.of(self._state)
        self._record_queue.log.storage.make_folders(self.folder)
        return Staging(self.partition, self.folder, self._live)

    def add_files(self, added: Sequence[FileRecord]) -> None:
        """The new files are written.

        Raises:
            TaskFailedError: Rows were gained or lost; the fold would halt the route for that.
        """
        before, after = (sum(int(file.rows) for file in files) for files in (self._live, added))
        if before != after:
            message = f"{before} rows were rewritten as {after}"
            raise TaskFailedError(message, where=self.partition)
        self._added = list(added)
        self._record_queue.log.storage.sync_folder(self.folder)

    def replaced(self, fold: Fold) -> ReplaceRecord | None:
        """The REPLACE; None when more files have come. Called by the driver's thread."""
        self._state = replace(fold.partitions[self.partition])
        self._body = replace_body(fold, self._seq, self._live, self._added)
        return self._body

    def carry_over(self) -> None:
        """Copy what has come since into the new folder."""
        now = self.files.of(self._state)
        self._added += [self._copy(file) for file in now[len(self._live) :]]
        self._live = now
        self._record_queue.log.storage.sync_folder(self.folder)

    def replaced_with_the_last(
        self, fold: Fold, allowance: "CarryAllowance"
    ) -> ReplaceRecord | None:
        """As `replaced`, but what has come is carried over while no epoch can commit more.

        Only the new part of the log is read: commits wait for that too.
        """
        try:
            self._state = replace(fold.partitions[self.partition])
            now = self.files.of(self._state)
            late = now[len(self._live) :]
            # After a lost slot it is asked for again.
            new = [file for file in late if file.final not in self._carried]
            if not allowance.takes(new):
                return None
            for file in new:
                self._carried[file.final] = self._copy(file)
            if new:
                self._record_queue.log.storage.sync_folder(self.folder)
        except SluicewayError as error:
            # This work's trouble, not that of the route.
            self.fail(error)
            return None
        added = [*self._added, *(self._carried[file.final] for file in late)]
        self._body = replace_body(fold, self._seq, now, added)
        return self._body

    def abandoned(self, fold: Fold) -> AbandonRecord | None:
        """Its end without an effect. Called by the driver's thread."""
        return abandon_body(fold, self._seq, str(self.failure))

    def moved(self) -> ReplacedFiles:
        """What became of it."""
        failed = "" if self.failure is None else str(self.failure)
        after = _size_of(self._state)
        if self.slot is not None and self._body is not None:
            after = Size(len(self._body.added), _bytes_of(self._body.added))
        return ReplacedFiles(self.partition, self.slot, "", failed, self._before, after)

    def _copy(self, file: FileRecord) -> FileRecord:
        """A copy of a live file, unchanged, in the staged folder; there may be one already."""
        if file.final in self._carried:
            return self._carried.pop(file.final)
        return carried_copy(self._record_queue.log, file, self.folder)


def carried_copy(log: LedgerLog, file: FileRecord, folder: str) -> FileRecord:
    """A copy of a live file, unchanged, in a staged folder.

    Args:
        log: The route's log.
        file: A file at its final name.
        folder: The staged folder, absolute.

    Raises:
        FileLostError: It is not the file that was committed.
        StorageUnavailableError: The store failed.
    """
    storage, name = log.storage, file.final.rpartition("/")[2]
    seal = copy_staged(storage, log.layout.final(file.final), storage, f"{folder}/{name}")
    if (seal.size_bytes, seal.crc32c) != (file.size_bytes, file.crc32c):
        raise FileLostError("it is not the file that was committed", where=file.final)
    return replace(file, staged=f"{folder.rpartition('/')[2]}/{name}")


class CarryAllowance:
    """What the driver's thread still carries over in the turn that goes on."""

    def __init__(self, record_queue: RecordQueue) -> None:
        self._record_queue = record_queue
        self._turn = -1
        self._files = self._bytes = 0

    def takes(self, files: Sequence[FileRecord]) -> bool:
        """Whether these may be carried over too; they count if so."""
        if self._turn != self._record_queue.turns:
            self._turn, self._files, self._bytes = self._record_queue.turns, 0, 0
        number, size_bytes = self._files + len(files), self._bytes + _bytes_of(files)
        if number > _MOST_HELD_FILES or size_bytes > _MOST_HELD_BYTES:
            return False
        self._files, self._bytes = number, size_bytes
        return True


def _begin(
    record_queue: RecordQueue,
    names: Sequence[str],
    why_left: WhyLeft,
    found: dict[str, ReplacedFiles],
) -> list[_Work]:
    """Put the INTENT of each; partitions without one are found at once."""
    looks = [_Look(name, why_left) for name in names]
    works = []
    for look, slot in zip(
        looks, _put_all(record_queue, [look.intent for look in looks]), strict=True
    ):
        if isinstance(slot, int) and look.body is not None and look.state is not None:
            works.append(_Work(record_queue, slot, look.body, look.state))
            continue
        size = Size(0, 0) if look.state is None else _size_of(look.state)
        failed = str(slot) if isinstance(slot, SluicewayError) else ""
        found[look.name] = ReplacedFiles(look.name, None, look.left, failed, size, size)
    return works


class _Look:
    """A partition at the slot of its INTENT."""

    def __init__(self, name: str, why_left: WhyLeft) -> None:
        self.name = name
        self.left = ""
        self.state: PartitionState | None = None
        self.body: IntentRecord | None = None
        self._why_left = why_left

    def intent(self, fold: Fold) -> IntentRecord | None:
        """The record; None when it is left alone. Called by the driver's thread."""
        state = fold.partitions.get(self.name)
        self.state = None if state is None else replace(state)
        self.left = self._why_left(fold, self.name)
        self.body = None if self.left else intent_body(fold, self.name, "compact")
        if self.body is None:
            self.left = self.left or "it cannot be worked on"
        return self.body


def _find_live(record_queue: RecordQueue, works: Sequence[_Work]) -> None:
    """Have the log read once for all."""
    try:
        readers = readers_of(record_queue.log, [work.state for work in works])
    except SluicewayError as error:
        for work in works:
            work.fail(error)
        return
    for work, files in zip(works, readers, strict=True):
        work.files = files


def _rewrite_all(works: Sequence[_Work], rewrite: Rewrite) -> None:
    staged: list[tuple[_Work, Staging]] = []
    for work in _open(works):
        try:
            staged.append((work, work.stage()))
        except SluicewayError as error:
            work.fail(error)
    if not staged:
        return
    made = rewrite([staging for _, staging in staged])
    for (work, _), outcome in zip(staged, made, strict=True):
        try:
            if isinstance(outcome, SluicewayError):
                work.fail(outcome)
            else:
                work.add_files(outcome)
        except SluicewayError as error:
            work.fail(error)


def _replace_all(record_queue: RecordQueue, works: Sequence[_Work]) -> None:
    """Put the REPLACE of each, with what has come since it was rewritten."""
    for _ in range(MOST_ROUNDS):
        _put_replaces(record_queue, works, lambda work: work.replaced)
        _carry_over(works)
    allowance = CarryAllowance(record_queue)
    waiting = len(works) + 1
    while len(_open(works)) < waiting:
        waiting = len(_open(works))
        _put_with_the_last(record_queue, works, allowance)
        _carry_over(works)
    # For the others too much came while this group's records were put, turn after turn. By itself
    # each waits for a turn of its own only.
    for work in _open(works):
        _put_replaces(record_queue, [work], lambda work: work.replaced)
        _carry_over([work])
        _put_with_the_last(record_queue, [work], allowance)
        work.fail(TaskFailedError("files come faster than they are carried over"))


def _put_with_the_last(
    record_queue: RecordQueue, works: Sequence[_Work], allowance: CarryAllowance
) -> None:
    _put_replaces(
        record_queue, works, lambda work: partial(work.replaced_with_the_last, allowance=allowance)
    )


def _put_replaces(
    record_queue: RecordQueue, works: Sequence[_Work], build_of: Callable[[_Work], Build]
) -> None:
    asked = _open(works)
    slots = _put_all(record_queue, [build_of(work) for work in asked])
    for work, slot in zip(asked, slots, strict=True):
        if isinstance(slot, SluicewayError):
            work.fail(slot)
        elif slot is not None:
            work.slot = slot


def _carry_over(works: Sequence[_Work]) -> None:
    for work in _open(works):
        try:
            work.carry_over()
        except SluicewayError as error:
            work.fail(error)


def _give_up(record_queue: RecordQueue, works: Sequence[_Work]) -> None:
    """Put the ABANDON of each that has failed, however often the store fails meanwhile.

    A partition whose work is left open cannot be worked on until the next START.
    """
    left = [work for work in works if work.failure is not None]
    while left:
        slots = _put_all(record_queue, [work.abandoned for work in left])
        # The route waits before its next turn, or halts and ends this.
        left = [
            work
            for work, slot in zip(left, slots, strict=True)
            if isinstance(slot, StorageUnavailableError)
        ]


def _put_all(
    record_queue: RecordQueue, builds: Sequence[Build]
) -> list[int | SluicewayError | None]:
    """Have records put, and wait: for each its slot, or why it has none.

    Raises:
        FencedError: The route is left, or another driver has taken over.
    """
    answers = [record_queue.ask(build) for build in builds]
    return [_outcome(answer) for answer in answers]


def _outcome(answer: "Future[int | None]") -> int | SluicewayError | None:
    try:
        return answer.result()
    except FencedError:
        raise
    except SluicewayError as error:
        return error


def _open(works: Iterable[_Work]) -> list[_Work]:
    return [work for work in works if work.is_open]


def _size_of(state: PartitionState) -> Size:
    return Size(state.files, state.size_bytes)


def _bytes_of(files: Iterable[FileRecord]) -> int:
    return sum(int(file.size_bytes) for file in files)
