"""Records that ask nothing of the catalog leave it up to date, however long no other one comes."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluiceway.errors import FencedError, SluicewayError, TableMismatchError
from tools.session_on_disk import SessionOnDisk, session_on_disk


@pytest.fixture
def route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionOnDisk]:
    with session_on_disk(tmp_path / "t", monkeypatch) as found:
        yield found


def _pinned(route: SessionOnDisk) -> None:
    view = route.view()
    route.session.committer.pin(route.session.planner.due_sources(view), view)


def _behind(route: SessionOnDisk) -> list[str]:
    return [each.name for each in route.session.meter.followers() if each.behind_slots]


def _all_follow(route: SessionOnDisk) -> None:
    until = time.monotonic() + 60
    while _behind(route):
        assert time.monotonic() < until, f"{_behind(route)} are behind"
        time.sleep(0.01)
    assert route.owned.fold.next_seq > 1


def test_route_that_has_pinned_its_sources_and_gets_no_row(route: SessionOnDisk) -> None:
    _pinned(route)
    _all_follow(route)


def test_end_of_a_route_without_rows_waits_for_nobody(
    route: SessionOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    _pinned(route)
    _all_follow(route)
    route.session.finish_effects()
    assert "followers_left" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reason", "waited"),
    [(TableMismatchError("other topics"), True), (FencedError("another driver"), False)],
    ids=["halted", "another_drivers"],
)
def test_route_that_halts_lets_the_catalog_follow_first_where_the_table_is_its_own(
    route: SessionOnDisk,
    reason: SluicewayError,
    waited: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    followers, done = route.session.state.followers, list[str]()
    finish, close = followers.finish, followers.close

    def finishes(timeout_s: float) -> tuple[str, ...]:
        done.append("follows")
        return finish(timeout_s)

    def closes() -> None:
        done.append("ends")
        close()

    monkeypatch.setattr(followers, "finish", finishes)
    monkeypatch.setattr(followers, "close", closes)
    route.session.leave_halted(reason)
    assert done == (["follows", "ends"] if waited else ["ends"])
    assert not route.session.started
