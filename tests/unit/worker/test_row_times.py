"""Rows and their times on their way through a task: bounds, clocks, kinds of partition columns."""

import time

import pytest

from sluiceway.eventtime.partition_time import TimeKind
from sluiceway.worker.plan import EventTimeRule, PartitionRule
from sluiceway.worker.row_rules import RowChoices
from sluiceway.worker.task_figures import TaskClock
from tools.small_task import BY_TS, HOUR_US, NOW_US, Outcome, made_batch, run_task

HOUR_MS = HOUR_US // 1000
NOW_MS = NOW_US // 1000


def greatest(found: Outcome) -> list[int | None]:
    return [totals.max_event_time_us for totals in found.written.totals]


def test_row_beyond_the_clock_is_dirty_and_moves_no_greatest_event_time() -> None:
    rows: list[dict[str, object]] = [
        {"id": 1, "ts": NOW_US - 5},
        {"id": 2, "ts": NOW_US + 3 * HOUR_US},
        {"id": 3, "ts": None},
    ]
    found = run_task([[made_batch(0, rows)]])
    assert found.ids == {"dt=20261120/hr=11": [1]}
    assert found.dirty == [(2, "future_time"), (3, "null")]
    assert greatest(found) == [NOW_US - 5]
    assert found.written.dirty_reasons == {"future_time ts": 1, "null ts": 1}
    assert found.written.counts.balanced()


def test_row_ahead_of_the_clock_counts_for_the_time_at_which_it_was_read() -> None:
    """Commit rule 23: a row an hour ahead must not close the hour that is now."""
    ahead: dict[str, object] = {"id": 1, "ts": NOW_US + HOUR_US // 2}
    found = run_task([[made_batch(0, [ahead]), made_batch(1, [{"id": 2, "ts": -7}])]], splits=2)
    (first, second) = greatest(found)
    assert first is not None
    # The clock goes on while the task runs, by far less than half an hour.
    assert NOW_US <= first < NOW_US + HOUR_US // 2
    assert second == -7
    assert found.ids == {"dt=20261120/hr=12": [1], "dt=19691231/hr=23": [2]}


def test_greatest_event_time_is_by_split_and_over_all_reads() -> None:
    reads = [
        [made_batch(0, [{"id": 1, "ts": -9}]), made_batch(1, [{"id": 2, "ts": 50}])],
        [made_batch(0, [{"id": 3, "ts": -3}, {"id": 4, "ts": -5}], first=1)],
    ]
    assert greatest(run_task(reads, splits=3)) == [-3, 50, None]


@pytest.mark.parametrize("where", ["id < 10", "id = 99"])
def test_rows_that_where_leaves_out_say_how_far_time_is(where: str) -> None:
    reads = [
        [made_batch(0, [{"id": 1, "ts": -9}, {"id": 20, "ts": 70}])],
        [made_batch(0, [], first=2), made_batch(1, [{"id": 21, "ts": -3}, {"id": 22, "ts": None}])],
        [made_batch(1, [{"id": 23, "ts": NOW_US + 9 * HOUR_US}], first=2)],
    ]
    found = run_task(reads, splits=3, choices=RowChoices(where=where))
    assert greatest(found) == [70, -3, None]
    assert found.dirty == [], "what is left out is never dirty"
    assert found.written.counts.filtered == (4 if where == "id < 10" else 5)
    assert found.written.counts.balanced()


def test_rows_that_where_leaves_out_need_no_event_time() -> None:
    rows: list[dict[str, object]] = [{"id": 1, "ts": 5}, {"id": 2, "ts": 5}]
    choices = RowChoices(where="id = 2")
    found = run_task([[made_batch(0, rows)]], event_time=None, partitions=(), choices=choices)
    assert (greatest(found), found.ids) == ([None], {"": [2]})


def test_row_that_where_leaves_out_counts_for_the_time_at_which_it_was_read() -> None:
    ahead: dict[str, object] = {"id": 1, "ts": NOW_US + HOUR_US // 2}
    (newest,) = greatest(run_task([[made_batch(0, [ahead])]], choices=RowChoices(where="id = 2")))
    assert newest is not None
    assert NOW_US <= newest < NOW_US + HOUR_US // 2


def test_row_whose_partition_cannot_be_moves_no_greatest_event_time() -> None:
    rows: list[dict[str, object]] = [
        {"id": 1, "ts": 5, "app": "a"},
        {"id": 2, "ts": 9, "app": ""},
    ]
    found = run_task([[made_batch(0, rows)]], partitions=(PartitionRule("app", None, "app"),))
    assert found.dirty == [(2, "bad_partition_value")]
    assert greatest(found) == [5]


def test_row_before_the_first_time_is_dirty() -> None:
    rule = EventTimeRule(("ts",), "us", "UTC", min_us=0)
    rows: list[dict[str, object]] = [{"id": 1, "ts": 0}, {"id": 2, "ts": -1}]
    found = run_task([[made_batch(0, rows)]], event_time=rule)
    assert (found.ids, found.dirty) == ({"dt=19700101/hr=00": [1]}, [(2, "old_time")])


def test_record_time_is_event_time_where_the_job_file_says_so() -> None:
    rows: list[dict[str, object]] = [{"id": n} for n in range(4)]
    times = [NOW_MS, None, NOW_MS - 3 * HOUR_MS, NOW_MS + 2 * HOUR_MS]
    rule = EventTimeRule(("$record_time",), None, "Asia/Shanghai")
    found = run_task([[made_batch(0, rows, times)]], event_time=rule)
    assert found.ids == {"dt=20261120/hr=20": [0], "dt=20261120/hr=17": [2]}
    assert found.dirty == [(1, "null"), (3, "future_time")]
    assert greatest(found) == [NOW_US]


def test_processing_time_is_the_driver_s_clock_carried_on(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = EventTimeRule(("$processing_time",), None, "UTC", max_future_us=0)
    found = run_task([[made_batch(0, [{"id": 1}])]], event_time=rule)
    assert found.ids == {"dt=20261120/hr=12": [1]}
    (greatest_us,) = greatest(found)
    assert greatest_us is not None
    assert NOW_US <= greatest_us < NOW_US + HOUR_US
    # The clock of the task's machine says nothing.
    monkeypatch.setattr("time.time_ns", lambda: 0)
    again = run_task([[made_batch(0, [{"id": 1}])]], event_time=rule)
    assert again.ids == found.ids


def test_clock_goes_on_from_the_driver_s_without_that_of_the_machine() -> None:
    clock = TaskClock(NOW_US, time.monotonic() - 10.0)
    first = clock.now_us()
    assert NOW_US + 10_000_000 <= first <= clock.now_us()


def test_partition_columns_of_all_kinds_stand_beside_each_other() -> None:
    partitions = (
        PartitionRule("src", None, None, "web"),
        PartitionRule("dt", "yyyyMMdd", None),
        PartitionRule("seen", "HH", None, kind=TimeKind.PROCESSING),
        PartitionRule("rec", "HH", None, kind=TimeKind.RECORD, timezone="Asia/Tokyo"),
        PartitionRule("app", None, "app"),
    )
    rows: list[dict[str, object]] = [
        {"id": 1, "ts": 0, "app": "a"},
        {"id": 2, "ts": NOW_US, "app": "b"},
        {"id": 3, "ts": NOW_US, "app": "b"},
    ]
    found = run_task([[made_batch(0, rows, [NOW_MS, NOW_MS, None])]], partitions=partitions)
    assert found.ids == {
        "src=web/dt=19700101/seen=12/rec=21/app=a": [1],
        "src=web/dt=20261120/seen=12/rec=21/app=b": [2],
    }
    assert found.dirty == [(3, "null")]
    assert BY_TS.name == "ts"


def test_partitions_by_the_clock_need_no_event_time() -> None:
    partitions = (PartitionRule("hr", "HH", None, kind=TimeKind.PROCESSING),)
    found = run_task([[made_batch(0, [{"id": 1}])]], event_time=None, partitions=partitions)
    assert found.ids == {"hr=12": [1]}
    assert greatest(found) == [None]


def test_older_row_of_a_later_read_lowers_no_greatest_event_time() -> None:
    reads = [
        [made_batch(0, [{"id": number, "ts": ts}], first=number)]
        for number, ts in enumerate((50, 40, 60, 55))
    ]
    for count, newest in enumerate((50, 50, 60, 60), 1):
        assert greatest(run_task(reads[:count])) == [newest]


def test_greatest_event_time_of_a_split_is_of_its_own_rows_only() -> None:
    batches = [
        made_batch(0, [{"id": 1, "ts": 7}, {"id": 2, "ts": 8}]),
        made_batch(1, [{"id": 3, "ts": 5}]),
        made_batch(2, [{"id": 4, "ts": "no"}]),
        made_batch(3, [{"id": 5, "ts": 90}]),
    ]
    assert greatest(run_task([batches], splits=4)) == [8, 5, None, 90]


def test_rows_are_measured_as_they_happened() -> None:
    rows: list[dict[str, object]] = [{"id": 1, "ts": NOW_US}, {"id": 2, "ts": "no"}]
    found = run_task([[made_batch(0, rows)]]).written.figures
    nothing = run_task([[made_batch(0, rows[1:])]]).written.figures
    assert sum(found.happened) > sum(nothing.happened) == 0
