"""A task reads on while it writes, and a failed write fails its route."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.errors import StorageUnavailableError
from sluiceway.formats.registry import JSON
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.sinks.files.contract import PARQUET_FILES
from sluiceway.sources.contract import (
    RawRecords,
    SourceBatch,
    SourcePartition,
    Split,
    SplitEnd,
    SplitReader,
)
from sluiceway.sources.registry import SourceAccess
from sluiceway.types.schema import Field, IntegerType, Schema
from sluiceway.worker import bundle
from sluiceway.worker.places import Place
from sluiceway.worker.plan import PartitionRule, RoutePlan, TaskPlan
from sluiceway.worker.staged_files import StagedFiles

_PATIENCE_S = 60.0
_READS = 3


class _Batch(SourceBatch):
    def __init__(self, first: int) -> None:
        self.split_index = 0
        self.offsets = list(range(first, first + 4))
        self.values = [b'{"id": %d, "app": %d}' % (n, n // 2 % 2) for n in self.offsets]

    def timestamps_ms(self) -> list[int | None]:
        return [None] * len(self.offsets)

    def records(self, rows: Sequence[int]) -> RawRecords:
        raise NotImplementedError(rows)


class _Reader(SplitReader):
    """Four rows a read; tells when all were asked for."""

    def __init__(self) -> None:
        self.reads = 0
        self.all_read = threading.Event()
        self.kept: bool | None = None

    def read(self, timeout_s: float) -> list[SourceBatch]:
        del timeout_s
        self.reads += 1
        if self.reads == _READS:
            self.all_read.set()
        return [_Batch(4 * (self.reads - 1))]

    def finished(self) -> bool:
        return self.reads >= _READS

    def ends(self) -> tuple[SplitEnd, ...]:
        return (SplitEnd(4 * self.reads, 4 * self.reads, 0, None),)

    def close(self, *, reusable: bool) -> None:
        self.kept = reusable


def _plan(root: Path) -> TaskPlan:
    layout = LedgerLayout(str(root), "orders")
    Path(layout.results(1, 1)).mkdir(parents=True)
    route = RoutePlan(
        ledger="orders",
        term=1,
        layout=layout,
        source=SourceAccess("kafka", ()),
        format=JSON,
        schema=Schema((Field("id", IntegerType(64)), Field("app", IntegerType(32)))),
        schema_version="1",
        meta=(),
        event_time=None,
        partitions=(PartitionRule("app", None, "app"),),
        files=PARQUET_FILES,
    )
    return TaskPlan(route, 1, 0, (Split(SourcePartition("orders", 0), 0, 12),), deadline_s=600.0)


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> _Reader:
    found = _Reader()
    monkeypatch.setattr(bundle, "open_reader", lambda *_, **__: found)
    return found


def test_slow_write_never_stops_the_reading(
    tmp_path: Path, reader: _Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = StagedFiles.write

    def slow(files: StagedFiles, place: Place, rows: pa.RecordBatch, shared: object) -> None:
        assert reader.all_read.wait(_PATIENCE_S), "the reading waits for the write"
        write(files, place, rows, None)

    monkeypatch.setattr(StagedFiles, "write", slow)
    (answer,) = bundle.run_bundle([_plan(tmp_path)])
    assert answer.failure is None
    assert [int(split.end) for split in answer.splits] == [12]
    assert int(answer.counts.written) == 12
    stage = Path(LedgerLayout(str(tmp_path), "orders").stage)
    ids = {
        file.values: pq.read_table(stage / file.staged)["id"].to_pylist() for file in answer.files
    }
    # Rows of a source partition keep their order in each file.
    assert ids == {("0",): [0, 1, 4, 5, 8, 9], ("1",): [2, 3, 6, 7, 10, 11]}
    assert reader.kept is True


def test_write_that_fails_beside_the_reading_fails_the_route_and_ends_the_consumer(
    tmp_path: Path, reader: _Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        assert reader.all_read.wait(_PATIENCE_S)
        raise StorageUnavailableError("the disk is gone")

    monkeypatch.setattr(StagedFiles, "write", fail)
    (answer,) = bundle.run_bundle([_plan(tmp_path)])
    assert answer.failure is not None
    assert answer.failure.kind == "StorageUnavailableError"
    assert (answer.files, answer.moved()) == ((), False)
    assert reader.kept is False
    assert not Path(_plan_result(tmp_path)).exists()
    assert "write" not in [thread.name for thread in threading.enumerate()]


def _plan_result(root: Path) -> str:
    return f"{LedgerLayout(str(root), 'orders').results(1, 1)}/0.json"
