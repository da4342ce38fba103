"""Late rows in a task: which rows are late, and what becomes of them by each policy."""

import pytest

from sluiceway.ledger.data_parts import LateRows
from sluiceway.types.iso_time import shown_instant
from sluiceway.types.strict_json import BigInt
from sluiceway.worker.plan import EpochTimes, LatePolicy, LateRule, PartitionRule
from tools.small_task import (
    BY_HOUR,
    HOUR_US,
    NOW_US,
    MadeBatch,
    Outcome,
    made_batch,
    run_task,
)

DAY = "dt=20261120"
SIDE = "_sluiceway/orders/late"
BOUND_US = NOW_US - 4 * HOUR_US
CLOSED = (f"{DAY}/hr=09", f"{DAY}/hr=10")
WATERMARK_US = NOW_US - HOUR_US
"""11:00, so that the hour 11 is open."""

TIMES = EpochTimes(NOW_US, CLOSED, (BOUND_US,), WATERMARK_US)


def at(hour: int, number: int) -> dict[str, object]:
    """Row `number` in an hour of the day; noon is now."""
    return {"id": number, "ts": NOW_US + (hour - 12) * HOUR_US, "app": "a"}


ROWS = [at(12, 1), at(9, 2), at(11, 3), at(7, 4), at(8, 5), at(10, 6), at(2, 7)]
"""In time, closed, in time, too old, on the bound but before what is closed, closed, too old."""


def run(policy: LatePolicy, times: EpochTimes = TIMES, **route: object) -> Outcome:
    found = run_task([[made_batch(0, ROWS)]], times=times, late=LateRule(policy), **route)  # type: ignore[arg-type]
    assert found.written.counts.balanced()
    assert found.written.counts.read == len(ROWS)
    assert found.written.counts.late == sum(file.rows for file in found.written.late_files)
    return found


def late(**rows: int) -> LateRows:
    return LateRows(**{name: BigInt(number) for name, number in rows.items()})


def test_late_rows_go_aside_in_the_folders_of_their_own_partitions() -> None:
    found = run(LatePolicy.SIDE)
    assert found.ids == {
        f"{DAY}/hr=12": [1],
        f"{DAY}/hr=11": [3],
        f"{SIDE}/{DAY}/hr=09": [2],
        f"{SIDE}/{DAY}/hr=07": [4],
        f"{SIDE}/{DAY}/hr=08": [5],
        f"{SIDE}/{DAY}/hr=10": [6],
        f"{SIDE}/{DAY}/hr=02": [7],
    }
    assert found.written.late_rows == late(side=5)
    assert (found.written.counts.written, found.written.counts.late) == (2, 5)
    assert {file.values for file in found.written.late_files} == {
        ("20261120", hour) for hour in ("09", "07", "08", "10", "02")
    }


def test_late_rows_are_redirected_to_the_hour_of_the_watermark() -> None:
    found = run(LatePolicy.REDIRECT)
    assert found.ids == {
        f"{DAY}/hr=12": [1],
        f"{DAY}/hr=11": [2, 3, 4, 5, 6, 7],
    }
    assert found.written.late_rows == late(redirect=5)
    assert (found.written.counts.written, found.written.counts.late) == (7, 0)


def test_redirected_rows_keep_what_is_no_event_time() -> None:
    partitions = (*BY_HOUR, PartitionRule("app", None, "app"))
    found = run(LatePolicy.REDIRECT, partitions=partitions)
    assert found.ids[f"{DAY}/hr=11/app=a"] == [2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    "times",
    [
        EpochTimes(NOW_US, CLOSED, (BOUND_US,), None),
        EpochTimes(NOW_US, (*CLOSED, f"{DAY}/hr=11"), (BOUND_US,), WATERMARK_US),
    ],
)
def test_rows_that_cannot_be_redirected_go_aside_and_are_never_lost(times: EpochTimes) -> None:
    found = run(LatePolicy.REDIRECT, times)
    assert found.written.late_rows.redirect == 0
    assert found.written.late_rows.side >= 4
    assert f"{SIDE}/{DAY}/hr=09" in found.ids


def test_late_rows_are_dirty_and_move_no_greatest_event_time() -> None:
    found = run(LatePolicy.DIRTY)
    assert found.dirty == [(2, "late"), (4, "late"), (5, "late"), (6, "late"), (7, "late")]
    assert found.written.late_rows == late(dirty=5)
    assert found.written.dirty_reasons == {"late ts": 5}
    assert found.written.dirty_samples[0].message == (
        f"the row {shown_instant(NOW_US - 3 * HOUR_US)} came too late for {DAY}/hr=09"
    )
    only = run_task([[made_batch(0, [at(9, 1)])]], times=TIMES, late=LateRule(LatePolicy.DIRTY))
    assert [totals.max_event_time_us for totals in only.written.totals] == [None]


def test_reopened_rows_go_to_their_own_closed_partitions_and_older_ones_aside() -> None:
    found = run(LatePolicy.REOPEN)
    assert found.ids == {
        f"{DAY}/hr=12": [1],
        f"{DAY}/hr=09": [2],
        f"{DAY}/hr=11": [3],
        f"{DAY}/hr=08": [5],
        f"{DAY}/hr=10": [6],
        f"{SIDE}/{DAY}/hr=07": [4],
        f"{SIDE}/{DAY}/hr=02": [7],
    }
    assert found.written.late_rows == late(side=2, reopen=3)


def test_rows_are_late_by_their_own_source_partition_only() -> None:
    """A source partition that lags is not late by what the others have."""
    times = EpochTimes(NOW_US, (), (BOUND_US, None, BOUND_US - HOUR_US), None)
    batches = [made_batch(split, [at(7, split), at(12, 10 + split)]) for split in (0, 1, 2)]
    found = run_task([batches], splits=3, times=times)
    assert found.ids == {
        f"{SIDE}/{DAY}/hr=07": [0],
        f"{DAY}/hr=12": [10, 11, 12],
        f"{DAY}/hr=07": [1, 2],
    }


def test_closed_prefix_stands_for_all_partitions_below_it() -> None:
    partitions = (*BY_HOUR, PartitionRule("app", None, "app"))
    found = run(LatePolicy.SIDE, EpochTimes(NOW_US, CLOSED), partitions=partitions)
    assert found.ids[f"{SIDE}/{DAY}/hr=09/app=a"] == [2]
    assert found.ids[f"{DAY}/hr=11/app=a"] == [3]


def test_what_ends_before_a_closed_prefix_is_closed_whether_it_is_named_or_not() -> None:
    rows = [at(8, 1), at(9, 2), at(11, 3), at(-20, 4)]
    found = run_task([[made_batch(0, rows)]], times=EpochTimes(NOW_US, (f"{DAY}/hr=09",)))
    assert found.ids == {
        f"{SIDE}/{DAY}/hr=08": [1],
        f"{SIDE}/{DAY}/hr=09": [2],
        f"{DAY}/hr=11": [3],
        f"{SIDE}/dt=20261119/hr=04": [4],
    }


def test_prefix_that_is_no_time_of_its_own_is_closed_by_name_only() -> None:
    partitions = (PartitionRule("hr", "HH", None),)
    found = run(LatePolicy.SIDE, EpochTimes(NOW_US, ("hr=09",)), partitions=partitions)
    assert found.ids[f"{SIDE}/hr=09"] == [2]
    assert found.ids["hr=08"] == [5]


def test_without_anything_closed_and_without_a_bound_no_row_is_late() -> None:
    found = run(LatePolicy.SIDE, EpochTimes(NOW_US))
    assert found.written.late_files == ()
    assert found.written.late_rows == late()
    assert len(found.ids) == 7


def test_late_and_dirty_rows_of_many_reads_all_are_accounted_for() -> None:
    reads: list[list[MadeBatch]] = []
    for first in range(0, 300, 3):
        rows = [at(9, first), at(12, first + 1), {"id": first + 2, "ts": "no"}]
        reads.append([made_batch(0, rows, first=first)])
    found = run_task(reads, times=TIMES)
    counts = found.written.counts
    assert counts.balanced()
    assert (counts.read, counts.written, counts.dirty, counts.late) == (300, 100, 100, 100)
    assert found.ids[f"{SIDE}/{DAY}/hr=09"] == list(range(0, 300, 3))


def test_rows_are_redirected_by_their_age_also_while_nothing_is_closed() -> None:
    found = run(LatePolicy.REDIRECT, EpochTimes(NOW_US, (), (BOUND_US,), WATERMARK_US))
    assert found.ids[f"{DAY}/hr=11"] == [3, 4, 7]
    assert found.ids[f"{DAY}/hr=08"] == [5]
    assert found.written.late_rows == late(redirect=2)


def test_redirected_rows_share_the_file_of_those_that_are_there_already() -> None:
    files = run(LatePolicy.REDIRECT).written.files
    assert sorted((file.final.rpartition("/")[0], file.rows) for file in files) == [
        (f"{DAY}/hr=11", 6),
        (f"{DAY}/hr=12", 1),
    ]


@pytest.mark.parametrize("hours", [(9, 11), (7, 9)], ids=["one_is_there", "both_are_late"])
def test_redirected_rows_keep_their_order_in_the_file(hours: tuple[int, int]) -> None:
    rows = [at(hours[number % 2], number) for number in range(60)]
    found = run_task([[made_batch(0, rows)]], times=TIMES, late=LateRule(LatePolicy.REDIRECT))
    assert found.ids == {f"{DAY}/hr=11": list(range(60))}


def test_rows_of_two_source_partitions_without_bounds_are_late_by_what_is_closed() -> None:
    batches = [made_batch(split, [at(9, split), at(12, 10 + split)]) for split in (0, 1)]
    found = run_task([batches], splits=2, times=EpochTimes(NOW_US, CLOSED))
    assert found.ids == {f"{SIDE}/{DAY}/hr=09": [0, 1], f"{DAY}/hr=12": [10, 11]}


def test_read_that_brings_no_row_of_a_source_partition_is_judged() -> None:
    times = EpochTimes(NOW_US, (), (BOUND_US, BOUND_US), None)
    unreadable = made_batch(0, [{"id": 1, "ts": "no"}])
    found = run_task([[unreadable, made_batch(1, [at(7, 2)])]], splits=2, times=times)
    assert found.ids == {f"{SIDE}/{DAY}/hr=07": [2]}


def test_late_row_of_a_route_without_event_times_is_dirty_by_its_partition() -> None:
    found = run_task(
        [[made_batch(0, [{"id": 1, "app": "a"}, {"id": 2, "app": "b"}])]],
        times=EpochTimes(NOW_US, ("app=a",), (BOUND_US,)),
        late=LateRule(LatePolicy.DIRTY),
        event_time=None,
        partitions=(PartitionRule("app", None, "app"),),
    )
    assert found.dirty == [(1, "late")]
    assert found.written.dirty_samples[0].message == "the row came too late for app=a"
    assert found.ids == {"app=b": [2]}
