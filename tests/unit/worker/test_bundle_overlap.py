"""A task reads on while it writes, and a failed write fails its route."""

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.errors import StorageUnavailableError
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.worker import bundle
from sluiceway.worker.plan import Place
from sluiceway.worker.staged_files import StagedFiles
from tools.small_bundle import FourRowsReader, bundle_plan

_PATIENCE_S = 60.0


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> FourRowsReader:
    found = FourRowsReader()
    monkeypatch.setattr(bundle, "open_reader", lambda *_, **__: found)
    return found


def test_slow_write_never_stops_the_reading(
    tmp_path: Path, reader: FourRowsReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = StagedFiles.write

    def slow(files: StagedFiles, place: Place, rows: pa.RecordBatch, shared: object) -> None:
        assert reader.all_read.wait(_PATIENCE_S), "the reading waits for the write"
        write(files, place, rows, None)

    monkeypatch.setattr(StagedFiles, "write", slow)
    (answer,) = bundle.run_bundle([bundle_plan(tmp_path)])
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
    tmp_path: Path, reader: FourRowsReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        assert reader.all_read.wait(_PATIENCE_S)
        raise StorageUnavailableError("the disk is gone")

    monkeypatch.setattr(StagedFiles, "write", fail)
    plan = bundle_plan(tmp_path)
    (answer,) = bundle.run_bundle([plan])
    assert answer.failure is not None
    assert answer.failure.kind == "StorageUnavailableError"
    assert (answer.files, answer.moved()) == ((), False)
    assert reader.kept is False
    assert not Path(plan.result_path).exists()
    assert "write" not in [thread.name for thread in threading.enumerate()]
