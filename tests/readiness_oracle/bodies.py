"""Record bodies of a driver without a cluster: the product's own, with made-up files."""

from collections import Counter
from collections.abc import Iterable, Sequence

from sluiceway.ledger.file_records import FileRecord
from sluiceway.ledger.fold import Fold
from sluiceway.ledger.operator_records import GAP, TWICE, ResetPartition, ResetRecord
from sluiceway.ledger.places import prefixes
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
from sluiceway.ledger.watermark_records import WatermarkRecord
from sluiceway.types.strict_json import BigInt

TOPIC, CLUSTER, TOPIC_ID = "events", "c1", "t1"
_NO_SUM = "0" * 32
_TABLE = TableIdentityRecord("thrift://m:1", "ods", "events", BigInt(7), "/w/ods/events")


def fence_body() -> FenceRecord:
    """Of any driver."""
    return FenceRecord(
        ledger="f" * 32,
        job="events",
        route="events",
        table=_TABLE,
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


def data_body(
    fold: Fold,
    epoch: int,
    ranges: Sequence[RangeRecord],
    rows: Counter[str],
    *,
    dirty: int,
    late: int,
    closed: Iterable[str],
    mark: WatermarkRecord,
) -> DataRecord:
    """An epoch.

    Args:
        rows: Folder -> rows that are written there.
        late: Late rows that are written nowhere in the table.
        closed: All that was closed when it was planned.
    """
    all_closed = {*fold.closed, *closed}
    late_in = {prefix for folder in rows for prefix in prefixes(folder) if prefix in all_closed}
    newly = tuple(sorted(set(closed) - fold.closed.keys()))
    read = sum(int(each.rows) for each in ranges)
    written = sum(rows.values())
    counts = RowCounts(*map(BigInt, (read, written, dirty, late, 0, 0)))
    staged = f"{fold.term}-{epoch}-{'a' * 32}"
    return DataRecord(
        epoch=epoch,
        ranges=tuple(ranges),
        files=tuple(_file(staged, folder, count) for folder, count in rows.items()),
        dirty_files=(_file(staged, "_sluiceway/events/dirty", dirty),) if dirty else (),
        counts=counts,
        schema="0" * 32,
        dirty_reasons={"bad_time": dirty} if dirty else {},
        timings_ms={},
        closed=newly,
        late_in=tuple(sorted(late_in)),
        watermark=mark if newly else _without_bound(mark),
    )


def _without_bound(mark: WatermarkRecord) -> WatermarkRecord:
    return WatermarkRecord(
        mark.read_at_us, mark.us, mark.by, mark.idle, mark.woken, mark.held_by, None
    )


def _file(staged: str, folder: str, rows: int) -> FileRecord:
    name = f"{staged}-{folder.replace('/', '-')}.parquet"
    values = tuple(part.partition("=")[2] for part in folder.split("/"))
    return FileRecord(
        f"{staged}/{name}", f"{folder}/{name}", values, BigInt(rows), BigInt(9), "00000000", {}
    )
