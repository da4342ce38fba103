"""A table of dirty rows and how long they are kept, as far as no server is needed."""

import errno
import os
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.errors import JobFileError, StorageUnavailableError
from sluiceway.followers.dirty_table import DIRTY_COLUMNS, day_of
from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.dirty_limits import PREPARED_AT
from sluiceway.jobfile.loader import load_job
from sluiceway.ledger.dirty_sources import DirtySource
from sluiceway.ledger.records import DataRecord, Record
from sluiceway.storage.local import LocalStorage
from sluiceway.types.arrow_types import arrow_type
from sluiceway.types.hive_types import parse_hive_type
from sluiceway.upkeep.dirty_retention import ObservedLanes, open_ranges
from sluiceway.worker.dirty_file import DIRTY_SCHEMA
from tools.ledger_records import LEDGER
from tools.table_on_disk import table_on_disk

SOURCE = str(DirtySource(LEDGER, 3, "f.parquet"))


def test_columns_of_the_table_are_those_of_dirty_files() -> None:
    assert [column.name for column in DIRTY_COLUMNS] == DIRTY_SCHEMA.names
    types = [arrow_type(parse_hive_type(column.type)) for column in DIRTY_COLUMNS]
    assert types == [field.type for field in DIRTY_SCHEMA]


def test_day_is_that_of_the_commit_else_of_the_newest_row(tmp_path: Path) -> None:
    table = table_on_disk(tmp_path)
    table.rows("dt=20261120/hr=08")
    record = [record for record, _ in table.log.records()][-1]
    path = str(tmp_path / "f.parquet")

    def day(prepared_ms: int, *times_ms: int | None) -> str:
        rows = pa.table({"timestamp_ms": pa.array(times_ms, pa.int64())})
        pq.write_table(rows, path)
        return day_of(_prepared(record, prepared_ms), LocalStorage(), path)

    last_ms = 1_795_219_199_999
    assert day(last_ms, 0, None) == "2026-11-20"
    assert day(last_ms + 1) == "2026-11-21"
    assert day(0, 5, None, last_ms + 1) == "2026-11-21"
    assert day(0, None) == day(0) == day(0, 2**62) == "1970-01-01"


def test_file_that_cannot_be_read_is_the_stores_trouble(tmp_path: Path) -> None:
    table = table_on_disk(tmp_path)
    table.rows("dt=20261120/hr=08")
    record = _prepared([record for record, _ in table.log.records()][-1], 0)

    class Broken(LocalStorage):
        def open_read(self, path: str) -> BinaryIO:
            return cast("BinaryIO", BrokenDisk(Path(path).read_bytes()))

    path = tmp_path / "f.parquet"
    path.write_bytes(b"PAR1" * 9)
    for storage in (LocalStorage(), Broken()):
        with pytest.raises(StorageUnavailableError, match="cannot be read"):
            day_of(record, storage, str(path))


class BrokenDisk(BytesIO):
    """Of which nothing can be read."""

    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def _prepared(record: Record, at_ms: int) -> Record:
    assert isinstance(record.body, DataRecord)
    return replace(record, body=replace(record.body, timings_ms={PREPARED_AT: at_ms}))


@pytest.mark.parametrize(
    ("taken", "left"),
    [
        ((), [(0, 9)]),
        (((0, 9),), []),
        (((0, 2), (5, 6)), [(2, 5), (6, 9)]),
        (((3, 9),), [(0, 3)]),
    ],
)
def test_rows_that_no_lane_has_taken_are_open(
    taken: tuple[tuple[int, int], ...], left: list[tuple[int, int]]
) -> None:
    seen = ObservedLanes(LEDGER, 10, 10, {SOURCE: taken}, frozenset(), ())
    assert [(each.start, each.stop) for each in open_ranges(SOURCE, 9, seen)] == left
    assert seen.consumed(SOURCE, 9) is (left == [])
    busy = replace(seen, unfinished=frozenset([SOURCE]))
    assert not busy.consumed(SOURCE, 9)


@pytest.mark.parametrize("name", ["ods.orders", "ODS.Orders"])
def test_routes_own_table_takes_no_dirty_rows(tmp_path: Path, name: str) -> None:
    job = table_on_disk(tmp_path, more=f"dirty: {{store: {{table: {name}}}}}").job
    with pytest.raises(JobFileError, match="own table"):
        compile_routes(load_job(job).spec)


def test_table_and_retention_reach_the_route(tmp_path: Path) -> None:
    more = "dirty: {store: {table: ODS.Bad}, retention: 90d}"
    (route,) = compile_routes(load_job(table_on_disk(tmp_path, more=more).job).spec).routes
    assert (route.dirty_table, route.dirty_topic) == ("ods.bad", None)
    assert route.dirty_keep_ms == 90 * 86_400_000


@pytest.mark.parametrize("store", ["{}", "{table: ods.bad, topic: bad}", "{table: bad}", "[a]"])
def test_store_that_is_none_is_told(tmp_path: Path, store: str) -> None:
    job = table_on_disk(tmp_path, more=f"dirty: {{store: {store}}}").job
    with pytest.raises(JobFileError, match="expected"):
        load_job(job)
