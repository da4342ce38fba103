"""Figures of the last hour, and answers that are shared."""

import threading
from typing import Any

import pytest

from sluiceway.console.app import SharedAnswers
from sluiceway.console.watched_jobs import EVERY_MS, KEPT_MS, MOST_ROUTES, SERIES, History


def route(name: str, rows_per_s: float, driver: str | None = "host pid 7") -> dict[str, Any]:
    return {"route": name, "driver": driver, "rows_per_s": rows_per_s, "lag_ms": None}


def test_history_has_a_value_or_a_gap_for_each_time() -> None:
    history = History()
    history.add(10_000, [route("a", 1.0)])
    history.add(12_000, [route("a", 9.0)])
    history.add(15_000, [route("a", 2.0, driver=None), route("b", 3.0)])
    found = history.since(0, 20_000)
    assert found["at_ms"] == [10_000, 15_000]
    assert found["routes"]["a"]["rows_per_s"] == [1.0, None]
    assert found["routes"]["b"]["rows_per_s"] == [None, 3.0]
    assert set(found["routes"]["b"]) == set(SERIES)
    assert history.since(10_000, 20_000)["at_ms"] == [15_000]


def test_route_is_drawn_behind_by_at_least_so_much_as_is_known() -> None:
    history = History()
    history.add(10_000, [{**route("a", 1.0), "lag_at_least_ms": 500}])
    history.add(15_000, [{**route("a", 1.0), "lag_at_least_ms": 500, "lag_ms": 0}])
    assert history.since(0, 20_000)["routes"]["a"]["lag_ms"] == [500, 0]


def test_history_keeps_an_hour_and_no_more() -> None:
    history = History()
    samples = KEPT_MS // EVERY_MS + 50
    for number in range(samples):
        history.add(number * EVERY_MS, [route("a", number)])
    now_ms = samples * EVERY_MS
    times = history.since(0, now_ms)["at_ms"]
    assert len(times) == KEPT_MS // EVERY_MS - 1
    assert times[0] > now_ms - KEPT_MS


def test_history_keeps_the_routes_with_the_most_rows() -> None:
    history = History()
    history.add(5_000, [route(f"r{n:04}", float(n)) for n in range(MOST_ROUTES + 20)])
    names = set(history.since(0, 6_000)["routes"])
    assert len(names) == MOST_ROUTES
    assert "r0019" not in names
    assert f"r{MOST_ROUTES + 19:04}" in names


def test_history_goes_on_when_the_clock_is_set_back() -> None:
    history = History()
    history.add(100_000, [route("a", 1.0)])
    history.add(50_000, [route("a", 2.0)])
    assert history.since(0, 101_000)["at_ms"] == [100_000, 50_000]


def test_one_computes_for_all_who_ask_at_once() -> None:
    shared: SharedAnswers[int] = SharedAnswers()
    begun, go_on, calls = threading.Event(), threading.Event(), list[int]()

    def compute() -> int:
        calls.append(1)
        begun.set()
        assert go_on.wait(10)
        return 42

    found = list[int]()
    threads = [
        threading.Thread(target=lambda: found.append(shared.get("key", compute, 60.0)))
        for _ in range(5)
    ]
    threads[0].start()
    assert begun.wait(10)
    for thread in threads[1:]:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert (found, len(calls)) == ([42] * 5, 1)


def test_answer_is_kept_as_long_as_it_took_and_an_error_never() -> None:
    now = [0.0]
    shared: SharedAnswers[float] = SharedAnswers(lambda: now[0])

    def compute() -> float:
        now[0] += 30.0
        return now[0]

    def fail() -> float:
        raise ValueError("the store is gone")

    with pytest.raises(ValueError, match="the store is gone"):
        shared.get("key", fail, 1.0)
    assert shared.get("key", compute, 1.0) == 30.0
    now[0] += 29.0
    assert shared.get("key", compute, 1.0) == 30.0
    now[0] += 1.0
    assert shared.get("key", compute, 1.0) == 90.0
