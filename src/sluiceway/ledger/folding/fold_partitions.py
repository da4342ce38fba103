"""Partitions of the table: where each is, which files are live in it, what is closed or announced.

The fold keeps sums of the live files, not their names. A REPLACE names them, and its list has to
add up to the sum (docs/contributors/promises.md, Partitions that move).
"""

from collections.abc import Iterable, Sequence

from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding import fold_counts
from sluiceway.ledger.folding.fold_state import (
    ClosedPrefix,
    FileTotals,
    FoldState,
    LeftFolder,
    OpenIntent,
    PartitionState,
    is_contained,
    require,
    violation,
)
from sluiceway.ledger.layout import late_folder
from sluiceway.ledger.partition_records import (
    COMPACT,
    SWAP_PURPOSES,
    AbandonRecord,
    ExpireRecord,
    IntentRecord,
    ReadyRecord,
    RemovedFile,
    ReplaceRecord,
)
from sluiceway.ledger.places import (
    intent_folder,
    is_below,
    is_moved_folder,
    is_uuid,
    moved_folder,
    moved_prefix,
    partition_in,
    prefixes,
)
from sluiceway.ledger.records import EpochRecord, Record


def name_of(fold: FoldState, folder: str) -> str:
    """Name of the partition whose files are in this folder now, or whose first ones go there."""
    return fold.moved.get(folder, folder)


# DATA


def check_places(fold: FoldState, body: EpochRecord, record: Record) -> None:
    """Refuse rows for a folder that their partition has left, or unmarked ones for a closed one."""
    slot = f"slot {record.seq}"
    newly = set(body.closed)
    again = len(newly) < len(body.closed) or any(map(fold.is_closed, newly))
    require(not again, "rule 6", f"{slot} closes again")
    require(all(map(is_contained, body.closed)), "rule 6", f"{slot} closes {body.closed}")
    reached = set[str]()
    for folder in {file.final.rpartition("/")[0] for file in body.files}:
        name = name_of(fold, folder)
        check_location(fold, name, folder, slot)
        reached.update(
            prefix for prefix in prefixes(name) if prefix in fold.closed or prefix in newly
        )
    check_late(reached, body, slot)


def check_location(fold: FoldState, name: str, folder: str, slot: str) -> None:
    """Refuse a folder that is not where the partition is (commit rule 4)."""
    known = fold.partitions.get(name)
    if known is None:
        sealed = fold.sealed_above(partition_in(folder))
        require(sealed is None, "rule 4", f"{slot} writes to {folder}, {sealed} is sealed")
        require(not is_moved_folder(folder), "rule 4", f"{slot} writes to {folder}, which was left")
        return
    where = f"{slot} writes to {folder}, {name} is at {known.location}"
    require(known.location == folder, "rule 4", where)


def check_late(reached: set[str], body: EpochRecord, slot: str) -> None:
    """Refuse rows for a closed partition that do not say that they are late (I7)."""
    late = set(body.late_in)
    require(
        late == reached and len(late) == len(body.late_in),
        "I7",
        f"{slot} has rows in the closed {sorted(reached)}, and calls late what is in "
        f"{sorted(body.late_in)}",
    )


def apply_places(
    fold: FoldState, body: EpochRecord, record: Record, *, counts_late: bool = True
) -> None:
    """The files are in their partitions, and what was closed is closed."""
    for prefix in body.closed:
        fold.closed[prefix] = ClosedPrefix(record.seq)
    names = [_add_file(fold, file, record.seq) for file in body.files]
    if not counts_late:
        return
    for name, file in zip(names, body.files, strict=True):
        _count_late(fold, name, file)
    for file in body.late_files:
        _count_late(fold, late_folder(file.final), file)


def _count_late(fold: FoldState, partition: str, file: FileRecord) -> None:
    for prefix in prefixes(partition):
        if prefix in fold.closed:
            fold.closed[prefix].late_rows += int(file.rows)


def _add_file(fold: FoldState, file: FileRecord, seq: int) -> str:
    """Count a file; the name of its partition."""
    folder = file.final.rpartition("/")[0]
    name = name_of(fold, folder)
    state = fold.partitions.get(name)
    if state is None:
        state = PartitionState.begun(file.values, folder, seq)
        state.whole = name > fold.forgotten_up_to
        fold.partitions[name] = state
    if state.expired:
        state.expired = False
        state.placed_seq = seq
    count_file(state, file)
    state.last_seq = seq
    for intent in fold.intents.values():
        if intent.purpose in SWAP_PURPOSES and is_below(name, intent.partition):
            intent.since = intent.since.plus(file.final.rpartition("/")[2], file)
    return name


def count_file(state: PartitionState, file: FileRecord) -> None:
    """A file is live in a partition."""
    live = live_totals(state).plus(file.final.rpartition("/")[2], file)
    state.rows, state.files = live.rows, live.files
    state.size_bytes, state.file_sum = live.size_bytes, live.file_sum


def live_totals(state: PartitionState) -> FileTotals:
    """What the live files of a partition add up to."""
    return FileTotals(state.rows, state.files, state.size_bytes, state.file_sum)


# INTENT and ABANDON


def check_intent(fold: FoldState, body: IntentRecord, record: Record) -> None:
    """Refuse work on what is not there, not all known, or being worked on."""
    where = f"slot {record.seq}: {body.partition}"
    if body.purpose in SWAP_PURPOSES:
        _check_prefix(fold, body, where)
    else:
        require(body.purpose == COMPACT, "rule 2", f"{where} is for `{body.purpose}`")
        state = known_partition(fold, body.partition, where)
        require(bool(state.values), "rule 9", f"{where}: a table without partitions does not move")
        require(state.whole, "rule 2", f"{where}: not all of its files are known")
        require(body.version == state.version, "rule 2", f"{where} has version {state.version}")
    require(not fold.is_worked_on(body.partition), "rule 2", f"{where} is being worked on")
    require(is_uuid(body.uuid), "rule 1", f"{where}: {body.uuid!r} is no uuid")


def _check_prefix(fold: FoldState, body: IntentRecord, where: str) -> None:
    """Refuse to replace rows of a prefix whose partitions may not all be known."""
    named = "=" in body.partition and is_contained(body.partition)
    require(named, "rule 9", f"{where} is no prefix")
    require(fold.sealed_above(body.partition) is None, "rule 4", f"{where} is sealed")
    inner = any(is_below(name, body.partition) for name in fold.sealed)
    require(not inner, "rule 4", f"{where} is sealed in parts")
    whole = fold.knows_all_below(body.partition)
    require(whole, "rule 2", f"{where}: not all of its partitions are known")
    require(body.version == ready_version(fold, body.partition), "rule 2", f"{where} has another")


def ready_version(fold: FoldState, prefix: str) -> int:
    """Version of a prefix's last READY; 0 without one."""
    closed = fold.closed.get(prefix)
    return 0 if closed is None else closed.version


def apply_intent(fold: FoldState, body: IntentRecord, record: Record) -> None:
    """The work is open."""
    fold.intents[record.seq] = OpenIntent(body.partition, body.uuid, body.version, body.purpose)


def check_abandon(fold: FoldState, body: AbandonRecord, record: Record) -> None:
    """Refuse to end what is not open."""
    require(body.intent in fold.intents, "rule 2", f"slot {record.seq}: {body.intent} is not open")


def apply_abandon(fold: FoldState, body: AbandonRecord, record: Record) -> None:
    """What was staged is garbage."""
    del record
    del fold.intents[body.intent]


# REPLACE


def check_replace(fold: FoldState, body: ReplaceRecord, record: Record) -> None:
    """Refuse a move that would leave a row out, or that goes to a folder that was used before."""
    slot = f"slot {record.seq}"
    intent = fold.intents.get(body.intent)
    named = intent is not None and (intent.partition, intent.purpose) == (body.partition, COMPACT)
    if intent is None or not named:
        raise violation("rule 2", f"{slot}: intent {body.intent} is not open for {body.partition}")
    state = known_partition(fold, body.partition, slot)
    require(body.version == state.version + 1, "rule 4", f"{slot} has version {body.version}")
    wanted = moved_folder(body.partition, body.intent, intent.uuid)
    require(body.folder == wanted, "rule 4", f"{slot} moves to {body.folder}, expected {wanted}")
    check_removed(state, body.removed, slot)
    check_published(state, record, slot)
    folder = intent_folder(body.intent, intent.uuid)
    check_moved_files(body.added, folder, (body.folder, state.values), slot)
    check_rows(state, body, slot)


def check_moved_files(
    files: Sequence[FileRecord],
    staged: str,
    place: tuple[str, tuple[str | None, ...]],
    slot: str,
) -> None:
    """Refuse files that the work has not staged, or that do not go to a partition's new folder.

    Args:
        files: All files of the partition.
        staged: Staged folder of the work.
        place: The partition's folder afterwards, and its values.
        slot: For the message.
    """
    for file in files:
        check_staged(file, staged, slot)
        there = (file.final.rpartition("/")[0], file.values) == place
        require(there and is_contained(file.final), "I4", f"{slot} names {file.final}")
    names = {file.final for file in files}
    require(len(names) == len(files), "I4", f"{slot} names a file twice")


def check_staged(file: FileRecord, folder: str, slot: str) -> None:
    """Refuse a file that does not lie in this staged folder."""
    own = file.staged.startswith(f"{folder}/") and file.staged.count("/") == 1
    require(own and is_contained(file.staged), "I9", f"{slot} names {file.staged}")


def check_rows(state: PartitionState, body: ReplaceRecord, slot: str) -> None:
    """Refuse more or fewer rows than there were (P6)."""
    rows = sum(int(file.rows) for file in body.added)
    require(rows == state.rows, "P6", f"{slot} brings {rows} rows of {state.rows}")


def check_removed(state: PartitionState, removed: Iterable[RemovedFile], slot: str) -> None:
    """Refuse a list that is not exactly the live files."""
    total, live = FileTotals(), live_totals(state)
    for file in removed:
        total = total.plus(file.name, file)
    require(total == live, "rule 2", f"{slot} removes {total}, live in {state.folder}: {live}")


def apply_replace(fold: FoldState, body: ReplaceRecord, record: Record) -> None:
    """The partition is in its new folder, with new files."""
    state = fold.partitions[body.partition]
    fold.left[state.location] = LeftFolder(body.partition, record.seq)
    move(fold, state, body.folder, record.seq)
    for file in body.added:
        count_file(state, file)
    del fold.intents[body.intent]
    fold.unpublished[record.seq] = body


def move(fold: FoldState, state: PartitionState, folder: str, seq: int) -> None:
    """A partition goes on in another folder, without a file yet."""
    fold.moved.pop(state.location, None)
    state.move(folder, seq)
    fold.moved[folder] = state.folder


# READY


def check_ready(fold: FoldState, body: ReadyRecord, record: Record) -> None:
    """Refuse to announce what is open, not published or not as it is said to be (I7)."""
    where = f"slot {record.seq}: {body.prefix}"
    closed = closed_prefix(fold, body.prefix, where)
    require(body.version == closed.version + 1, "I7", f"{where} had version {closed.version}")
    below = fold.below(body.prefix)
    for state in below:
        check_published(state, record, where)
    now = [(each.folder, each.version, each.rows, each.files) for each in below]
    said = [(each.partition, each.version, each.rows, each.files) for each in body.partitions]
    require(now == said, "I7", f"{where} announces {said}, there is {now}")
    totals = (sum(each.rows for each in below), sum(each.files for each in below))
    require((body.rows, body.files) == totals, "I7", f"{where} adds up to {totals}")
    require(body.whole == fold.knows_all_below(body.prefix), "I7", f"{where} is not all known")
    last = max((each.last_seq for each in below), default=closed.closed_seq)
    require(body.as_of_seq == max(last, closed.closed_seq), "I7", f"{where} ends at slot {last}")


def closed_prefix(fold: FoldState, prefix: str, where: str) -> ClosedPrefix:
    """The closed prefix of this name; refuses an open one (commit rule 6)."""
    closed = fold.closed.get(prefix)
    if closed is None:
        raise violation("rule 6", f"{where} is not closed")
    return closed


def apply_ready(fold: FoldState, body: ReadyRecord, record: Record) -> None:
    """It is announced."""
    closed = fold.closed[body.prefix]
    closed.version = body.version
    closed.ready_seq = record.seq
    closed.ready_at_us = None if body.at_us is None else int(body.at_us)


# EXPIRE


def check_expire(fold: FoldState, body: ExpireRecord, record: Record) -> None:
    """Refuse to let go of what is not there, not published, or being worked on."""
    slot = f"slot {record.seq}"
    names = {each.partition for each in body.partitions}
    once = 0 < len(names) == len(body.partitions)
    require(once, "rule 2", f"{slot} names no partition, or one twice")
    for each in body.partitions:
        where = f"{slot}: {each.partition}"
        state = known_partition(fold, each.partition, where)
        check_published(state, record, where)
        is_so = (state.rows, state.files) == (each.rows, each.files)
        require(is_so, "rule 2", f"{where} has {state.rows} rows in {state.files} files")
        if each.removed:
            require(state.whole, "rule 2", f"{where}: not all of its files are known")
            check_removed(state, each.removed, where)
        require(not fold.is_worked_on(each.partition), "rule 2", f"{where} is being worked on")
        folder, prefix = each.next_folder, f"{moved_prefix(each.partition)}{record.seq}-"
        uuid = folder.removeprefix(prefix).partition("/")[0]
        own = is_uuid(uuid) and folder == moved_folder(each.partition, record.seq, uuid)
        require(own and folder not in fold.moved, "rule 4", f"{where} goes on in {folder}")
    folders = {each.next_folder for each in body.partitions}
    require(len(folders) == len(names), "rule 4", f"{slot} names a folder twice")


def apply_expire(fold: FoldState, body: ExpireRecord, record: Record) -> None:
    """The partitions are gone; rows that still come for them start a new folder."""
    for each in body.partitions:
        state = fold.partitions[each.partition]
        if each.removed:
            fold.left[state.location] = LeftFolder(each.partition, record.seq)
        move(fold, state, each.next_folder, record.seq)
        state.expired = True
    fold_counts.apply_expired(fold, body)


def check_published(state: PartitionState, record: Record, where: str) -> None:
    """Refuse to speak of files that may not be at their final names yet."""
    require(
        record.published_through > state.last_seq,
        "rule 2",
        f"{where}: {state.folder} has files of slot {state.last_seq}, published are those below "
        f"{record.published_through}",
    )


def known_partition(fold: FoldState, partition: str, where: str) -> PartitionState:
    """The partition of this name; refuses a missing one."""
    state = fold.partitions.get(partition)
    if state is None or state.expired:
        raise violation("rule 2", f"{where}: there is no partition {partition}")
    return state
