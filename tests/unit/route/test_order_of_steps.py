"""The steps of an epoch in their order: what is looked at before the commit, what is owed after."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluiceway.errors import TaskFailedError
from sluiceway.jobfile.compile.dirty_limits import DirtyWatch
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.route import committer, route_planner
from sluiceway.route.committer import EpochCommitter
from sluiceway.route.owned_route import OwnedRoute
from sluiceway.route.route_figures import RouteFigures
from sluiceway.schedule.partition_watch import LogEndHistory
from sluiceway.schedule.task_failures import RetryPause
from sluiceway.upkeep.housekeeping import FileCleaner
from sluiceway.upkeep.lanes import Lanes
from sluiceway.worker.plan import TaskFailure
from tools.session_on_disk import session_on_disk

_FUNCTIONS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (route_planner, ("check_identities", "plan_splits")),
    (committer, ("check_staged_files", "put_requested", "closing_marked")),
    (committer, ("log_sealed", "log_epoch", "put_announcements")),
)
_METHODS: tuple[tuple[type[Any], str], ...] = (
    (LogEndHistory, "update"),
    (LedgerWriter, "commit"),
    (DirtyWatch, "count"),
    (OwnedRoute, "wait_published"),
    (OwnedRoute, "close_passed"),
    (EpochCommitter, "keep_log_short"),
    (EpochCommitter, "want_partitions"),
    (RouteFigures, "finishing"),
    (RouteFigures, "record_commit"),
    (RouteFigures, "thrown_away"),
    (RouteFigures, "failed"),
    (FileCleaner, "tidy"),
    (Lanes, "read_requests"),
    (RetryPause, "judge"),
)
# Names that several classes give to a method.
_SHARED = ("update", "read_requests")
_BEFORE = [
    *("finishing", "check_staged_files", "check_identities", "LogEndHistory.update", "plan_splits"),
    *("put_requested", "keep_log_short", "closing_marked", "commit"),
]
_BEHIND = [
    *("count", "log_sealed", "wait_published", "want_partitions", "close_passed"),
    *("log_epoch", "record_commit", "put_requested", "put_announcements", "keep_log_short"),
    *("tidy", "Lanes.read_requests", "failed", "judge landed"),
]


class Steps:
    """What was called of the session's steps, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: list[str] = []
        for module, names in _FUNCTIONS:
            for name in names:
                monkeypatch.setattr(module, name, self._noted(name, getattr(module, name)))
        for owner, name in _METHODS:
            told = f"{owner.__name__}.{name}" if name in _SHARED else name
            monkeypatch.setattr(owner, name, self._noted(told, getattr(owner, name)))

    def _noted(self, name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any, **named: Any) -> Any:
            if "landed" in named:
                self.taken.append(name + (" landed" if named["landed"] else " none landed"))
            else:
                self.taken.append(name)
            return step(*given, **named)

        return noted


def _planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, act: str) -> list[str]:
    """The steps that `finish` takes with an epoch of which something is so."""
    with session_on_disk(tmp_path / "t", monkeypatch) as route:
        planned = route.plan()
        answer = route.answer(planned, 4)
        route.session.planner.set_written(planned)
        if act == "thrown away":
            route.run_epoch(6)
            planned.ahead = True
        steps = Steps(monkeypatch)
        if act == "failed":
            answer = replace(answer, failure=TaskFailure.of(TaskFailedError("a bad disk")))
            with pytest.raises(TaskFailedError):
                route.session.committer.commit_epoch(planned, [answer], route.view())
        else:
            route.session.committer.commit_epoch(planned, [answer], route.view())
        return [*steps.taken]


def test_epoch_is_looked_at_before_its_commit_and_all_that_is_owed_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = _planned(tmp_path, monkeypatch, act="committed")
    assert taken == [*_BEFORE, *_BEHIND]


def test_epoch_that_is_thrown_away_is_told_and_nothing_of_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _planned(tmp_path, monkeypatch, act="thrown away") == ["finishing", "thrown_away"]


def test_epoch_whose_tasks_failed_is_told_and_commits_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _planned(tmp_path, monkeypatch, act="failed") == [
        *("finishing", "failed", "judge none landed"),
    ]
