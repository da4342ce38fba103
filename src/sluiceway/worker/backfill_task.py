"""Reads again what made a prefix of a table, through the pipeline of the route; in a process.

Rows of other prefixes are read with it, and counted: no queue can be asked for one hour.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sluiceway.chains.files_reader import read_files
from sluiceway.errors import SourceUnavailableError
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.partition_records import SwapCounts
from sluiceway.ledger.places import is_below
from sluiceway.observe.failpoints import Role, arm, reach
from sluiceway.sinks.partition_path import partition_folder
from sluiceway.sources.contract import SourceBatch, SourcePartition, Split
from sluiceway.sources.kept_rows import KeptRows
from sluiceway.sources.registry import open_reader
from sluiceway.storage.contract import Storage
from sluiceway.storage.registry import open_storage
from sluiceway.types.strict_json import BigInt
from sluiceway.work.request import WorkRequest
from sluiceway.worker.dirty_reader import DirtyBatch, read_dirty_rows
from sluiceway.worker.open_files import SharedRows
from sluiceway.worker.pipeline import RowPipeline
from sluiceway.worker.plan import LatePlace, Place, RoutePlan, StagedPrefix, TaskPlan
from sluiceway.worker.row_files import NoFiles
from sluiceway.worker.task_memory import TaskMemory
from sluiceway.worker.write_behind import WriteBehind

BACKFILL_BUG = "a bug, or rows that this version cannot take; nothing was replaced"
_READ_S = 0.5
_SILENT_READS = 240
_Places = dict[tuple[str, object], list[int]]


@dataclass(frozen=True, slots=True)
class DirtySpan:
    """Rows `[start, stop)` of a dirty file that were replayed.

    Attributes:
        path: Where the file is.
        left_out: Dirty files of the rows that were dirty again.
    """

    path: str
    start: int
    stop: int
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BackfillPlan:
    """What is read again.

    Attributes:
        route: The route's plan, by today's job file.
        prefix: Prefix whose rows are wanted.
        staged: Staged folder of the INTENT, an absolute path; empty to count the rows only.
        splits: Ranges of the queue, rising within each source partition.
        left_out: Dirty files with rows of these ranges: they are not read again.
        spans: Dirty rows that were replayed.
        files: Files of rows to read in place of the queue; then there is one split.
    """

    route: RoutePlan
    prefix: str
    staged: str
    splits: tuple[Split, ...]
    left_out: tuple[str, ...] = ()
    spans: tuple[DirtySpan, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BackfillFiles:
    """What was made.

    Attributes:
        files: New files of the prefix, staged; the folder of a final name is the partition's name.
        dirty_reasons: Dirty rows by reason.
    """

    files: tuple[FileRecord, ...]
    dirty_files: tuple[FileRecord, ...]
    counts: SwapCounts
    dirty_reasons: dict[str, int]


def backfill_request(plan: BackfillPlan) -> WorkRequest:
    """`run_backfill` as work for another process."""
    layout = plan.route.layout
    return WorkRequest(
        f"{__name__}:{run_backfill.__name__}",
        plan,
        BACKFILL_BUG,
        place=(layout.table_root, plan.route.stores),
        route=layout.route,
    )


def run_backfill(plan: BackfillPlan, attempt: str = "") -> BackfillFiles:
    """Read everything again and stage the rows of the prefix.

    Raises:
        SourceUnavailableError: The broker does not answer, or has nothing where rows were.
        StorageUnavailableError: The store failed.
        TaskFailedError: Rows cannot be written.
    """
    del attempt
    arm(Role.WORKER)
    storage, _ = open_storage(plan.route.layout.table_root, plan.route.stores)
    writes = WriteBehind(TaskMemory(plan.route.memory_bytes))
    # No driver has term 0: a file that no record names is never taken for one of a lost record.
    task = TaskPlan(
        route=replace(plan.route, term=0),
        epoch=0,
        task=0,
        splits=(*plan.splits, *map(_as_split, plan.spans)),
        deadline_s=0.0,
        prefix=StagedPrefix(plan.prefix, plan.staged.rpartition("/")[2]),
    )
    counted = None if plan.staged else _CountedRows(plan)
    pipeline = RowPipeline(task, storage, writes.lane(), counted)
    try:
        batches = _read_queue(plan)
        if plan.files:
            batches = read_files(storage, plan.files, 0, plan.splits[0].partition)
        for batch in _kept(batches, _places(storage, plan.left_out)):
            pipeline.write([batch])
        for index, span in enumerate(plan.spans, len(plan.splits)):
            batches = _read_span(storage, index, span)
            for batch in _kept(batches, _places(storage, span.left_out)):
                pipeline.write([batch])
        reach("backfill.close", plan.prefix)
        written = pipeline.close()
    except BaseException:
        pipeline.abort()
        raise
    finally:
        writes.close()
    staged = sum(int(file.rows) for file in written.files)
    inside = staged if counted is None else counted.rows
    counts = written.counts
    return BackfillFiles(
        files=written.files,
        dirty_files=written.dirty_files,
        counts=SwapCounts(
            read=counts.read,
            written=BigInt(inside),
            dirty=counts.dirty,
            outside=BigInt(counts.written - inside),
            filtered=counts.filtered,
            skipped=counts.skipped,
            expanded=counts.expanded,
        ),
        dirty_reasons=written.dirty_reasons,
    )


class _CountedRows(NoFiles):
    """Counts the rows of the prefix, and forgets them."""

    def __init__(self, plan: BackfillPlan) -> None:
        self.rows = 0
        self._prefix = plan.prefix
        self._names = tuple(rule.name for rule in plan.route.partitions)

    def write(self, place: Place, rows: pa.RecordBatch, shared: SharedRows | None = None) -> None:
        """See `RowFiles`."""
        del shared
        if not isinstance(place, LatePlace) and is_below(
            partition_folder(self._names, place), self._prefix
        ):
            self.rows += rows.num_rows


def _as_split(span: DirtySpan) -> Split:
    return Split(SourcePartition(span.path, 0), span.start, span.stop)


def _read_queue(plan: BackfillPlan) -> Iterator[SourceBatch]:
    """All ranges; a reader has one range of each source partition at a time."""
    waiting: dict[SourcePartition, list[int]] = defaultdict(list)
    for index, split in enumerate(plan.splits):
        waiting[split.partition].append(index)
    while waiting:
        indices = [numbers.pop(0) for numbers in waiting.values()]
        waiting = defaultdict(list, {one: numbers for one, numbers in waiting.items() if numbers})
        splits = [plan.splits[index] for index in indices]
        reader = open_reader(plan.route.source, splits, owner=f"backfill-{plan.route.ledger}")
        try:
            silent = 0
            while not reader.finished():
                batches = reader.read(_READ_S)
                silent = 0 if batches else silent + 1
                if silent > _SILENT_READS:
                    raise SourceUnavailableError(
                        "the broker returns no more rows of what was read once",
                        where=str(splits[0].partition),
                    )
                for batch in batches:
                    batch.split_index = indices[batch.split_index]
                    yield batch
        finally:
            reader.close(reusable=False)


def _read_span(storage: Storage, index: int, span: DirtySpan) -> Iterator[SourceBatch]:
    for first, rows in read_dirty_rows(storage, span.path, span.start, span.stop):
        yield DirtyBatch(index, first, rows)


def _places(storage: Storage, paths: Sequence[str]) -> _Places:
    """Offsets of the rows in dirty files, by topic and partition."""
    found: _Places = defaultdict(list)
    names = ("topic", "partition", "offset")
    for path in paths:
        if storage.status(path) is None:
            # Let go of long ago: as many rows more or fewer show in the counts.
            continue
        for _, rows in read_dirty_rows(storage, path, 0, 1 << 62, names):
            columns = (rows.column(name).to_pylist() for name in names)
            for topic, partition, offset in zip(*columns, strict=True):
                found[topic, partition].append(offset)
    return found


def _kept(batches: Iterator[SourceBatch], left_out: _Places) -> Iterator[SourceBatch]:
    """Batches without these rows."""
    for batch in batches:
        keep = np.ones(len(batch.values), bool)
        if left_out:
            keep = ~_is_left_out(batch, left_out)
        if keep.all():
            yield batch
        elif keep.any():
            yield KeptRows(batch, np.flatnonzero(keep))


def _is_left_out(batch: SourceBatch, left_out: _Places) -> NDArray[np.bool_]:
    origins = batch.origins()
    if origins is None:
        raw = batch.records([0])
        gone = left_out.get((raw.topics[0], raw.partitions[0]), [])
        return np.isin(np.asarray(batch.offsets, dtype=np.int64), np.array(gone, dtype=np.int64))
    places = zip(origins.topics, origins.partitions, origins.offsets, strict=True)
    return np.array(
        [offset in left_out.get((topic, number), []) for topic, number, offset in places], bool
    )
