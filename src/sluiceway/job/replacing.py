"""Moves a partition to a new folder with other files: what compaction does, in its own thread.

The epochs go on meanwhile. Files that they commit before the REPLACE has its slot are carried over
into the new folder as they are. When every epoch brings more, the driver's own thread carries the
last ones, between two epochs; when those are too many for that, the work is given up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sluiceway.errors import FileLostError, SluicewayError, TaskFailedError
from sluiceway.job.desk import RouteDesk
from sluiceway.job.partition_bodies import abandon_body, intent_body, replace_body
from sluiceway.ledger.file_records import FileRecord
from sluiceway.ledger.fold import Fold
from sluiceway.ledger.fold_state import PartitionState
from sluiceway.ledger.live_files import live_files
from sluiceway.ledger.partition_records import IntentRecord, ReplaceRecord
from sluiceway.ledger.places import intent_folder
from sluiceway.storage.copying import copy_staged

_MOST_ROUNDS = 3
_MOST_HELD_FILES = 64
_MOST_HELD_BYTES = 64 << 20
"""What the driver's thread carries over at most: commits wait for it."""

Rewrite = Callable[[str, Sequence[FileRecord]], Sequence[FileRecord]]
"""Writes the rows of these files to new ones in a staged folder, an absolute path that exists.

Their staged names begin with the folder's own name, as those of an attempt do.
"""


@dataclass(frozen=True, slots=True)
class _Work:
    seq: int
    uuid: str
    state: PartitionState


def move_partition(
    desk: RouteDesk, choose: Callable[[Fold], str | None], rewrite: Rewrite
) -> int | None:
    """Replace a partition's files by others with the same rows, in a new folder.

    Called in a thread of its own; waits for the driver's thread between two epochs.

    Args:
        desk: Of the route.
        choose: Names the partition, from the fold of that moment; None does nothing.
        rewrite: Makes the new files.

    Returns:
        Slot of the REPLACE; None when nothing was done or it was given up.

    Raises:
        SluicewayError: The route has ended, or the store failed and the work was given up.
    """
    work = _begin(desk, choose)
    if work is None:
        return None
    try:
        slot = _replace(desk, work, rewrite)
    except SluicewayError as error:
        _give_up(desk, work, str(error))
        raise
    if slot is None:
        _give_up(desk, work, "files come faster than they are carried over")
    return slot


def _begin(desk: RouteDesk, choose: Callable[[Fold], str | None]) -> _Work | None:
    begun: list[tuple[IntentRecord, PartitionState]] = []

    def build(fold: Fold) -> IntentRecord | None:
        partition = choose(fold)
        body = None if partition is None else intent_body(fold, partition, "compact")
        if body is not None:
            begun.append((body, replace(fold.partitions[body.partition])))
        return body

    seq = desk.ask(build).result()
    if seq is None:
        return None
    body, state = begun[-1]
    return _Work(seq, body.uuid, state)


def _replace(desk: RouteDesk, work: _Work, rewrite: Rewrite) -> int | None:
    storage, layout = desk.log.storage, desk.log.layout
    folder = layout.attempt(intent_folder(work.seq, work.uuid))
    live, known_through = live_files(desk.log, work.state), work.state.last_seq
    storage.make_folders(folder)
    added = list(rewrite(folder, live))
    _check_rows(live, added, work.state.folder)
    for _ in range(_MOST_ROUNDS):
        storage.sync_folder(folder)
        slot, state = _put(desk, work, live, added)
        if slot is not None:
            return slot
        now = live_files(desk.log, state, live, known_through)
        added += [_carry_over(desk, folder, file) for file in now[len(live) :]]
        live, known_through = now, state.last_seq
    storage.sync_folder(folder)
    return _put_with_the_last(desk, work, folder, live, added, known_through)


def _check_rows(live: Sequence[FileRecord], added: Sequence[FileRecord], where: str) -> None:
    """Refuse work that has gained or lost rows, before the fold would halt the route for it."""
    before, after = (sum(int(file.rows) for file in files) for files in (live, added))
    if before != after:
        raise TaskFailedError(f"{before} rows were rewritten as {after}", where=where)


def _put(
    desk: RouteDesk, work: _Work, live: Sequence[FileRecord], added: Sequence[FileRecord]
) -> tuple[int | None, PartitionState]:
    """The slot of the REPLACE, or None; and the partition as it was before."""
    found = work.state

    def build(fold: Fold) -> ReplaceRecord | None:
        nonlocal found
        found = replace(fold.partitions[work.state.folder])
        return replace_body(fold, work.seq, live, added)

    slot = desk.ask(build).result()
    return slot, found


def _put_with_the_last(
    desk: RouteDesk,
    work: _Work,
    folder: str,
    live: Sequence[FileRecord],
    added: Sequence[FileRecord],
    known_through: int,
) -> int | None:
    """As `_put`, but what has come since is carried over while no epoch can commit more.

    Of the log only what is behind slot `known_through` is read: commits wait for that too.

    Raises:
        SluicewayError: The route has ended, or a file cannot be carried over.
    """
    carried: dict[str, FileRecord] = {}
    failed: list[SluicewayError] = []

    def build(fold: Fold) -> ReplaceRecord | None:
        try:
            state = replace(fold.partitions[work.state.folder])
            now = live_files(desk.log, state, live, known_through)
            late = now[len(live) :]
            if len(late) > _MOST_HELD_FILES or _size(late) > _MOST_HELD_BYTES:
                return None
            # After a lost slot it is asked for again.
            for file in late:
                if file.final not in carried:
                    carried[file.final] = _carry_over(desk, folder, file)
            desk.log.storage.sync_folder(folder)
        except SluicewayError as error:
            # This work's trouble, not that of the route.
            failed.append(error)
            return None
        return replace_body(fold, work.seq, now, [*added, *(carried[f.final] for f in late)])

    slot = desk.ask(build).result()
    if slot is None and failed:
        raise failed[-1]
    return slot


def _size(files: Sequence[FileRecord]) -> int:
    return sum(int(file.size_bytes) for file in files)


def _carry_over(desk: RouteDesk, folder: str, file: FileRecord) -> FileRecord:
    """A copy of a live file, unchanged, in the staged folder."""
    storage, layout = desk.log.storage, desk.log.layout
    name = file.final.rpartition("/")[2]
    seal = copy_staged(storage, layout.final(file.final), storage, f"{folder}/{name}")
    if (seal.size_bytes, seal.crc32c) != (file.size_bytes, file.crc32c):
        raise FileLostError("it is not the file that was committed", where=file.final)
    return replace(file, staged=f"{folder.rpartition('/')[2]}/{name}")


def _give_up(desk: RouteDesk, work: _Work, reason: str) -> None:
    desk.ask(lambda fold: abandon_body(fold, work.seq, reason)).result()
