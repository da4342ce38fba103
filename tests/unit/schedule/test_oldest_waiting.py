"""How old the oldest waiting record is: a lower bound, and never a guess."""

import time
from collections.abc import Sequence

from sluiceway.errors import SourceUnavailableError
from sluiceway.schedule.oldest_waiting import oldest_waiting_ms, waiting_ends
from sluiceway.sources.contract import LogBounds, SourcePartition
from tools.session_on_disk import ONE, SmallSource

TWO = SourcePartition("orders", 1)
HOUR_MS = 3_600_000


class TimedSource(SmallSource):
    """Its records have times, those of a log in order; None is a record without one."""

    times: dict[SourcePartition, list[int | None]]
    asked: int = 0
    answers: int = 1_000

    def offsets_at(
        self, partitions: Sequence[SourcePartition], timestamp_ms: int
    ) -> dict[SourcePartition, int]:
        self.asked += 1
        if self.asked > self.answers:
            raise SourceUnavailableError("no answer in time", where="orders")
        return {one: self._first(self.times[one], timestamp_ms) for one in partitions}

    def _first(self, times: list[int | None], timestamp_ms: int) -> int:
        late = (at for at, ms in enumerate(times) if ms is not None and ms >= timestamp_ms)
        return next(late, len(times))


def source(times: dict[SourcePartition, list[float | None]]) -> TimedSource:
    """A source of records that are so many hours old."""
    made = TimedSource(LogBounds(0, 0, 0))
    now = time.time_ns() // 1_000_000
    made.times = {
        one: [None if age is None else now - int(age * HOUR_MS) for age in ages]
        for one, ages in times.items()
    }
    return made


def hours(found: dict[str, int]) -> dict[str, float]:
    return {route: age / HOUR_MS for route, age in found.items()}


def test_age_of_the_oldest_record_that_waits_is_at_most_a_tenth_too_little() -> None:
    asked = source({ONE: [9.0, 5.0, 3.1, 0.2], TWO: [1.0, 0.5]})
    (found,) = hours(oldest_waiting_ms(asked, {"r": {ONE: 2, TWO: 0}})).values()
    assert 3.1 / 1.1 <= found <= 3.1
    assert asked.asked <= 12


def test_each_route_has_its_own_of_one_search() -> None:
    asked = source({ONE: [700.0], TWO: [0.5, 0.4]})
    found = hours(oldest_waiting_ms(asked, {"old": {ONE: 0}, "young": {TWO: 1}, "both": {TWO: 0}}))
    for route, age in {"old": 700.0, "young": 0.4, "both": 0.5}.items():
        assert age / 1.1 <= found[route] <= age


def test_nothing_is_said_of_what_has_just_come_and_of_records_without_a_time() -> None:
    young, timeless = source({ONE: [0.0]}), source({ONE: [None, None]})
    for asked in (young, timeless):
        assert oldest_waiting_ms(asked, {"r": {ONE: 0}}) == {}
    assert oldest_waiting_ms(young, {}) == {}


def test_what_is_known_when_the_brokers_stop_answering_still_holds() -> None:
    for answers in range(12):
        asked = source({ONE: [3.1]})
        asked.answers = answers
        assert all(age <= 3.1 for age in hours(oldest_waiting_ms(asked, {"r": {ONE: 0}})).values())


def test_logs_wait_that_have_more_than_is_committed_and_answer() -> None:
    bounds = {ONE: LogBounds(0, 10, 10), TWO: LogBounds(0, 10, 10)}
    assert waiting_ends({ONE: 9, TWO: 10, SourcePartition("orders", 2): 0}, bounds) == {ONE: 9}
