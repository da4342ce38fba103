"""Work on a partition that goes wrong ends alone: its route goes on."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluiceway.errors import FencedError, StorageUnavailableError, TaskFailedError
from sluiceway.job.desk import Build, RouteDesk
from sluiceway.job.replacing import move_partition
from sluiceway.ledger.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import data, fence, sources, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluiceway.ledger.file_records import FileRecord


def _no_wait(attempts: int, error: StorageUnavailableError) -> None:
    raise AssertionError((attempts, error))


def test_work_that_loses_rows_is_given_up_and_does_not_halt_the_route(tmp_path: Path) -> None:
    layout = LedgerLayout(str(tmp_path), "orders")
    log = LedgerLog(LocalStorage(), layout)
    for folder in (layout.log, layout.stage):
        log.storage.make_folders(folder)
    writer = LedgerWriter(log, log.fold(), _no_wait)
    writer.fence(fence(), lambda: None)
    for body in (sources(0), data(1, 0, span(0, 0, 4))):
        writer.commit(body)
    writer.note_published()
    desk = RouteDesk(log, ())

    def put(build: Build) -> int | None:
        committed = writer.commit_made(build)
        writer.note_published()
        return None if committed is None else committed.seq

    def choose(fold: Fold) -> str:
        return next(iter(fold.partitions))

    def rewrite(folder: str, live: "Sequence[FileRecord]") -> "Sequence[FileRecord]":
        name = folder.rpartition("/")[2]
        return [replace(file, staged=f"{name}/x", rows=BigInt(file.rows - 1)) for file in live]

    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(move_partition, desk, choose, rewrite)
        try:
            while not work.done():
                desk.serve(put)
                time.sleep(0.001)
        finally:
            desk.end(FencedError("the route was left"))
        with pytest.raises(TaskFailedError, match="4 rows were rewritten as 3"):
            work.result()
    assert [record.type.value for record, _ in log.records()] == [
        "FENCE",
        "SOURCES",
        "DATA",
        "INTENT",
        "ABANDON",
    ]
    assert writer.fold.intents == {}
