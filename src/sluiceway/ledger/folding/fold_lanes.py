"""LANE and LANE_DATA: each dirty or late row is consumed by one lane, once (commit rule 14)."""

from sluiceway.ledger.dirty_sources import DirtySource, LateSource
from sluiceway.ledger.folding import fold_partitions
from sluiceway.ledger.folding.fold_data import check_late_places, check_own_files
from sluiceway.ledger.folding.fold_state import FoldState, require
from sluiceway.ledger.lane_records import (
    LANE_KINDS,
    LATE,
    PURGE,
    LaneDataRecord,
    LaneRange,
    LaneRecord,
)
from sluiceway.ledger.lane_state import LaneState
from sluiceway.ledger.records import Record

_RULE = "rule 14"


def check_lane(fold: FoldState, body: LaneRecord, record: Record) -> None:
    """Refuse a lane that was opened before, or that takes a row which belongs to another."""
    check_opening(fold, body, record.seq)


def check_opening(fold: FoldState, body: LaneRecord, seq: int) -> None:
    """As `check_lane`, of a record that may come into slot `seq`.

    Raises:
        InvariantError: It could not lawfully stand there; says why.
    """
    slot = f"slot {seq}"
    require(bool(body.lane) and body.kind in LANE_KINDS, _RULE, f"{slot} opens a `{body.kind}`")
    require(body.lane not in fold.lanes.lanes, _RULE, f"{slot} opens lane {body.lane} again")
    require(bool(body.ranges), _RULE, f"{slot} opens a lane without rows")
    own: dict[str, int] = {}
    for each in body.ranges:
        _check_source(fold, body.kind, each, seq)
        where = f"{slot}: rows [{each.start}, {each.stop}) of {each.source}"
        require(0 <= each.start < each.stop, _RULE, f"{where} are none")
        free = not fold.lanes.is_taken(each.source, int(each.start), int(each.stop))
        require(free, _RULE, f"{where} belong to another lane")
        # Rising within a file, so that a lane does not overlap itself.
        require(each.start >= own.get(each.source, 0), _RULE, f"{where} come twice")
        own[each.source] = int(each.stop)


def source_kind(kind: str) -> type[DirtySource]:
    """What lanes of a kind read."""
    return LateSource if kind == LATE else DirtySource


def _check_source(fold: FoldState, kind: str, each: LaneRange, seq: int) -> None:
    where, read = f"slot {seq} reads {each.source}", source_kind(kind)
    try:
        source = read.parse(each.source)
    except ValueError:
        require(False, _RULE, f"{where}, which is no {read.KIND} file")  # noqa: FBT003
        return
    require(kind != LATE or each.start == 0, _RULE, f"{where} from row {each.start} on")
    ledger = fold.first_fence.ledger if fold.first_fence is not None else ""
    own = str(source) == each.source and source.ledger == ledger
    require(own and source.seq < seq, _RULE, f"{where}, which is none of this ledger's")


def apply_lane(fold: FoldState, body: LaneRecord, record: Record) -> None:
    """Its rows are its own from here on."""
    starts = [int(each.start) for each in body.ranges]
    rows = sum(int(each.stop) for each in body.ranges) - sum(starts)
    fold.lanes.lanes[body.lane] = LaneState(
        body.lane, body.kind, record.seq, body.ranges, starts, rows
    )
    for each in body.ranges:
        fold.lanes.add(each.source, int(each.start), int(each.stop))


def check_lane_data(fold: FoldState, body: LaneDataRecord, record: Record) -> None:
    """Refuse an epoch that does not follow its lane's ends, or does not add up."""
    slot = f"slot {record.seq}"
    lane = fold.lanes.lanes.get(body.lane)
    require(lane is not None, _RULE, f"{slot} goes on in lane {body.lane}, which was never opened")
    if lane is None:
        return
    require(
        body.epoch > fold.last_epoch,
        "I9",
        f"{slot} has epoch {body.epoch} after {fold.last_epoch}",
    )
    places = set()
    for span in body.ranges:
        where = f"{slot}: {span.source} [{span.start}, {span.end}) of lane {body.lane}"
        place = lane.place(span)
        require(place is not None, "I2", f"{where} does not begin at a committed end")
        require(span.end > span.start and place not in places, "I2", f"{where} comes twice")
        whole = lane.kind != LATE or place is None or span.end == lane.ranges[place].stop
        require(whole, _RULE, f"{where} is not the whole file")
        places.add(place)
    require(bool(places), _RULE, f"{slot} consumes nothing of lane {body.lane}")
    _check_sums(lane, body, slot)
    written = (*body.files, *body.dirty_files, *body.late_files)
    check_own_files(written, record.term, body.epoch, slot)
    check_late_places(body, slot)
    fold_partitions.check_places(fold, body, record)


def _check_sums(lane: LaneState, body: LaneDataRecord, slot: str) -> None:
    counts = body.counts
    require(counts.balanced(), "P6", f"{slot} does not balance: {counts}")
    read = sum(span.end - span.start for span in body.ranges)
    require(read == counts.read, "P6", f"{slot} read {counts.read}, its ranges {read}")
    written = sum(file.rows for file in body.files)
    require(written == counts.written, "P6", f"{slot} wrote {counts.written}, files {written}")
    dirty = sum(file.rows for file in body.dirty_files)
    require(dirty == counts.dirty, "P6", f"{slot} has {counts.dirty} dirty, files {dirty}")
    late = sum(file.rows for file in body.late_files)
    require(late == counts.late, "P6", f"{slot} has {counts.late} late, files {late}")
    purged = counts.read if lane.kind == PURGE else 0
    require(counts.purged == purged, "P6", f"{slot} purges {counts.purged} in a {lane.kind}")
    moved = (counts.written + counts.late, counts.expanded) == (counts.read, 0)
    require(lane.kind != LATE or moved, "P6", f"{slot} loses late rows: {counts}")


def apply_lane_data(fold: FoldState, body: LaneDataRecord, record: Record) -> None:
    """Its lane's ends are committed; no source partition moves."""
    fold.last_epoch = body.epoch
    fold.data_seq = record.seq
    lane = fold.lanes.lanes[body.lane]
    for span in body.ranges:
        place = lane.place(span)
        if place is not None:
            lane.ends[place] = int(span.end)
    lane.counts = lane.counts.plus(body.counts)
    if lane.kind == LATE:
        fold.lanes.late = fold.lanes.late.plus(body.counts)
    else:
        fold.lanes.counts = fold.lanes.counts.plus(body.counts)
    if lane.finished:
        # What it took stays taken; its plan is over.
        lane.ranges, lane.ends = (), []
    # Rows of the late place were counted as late when they came.
    fold_partitions.apply_places(fold, body, record, counts_late=lane.kind != LATE)
    fold.unpublished[record.seq] = body
    fold.data_records += 1
