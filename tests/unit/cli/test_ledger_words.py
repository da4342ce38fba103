"""What `ledger show` says of an epoch adds up, and says nothing twice."""

from dataclasses import replace
from typing import Any

import pytest

from sluiceway.cli.commands.ledger import _describe_data, _describe_lane_data, describe
from sluiceway.ledger.lane_records import (
    LATE,
    LaneCounts,
    LaneDataRecord,
    LaneRange,
    LaneRecord,
    LaneSpan,
)
from sluiceway.ledger.records import SnapshotRecord
from sluiceway.types.strict_json import BigInt
from tools.ledger_records import fence, fold_of, record


def epoch(**changes: Any) -> Any:
    counts = {
        "read": 36,
        "written": 5,
        "dirty": 11,
        "late": 20,
        "filtered": 0,
        "skipped": 0,
        "expanded": 0,
    }
    fields: dict[str, Any] = {
        "epoch": 7,
        "ranges": (),
        "files": (),
        "closed": (),
        "counted": (),
        "late_in": (),
        "watermark": None,
        "counts": type("Counts", (), counts)(),
    }
    return type("Data", (), {**fields, **changes})()


def test_rows_of_an_epoch_add_up_to_those_that_were_read() -> None:
    told = _describe_data(epoch())
    assert told == "epoch 7: 36 read, 5 written, 11 dirty, 20 late aside in 0 files"


@pytest.mark.parametrize(("held", "end"), [(1500, "; held by t[0], whose log ends at 1500")])
def test_what_is_not_there_leaves_no_mark(held: int, end: str) -> None:
    where = type("Held", (), {"topic": "t", "partition": 0, "log_end": held})()
    at = 1_795_343_917_000_000
    mark = type("Mark", (), {"us": at, "by": "", "idle": (), "held_by": (where,)})()
    told = _describe_data(epoch(closed=("dt=1",), watermark=mark))
    assert told.endswith("in 0 files; closes dt=1; watermark 2026-11-22T10:38:37Z" + end)


def test_prefix_that_its_count_has_closed_is_told() -> None:
    told = _describe_data(epoch(closed=("dt=1", "dt=2"), counted=("dt=2",)))
    assert "; closes dt=1, dt=2; by its count dt=2" in told


def test_what_a_snapshot_seals_is_told() -> None:
    body = SnapshotRecord(7, "7-x.json", BigInt(2048), "0" * 64, 5)
    plain = describe(record(fold_of(fence()), body))
    assert plain == "the fold of slots below 7, 2,048 bytes in 7-x.json"
    sealing = replace(body, sealed=("dt=1/hr=07", "dt=1/hr=08"))
    assert describe(record(fold_of(fence()), sealing)) == (f"{plain}; seals dt=1/hr=07, dt=1/hr=08")


def test_rows_of_a_replay_that_are_put_aside_are_told() -> None:
    numbers = [BigInt(count) for count in (9, 4, 2, 0, 0, 0, 3)]
    span = LaneSpan("dirty:x/5/a.parquet", BigInt(0), BigInt(9))
    body = LaneDataRecord("lane", 3, (span,), (), (), LaneCounts(*numbers), "", {}, {}, ())
    assert _describe_lane_data(body).endswith(
        "9 rows of slot 5, 4 written, 2 dirty again in 0 files, 3 of sealed times put aside"
    )


def test_late_rows_that_are_brought_in_are_told_from_dirty_ones() -> None:
    numbers = [BigInt(count) for count in (9, 6, 0, 0, 0, 0, 3)]
    span = LaneSpan("late:x/5/a.parquet", BigInt(0), BigInt(9))
    body = LaneDataRecord("lane", 3, (span,), (), (), LaneCounts(*numbers), "", {}, {}, ())
    assert _describe_lane_data(body).endswith(
        "9 rows of slot 5, 6 brought in, in 0 files, 3 of sealed times put aside"
    )
    opened = LaneRecord(
        "a" * 32, LATE, "me@host", "", (LaneRange(span.source, BigInt(0), BigInt(9)),)
    )
    told = describe(record(fold_of(fence()), opened))
    assert told == "me@host opens lane aaaaaaaa, 9 late rows into their partitions"
