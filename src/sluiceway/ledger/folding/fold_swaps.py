"""SWAP: the rows of a prefix are replaced at once, and no row that came meanwhile is left out.

The new rows stand for what was committed before the INTENT. The fold keeps a sum of the files that
were committed below the prefix since; a SWAP names copies of exactly these.
"""

from sluiceway.ledger.folding.fold_partitions import (
    check_moved_files,
    check_published,
    check_removed,
    check_staged,
    count_file,
    move,
)
from sluiceway.ledger.folding.fold_state import (
    FileTotals,
    FoldState,
    LeftFolder,
    OpenIntent,
    PartitionState,
    is_contained,
    require,
    violation,
)
from sluiceway.ledger.partition_records import SWAP_PURPOSES, SwappedPartition, SwapRecord
from sluiceway.ledger.places import intent_folder, is_below, swap_folder
from sluiceway.ledger.records import Record


def check_swap(fold: FoldState, body: SwapRecord, record: Record) -> None:
    """Refuse a SWAP that leaves out rows, or that puts files where others were."""
    slot = f"slot {record.seq}"
    intent = fold.intents.get(body.intent)
    if intent is None or (intent.partition, True) != (body.prefix, intent.purpose in SWAP_PURPOSES):
        raise violation("rule 2", f"{slot}: intent {body.intent} is not open for {body.prefix}")
    names = [each.partition for each in body.partitions]
    require(names == sorted(set(names)), "rule 2", f"{slot} names partitions out of order")
    there = {state.folder for state in fold.below(body.prefix) if state.files}
    left_out = sorted(there.difference(names))
    require(not left_out, "rule 2", f"{slot} leaves out {left_out[:1]}")
    for each in body.partitions:
        _check_partition(fold, each, (body, intent), record)
    _check_carried(body, intent, slot)
    _check_sums(fold, body, slot)
    for file in body.dirty_files:
        check_staged(file, intent_folder(body.intent, intent.uuid), slot)
        require(is_contained(file.final), "I4", f"{slot} names {file.final}")


def _check_partition(
    fold: FoldState,
    each: SwappedPartition,
    work: tuple[SwapRecord, OpenIntent],
    record: Record,
) -> None:
    body, intent = work
    where = f"slot {record.seq}: {each.partition}"
    inside = is_below(each.partition, body.prefix) and is_contained(each.partition)
    require(inside and bool(each.values), "rule 2", f"{where} is not below {body.prefix}")
    wanted = swap_folder(each.partition, body.intent, intent.uuid)
    require(each.folder == wanted, "rule 4", f"{where} moves to {each.folder}, expected {wanted}")
    state = fold.partitions.get(each.partition)
    if state is None:
        state = PartitionState.begun(each.values, each.partition, record.seq)
        require(bool(each.live), "rule 2", f"{where} is new, and has no row")
    else:
        check_published(state, record, where)
    require(each.values == state.values, "rule 2", f"{where} has the values {state.values}")
    require(each.version == state.version + 1, "rule 4", f"{where} has version {each.version}")
    check_removed(state, each.removed, where)
    staged = intent_folder(body.intent, intent.uuid)
    check_moved_files(each.live, staged, (each.folder, each.values), where)


def _check_carried(body: SwapRecord, intent: OpenIntent, slot: str) -> None:
    """Refuse to leave out what was committed since the INTENT, or to bring more (rule 4)."""
    carried = FileTotals()
    for each in body.partitions:
        for file in each.carried:
            carried = carried.plus(file.final.rpartition("/")[2], file)
    require(carried == intent.since, "rule 4", f"{slot} carries {carried}, of {intent.since}")


def _check_sums(fold: FoldState, body: SwapRecord, slot: str) -> None:
    counts = body.counts
    require(counts.balanced(), "P6", f"{slot} does not balance: {counts}")
    written = sum(int(file.rows) for each in body.partitions for file in each.added)
    require(written == counts.written, "P6", f"{slot} wrote {counts.written}, files {written}")
    dirty = sum(int(file.rows) for file in body.dirty_files)
    require(dirty == counts.dirty, "P6", f"{slot} has {counts.dirty} dirty, files {dirty}")
    before = fold.rows_below(body.prefix)
    require(body.rows_before == before, "P6", f"{slot} replaces {body.rows_before} of {before}")
    after = sum(int(file.rows) for file in body.live)
    require(body.rows_after == after, "P6", f"{slot} has {body.rows_after} rows, files {after}")


def apply_swap(fold: FoldState, body: SwapRecord, record: Record) -> None:
    """The partitions are in new folders, with other rows."""
    for each in body.partitions:
        state = fold.partitions.get(each.partition)
        if state is None:
            state = PartitionState.begun(each.values, each.partition, record.seq)
            fold.partitions[each.partition] = state
        elif not state.expired:
            fold.left[state.location] = LeftFolder(each.partition, record.seq)
        move(fold, state, each.folder, record.seq)
        state.expired = False
        for file in each.live:
            count_file(state, file)
    fold.swaps[body.prefix] = record.seq
    fold.swap_dirty += int(body.counts.dirty)
    del fold.intents[body.intent]
    fold.unpublished[record.seq] = body
