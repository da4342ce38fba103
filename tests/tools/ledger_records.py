"""Records for tests of the ledger."""

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from sluiceway.ledger.data_parts import LateRows
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.places import intent_folder
from sluiceway.ledger.record_formats import needed_format
from sluiceway.ledger.records import (
    FORMAT,
    NO_ROWS,
    Body,
    DataRecord,
    FenceRecord,
    PinnedPartition,
    RangeRecord,
    Record,
    RowCounts,
    SourcesRecord,
    TableIdentityRecord,
    encode_record,
)
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt

LEDGER = "f" * 32


def new_log(folder: Path) -> LedgerLog:
    """An empty log of the route `orders` on a local disk."""
    layout, storage = LedgerLayout(str(folder), "orders"), LocalStorage()
    for each in (layout.stage, layout.log):
        storage.make_folders(each)
    return LedgerLog(storage, layout)


def fence(*, driver: str = "d1", ledger: str = LEDGER, job: str = "orders") -> FenceRecord:
    table = TableIdentityRecord("thrift://m:1", "ods", "orders", BigInt(7), "/w/ods/orders")
    return FenceRecord(
        ledger=ledger,
        job=job,
        route="orders",
        table=table,
        driver=driver,
        host="h",
        boot_id="b",
        pid=1,
        site="",
        started_at_ms=BigInt(1),
        format=FORMAT,
        min_reader=FORMAT,
    )


def sources(
    *partitions: int, start: int = 0, retired: bool = False, how: str = "earliest"
) -> SourcesRecord:
    pins = tuple(
        PinnedPartition("orders", number, "c1", "t1", BigInt(start), how, retired)
        for number in partitions
    )
    return SourcesRecord(("orders",), "", "earliest", pins)


def span(
    partition: int, start: int, end: int, *, gaps: int = 0, topic_id: str = "t1"
) -> RangeRecord:
    return RangeRecord(
        topic="orders",
        partition=partition,
        cluster_id="c1",
        topic_id=topic_id,
        start=BigInt(start),
        end=BigInt(end),
        rows=BigInt(end - start - gaps),
        gaps=BigInt(gaps),
        leader_epoch=None,
        max_event_time_us=None,
        offset_sum="0" * 32,
    )


def data(term: int, epoch: int, *spans: RangeRecord, dirty: int = 0) -> DataRecord:
    rows = sum(item.rows for item in spans)
    attempt = f"{term}-{epoch}-{uuid4().hex}"
    name = f"orders-{term}-{epoch}-0-{uuid4().hex}.parquet"
    file = FileRecord(
        f"{attempt}/{name}",
        f"dt=20261120/hr=08/{name}",
        ("20261120", "08"),
        BigInt(rows - dirty),
        BigInt(10),
        "00000000",
        {},
    )
    dirty_file = FileRecord(
        f"{attempt}/dirty-{name}",
        f"_sluiceway/orders/dirty/{name}",
        (),
        BigInt(dirty),
        BigInt(10),
        "00000000",
        {},
    )
    counts = RowCounts(
        BigInt(rows), BigInt(rows - dirty), BigInt(dirty), BigInt(0), BigInt(0), BigInt(0)
    )
    return DataRecord(
        epoch=epoch,
        ranges=spans,
        files=(file,) if rows > dirty else (),
        dirty_files=(dirty_file,) if dirty else (),
        counts=counts if rows else NO_ROWS,
        schema="s",
        dirty_reasons={"broken": dirty} if dirty else {},
        timings_ms={},
    )


def with_late(body: DataRecord, late: int) -> DataRecord:
    """The same epoch, in which so many rows came late and were put aside."""
    (file,) = body.files
    name = file.final.rpartition("/")[2]
    aside = replace(
        file,
        staged=f"{file.staged.partition('/')[0]}/late-{name}",
        final=f"_sluiceway/orders/late/dt=20261120/hr=08/late-{name}",
        rows=BigInt(late),
    )
    counts = replace(body.counts, written=BigInt(body.counts.written - late), late=BigInt(late))
    return replace(
        body,
        files=(replace(file, rows=BigInt(file.rows - late)),),
        late_files=(aside,),
        counts=counts,
        late_rows=LateRows(side=BigInt(late)),
    )


def staged(fold: Fold, intent: int, *rows: int) -> tuple[FileRecord, ...]:
    """Files that background work has staged, of so many rows each."""
    opened = fold.intents[intent]
    folder = intent_folder(intent, opened.uuid)
    names = [f"orders-{folder}-{number}.parquet" for number in range(len(rows))]
    state = fold.partitions.get(opened.partition)
    values = ("20261120", "08") if state is None else state.values
    return tuple(
        FileRecord(f"{folder}/{name}", name, values, BigInt(count), BigInt(11), "00000001", {})
        for name, count in zip(names, rows, strict=True)
    )


def record(fold: Fold, body: Body, *, term: int | None = None, seq: int | None = None) -> Record:
    raises_term = isinstance(body, FenceRecord)
    return Record(
        engine="test",
        seq=fold.next_seq if seq is None else seq,
        term=(fold.term + 1 if raises_term else fold.term) if term is None else term,
        prev=fold.head,
        id=uuid4().hex,
        published_through=0 if fold.unpublished else fold.next_seq,
        effects_through=0,
        body=body,
        format=max(fold.format, needed_format(body)),
    )


def fold_of(*bodies: Body) -> Fold:
    fold = Fold()
    for body in bodies:
        made = record(fold, body)
        fold.apply(made, encode_record(made))
    return fold
