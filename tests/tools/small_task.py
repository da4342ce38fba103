"""A task over rows in memory: what it writes where, without broker and JVM."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.parquet as pq

from sluiceway.formats.registry import JSON
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.sinks.files.contract import PARQUET_FILES
from sluiceway.sources.contract import RawRecords, SourceBatch, SourcePartition, Split
from sluiceway.sources.registry import SourceAccess
from sluiceway.storage.registry import open_storage
from sluiceway.types.schema import Field, IntegerType, Schema, StringType
from sluiceway.worker.pipeline import RowPipeline, Written
from sluiceway.worker.plan import EpochTimes, EventTimeRule, PartitionRule, RoutePlan, TaskPlan
from sluiceway.worker.write_behind import WriteBehind

NOW_US = 1_795_176_000_000_000
"""2026-11-20T12:00:00Z."""
AT_NOON = EpochTimes(NOW_US)
HOUR_US = 3_600_000_000
BY_TS = EventTimeRule(("ts",), "us", "UTC")
BY_HOUR = (PartitionRule("dt", "yyyyMMdd", None), PartitionRule("hr", "HH", None))
SCHEMA = Schema(
    (Field("id", IntegerType(64)), Field("ts", IntegerType(64)), Field("app", StringType()))
)


@dataclass
class MadeBatch(SourceBatch):
    """Rows of one split, as a fetch brings them."""

    split_index: int
    values: list[bytes | None]
    offsets: list[int]
    times_ms: list[int | None] = field(default_factory=list)

    def timestamps_ms(self) -> list[int | None]:
        return self.times_ms or [None] * len(self.values)

    def records(self, rows: Sequence[int]) -> RawRecords:
        times = self.timestamps_ms()
        return RawRecords(
            topics=["orders"] * len(rows),
            partitions=[self.split_index] * len(rows),
            offsets=[self.offsets[row] for row in rows],
            timestamps_ms=[times[row] for row in rows],
            keys=[None] * len(rows),
            values=[self.values[row] for row in rows],
            headers=[()] * len(rows),
        )


def made_batch(
    split: int,
    rows: Sequence[dict[str, object]],
    times_ms: Sequence[int | None] = (),
    first: int = 0,
) -> MadeBatch:
    """A batch of JSON rows."""
    values: list[bytes | None] = [json.dumps(row).encode() for row in rows]
    offsets = list(range(first, first + len(rows)))
    return MadeBatch(split, values, offsets, list(times_ms))


def route_plan(
    root: str,
    event_time: EventTimeRule | None = BY_TS,
    partitions: tuple[PartitionRule, ...] = BY_HOUR,
    **more: object,
) -> RoutePlan:
    """A route of orders."""
    plan = RoutePlan(
        ledger="orders",
        term=1,
        layout=LedgerLayout(root, "orders"),
        source=SourceAccess("kafka", ()),
        format=JSON,
        schema=SCHEMA,
        schema_version="1",
        meta=(),
        event_time=event_time,
        partitions=partitions,
        files=PARQUET_FILES,
    )
    return replace(plan, **more)  # type: ignore[arg-type]


@dataclass
class Outcome:
    """What a task did.

    Attributes:
        ids: Final folder -> ids of the rows of its files, in order; dirty files are left out.
        dirty: (id or raw value, reason) of the dirty rows.
    """

    written: Written
    ids: dict[str, list[int]]
    dirty: list[tuple[object, str]]


def run_task(
    reads: Sequence[Sequence[MadeBatch]],
    *,
    splits: int = 1,
    times: EpochTimes = AT_NOON,
    **route: object,
) -> Outcome:
    """Run a task over what reads return.

    Args:
        reads: Batches of each read.
        splits: Number of source partitions.
        times: What the plan knows of time.
        route: Further fields of the route's plan.
    """
    with tempfile.TemporaryDirectory(prefix="small-task-") as folder:
        made = route_plan(folder, **route)  # type: ignore[arg-type]
        storage, _ = open_storage(folder)
        storage.make_folders(made.layout.stage)
        asked = tuple(Split(SourcePartition("orders", number), 0, None) for number in range(splits))
        task = TaskPlan(made, 1, 0, asked, 600.0, times)
        writes = WriteBehind()
        pipeline = RowPipeline(task, storage, writes.lane())
        try:
            for batches in reads:
                pipeline.write(batches)
            written = pipeline.close()
        finally:
            writes.close()
        return _read_back(Path(made.layout.stage), written)


def _read_back(stage: Path, written: Written) -> Outcome:
    ids: dict[str, list[int]] = {}
    files = (*written.files, *written.late_files)
    for file in files:
        found = pq.read_table(stage / file.staged, partitioning=None)["id"].to_pylist()
        assert len(found) == file.rows
        ids.setdefault(file.final.rpartition("/")[0], []).extend(found)
    dirty: list[tuple[object, str]] = []
    for file in written.dirty_files:
        for row in pq.read_table(stage / file.staged).to_pylist():
            raw = row["value"]
            dirty.append((None if raw is None else json.loads(raw)["id"], row["reason"]))
    return Outcome(written, ids, dirty)
