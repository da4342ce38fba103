"""How a ledger grows over years: a hundred apps, a partition each an hour, all compacted.

The real records and fold, and what the driver computes beside them; the rows, the files of the
table and the metastore are not there. Each simulated hour has two epochs of a file for each app, an
INTENT and a REPLACE for each partition, the closing and a READY, as `compact: before_ready` leaves
it, and a SNAPSHOT stands behind every 1,000 records. Epochs are fewer than a running job has (120
of 30 s): it is the partitions that a ledger could grow by.

Most hours go by in the fold alone: each record is made, tested and taken in, and not stored. The
last day of each month is written by the real writer, with side files, to a file system in memory
where there is one, so that a commit's time is the driver's own. Then are measured:

- a commit of that day: DATA placed, tested and put, and what the catalog is to show (median);
- the side file of the last SNAPSHOT, and the largest plan that a task is sent, in bytes;
- a start: the fold from the log, what is closed and announced, what the catalog is to show.

`python -m bench.growth` ends with one JSON line, and with 1 when something still grows after the
first month, or a start takes longer than a second.
"""

import argparse
import gc
import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from uuid import uuid4

from bench.figures import growth_exponent
from sluiceway.errors import StorageUnavailableError
from sluiceway.eventtime.watermark import WatermarkRule
from sluiceway.followers.desired import desired_partitions, moved_last
from sluiceway.jobfile.compile.ready_rule import ReadyRule
from sluiceway.ledger.data_parts import WatermarkRecord
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.folding.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.places import intent_folder
from sluiceway.ledger.placing import placed
from sluiceway.ledger.records import (
    FORMAT,
    MIN_READER,
    Body,
    DataRecord,
    FenceRecord,
    PinnedPartition,
    RangeRecord,
    Record,
    RowCounts,
    SnapshotRecord,
    SourcesRecord,
    TableIdentityRecord,
    encode_record,
)
from sluiceway.ledger.sealing import to_seal
from sluiceway.ledger.snapshot import FOLD_VERSION, write_hint, write_side_file
from sluiceway.ledger.upkeep import SNAPSHOT_EVERY
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.observe.log import stderr_log
from sluiceway.route.route_readiness import RouteReadiness
from sluiceway.route.route_start import RouteSealing
from sluiceway.schedule.closed_hint import ClosedHint
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep.partition_bodies import intent_body, ready_body, replace_body
from sluiceway.upkeep.record_queue import RecordQueue
from sluiceway.worker.plan import IN_TIME_ALWAYS, EventTimeRule, PartitionRule, RoutePlan

APPS = 100
EPOCHS_AN_HOUR = 2
HOURS_A_MONTH = 730
STORED_HOURS = 24
YEARS_HOURS = 2 * 365 * 24
START_LIMIT_S = 1.0
MOST_GROWTH = 0.15
"""Of the exponent over months: 1 is linear, a busy machine adds a little to none."""

_FIRST_HOUR = datetime(2026, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)
_HOUR_US = 3_600_000_000
_COLUMNS = (("dt", "yyyyMMdd"), ("hr", "HH"))
_READY = ReadyRule(WatermarkRule(), _COLUMNS, "UTC", whole_key=False)
_PARTITIONS = (
    PartitionRule("dt", "yyyyMMdd", None),
    PartitionRule("hr", "HH", None),
    PartitionRule("app", None, "app"),
)


@dataclass(frozen=True, slots=True)
class Month:
    """What things cost at the end of a month.

    Attributes:
        kept: Partitions in the fold.
        closed: Prefixes in it that are closed and not sealed.
        told_bytes: What a task is told of closed prefixes, as it is sent.
    """

    month: int
    partitions: int
    kept: int
    closed: int
    sealed: int
    commit_ms: float
    side_file_bytes: int
    told_bytes: int
    start_s: float


class Years:
    """A ledger whose hours go by.

    Args:
        folder: Of the table.
    """

    def __init__(self, folder: Path) -> None:
        self.log = LedgerLog(LocalStorage(), LedgerLayout(str(folder), "orders"))
        self.log.storage.make_folders(self.log.layout.stage)
        self.fold = Fold()
        self._writer: LedgerWriter | None = None
        self._sealing = RouteSealing(_READY, IN_TIME_ALWAYS, None, lambda: None)
        self._left: list[str] = []
        self.hours = 0
        self.commits_s: list[float] = []
        self._told = ClosedHint()
        self.told_bytes = 0
        self._put(lambda _: _fence(str(folder)))
        pin = PinnedPartition("orders", 0, "cluster", "topic", BigInt(0), "earliest", retired=False)
        self._put(lambda _: SourcesRecord(("orders",), "", "earliest", (pin,)))

    def store(self) -> None:
        """From here on records are written; the one before is, as the next one is chained to it."""
        last = self._take(_snapshot_of_nothing(self.fold))
        layout, storage = self.log.layout, self.log.storage
        folder = layout.folder_of(last.seq)
        for each in (folder, folder + 1):
            storage.make_folders(layout.log_folder(each))
        raw = encode_record(last)
        storage.put_if_absent(layout.record(last.seq), raw, tmp_folder=layout.stage)
        self._writer = LedgerWriter(self.log, self.fold, _give_up)
        self._snapshot()

    def forget_store(self) -> None:
        """What was written is measured, and goes."""
        self._writer = None
        for folder in (self.log.layout.log, self.log.layout.snapshots):
            self.log.storage.remove(folder)

    def hour(self) -> None:
        """Rows come, are merged, and the hour is announced."""
        at = _FIRST_HOUR + self.hours * _HOUR
        prefix = f"dt={at:%Y%m%d}/hr={at:%H}"
        live = [self._epoch(prefix, at) for _ in range(EPOCHS_AN_HOUR)]
        begun = list[tuple[str, int, list[FileRecord]]]()
        for files in zip(*live, strict=True):
            name = files[0].final.rpartition("/")[0]
            begun.append((name, self._put(partial(_intent, name=name)), list(files)))
        for name, intent, files in begun:
            self._put(partial(_replaced, name=name, intent=intent, files=files))
        self._put(partial(_closing, prefix=prefix, at_us=_us(at)))
        self._put(partial(_ready, prefix=prefix))
        self.fold.effects_through = self.fold.next_seq
        if self._writer is not None:
            self._writer.set_effects(self.fold.next_seq)
        # The grace of an hour is over for what was left an hour ago.
        for folder in self._left:
            self.fold.left.pop(folder, None)
        self._left = list(self.fold.left)
        if self.fold.next_seq - self.fold.snapshot_through >= SNAPSHOT_EVERY:
            self._snapshot()
        self.hours += 1

    def _snapshot(self) -> None:
        sealed = to_seal(self.fold, self._sealing)
        if self._writer is None:
            self._put(lambda fold: replace(_snapshot_of_nothing(fold), sealed=sealed))
            return
        storage, layout = self.log.storage, self.log.layout
        seq = self._put(lambda fold: write_side_file(storage, layout, fold, sealed))
        write_hint(storage, layout, seq)

    def _put(self, build: Callable[[Fold], Body]) -> int:
        if self._writer is None:
            return self._take(build(self.fold)).seq
        committed = self._writer.commit(build)
        self._writer.set_published()
        return committed.seq

    def _take(self, body: Body) -> Record:
        """The fold takes a record in that nobody has stored."""
        fold = self.fold
        record = Record(
            engine="bench",
            seq=fold.next_seq,
            term=1,
            prev=fold.head,
            id=uuid4().hex,
            published_through=fold.next_seq,
            effects_through=fold.effects_through,
            body=body,
        )
        # Of the last one before records are stored the next one needs the hash.
        raw = encode_record(record) if isinstance(body, SnapshotRecord) else b"%d" % record.seq
        fold.apply(record, raw)
        fold.set_published_through(fold.next_seq)
        return record

    def _epoch(self, prefix: str, at: datetime) -> tuple[FileRecord, ...]:
        """An epoch's commit as the driver's thread has it, and what it takes."""
        record = _epoch(self.fold, prefix, _us(at))
        if self._writer is None:
            landed = placed(record, self.fold)
            self._put(lambda _: landed)
            return landed.files
        since = self.fold.next_seq
        gc.disable()
        began = time.perf_counter()
        committed = self._writer.commit(partial(placed, record))
        desired_partitions(self.fold, self.log.layout, since, on_ready=True)
        self.commits_s.append(time.perf_counter() - began)
        gc.enable()
        body = self.fold.unpublished[committed.seq]
        self._writer.set_published()
        told = self._told.of(_PLAN, self.fold.closed)
        self.told_bytes = max(self.told_bytes, len(pickle.dumps(told)))
        if not isinstance(body, DataRecord):
            raise TypeError(f"slot {committed.seq} holds no epoch")
        return body.files

    def side_file_bytes(self) -> int:
        """Of the newest."""
        sides = self.log.storage.list(self.log.layout.snapshots)
        return max(sides, key=lambda each: each.path).size_bytes if sides else 0

    def start_s(self) -> float:
        """What another driver takes to know all that this one does."""
        log = LedgerLog(LocalStorage(), self.log.layout)
        began = time.perf_counter()
        fold = log.fold()
        record_queue = RecordQueue(log, fold.closed)
        readiness = RouteReadiness(_READY, record_queue, fold, stderr_log(level="error"))
        readiness.close_due(fold)
        desired_partitions(fold, log.layout, fold.effects_through, on_ready=True)
        moved_last(fold, log.layout, fold.effects_through, on_ready=True)
        took = time.perf_counter() - began
        if fold.partitions != self.fold.partitions or fold.sealed != self.fold.sealed:
            raise AssertionError("a start has found another fold than the driver has")
        return took


def _us(at: datetime) -> int:
    return int(at.timestamp()) * 1_000_000


class _RouteOnly:
    """What `ClosedHint` looks at of a route."""

    partitions = _PARTITIONS
    event_time = EventTimeRule(("ts",), "ms", "UTC")


_PLAN: RoutePlan = _RouteOnly()  # type: ignore[assignment]


def _fence(folder: str) -> FenceRecord:
    return FenceRecord(
        ledger=uuid4().hex,
        job="orders",
        route="orders",
        table=TableIdentityRecord("hive", "ods", "orders", BigInt(1), folder),
        driver=uuid4().hex,
        host="bench",
        boot_id="",
        pid=os.getpid(),
        site="",
        started_at_ms=BigInt(0),
        format=FORMAT,
        min_reader=MIN_READER,
    )


def _file(staged: str, final: str, values: tuple[str, ...], rows: int) -> FileRecord:
    bounds = {"id": ("1000000000", "1000009999"), "ts": ("1795132800", "1795132899")}
    size = BigInt(rows * 40)
    return FileRecord(staged, final, values, BigInt(rows), size, "0123abcd", bounds)


def _epoch(fold: Fold, prefix: str, at_us: int) -> DataRecord:
    attempt = f"{fold.term}-{fold.last_epoch + 1}-{uuid4().hex}"
    dt, hr = (part.partition("=")[2] for part in prefix.split("/"))
    files = []
    for app in range(APPS):
        name = f"orders-{attempt}-{app}.parquet"
        folder = f"{prefix}/app=app{app:03d}"
        values = (dt, hr, f"app{app:03d}")
        files.append(_file(f"{attempt}/{name}", f"{folder}/{name}", values, 1000))
    rows, nothing = BigInt(APPS * 1000), BigInt(0)
    known = fold.sources["orders", 0]
    ends = RangeRecord(
        topic="orders",
        partition=0,
        cluster_id=known.cluster_id,
        topic_id=known.topic_id,
        start=BigInt(known.end),
        end=BigInt(known.end + rows),
        rows=rows,
        gaps=nothing,
        leader_epoch=None,
        max_event_time_us=BigInt(at_us + _HOUR_US // 2),
        offset_sum="0" * 32,
    )
    read_at = max(at_us + _HOUR_US // 2, fold.watermark.read_at_us or 0)
    mark = WatermarkRecord(read_at_us=BigInt(read_at))
    counts = RowCounts(rows, rows, nothing, nothing, nothing, nothing)
    made = DataRecord(fold.last_epoch + 1, (ends,), tuple(files), (), counts, "0" * 16, {}, {})
    return replace(made, closed=tuple(fold.closed), watermark=mark)


def _closing(fold: Fold, prefix: str, at_us: int) -> DataRecord:
    """The watermark has passed the hour, and no row of it is under way."""
    nothing = RowCounts(*(BigInt(0),) * 6)
    base = DataRecord(fold.last_epoch + 1, (), (), (), nothing, "", {}, {}, closed=(prefix,))
    mark = WatermarkRecord(read_at_us=BigInt(at_us + _HOUR_US))
    return placed(replace(base, watermark=mark), fold)


def _intent(fold: Fold, name: str) -> Body:
    body = intent_body(fold, name, "compact")
    if body is None:
        raise AssertionError(f"{name} cannot be worked on")
    return body


def _snapshot_of_nothing(fold: Fold) -> SnapshotRecord:
    """A SNAPSHOT whose side file nobody reads."""
    return SnapshotRecord(fold.next_seq, "none.json", BigInt(0), "0" * 64, FOLD_VERSION)


def _ready(fold: Fold, prefix: str) -> Body:
    body = ready_body(fold, prefix, 0)
    if body is None or len(body.partitions) != APPS:
        raise AssertionError(f"{prefix} is not to be announced whole")
    return body


def _replaced(fold: Fold, name: str, intent: int, files: Sequence[FileRecord]) -> Body:
    opened = fold.intents[intent]
    folder = intent_folder(intent, opened.uuid)
    file = f"orders-{folder}-0.parquet"
    values = tuple(str(value) for value in files[0].values)
    rows = sum(int(each.rows) for each in files)
    body = replace_body(fold, intent, files, [_file(f"{folder}/{file}", file, values, rows)])
    if body is None:
        raise AssertionError(f"{name} cannot be replaced")
    return body


def _give_up(attempts: int, error: StorageUnavailableError) -> None:
    del attempts
    raise error


def run(hours: int, folder: Path) -> list[Month]:
    """Let hours go by; what each month has cost."""
    years, found = Years(folder), list[Month]()
    began = time.monotonic()
    while years.hours < hours:
        month_ends = min(years.hours + HOURS_A_MONTH, hours)
        while years.hours < month_ends - STORED_HOURS:
            years.hour()
        years.store()
        while years.hours < month_ends:
            years.hour()
        fold = years.fold
        found.append(
            Month(
                month=len(found) + 1,
                partitions=years.hours * APPS,
                kept=len(fold.partitions),
                closed=len(fold.closed),
                sealed=len(fold.sealed),
                commit_ms=round(median(years.commits_s) * 1000, 3),
                side_file_bytes=years.side_file_bytes(),
                told_bytes=years.told_bytes,
                start_s=round(min(years.start_s() for _ in range(3)), 3),
            )
        )
        years.commits_s.clear()
        years.forget_store()
        spent = round(time.monotonic() - began)
        print(json.dumps({**asdict(found[-1]), "spent_s": spent}), file=sys.stderr, flush=True)
    return found


def result_of(months: Sequence[Month]) -> tuple[dict[str, object], bool]:
    """The closing line, and whether all is level from the second month on."""
    later = months[1:]
    at = [float(each.month) for each in later]
    growth = {
        name: round(growth_exponent(at, [float(getattr(each, name)) for each in later]), 3)
        for name in ("commit_ms", "side_file_bytes", "told_bytes", "kept", "start_s")
    }
    first, last = later[0], later[-1]
    start_s = max(each.start_s for each in months)
    level = all(each <= MOST_GROWTH for each in growth.values())
    result = {
        "partitions": last.partitions,
        "months": len(months),
        "start_s": start_s,
        "commit_ms": {"month_2": first.commit_ms, "last": last.commit_ms},
        "side_file_bytes": {"month_2": first.side_file_bytes, "last": last.side_file_bytes},
        "told_bytes": last.told_bytes,
        "kept": last.kept,
        "sealed": last.sealed,
        "growth": growth,
    }
    return result, level and start_s <= START_LIMIT_S


def main() -> int:
    """Run it; 0 when nothing grows."""
    parser = argparse.ArgumentParser(description="How a ledger grows over years.")
    parser.add_argument("--hours", type=int, default=YEARS_HOURS, help="two years when left out")
    parser.add_argument("--results", type=Path, help="add the closing line to this file")
    arguments = parser.parse_args()
    memory = Path("/dev/shm")  # noqa: S108 - nothing is kept there
    place = str(memory) if memory.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="growth-", dir=place) as folder:
        months = run(arguments.hours, Path(folder))
    result, well = result_of(months)
    line = json.dumps({**result, "in_memory": place is not None})
    if arguments.results is not None:
        with arguments.results.open("a") as stream:
            stream.write(line + "\n")
    print(line)
    return int(not well)


if __name__ == "__main__":
    sys.exit(main())
