"""What lets go of dirty rows, on a ledger on this disk: no server is needed."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from sluiceway.jobfile.compile.dirty_limits import PREPARED_AT
from sluiceway.ledger.dirty_files import CommittedDirty, dirty_sources
from sluiceway.ledger.dirty_sources import LateSource
from sluiceway.ledger.lane_records import (
    LATE,
    NO_LANE_ROWS,
    PURGE,
    LaneDataRecord,
    LaneRange,
    LaneRecord,
    LaneSpan,
)
from sluiceway.ledger.records import Record
from sluiceway.ledger.snapshot import write_side_file
from sluiceway.observe.log import stderr_log
from sluiceway.storage.contract import FileStatus
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from sluiceway.upkeep import dirty_retention
from sluiceway.upkeep.dirty_retention import DirtyRetention, ObservedLanes
from sluiceway.upkeep.requests import LaneRequest, read_requests
from tools.ledger_records import LEDGER, data, span, with_late
from tools.table_on_disk import TableOnDisk, table_on_disk

if TYPE_CHECKING:
    from sluiceway.followers.dirty_table import DirtyTable


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableOnDisk:
    """Whose dirty files go at once when nothing of them is left to read."""
    monkeypatch.setattr(dirty_retention, "READERS_GRACE_S", 0.0)
    return table_on_disk(tmp_path)


def commit_dirty(table: TableOnDisk, *, at_ms: int = 1) -> tuple[Record, Path]:
    """An epoch of two dirty rows, prepared at a time; its record and its dirty file."""
    writer = table.writer
    start = int(writer.fold.sources["orders", 0].end)
    body = data(1, writer.fold.last_epoch + 1, span(0, start, start + 2), dirty=2)
    timings = {PREPARED_AT: at_ms} if at_ms else {}
    committed = writer.commit(replace(body, timings_ms=timings))
    writer.set_published()
    found = table.log.read_slot(committed.seq)
    assert found is not None
    path = Path(table.log.layout.final(body.dirty_files[0].final))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"rows")
    return found[0], path


def purge(table: TableOnDisk, record: Record) -> None:
    """Both rows are given up, and that is committed."""
    writer = table.writer
    (source,) = map(str, dirty_sources(LEDGER, record))
    lane = f"{record.seq:032x}"
    both = (LaneRange(source, BigInt(0), BigInt(2)),)
    writer.commit(LaneRecord(lane, PURGE, "u@h", "", both))
    counts = replace(NO_LANE_ROWS, read=BigInt(2), purged=BigInt(2))
    spans, epoch = (LaneSpan(source, BigInt(0), BigInt(2)),), writer.fold.last_epoch + 1
    writer.commit(LaneDataRecord(lane, epoch, spans, (), (), counts, "s", {}, {}, ()))
    writer.set_published()


def tend(keeper: DirtyRetention, table: TableOnDisk) -> None:
    """A pass."""
    keeper.run_pass(ObservedLanes.of(table.writer.fold), lambda: False)


class Copies:
    """A table of dirty rows that is there or not."""

    def __init__(self) -> None:
        self.there = True
        self.dropped: list[str] = []

    def find(self) -> bool:
        return self.there

    def drop(self, found: CommittedDirty) -> None:
        self.dropped.append(found.path)

    def close(self) -> None:
        return


def test_copies_go_too_when_the_table_was_away_for_a_while(table: TableOnDisk) -> None:
    copies = Copies()
    eyes = stderr_log(level="warning")
    keeper = DirtyRetention(table.log, None, eyes, table=cast("DirtyTable", copies))
    record, first = commit_dirty(table)
    purge(table, record)
    copies.there = False
    tend(keeper, table)
    assert (first.exists(), copies.dropped) == (False, [])
    # Its feeder has made it anew.
    copies.there = True
    record, second = commit_dirty(table)
    purge(table, record)
    tend(keeper, table)
    assert (second.exists(), copies.dropped) == (False, [str(second)])


def test_commit_of_a_clock_that_was_ahead_holds_nothing_behind_it(table: TableOnDisk) -> None:
    keeper = DirtyRetention(table.log, 60_000, stderr_log(level="warning"))
    ahead, _ = commit_dirty(table, at_ms=4_000_000_000_000)
    old, _ = commit_dirty(table, at_ms=1_000_000)
    young, _ = commit_dirty(table, at_ms=time.time_ns() // 1_000_000)
    tend(keeper, table)
    (letter,) = read_requests(table.log.storage, table.log.layout)
    assert isinstance(letter.request, LaneRequest)
    asked = {each.source for each in letter.request.ranges}
    assert asked == {str(source) for each in (ahead, old) for source in dirty_sources(LEDGER, each)}
    assert str(*dirty_sources(LEDGER, young)) not in asked


def test_pass_ends_with_its_route_wherever_it_is(
    table: TableOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = DirtyRetention(table.log, 60_000, stderr_log(level="warning"))
    record, _ = commit_dirty(table)
    purge(table, record)
    commit_dirty(table)
    looked: list[str] = []
    status = LocalStorage.status

    def seen(storage: LocalStorage, path: str) -> FileStatus | None:
        looked.append(path)
        return status(storage, path)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "status", seen)
        keeper.run_pass(ObservedLanes.of(table.writer.fold), lambda: True)
    assert [path for path in looked if "/dirty/" in path] == []
    assert not list(read_requests(table.log.storage, table.log.layout))
    tend(keeper, table)
    assert len(list(read_requests(table.log.storage, table.log.layout))) == 1


def test_late_file_goes_once_its_rows_were_brought_in_and_no_start_looks_at_it(
    table: TableOnDisk,
) -> None:
    writer, keeper = table.writer, DirtyRetention(table.log, 60_000, stderr_log(level="warning"))
    came = with_late(data(1, 0, span(0, 0, 10)), 4)
    record = writer.commit(came)
    writer.set_published()
    (file,) = came.late_files
    path = Path(table.log.layout.final(file.final))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"rows")
    source = str(LateSource(LEDGER, record.seq, path.name))
    writer.commit(LaneRecord("a", LATE, "u@h", "", (LaneRange(source, BigInt(0), BigInt(4)),)))
    tend(keeper, table)
    assert path.exists()
    copy = replace(came.files[0], staged="1-1-a/x.parquet", rows=BigInt(4))
    copy = replace(copy, final="dt=20261120/hr=08/x.parquet")
    counts = replace(NO_LANE_ROWS, read=BigInt(4), written=BigInt(4))
    spans = (LaneSpan(source, BigInt(0), BigInt(4)),)
    writer.commit(LaneDataRecord("a", 1, spans, (copy,), (), counts, "s", {}, {}, ()))
    writer.set_published()
    tend(keeper, table)
    # A start may still look at all files from there on.
    assert path.exists()
    writer.commit(write_side_file(table.log.storage, table.log.layout, writer.fold))
    tend(keeper, table)
    assert not path.exists()
    # Nothing of it is ever asked to be purged.
    assert list(read_requests(table.log.storage, table.log.layout)) == []
