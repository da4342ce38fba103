"""What `verify` finds of lanes that are not what they say."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluiceway.audit.lane_check import LaneCheck
from sluiceway.audit.offset_check import OriginColumns
from sluiceway.ledger.dirty_sources import DirtySource, LateSource
from sluiceway.ledger.file_names import FileRecord
from sluiceway.ledger.lane_records import (
    LATE,
    NO_LANE_ROWS,
    LaneCounts,
    LaneDataRecord,
    LaneRange,
    LaneRecord,
    LaneSpan,
)
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.dirty_file import DIRTY_SCHEMA
from tools.ledger_records import LEDGER, data, fence, fold_of, record, sources, span, with_late

ORIGIN = OriginColumns("_topic", "_partition", "_offset")


def _dirty(path: Path, offsets: list[int]) -> None:
    rows: list[dict[str, object]] = [
        {
            **dict.fromkeys(DIRTY_SCHEMA.names, ""),
            "topic": "orders",
            "partition": 0,
            "offset": offset,
            "timestamp_ms": None,
            "key": None,
            "value": b"{}",
            "headers": [],
        }
        for offset in offsets
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=DIRTY_SCHEMA), path)


def _clean(path: Path, offsets: list[int]) -> None:
    count = len(offsets)
    table = {"_topic": ["orders"] * count, "_partition": [0] * count, "_offset": offsets}
    pq.write_table(pa.table(table), path)


class _Lane:
    """Three of five dirty rows that were replayed: two are clean, one is dirty again."""

    def __init__(self, folder: Path) -> None:
        fold = fold_of(fence(), sources(0))
        body = data(1, 0, span(0, 0, 10), dirty=5)
        made = record(fold, body)
        self.check = LaneCheck(LocalStorage())
        self.check.add(LEDGER, made)
        (first,) = body.dirty_files
        self.name = str(DirtySource(LEDGER, made.seq, first.final.rpartition("/")[2]))
        self.clean = folder / "clean.parquet"
        self.again = folder / "again.parquet"
        source = folder / "dirty.parquet"
        _dirty(source, [1, 3, 5, 7, 9])
        _clean(self.clean, [5, 9])
        _dirty(self.again, [7])
        self.places = {
            first.final: str(source),
            "clean": str(self.clean),
            "again": str(self.again),
        }
        files = [
            FileRecord(name, name, (), BigInt(rows), BigInt(1), "", {})
            for name, rows in (("clean", 2), ("again", 1))
        ]
        self.body = LaneDataRecord(
            lane="a",
            epoch=1,
            ranges=(LaneSpan(self.name, BigInt(2), BigInt(5)),),
            files=(files[0],),
            dirty_files=(files[1],),
            counts=LaneCounts(*map(BigInt, (3, 2, 1, 0, 0, 0))),
            schema="s",
            dirty_reasons={},
            timings_ms={},
            late_in=(),
        )

    def problems(self) -> list[str]:
        return self.check.row_problems(self.body, ORIGIN, self.places)


@pytest.fixture
def lane(tmp_path: Path) -> _Lane:
    return _Lane(tmp_path)


def test_replay_whose_files_hold_its_rows_is_right(lane: _Lane) -> None:
    assert lane.problems() == []


@pytest.mark.parametrize("offsets", [[5], [5, 9, 9], [5, 11], [3, 9], []])
def test_replay_with_other_rows_than_it_read_is_found(lane: _Lane, offsets: list[int]) -> None:
    _clean(lane.clean, offsets)
    (problem,) = lane.problems()
    assert "orders[0]: the files do not hold the rows that were read" in problem


def test_file_without_origins_is_found(lane: _Lane) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), lane.clean)
    assert "cannot be read" in lane.problems()[0]


def test_lane_of_rows_that_were_never_committed_is_found(lane: _Lane) -> None:
    def opened(name: str, stop: int) -> list[str]:
        ranges = (LaneRange(name, BigInt(0), BigInt(stop)),)
        return lane.check.opening_problems(LaneRecord("a", "replay", "me", "", ranges))

    assert opened(lane.name, 5) == []
    assert "which has 5" in opened(lane.name, 6)[0]
    assert "no record has committed" in opened(lane.name.replace(".parquet", "x"), 1)[0]


def test_late_rows_that_were_brought_in_are_the_very_files_that_lay_aside() -> None:
    fold = fold_of(fence(), sources(0))
    came = with_late(data(1, 0, span(0, 0, 10)), 5)
    check = LaneCheck(LocalStorage())
    check.add(LEDGER, record(fold, came))
    (late,) = came.late_files
    source = str(LateSource(LEDGER, fold.next_seq, late.final.rpartition("/")[2]))
    opening = LaneRecord("a", LATE, "me@host", "", (LaneRange(source, BigInt(0), BigInt(5)),))
    assert check.opening_problems(opening) == []
    part = replace(opening, ranges=(LaneRange(source, BigInt(0), BigInt(4)),))
    assert check.opening_problems(part) == [f"lane a: takes {source} in part"]
    copy = replace(late, final="dt=20261120/hr=08/x.parquet", staged="1-1-a/x.parquet")
    spans = (LaneSpan(source, BigInt(0), BigInt(5)),)
    body = LaneDataRecord("a", 1, spans, (copy,), (), NO_LANE_ROWS, "s", {}, {}, ())
    assert check.copy_problems(body) == []
    # Compaction has moved the hour; its time was sealed.
    moved = f"dt=20261120/_sluiceway-7-{'a' * 32}/hr=08/x.parquet"
    assert check.copy_problems(replace(body, files=(replace(copy, final=moved),))) == []
    assert check.copy_problems(replace(body, files=(), late_files=(late,))) == []
    wrong = ["a: epoch 1 has other files than it read"]
    for files in (
        (),
        (copy, copy),
        (replace(copy, crc32c="ffffffff"),),
        (replace(copy, final="dt=20261120/hr=09/x.parquet"),),
    ):
        assert check.copy_problems(replace(body, files=files)) == [f"lane {wrong[0]}"]
