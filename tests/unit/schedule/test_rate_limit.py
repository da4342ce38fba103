"""Rates: never more than they say, small backlogs first, nobody forgotten."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from sluiceway.jobfile.compile.compile import compile_routes
from sluiceway.jobfile.compile.config import CompiledJob, RouteConfig
from sluiceway.jobfile.loader import parse_job
from sluiceway.schedule.planner import PlannedSplit
from sluiceway.schedule.rate_limit import RateLimit, RouteSplits
from sluiceway.schedule.read_ahead import ReadAhead
from sluiceway.sources.contract import LogBounds, SourcePartition, Split

JOB = """
version: 1
name: team
connections:
  main: {{kafka: {{bootstrap_servers: "h:1"}}}}
  hms: {{metastore: {{uri: "thrift://h:1"}}}}
source: {{connection: main}}
format: {{json: {{unknown_fields: ignore}}}}
table:
  hive: {{connection: hms}}
  columns: [{{name: id, type: bigint}}]
  partition_by: []
run: {{interval: 10s{job_rate}}}
routes:
  - {{topics: [a], table: ods.a}}
  - {{topics: [b], table: ods.b, source: {{max_rate: 7/s}}}}
"""


@cache
def compiled(job_rate: str = "") -> CompiledJob:
    text = JOB.format(job_rate=f", max_rate: {job_rate}" if job_rate else "")
    return compile_routes(parse_job(text.encode(), Path("job.yaml"), {}).spec)


def plain() -> RouteConfig:
    """A route without a rate of its own."""
    return compiled().routes[0]


def splits(topic: str, *expected: int, stops: bool = False) -> list[PlannedSplit]:
    return [
        PlannedSplit(
            Split(SourcePartition(topic, number), 1000, 1000 + records if stops else None),
            1000,
            records,
        )
        for number, records in enumerate(expected)
    ]


def records(bounded: list[PlannedSplit]) -> dict[str, int]:
    found = {}
    for each in bounded:
        assert each.split.stop_offset is not None
        found[str(each.split.partition)] = each.split.stop_offset - each.split.start_offset
    return found


@dataclass
class Clock:
    """A clock that a test moves."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def test_job_file_says_both_rates() -> None:
    job = compiled("50/s")
    assert job.max_rate_per_s == 50
    assert [route.max_rate_per_s for route in job.routes] == [None, 7]


def test_without_a_rate_nothing_is_bounded_and_nothing_waits() -> None:
    limit = RateLimit()
    planned = splits("a", 10**9, 0)
    assert limit.bound([RouteSplits(plain(), planned)]) == [planned]
    assert limit.is_due(plain())


def test_hot_topic_leaves_small_ones_all_they_need() -> None:
    limit = RateLimit(100)
    routes = [
        RouteSplits(plain(), splits("hot", 10**6, 10**6)),
        RouteSplits(plain(), splits("small", 30, 40)),
        RouteSplits(plain(), splits("middle", 400)),
    ]
    hot, small, middle = map(records, limit.bound(routes))
    assert small == {"small[0]": 30, "small[1]": 40}
    assert middle == {"middle[0]": 400}
    assert hot == {"hot[0]": 265, "hot[1]": 265}


def test_what_nobody_waits_for_goes_to_all_alike() -> None:
    limit = RateLimit(10)
    idle, busy = limit.bound(
        [RouteSplits(plain(), splits("idle", 0, 0)), RouteSplits(plain(), splits("busy", 40))]
    )
    assert records(idle) == {"idle[0]": 15, "idle[1]": 15}
    assert records(busy) == {"busy[0]": 70}


def test_route_with_a_rate_of_its_own_is_bounded_by_the_lower_one() -> None:
    own = compiled().routes[1]
    (alone,) = RateLimit().bound([RouteSplits(own, splits("b", 10**6))])
    assert records(alone) == {"b[0]": 70}
    wide, narrow = RateLimit(100).bound(
        [RouteSplits(plain(), splits("a", 10**6)), RouteSplits(own, splits("b", 10**6))]
    )
    assert (records(wide), records(narrow)) == ({"a[0]": 930}, {"b[0]": 70})
    (tight,) = RateLimit(5).bound([RouteSplits(own, splits("b", 10**6))])
    assert records(tight) == {"b[0]": 50}


def test_stops_of_a_bounded_run_are_never_moved_back_behind_their_target() -> None:
    (bounded,) = RateLimit(100).bound([RouteSplits(plain(), splits("a", 5, 7, stops=True))])
    assert records(bounded) == {"a[0]": 5, "a[1]": 7}


def test_next_epoch_waits_until_the_records_of_this_one_are_due() -> None:
    clock = Clock()
    limit = RateLimit(100, clock)
    assert limit.is_due(plain())
    limit.bound([RouteSplits(plain(), splits("a", 10**6))])
    clock.now += 9.9
    assert not limit.is_due(plain())
    clock.now += 0.2
    assert limit.is_due(plain())
    # A bounded run that had little to read need not wait for long to learn that it is at its end.
    limit.bound([RouteSplits(plain(), splits("a", 50, stops=True))])
    clock.now += 0.6
    assert limit.is_due(plain())


def test_route_that_waits_for_its_own_rate_holds_nobody_up() -> None:
    clock = Clock()
    limit, own = RateLimit(None, clock), compiled().routes[1]
    limit.bound([RouteSplits(own, splits("b", 10**6))])
    assert limit.is_due(plain())
    assert not limit.is_due(own)
    clock.now += 10.1
    assert limit.is_due(own)


def test_rate_below_one_a_partition_comes_round_to_all() -> None:
    clock = Clock()
    limit = RateLimit(1, clock)
    seen: set[str] = set()
    for _ in range(4):
        (bounded,) = limit.bound([RouteSplits(plain(), splits("a", *[100] * 40))])
        assert sum(records(bounded).values()) == 10
        seen |= records(bounded).keys()
        clock.now += 10
    assert len(seen) > 10
    for _ in range(36):
        (bounded,) = limit.bound([RouteSplits(plain(), splits("a", *[100] * 40))])
        seen |= records(bounded).keys()
    assert len(seen) == 40


@pytest.mark.parametrize(
    ("job_rate", "routes", "partitions"), [(None, 2, 2), (1, 2, 2), (1, 10, 10), (3, 6, 6)]
)
def test_rate_below_one_a_route_comes_round_to_all_partitions_of_all_routes(
    job_rate: int | None, routes: int, partitions: int
) -> None:
    clock = Clock()
    limit = RateLimit(job_rate, clock)
    # One record an epoch for each route; the job's rate is shared before that.
    config = replace(plain(), interval_s=1.0, max_rate_per_s=1)
    among = [
        RouteSplits(replace(config, route=name), splits(name, *[100] * partitions))
        for name in (f"r{number}" for number in range(routes))
    ]
    seen: set[str] = set()
    for _ in range(routes * partitions):
        # Without a rate of the job, the routes are seldom due in the same epoch.
        for together in [among] if job_rate else [[each] for each in among]:
            for bounded in limit.bound(together):
                seen |= records(bounded).keys()
    assert len(seen) == routes * partitions


def test_never_more_than_the_rate_whatever_is_waited_for() -> None:
    clock = Clock()
    limit = RateLimit(1000, clock)
    began, read = clock.now, 0
    for turn in range(50):
        routes = [
            RouteSplits(plain(), splits(f"t{n}", (turn * 7919 * n) % 9000, 10**6 * (n % 2)))
            for n in range(6)
        ]
        for bounded in limit.bound(routes):
            read += sum(records(bounded).values())
        while not limit.is_due(plain()):
            clock.now += 0.25
        assert read <= 1000 * (clock.now - began)


def test_demand_is_what_lies_there_and_what_comes_in_an_interval() -> None:
    clock = Clock()
    demand = ReadAhead(10.0, clock)
    planned = splits("a", 0)
    partition = planned[0].split.partition

    def expected(end: int) -> int:
        (one,) = demand.expect(planned, {partition: LogBounds(0, end, end)})
        return one.expected_records

    assert expected(1500) == 500
    clock.now += 10
    # 100 a second came, half of it counts at first.
    assert expected(2500) == 1500 + 500
    clock.now += 10
    assert expected(3500) == 2500 + 750
    (bounded,) = demand.expect(splits("a", 20, stops=True), {partition: LogBounds(0, 9000, 9000)})
    assert bounded.expected_records == 20


def test_split_that_stops_below_its_start_is_no_negative_demand() -> None:
    (past,) = splits("a", -7, stops=True)
    (expected,) = ReadAhead(10.0).expect([past], {past.split.partition: LogBounds(0, 9000, 9000)})
    assert expected.expected_records == 0
    gone, rest = RateLimit(3).bound(
        [RouteSplits(plain(), [expected]), RouteSplits(plain(), splits("b", 100, stops=True))]
    )
    assert (gone, records(rest)) == ([], {"b[0]": 30})
