"""Snapshots come at commits, as many as were asked for."""

import pytest

from sluiceway.sinks.iceberg.publish.publisher import PublishPace


def published(gap_s: float, interval_s: float, until_s: float) -> list[tuple[float, float]]:
    """When snapshots are begun, each with the age of the newest commit; their making takes 0.1 s.

    The pace is asked after each commit and when it has asked for it, as the runner does.
    """
    pace = PublishPace(interval_s)
    found: list[tuple[float, float]] = []
    now_s, next_commit_s, last_commit_s, waiting = 0.0, 0.0, 0.0, False
    while now_s < until_s:
        if next_commit_s <= now_s:
            pace.add_commit(now_s)
            last_commit_s, next_commit_s, waiting = now_s, next_commit_s + gap_s, True
        wait_s = pace.wait_s(now_s)
        if waiting and not wait_s:
            found.append((now_s, now_s - last_commit_s))
            pace.add_publish(now_s)
            waiting = False
            now_s = now_s + 0.1
            continue
        now_s = min(next_commit_s, now_s + wait_s) if waiting else next_commit_s
    return found


@pytest.mark.parametrize("gap_s", [0.3, 0.9, 1.0, 1.05, 1.3, 1.4, 1.9])
def test_each_snapshot_begins_with_a_commit_and_they_are_as_many_as_asked_for(
    gap_s: float,
) -> None:
    found = published(gap_s, 2.0, 200.0)
    assert max(age_s for _, age_s in found[3:]) < 0.2
    assert 97 <= len(found) <= 103


def test_slower_commits_are_each_a_snapshot_at_once() -> None:
    found = published(5.0, 2.0, 100.0)
    assert len(found) == 20
    assert max(age_s for _, age_s in found) == 0.0


def test_the_first_one_comes_at_once_and_the_next_waits_for_the_interval() -> None:
    pace = PublishPace(30.0)
    assert pace.wait_s(5.0) == 0.0
    pace.add_publish(5.0)
    assert pace.wait_s(6.0) == 29.0


def test_commits_that_have_stopped_are_not_waited_for() -> None:
    pace = PublishPace(30.0)
    pace.add_commit(0.0)
    pace.add_publish(0.0)
    for now_s in (1.0, 2.0, 3.0):
        pace.add_commit(now_s)
    assert pace.wait_s(3.0) == 27.0
    assert pace.wait_s(30.0) == 0.0


def test_an_interval_is_counted_from_the_begin_of_a_slow_publish() -> None:
    pace = PublishPace(2.0)
    pace.add_publish(0.0)
    # Its look, its files and its request took until now.
    assert pace.wait_s(1.5) == 0.5


def test_after_a_pause_the_interval_begins_anew() -> None:
    pace = PublishPace(10.0)
    pace.add_publish(0.0)
    pace.add_publish(1_000.0)
    assert pace.wait_s(1_001.0) == 9.0


def test_a_night_without_commits_is_no_pace() -> None:
    pace = PublishPace(10.0)
    pace.add_commit(0.0)
    pace.add_publish(0.0)
    pace.add_commit(30_000.0)
    pace.add_publish(30_000.0)
    assert pace.wait_s(30_000.0) == pytest.approx(15.0)
    for second in range(1, 4):
        pace.add_commit(30_000.0 + second)
    assert pace.wait_s(30_003.0) == pytest.approx(7.0)
