"""Which closed prefixes tasks are told of: few, and they say the same as all."""

from types import SimpleNamespace
from typing import Any, cast

from sluiceway.schedule.closed_hint import ClosedHint
from sluiceway.worker.late_rows import _closed_of
from sluiceway.worker.plan import EventTimeRule, PartitionRule, RoutePlan

HOURS = [f"dt=202611{day:02d}/hr={hour:02d}" for day in range(1, 29) for hour in range(24)]
TIMES = (PartitionRule("dt", "yyyyMMdd", None), PartitionRule("hr", "HH", None))


def route(*partitions: PartitionRule) -> RoutePlan:
    made = SimpleNamespace(partitions=partitions, event_time=EventTimeRule(("ts",), "ms", "UTC"))
    return cast("RoutePlan", made)


def closed_by(plan: RoutePlan, told: tuple[str, ...]) -> Any:
    times = SimpleNamespace(closed=told)
    return _closed_of(cast("Any", SimpleNamespace(route=plan, times=times)))


def test_of_all_closed_hours_a_task_is_told_the_latest() -> None:
    told = ClosedHint()
    assert told.of(route(*TIMES), HOURS[:500]) == (HOURS[499],)
    assert told.of(route(*TIMES), HOURS[:501]) == (HOURS[500],)


def test_task_that_is_told_the_latest_judges_as_one_that_is_told_all() -> None:
    plan = route(*TIMES)
    few = closed_by(plan, ClosedHint().of(plan, [*HOURS[:500], "dt=odd/hr=01"]))
    every = closed_by(plan, (*HOURS[:500], "dt=odd/hr=01"))
    asked = [*HOURS, "dt=20251231/hr=07", "dt=odd/hr=01", "dt=odd/hr=02"]
    assert [few.holds(name) for name in asked] == [every.holds(name) for name in asked]
    assert sum(few.holds(name) for name in HOURS) == 500


def test_prefixes_without_a_time_are_all_told_until_they_are_sealed() -> None:
    plan, told = route(PartitionRule("app", None, "app")), ClosedHint()
    assert told.of(plan, ["app=a", "app=b"]) == ("app=a", "app=b")
    assert told.of(plan, ["app=b"]) == ("app=b",)


def test_latest_hour_is_told_after_those_before_it_are_sealed() -> None:
    told, plan = ClosedHint(), route(*TIMES)
    told.of(plan, HOURS[:9])
    assert told.of(plan, HOURS[8:9]) == (HOURS[8],)
    assert told.of(plan, ()) == (HOURS[8],)


def test_route_whose_partitions_are_others_now_forgets_what_it_has_told() -> None:
    told = ClosedHint()
    told.of(route(*TIMES), HOURS[:9])
    assert told.of(route(PartitionRule("app", None, "app")), ["app=a"]) == ("app=a",)
