"""Work on a partition that goes wrong ends alone: its route goes on."""

import errno
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluiceway.errors import FencedError, StorageUnavailableError, TaskFailedError
from sluiceway.job.desk import Build, RouteDesk
from sluiceway.job.replacing import Rewrite, move_partition
from sluiceway.ledger.fold import Fold
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.partition_records import ReplaceRecord
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.storage.checksum import stream_crc32c
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import data, fence, sources, span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sluiceway.ledger.file_records import FileRecord
    from sluiceway.ledger.records import Record


def _no_wait(attempts: int, error: StorageUnavailableError) -> None:
    raise AssertionError((attempts, error))


class _Route:
    """A ledger with one partition of four rows, and work on it beside its writer's thread."""

    def __init__(self, root: Path) -> None:
        layout = LedgerLayout(str(root), "orders")
        self.log = LedgerLog(LocalStorage(), layout)
        for folder in (layout.log, layout.stage):
            self.log.storage.make_folders(folder)
        self.writer = LedgerWriter(self.log, self.log.fold(), _no_wait)
        self.writer.fence(fence(), lambda: None)
        for body in (sources(0), data(1, 0, span(0, 0, 4))):
            self.writer.commit(body)
        self.writer.note_published()
        self.desk = RouteDesk(self.log, ())

    def move(self, rewrite: Rewrite, between: Callable[[], None] = lambda: None) -> int | None:
        """Do the work; its records are put here, as the driver's thread does.

        Args:
            rewrite: See `move_partition`.
            between: What the driver does before it puts anything.
        """

        def choose(fold: Fold) -> str:
            return next(iter(fold.partitions))

        with ThreadPoolExecutor(1) as pool:
            work = pool.submit(move_partition, self.desk, choose, rewrite)
            try:
                while not work.done():
                    if self.desk.is_waited_for(self.writer.fold):
                        between()
                    self.desk.serve(self._put)
                    time.sleep(0.001)
            finally:
                self.desk.end(FencedError("the route was left"))
            return work.result()

    def commit_file(self, number: int) -> None:
        """An epoch writes two rows more to the partition."""
        body = data(1, number, span(0, 2 + 2 * number, 4 + 2 * number))
        content = b"rows %d" % number
        path = Path(self.log.layout.final(body.files[0].final))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        file = replace(
            body.files[0],
            size_bytes=BigInt(len(content)),
            crc32c=stream_crc32c(BytesIO(content)),
        )
        self.writer.commit(replace(body, files=(file,)))
        self.writer.note_published()

    def _put(self, build: Build) -> int | None:
        committed = self.writer.commit_made(build)
        self.writer.note_published()
        return None if committed is None else committed.seq

    def check_given_up(self, *between: str) -> None:
        """The work has ended without an effect."""
        found = [record.type.value for record, _ in self.log.records()]
        assert found == ["FENCE", "SOURCES", "DATA", "INTENT", *between, "ABANDON"]
        assert self.writer.fold.intents == {}


def test_work_that_loses_rows_is_given_up_and_does_not_halt_the_route(tmp_path: Path) -> None:
    route = _Route(tmp_path)

    def rewrite(folder: str, live: "Sequence[FileRecord]") -> "Sequence[FileRecord]":
        name = folder.rpartition("/")[2]
        return [replace(file, staged=f"{name}/x", rows=BigInt(file.rows - 1)) for file in live]

    with pytest.raises(TaskFailedError, match="4 rows were rewritten as 3"):
        route.move(rewrite)
    route.check_given_up()


def test_work_whose_store_fails_while_files_are_carried_over_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    route = _Route(tmp_path)

    def rewrite(folder: str, live: "Sequence[FileRecord]") -> "Sequence[FileRecord]":
        route.desk.ask(lambda fold: data(1, 1, span(0, 4, 6))).result()
        name = folder.rpartition("/")[2]
        return [replace(file, staged=f"{name}/x") for file in live]

    class Broken(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(LocalStorage, "open_read", lambda storage, path: Broken())
    with pytest.raises(StorageUnavailableError, match="carry it over"):
        route.move(rewrite)
    route.check_given_up("DATA")


def test_files_that_every_epoch_brings_are_carried_over_between_two_epochs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    route = _Route(tmp_path)
    epochs = count(1)
    starts: list[int] = []
    read = LedgerLog.records

    def records(log: LedgerLog, start: int = 0) -> "Iterator[tuple[Record, bytes]]":
        if threading.current_thread() is threading.main_thread():
            starts.append(start)
        return read(log, start)

    monkeypatch.setattr(LedgerLog, "records", records)

    def rewrite(folder: str, live: "Sequence[FileRecord]") -> "Sequence[FileRecord]":
        name = folder.rpartition("/")[2]
        return [replace(file, staged=f"{name}/x{n}") for n, file in enumerate(live)]

    def between() -> None:
        route.commit_file(next(epochs))

    slot = route.move(rewrite, between)
    monkeypatch.undo()
    assert slot is not None
    found = [record for record, _ in route.log.records() if record.type.value == "REPLACE"]
    assert [record.seq for record in found] == [slot]
    body = found[0].body
    assert isinstance(body, ReplaceRecord)
    # The driver's thread, for which commits wait, reads no more than what is new.
    assert len(starts) == 1
    assert starts[0] > body.intent
    # The epoch before the INTENT and those of each round, the last one's file too.
    assert len(body.added) == next(epochs)
    (state,) = route.writer.fold.partitions.values()
    assert (state.files, state.rows) == (len(body.added), 4 + 2 * (len(body.added) - 1))
    folder = Path(route.log.layout.attempt(body.added[-1].staged)).parent
    assert sorted(p.read_bytes() for p in folder.glob("orders-*")) == [
        b"rows %d" % number for number in range(2, len(body.added))
    ]
