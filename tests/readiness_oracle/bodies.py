"""Record bodies of a driver without a cluster: the product's own, with made-up files."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from sluiceway.ledger.data_parts import LateRows, WatermarkRecord
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.operator_records import GAP, TWICE, ResetPartition, ResetRecord
from sluiceway.ledger.records import (
    FORMAT,
    DataRecord,
    FenceRecord,
    PinnedPartition,
    RangeRecord,
    RowCounts,
    SourcesRecord,
    TableIdentityRecord,
)
from sluiceway.schedule.epoch_times import EpochDates
from sluiceway.types.strict_json import BigInt

TOPIC, CLUSTER, TOPIC_ID = "events", "c1", "t1"
_LATE, _NO_TIME = "_sluiceway/events/late", "dt=0"
_NO_SUM = "0" * 32
TABLE = TableIdentityRecord("thrift://m:1", "ods", "events", BigInt(7), "/w/ods/events")


def fence_body() -> FenceRecord:
    """Of any driver."""
    return FenceRecord(
        ledger="f" * 32,
        job="events",
        route="events",
        table=TABLE,
        driver="d",
        host="h",
        boot_id="b",
        pid=1,
        site="",
        started_at_ms=BigInt(1),
        format=FORMAT,
        min_reader=FORMAT,
    )


def sources_body(numbers: Iterable[int], *, retired: bool) -> SourcesRecord:
    """New source partitions, or those that are gone."""
    pins = tuple(
        PinnedPartition(TOPIC, number, CLUSTER, TOPIC_ID, BigInt(0), "earliest", retired)
        for number in numbers
    )
    return SourcesRecord((TOPIC,), "", "earliest", pins)


def resumed_body(fold: Fold, numbers: Iterable[int]) -> SourcesRecord:
    """Source partitions that were gone go on where they were left."""
    pins = tuple(
        PinnedPartition(TOPIC, number, CLUSTER, TOPIC_ID, BigInt(end), "resumed", retired=False)
        for number in numbers
        for end in [fold.sources[TOPIC, number].end]
    )
    return SourcesRecord((TOPIC,), "", "earliest", pins)


def reset_body(fold: Fold, source: int, new_end: int) -> ResetRecord:
    """One source partition goes on elsewhere."""
    known = fold.sources[TOPIC, source]
    newest = known.max_event_time_us
    moved = ResetPartition(
        topic=TOPIC,
        partition=source,
        old_end=BigInt(known.end),
        new_end=BigInt(new_end),
        generation=known.generation + 1,
        accepted=GAP if new_end > known.end else TWICE,
        max_event_time_us=None if newest is None else BigInt(newest),
    )
    return ResetRecord("o@h", "moved", (moved,))


def range_body(source: int, start: int, end: int, rows: int, newest: int | None) -> RangeRecord:
    """What was read of one source partition."""
    return RangeRecord(
        topic=TOPIC,
        partition=source,
        cluster_id=CLUSTER,
        topic_id=TOPIC_ID,
        start=BigInt(start),
        end=BigInt(end),
        rows=BigInt(rows),
        gaps=BigInt(end - start - rows),
        leader_epoch=None,
        max_event_time_us=None if newest is None else BigInt(newest),
        offset_sum=_NO_SUM,
    )


@dataclass(slots=True)
class Plan:
    """An epoch: what it was planned with, and what its tasks returned."""

    number: int
    term: int
    closed: tuple[str, ...]
    bound_us: int | None
    dates: EpochDates
    ranges: list[RangeRecord] = field(default_factory=list)
    folders: Counter[str] = field(default_factory=Counter)
    dirty: int = 0
    late: int = 0


def data_body(plan: Plan, mark: WatermarkRecord) -> DataRecord:
    """An epoch, as its tasks have answered."""
    read = sum(int(each.rows) for each in plan.ranges)
    written = sum(plan.folders.values())
    counts = RowCounts(*map(BigInt, (read, written, plan.dirty, plan.late, 0, 0)))
    staged = f"{plan.term}-{plan.number}-{'a' * 32}"
    return DataRecord(
        epoch=plan.number,
        ranges=tuple(plan.ranges),
        files=tuple(_file(staged, folder, count) for folder, count in plan.folders.items()),
        dirty_files=(_file(staged, "_sluiceway/events/dirty", plan.dirty),) if plan.dirty else (),
        counts=counts,
        late_files=(_file(staged, f"{_LATE}/{_NO_TIME}", plan.late),) if plan.late else (),
        late_rows=LateRows(side=BigInt(plan.late)),
        schema="0" * 32,
        dirty_reasons={"bad_time": plan.dirty} if plan.dirty else {},
        timings_ms={},
        closed=plan.closed,
        watermark=mark,
    )


def _file(staged: str, folder: str, rows: int) -> FileRecord:
    name = f"{staged}-{folder.replace('/', '-')}.parquet"
    values = tuple(part.partition("=")[2] for part in folder.split("/"))
    return FileRecord(
        f"{staged}/{name}", f"{folder}/{name}", values, BigInt(rows), BigInt(9), "00000000", {}
    )
