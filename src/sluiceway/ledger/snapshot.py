"""SNAPSHOT: the fold in a side file, so that a start reads little (commit rules 19, 26).

The log stays the only truth. The side file is written before the record that names it by hash. A
missing, altered or unknown side file is ignored, and the fold is made from the log. The
hint only says where the newest SNAPSHOT may be.
"""

import hashlib
from dataclasses import dataclass
from typing import ClassVar
from uuid import uuid4

from sluiceway.errors import InvariantError, LedgerCorruptError, StorageUnavailableError
from sluiceway.ledger.counts_records import CountedPrefix, CountsEnd
from sluiceway.ledger.data_parts import HeldByRecord, LateRows
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.folding.fold_state import (
    Adoption,
    CountedState,
    SourceState,
    Subscription,
    WatermarkState,
)
from sluiceway.ledger.lane_records import NO_LANE_ROWS, LaneCounts, LaneRange
from sluiceway.ledger.lane_state import LaneState, ReplayLanes
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.operator_records import OriginLog
from sluiceway.ledger.partition_image import (
    PartitionsImage,
    partitions_image,
    restore_partitions,
)
from sluiceway.ledger.records import FenceRecord, Record, RowCounts, SnapshotRecord
from sluiceway.storage.contract import Storage
from sluiceway.types.log_key import LogKey, SourceKey
from sluiceway.types.strict_json import BigInt, StrictJsonError, decode, encode


@dataclass(frozen=True, slots=True)
class _Lane:
    lane: str
    kind: str
    seq: int
    ranges: tuple[LaneRange, ...]
    ends: tuple[BigInt, ...]
    rows: BigInt
    counts: LaneCounts


@dataclass(frozen=True, slots=True)
class _Interval:
    start: BigInt
    stop: BigInt


@dataclass(frozen=True, slots=True)
class _Taken:
    source: str
    intervals: tuple[_Interval, ...]


@dataclass(frozen=True, slots=True)
class LaneImage:
    """All lanes, as strict JSON holds them."""

    SPARSE: ClassVar[frozenset[str]] = frozenset({"late"})

    lanes: tuple[_Lane, ...]
    taken: tuple[_Taken, ...]
    counts: LaneCounts
    late: LaneCounts = NO_LANE_ROWS


def lane_image(book: ReplayLanes) -> LaneImage:
    """What a snapshot keeps of the lanes: all of it."""
    lanes = sorted(book.lanes.values(), key=lambda lane: lane.seq)
    return LaneImage(
        lanes=tuple(
            _Lane(
                each.lane,
                each.kind,
                each.seq,
                each.ranges,
                tuple(BigInt(end) for end in each.ends),
                BigInt(each.rows),
                each.counts,
            )
            for each in lanes
        ),
        taken=tuple(
            _Taken(source, tuple(_Interval(BigInt(a), BigInt(b)) for a, b in intervals))
            for source, intervals in sorted(book.taken.items())
        ),
        counts=book.counts,
        late=book.late,
    )


def lane_book(image: LaneImage) -> ReplayLanes:
    """The lanes of a snapshot."""
    return ReplayLanes(
        lanes={
            each.lane: LaneState(
                each.lane,
                each.kind,
                each.seq,
                each.ranges,
                [int(end) for end in each.ends],
                int(each.rows),
                each.counts,
            )
            for each in image.lanes
        },
        taken={
            each.source: [(int(one.start), int(one.stop)) for one in each.intervals]
            for each in image.taken
        },
        counts=image.counts,
        late=image.late,
    )


FOLD_VERSION = 8
"""Raised with every change to what a fold holds or means."""

_LAST_SLOT = 10**20 - 1


@dataclass(frozen=True, slots=True)
class SnapshotPointer:
    """Content of `hint.json`."""

    snapshot: int


@dataclass(frozen=True, slots=True)
class _Source:
    SPARSE: ClassVar[frozenset[str]] = frozenset({"newest_slot", "origin", "tail", "missing"})

    topic: str
    partition: LogKey
    cluster_id: str
    topic_id: str
    start: BigInt
    how: str
    end: BigInt
    generation: int
    has_data: bool
    retired: bool
    end_epoch: int | None
    max_event_time_us: BigInt | None
    quiet_since_us: BigInt | None
    idle: bool
    newest_slot: int = -1
    origin: OriginLog | None = None
    tail: str = ""
    missing: str = ""


@dataclass(frozen=True, slots=True)
class _Watermark:
    us: BigInt | None
    by: str
    read_at_us: BigInt | None
    held_by: tuple[HeldByRecord, ...]


@dataclass(frozen=True, slots=True)
class _Counted:
    log: tuple[str, ...]
    ends: tuple[CountsEnd, ...]
    rows: tuple[CountedPrefix, ...]


@dataclass(frozen=True, slots=True)
class _Image:
    """A fold with nothing unpublished, as strict JSON holds it."""

    SPARSE: ClassVar[frozenset[str]] = frozenset({"adoptions"})

    version: int
    next_seq: int
    head: str
    term: int
    format: int
    fence: FenceRecord
    first_fence: FenceRecord
    fence_seq: int
    last_epoch: int
    data_seq: int
    subscription: Subscription | None
    sources: tuple[_Source, ...]
    partitions: PartitionsImage
    counts: RowCounts
    late_rows: LateRows
    clock_us: BigInt
    effects_through: int
    data_records: BigInt
    snapshot_through: int
    lanes: LaneImage
    watermark: _Watermark
    counted: _Counted
    adoptions: tuple[Adoption, ...] = ()


def write_side_file(
    storage: Storage, layout: LedgerLayout, fold: Fold, sealed: tuple[str, ...] = ()
) -> SnapshotRecord:
    """Write a fold's side file. Called with everything published, before the record is put.

    Args:
        storage: The ledger's storage.
        layout: The ledger's layout.
        fold: Fold up to the record's slot.
        sealed: What the record seals; the fold has it still.

    Returns:
        The record that names it.

    Raises:
        InvariantError: Something is not published.
        StorageUnavailableError: The side file could not be written.
    """
    raw = encode(_image(fold, sealed))
    name = f"{fold.next_seq:020d}-{uuid4().hex}.json"
    storage.make_folders(layout.snapshots)
    storage.put_if_absent(layout.snapshot(name), raw, tmp_folder=layout.stage)
    digest = hashlib.sha256(raw).hexdigest()
    return SnapshotRecord(fold.next_seq, name, BigInt(len(raw)), digest, FOLD_VERSION, sealed)


def write_hint(storage: Storage, layout: LedgerLayout, seq: int) -> None:
    """Advise where the newest SNAPSHOT is.

    Raises:
        StorageUnavailableError: The store failed; starts read more until the next one.
    """
    storage.overwrite(layout.hint, encode(SnapshotPointer(seq)))


def read_hint(storage: Storage, layout: LedgerLayout) -> int | None:
    """Slot in which the newest SNAPSHOT was last seen; None without advice that can be read."""
    try:
        raw = storage.read(layout.hint)
        seq = None if raw is None else decode(raw, SnapshotPointer).snapshot
    except (StorageUnavailableError, StrictJsonError):
        return None
    return seq if seq is not None and 0 <= seq <= _LAST_SLOT else None


def load_snapshot(storage: Storage, layout: LedgerLayout, record: Record) -> Fold | None:
    """The fold that a SNAPSHOT record names, or None when its side file does not serve.

    Raises:
        StorageUnavailableError: The store failed.
    """
    body = record.body
    if not isinstance(body, SnapshotRecord) or body.version != FOLD_VERSION:
        return None
    raw = storage.read(layout.snapshot(body.side))
    if raw is None or hashlib.sha256(raw).hexdigest() != body.sha256:
        return None
    try:
        image = decode(raw, _Image)
        return _fold(image) if image.next_seq == body.through else None
    except StrictJsonError as error:
        raise LedgerCorruptError(
            f"the side file of slot {record.seq} is what was written, but no fold: {error}",
            where=layout.snapshot(body.side),
            hint="remove the side file; the fold is then made from the log",
        ) from error


def _image(fold: Fold, sealed: tuple[str, ...]) -> _Image:
    if fold.fence is None or fold.first_fence is None or fold.unpublished:
        raise InvariantError(f"a snapshot at slot {fold.next_seq} needs everything published")
    return _Image(
        version=FOLD_VERSION,
        next_seq=fold.next_seq,
        head=fold.head,
        term=fold.term,
        format=fold.format,
        fence=fold.fence,
        first_fence=fold.first_fence,
        fence_seq=fold.fence_seq,
        last_epoch=fold.last_epoch,
        data_seq=fold.data_seq,
        subscription=fold.subscription,
        sources=tuple(_source(key, state) for key, state in sorted(fold.sources.items())),
        partitions=partitions_image(fold, sealed),
        counts=fold.counts,
        late_rows=fold.late_rows,
        clock_us=BigInt(fold.clock_us),
        effects_through=fold.effects_through,
        data_records=BigInt(fold.data_records),
        snapshot_through=fold.snapshot_through,
        lanes=lane_image(fold.lanes),
        watermark=_Watermark(
            _big(fold.watermark.us),
            fold.watermark.by,
            _big(fold.watermark.read_at_us),
            fold.watermark.held_by,
        ),
        counted=_counted(fold.counted),
        adoptions=fold.adoptions,
    )


def _source(key: SourceKey, state: SourceState) -> _Source:
    return _Source(
        *key,
        cluster_id=state.cluster_id,
        topic_id=state.topic_id,
        start=BigInt(state.start),
        how=state.how,
        end=BigInt(state.end),
        generation=state.generation,
        has_data=state.has_data,
        retired=state.retired,
        end_epoch=state.end_epoch,
        max_event_time_us=_big(state.max_event_time_us),
        quiet_since_us=_big(state.quiet_since_us),
        idle=state.idle,
        newest_slot=state.newest_slot,
        origin=state.origin,
        tail=state.tail,
        missing=state.missing,
    )


def _counted(state: CountedState) -> _Counted:
    return _Counted(
        log=state.log,
        ends=tuple(CountsEnd(number, BigInt(end)) for number, end in sorted(state.ends.items())),
        rows=tuple(CountedPrefix(each, BigInt(n)) for each, n in sorted(state.rows.items())),
    )


def _counted_state(image: _Counted) -> CountedState:
    topic, cluster_id, topic_id = image.log
    return CountedState(
        log=(topic, cluster_id, topic_id),
        ends={each.partition: int(each.end) for each in image.ends},
        rows={each.prefix: int(each.rows) for each in image.rows},
    )


def _big(number: int | None) -> BigInt | None:
    return None if number is None else BigInt(number)


def _fold(image: _Image) -> Fold:
    fold = Fold(
        next_seq=image.next_seq,
        head=image.head,
        term=image.term,
        format=image.format,
        fence=image.fence,
        first_fence=image.first_fence,
        fence_seq=image.fence_seq,
        last_epoch=image.last_epoch,
        data_seq=image.data_seq,
        subscription=image.subscription,
        sources={(each.topic, each.partition): _source_state(each) for each in image.sources},
        counts=image.counts,
        late_rows=image.late_rows,
        clock_us=int(image.clock_us),
        published_through=image.next_seq,
        effects_through=image.effects_through,
        data_records=int(image.data_records),
        snapshot_through=image.snapshot_through,
        lanes=lane_book(image.lanes),
        watermark=WatermarkState(
            image.watermark.us,
            image.watermark.by,
            image.watermark.read_at_us,
            image.watermark.held_by,
        ),
        counted=_counted_state(image.counted),
        adoptions=image.adoptions,
    )
    restore_partitions(fold, image.partitions)
    return fold


def _source_state(each: _Source) -> SourceState:
    return SourceState(
        cluster_id=each.cluster_id,
        topic_id=each.topic_id,
        start=each.start,
        how=each.how,
        end=each.end,
        generation=each.generation,
        has_data=each.has_data,
        retired=each.retired,
        end_epoch=each.end_epoch,
        max_event_time_us=each.max_event_time_us,
        quiet_since_us=each.quiet_since_us,
        idle=each.idle,
        newest_slot=each.newest_slot,
        origin=each.origin,
        tail=each.tail,
        missing=each.missing,
    )
