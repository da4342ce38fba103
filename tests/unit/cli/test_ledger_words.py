"""What `ledger show` says of an epoch adds up, and says nothing twice."""

from typing import Any

import pytest

from sluiceway.cli.ledger import _describe_data


def epoch(**changes: Any) -> Any:
    counts = {"read": 36, "written": 5, "dirty": 11, "late": 20, "filtered": 0, "skipped": 0}
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
