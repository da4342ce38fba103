"""What made a prefix is read again: its rows are staged, all others are counted."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.errors import SourceUnavailableError
from sluiceway.ledger.file_names import file_origin
from sluiceway.sources.contract import SourceBatch, SourcePartition, Split, SplitEnd, SplitReader
from sluiceway.sources.registry import SourceAccess
from sluiceway.storage.local import LocalStorage
from sluiceway.types.dirty import DirtyReason, DirtyRow
from sluiceway.worker import backfill_task
from sluiceway.worker.backfill_task import BackfillFiles, BackfillPlan, DirtySpan, run_backfill
from sluiceway.worker.dirty_file import dirty_batch
from tools.small_task import HOUR_US, NOW_US, made_batch, route_plan

NOON, ONE = "dt=20261120/hr=12", "dt=20261120/hr=13"


class Reader(SplitReader):
    """One row an offset; even ones are of 12 o'clock, odd ones of 13."""

    def __init__(self, splits: Sequence[Split], *, silent: bool = False) -> None:
        self.splits = list(splits)
        self.silent = silent

    def read(self, timeout_s: float) -> list[SourceBatch]:
        if self.silent:
            return []
        found: list[SourceBatch] = []
        for index, split in enumerate(self.splits):
            offsets = range(split.start_offset, split.stop_offset or 0)
            rows = [{"id": n, "ts": NOW_US + n % 2 * HOUR_US, "app": "x"} for n in offsets]
            batch = made_batch(split.partition.partition, rows, first=split.start_offset)  # type: ignore[arg-type]
            batch.split_index = index
            found.append(batch)
        self.splits = []
        return found

    def finished(self) -> bool:
        return not self.splits

    def ends(self) -> tuple[SplitEnd, ...]:
        return ()

    def close(self, *, reusable: bool) -> None:
        """Nothing is held."""


@pytest.fixture(autouse=True)
def reads_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(access: SourceAccess, splits: list[Split], *, owner: str) -> SplitReader:
        return Reader(splits)

    monkeypatch.setattr(backfill_task, "open_reader", opened)


def run(
    folder: Path,
    *ranges: tuple[int, int],
    left_out: tuple[str, ...] = (),
    spans: tuple[DirtySpan, ...] = (),
    counts_only: bool = False,
    prefix: str = NOON,
) -> BackfillFiles:
    route = route_plan(str(folder))
    staged = route.layout.attempt("i7-" + "a" * 32)
    LocalStorage().make_folders(staged)
    splits = tuple(Split(SourcePartition("orders", 0), start, end) for start, end in ranges)
    place = "" if counts_only else staged
    return run_backfill(BackfillPlan(route, prefix, place, splits, left_out, spans))


def ids(folder: Path, made: BackfillFiles) -> list[int]:
    stage = Path(route_plan(str(folder)).layout.stage)
    return sorted(
        row for file in made.files for row in pq.read_table(stage / file.staged)["id"].to_pylist()
    )


def dirty_file(folder: Path, *offsets: int) -> str:
    """A dirty file with rows of these offsets, whose payloads can be read by now."""
    why = [DirtyRow(n, "convert", DirtyReason.BROKEN, "a", "m") for n in range(len(offsets))]
    rows = [{"id": n, "ts": NOW_US + n % 2 * HOUR_US, "app": "x"} for n in offsets]
    batch = made_batch(0, rows)
    batch.offsets = list(offsets)
    path = folder / f"dirty-{'-'.join(map(str, offsets))}.parquet"
    made = dirty_batch(why, batch.records(range(len(offsets))), "1")
    pq.write_table(pa.Table.from_batches([made]), path)
    return str(path)


def test_rows_of_the_prefix_are_staged_and_others_counted(tmp_path: Path) -> None:
    made = run(tmp_path, (0, 10), (20, 25))
    assert ids(tmp_path, made) == [0, 2, 4, 6, 8, 20, 22, 24]
    counts = made.counts
    assert (counts.read, counts.written, counts.outside) == (15, 8, 7)
    assert counts.balanced()
    (file,) = made.files
    assert file.final.startswith(f"{NOON}/")
    assert file.staged.startswith("i7-")
    # Its name has no term and no epoch: the file is never taken for one of a lost record.
    assert file_origin("orders", file.final.rpartition("/")[2]) is None


def test_prefix_above_several_partitions_has_files_in_each(tmp_path: Path) -> None:
    made = run(tmp_path, (0, 4), prefix="dt=20261120")
    assert {file.final.rpartition("/")[0] for file in made.files} == {NOON, ONE}
    assert made.counts.outside == 0


def test_rows_are_only_counted_where_nothing_is_staged(tmp_path: Path) -> None:
    made = run(tmp_path, (0, 10), counts_only=True)
    counts = made.counts
    assert (made.files, counts.read, counts.written, counts.outside) == ((), 10, 5, 5)


def test_rows_that_were_dirty_then_are_left_out(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.parquet")
    made = run(tmp_path, (0, 10), left_out=(dirty_file(tmp_path, 2, 3), gone))
    assert ids(tmp_path, made) == [0, 4, 6, 8]
    assert made.counts.read == 8


def test_rows_that_were_replayed_are_read_from_their_dirty_file(tmp_path: Path) -> None:
    once, again = dirty_file(tmp_path, 2, 4, 6), dirty_file(tmp_path, 4)
    made = run(tmp_path, (0, 10), left_out=(once,), spans=(DirtySpan(once, 0, 2, (again,)),))
    # Four was dirty again, and six was never replayed.
    assert ids(tmp_path, made) == [0, 2, 8]


def test_broker_that_returns_nothing_any_more_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        backfill_task, "open_reader", lambda _, splits, *, owner: Reader(splits, silent=True)
    )
    with pytest.raises(SourceUnavailableError, match="no more rows"):
        run(tmp_path, (0, 10))
