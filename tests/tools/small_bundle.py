"""Readers in memory for bundles of tasks: as many rows as wanted, without broker and JVM."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from sluiceway.ledger.layout import LedgerLayout
from sluiceway.sources.contract import (
    RawRecords,
    SourceBatch,
    SourcePartition,
    Split,
    SplitEnd,
    SplitReader,
)
from sluiceway.types.schema import Field, IntegerType, Schema
from sluiceway.worker.plan import PartitionRule, TaskPlan
from tools.small_task import route_plan

READS = 3
ROWS = 4 * READS
_SCHEMA = Schema((Field("id", IntegerType(64)), Field("app", IntegerType(32))))


class FourRows(SourceBatch):
    """Four rows of one split."""

    def __init__(self, split: int, first: int) -> None:
        self.split_index = split
        self.offsets = list(range(first, first + 4))
        self.values = [b'{"id": %d, "app": %d}' % (n, n // 2 % 2) for n in self.offsets]

    def timestamps_ms(self) -> list[int | None]:
        return [None] * len(self.offsets)

    def records(self, rows: Sequence[int]) -> RawRecords:
        raise NotImplementedError(rows)


class FourRowsReader(SplitReader):
    """Four rows of each split a read.

    Attributes:
        splits: How many there are.
        act: Called at each read, with its number from 1 on.
        all_read: Set when all rows were asked for.
        kept: How it was closed: whether it may be used again; None while it is open.
    """

    def __init__(self, splits: int = 1) -> None:
        self.splits = splits
        self.reads = 0
        self.act: Callable[[int], None] = lambda _: None
        self.all_read = threading.Event()
        self.kept: bool | None = None

    def read(self, timeout_s: float) -> list[SourceBatch]:
        del timeout_s
        self.reads += 1
        self.act(self.reads)
        if self.reads == READS:
            self.all_read.set()
        return [FourRows(split, 4 * (self.reads - 1)) for split in range(self.splits)]

    def finished(self) -> bool:
        return self.reads >= READS

    def ends(self) -> tuple[SplitEnd, ...]:
        return (SplitEnd(4 * self.reads, 4 * self.reads, 0, None),) * self.splits

    def close(self, *, reusable: bool) -> None:
        self.kept = reusable


def bundle_plan(root: Path, route: str = "orders") -> TaskPlan:
    """The task of a route that is partitioned by `app`, with one split of `ROWS` rows."""
    layout = LedgerLayout(str(root), route)
    Path(layout.results(1, 1)).mkdir(parents=True)
    shared = route_plan(
        str(root),
        None,
        (PartitionRule("app", None, "app"),),
        ledger=route,
        layout=layout,
        schema=_SCHEMA,
    )
    return TaskPlan(shared, 1, 0, (Split(SourcePartition(route, 0), 0, ROWS),), deadline_s=600.0)
