"""What is said of a route whose state alone would be a green light."""

from dataclasses import replace
from typing import Any

import pytest

from sluiceway.audit.job_status import MOST_DIRTY, ObservedRoute
from sluiceway.cli.commands.status import _cells
from sluiceway.observe import metrics
from sluiceway.route.status import EpochTold, RouteState, RouteStatus
from sluiceway.service.board_files import ALERTS
from tools.board_sessions import placed_session

CONFIG = placed_session("r").config
NOW_MS = 1_795_161_600_000
RUNNING = RouteStatus(
    route="r", table="t", state=RouteState.RUNNING, rows_read=1, lag_records=0, lag_ms=0
)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: NOW_MS * 1_000_000)


def seen(status: RouteStatus, **more: Any) -> ObservedRoute:
    driver = None if status.state is RouteState.STOPPED else "h pid 1"
    return ObservedRoute(config=CONFIG, status=status, driver=driver, fold=None, **more)


def epochs(*counts: tuple[int, int]) -> tuple[EpochTold, ...]:
    return tuple(EpochTold(i, 0, read, read - bad, bad, 1) for i, (read, bad) in enumerate(counts))


def test_route_whose_newest_rows_are_all_dirty_is_not_well_though_it_runs() -> None:
    route = seen(replace(RUNNING, rows_dirty_open=2000, epochs=epochs((1500, 1500), (500, 500))))
    assert not route.is_well
    (said,) = route.attention
    assert said.startswith("2,000 of the last 2,000 rows are dirty; `sluiceway dirty list JOB`")


def test_dirty_rows_among_very_few_are_told_and_make_nothing_unwell() -> None:
    for read, well in ((99, True), (100, False)):
        route = seen(replace(RUNNING, rows_dirty_open=2, epochs=epochs((read, 2))))
        assert route.is_well is well
        assert route.attention[0].startswith(f"2 of the last {read} rows are dirty")


@pytest.mark.parametrize(
    ("counts", "still_open"), [(((1000, 10),), 10), (((10, 10),), 0), ((), 7), (((0, 0),), 7)]
)
def test_few_dirty_rows_and_those_that_were_dealt_with_need_no_look(
    counts: tuple[tuple[int, int], ...], still_open: int
) -> None:
    route = seen(replace(RUNNING, rows_dirty_open=still_open, epochs=epochs(*counts)))
    assert route.is_well
    assert route.attention == ()


def test_share_is_that_of_the_alert() -> None:
    (alert,) = (each for each in ALERTS if each.name == "DirtyRate")
    assert alert.expression.endswith(f"> {MOST_DIRTY}")
    assert metrics.RECORDS_DIRTY.full_name in alert.expression


def test_stopped_route_with_waiting_rows_needs_a_look_and_is_no_failure() -> None:
    stopped = replace(RUNNING, state=RouteState.STOPPED, lag_records=7300, lag_ms=None)
    (said,) = seen(stopped).attention
    assert said == "7,300 records wait, and no driver runs"
    (said,) = seen(replace(stopped, lag_at_least_ms=11_160_000)).attention
    assert said == "7,300 records wait, the oldest for at least 3.1h, and no driver runs"
    assert seen(stopped).is_well
    assert seen(replace(stopped, lag_records=0)).attention == ()


def test_lag_that_is_not_known_is_said_with_the_reason() -> None:
    stopped = replace(RUNNING, state=RouteState.STOPPED, lag_records=None, lag_ms=None)
    (said,) = seen(stopped, lag_error="no broker answers").attention
    assert said == "how many records wait is not known: no broker answers"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (replace(RUNNING, lag_records=5, last_commit_ms=NOW_MS - 720_000), ["nothing was"]),
        (replace(RUNNING, lag_records=5, last_commit_ms=NOW_MS - 590_000), []),
        (replace(RUNNING, lag_records=0, last_commit_ms=NOW_MS - 720_000), []),
        (replace(RUNNING, lag_records=5, last_commit_ms=1, since_ms=NOW_MS - 60_000), []),
        (replace(RUNNING, state=RouteState.STARTING, since_ms=NOW_MS - 720_000), ["starting for"]),
        (replace(RUNNING, state=RouteState.STARTING, since_ms=NOW_MS - 60_000), []),
    ],
)
def test_driver_that_lives_and_does_nothing_is_told(status: RouteStatus, said: list[str]) -> None:
    found = seen(status).attention
    assert len(found) == len(said)
    assert all(part in text and "12m" in text for part, text in zip(said, found, strict=True))


@pytest.mark.parametrize(
    ("status", "lag", "behind"),
    [
        (RUNNING, "0", "0s"),
        (replace(RUNNING, lag_records=9, lag_ms=None, lag_at_least_ms=11_160_000), "9", ">=3.1h"),
        (replace(RUNNING, lag_records=9, lag_ms=None), "9", "-"),
        (replace(RUNNING, lag_records=None, lag_ms=None), "-", "-"),
        (replace(RUNNING, lag_records=0, lag_ms=900, left_out_count=2), ">=0", "1s"),
    ],
)
def test_unknown_is_never_shown_as_zero(status: RouteStatus, lag: str, behind: str) -> None:
    assert _cells(seen(status))[3:5] == (lag, behind)
