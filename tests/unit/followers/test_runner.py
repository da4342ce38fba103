"""Followers have their turns from one runner: order, pauses, troubles, the last while."""

import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluiceway.errors import (
    FencedError,
    FileLostError,
    InvariantError,
    MetastoreUnavailableError,
    Retriable,
    SluicewayError,
)
from sluiceway.followers import runner as under_test
from sluiceway.followers.runner import FollowerRunner, in_order
from sluiceway.host.work_pool import WorkPool
from sluiceway.ledger.follower import Follower, LogView
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.observe.log import stderr_log
from sluiceway.storage.local import LocalStorage
from tools.waiting import wait_for

PATIENCE_S = 60.0


class Outside(Follower):
    """Follows at once, as far as it may, and notes each slot that it was handed."""

    def __init__(self, name: str, *after: str, owns: bool = False, publishes: bool = False) -> None:
        self.name, self.after = name, after
        self.owns_table, self.publishes = owns, publishes
        self.at = 0
        self.handed: list[int] = []
        self.errors: list[BaseException] = []
        self.act: Callable[[LogView], None] = lambda _: None
        self.closed = False

    def place(self) -> int:
        return self.at

    def follow(self, view: LogView) -> int:
        self.handed.append(view.through)
        if self.errors:
            raise self.errors.pop(0)
        self.act(view)
        self.at = max(self.at, view.through)
        return self.at

    def close(self) -> None:
        self.closed = True


def fold(through: int) -> Any:
    return cast("Any", SimpleNamespace(next_seq=through))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., FollowerRunner]]:
    monkeypatch.setattr(under_test, "FIRST_PAUSE_S", 0.02)
    made: list[FollowerRunner] = []

    def begin(*followers: Follower, epoch_s: float = 0.0) -> FollowerRunner:
        log = LedgerLog(LocalStorage(), LedgerLayout("/t", "r"))
        runner = FollowerRunner(followers, log, stderr_log(level="error"), WorkPool(), epoch_s)
        runner.begin(fold(0))
        made.append(runner)
        return runner

    yield begin
    for each in made:
        each.close()


Run = Callable[..., FollowerRunner]


def test_slot_is_handed_on_only_when_those_before_are_through_it(run: Run) -> None:
    files, catalog = Outside("files", publishes=True), Outside("catalog", "files")
    gate = threading.Event()

    def act(view: LogView) -> None:
        if view.through == 5:
            assert gate.wait(PATIENCE_S)

    files.act = act
    runner = run(catalog, files)
    runner.update(fold(3))
    wait_for(lambda: catalog.at == 3)
    runner.update(fold(5))
    wait_for(lambda: files.handed[-1:] == [5])
    assert runner.published_through == 3
    assert catalog.handed[-1] == 3
    gate.set()
    wait_for(lambda: catalog.at == 5)
    assert max(catalog.handed) == 5


def test_circle_is_refused_and_so_are_two_of_one_name() -> None:
    with pytest.raises(InvariantError, match="wait for each other"):
        in_order([Outside("a", "b"), Outside("b", "a")])
    with pytest.raises(InvariantError, match="one name"):
        in_order([Outside("a"), Outside("a")])
    ordered = in_order([Outside("c", "b"), Outside("b", "a", "absent"), Outside("a")])
    assert [each.name for each in ordered] == ["a", "b", "c"]


def test_one_follower_has_one_piece_at_a_time(run: Run) -> None:
    one, inside, most = Outside("one"), [0], [0]

    def act(_: LogView) -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.02)
        inside[0] -= 1

    one.act = act
    runner = run(one)
    for through in range(1, 30):
        runner.update(fold(through))
        time.sleep(0.002)
    wait_for(lambda: one.at == 29)
    assert most == [1]


def test_error_ends_the_piece_and_the_follower_goes_on_after_a_pause(run: Run) -> None:
    one, other = Outside("one"), Outside("other")
    one.errors = [MetastoreUnavailableError("away"), ValueError("a bug"), FencedError("taken")]
    runner = run(one, other)
    runner.update(fold(2))
    wait_for(lambda: other.at == 2)
    wait_for(lambda: len(one.handed) >= 3)
    # It owns no table: what is Fatal for it is shown, and tried again at the longest pause.
    wait_for(lambda: "taken" in runner.states()[0].waits_for)
    runner.refuse_if_failed()
    assert (one.at, runner.states()[0].behind_slots) == (0, 2)


@pytest.mark.parametrize("error", [FencedError("taken over"), FileLostError("gone")])
def test_fatal_of_one_that_owns_the_table_ends_the_route(run: Run, error: SluicewayError) -> None:
    files, other = Outside("files", owns=True, publishes=True), Outside("other", "files")
    files.errors = [error]
    runner = run(files, other)
    runner.update(fold(2))
    with pytest.raises(type(error)):
        runner.wait_published(2, PATIENCE_S)
    with pytest.raises(type(error)):
        runner.refuse_if_failed()
    assert (files.at, other.handed) == (0, [])


class Crash(BaseException):
    """The end of the process."""


def test_end_of_the_process_in_a_piece_reaches_whoever_waits(run: Run) -> None:
    files = Outside("files", publishes=True)
    files.errors = [Crash()]
    runner = run(files)
    runner.update(fold(2))
    with pytest.raises(Crash):
        runner.wait_published(2, PATIENCE_S)
    assert runner.finish(PATIENCE_S) == ("files",)
    assert files.handed == [2]


def test_last_while_is_for_all_and_names_who_is_not_through(run: Run) -> None:
    files, catalog, dead = Outside("files"), Outside("catalog", "files"), Outside("dead")
    files.act = catalog.act = lambda view: time.sleep(0.05)
    dead.errors = [MetastoreUnavailableError("away")] * 1000
    runner = run(files, catalog, dead)
    runner.update(fold(4))
    assert runner.finish(1.0) == ("dead",)
    assert (files.at, catalog.at) == (4, 4)
    runner.close()
    assert files.closed
    assert dead.closed


def test_one_that_puts_off_is_called_at_the_end(run: Run) -> None:
    class Lazy(Outside):
        looks = 0

        def rest_s(self) -> float | None:
            return None if self.looks else 3600.0

        def follow(self, view: LogView) -> int:
            self.looks += view.hasty
            return super().follow(view)

    lazy = Lazy("lazy")
    runner = run(lazy)
    runner.update(fold(1))
    wait_for(lambda: lazy.at == 1)
    assert lazy.looks == 0
    assert runner.finish(PATIENCE_S) == ()
    assert lazy.looks == 1


def test_one_that_follows_no_slot_is_asked_to_end_and_never_waited_for(run: Run) -> None:
    files, upkeep = Outside("files"), Outside("upkeep")
    upkeep.follows_slots = False
    asked, gate = threading.Event(), threading.Event()

    def act(view: LogView) -> None:
        while not view.over():
            time.sleep(0.005)
        asked.set()
        # A call that hangs.
        assert gate.wait(PATIENCE_S)

    upkeep.act = act
    runner = run(files, upkeep)
    runner.update(fold(2))
    wait_for(lambda: upkeep.handed != [])
    assert not asked.wait(0.1)
    assert runner.finish(PATIENCE_S) == ()
    assert asked.wait(PATIENCE_S)
    assert files.at == 2
    handed = len(upkeep.handed)
    gate.set()
    runner.update(fold(3))
    wait_for(lambda: files.at == 3)
    assert len(upkeep.handed) == handed


def test_pauses_grow_up_to_the_longest(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setattr(under_test, "LONGEST_PAUSE_S", 0.1)
    one, pauses, next_pause = Outside("one"), list[float](), FollowerRunner._next_pause
    one.errors = [MetastoreUnavailableError("away")] * 6
    one.act = lambda _: None

    def noted(runner: FollowerRunner, each: Any) -> float:
        pauses.append(next_pause(runner, each))
        return pauses[-1]

    monkeypatch.setattr(FollowerRunner, "_next_pause", noted)
    runner = run(one)
    runner.update(fold(1))
    wait_for(lambda: one.at == 1)
    wanted = [0.02, 0.04, 0.08, 0.1, 0.1, 0.1]
    assert pauses == pytest.approx(wanted, rel=under_test.PAUSE_JITTER)


@pytest.mark.parametrize(("epoch_s", "after_s"), [(0.0, 5.0), (30.0, 30.0)])
def test_follower_lags_when_it_is_behind_for_longer_than_an_epoch(
    run: Run, epoch_s: float, after_s: float
) -> None:
    one = Outside("one")
    one.errors = [Retriable("it is away") for _ in range(1000)]
    runner = run(one, epoch_s=epoch_s)
    runner.update(fold(1))
    dates = runner._dates.known
    for age_s, lags in ((after_s - 1, False), (after_s + 1, True)):
        dates[-1] = (1, time.monotonic() - age_s)
        (state,) = runner.states()
        assert (state.behind_slots, state.lags) == (1, lags)


class Hangs:
    """A call that is under way until it is let go."""

    def __init__(self) -> None:
        self.begun, self.over = threading.Event(), threading.Event()

    def __call__(self, _: LogView) -> None:
        self.begun.set()
        assert self.over.wait(PATIENCE_S)


def test_record_that_comes_while_a_failed_follower_tries_again_is_followed(run: Run) -> None:
    files, slow = Outside("files", publishes=True), Hangs()
    behind = Outside("catalog", "files")
    files.errors, files.act = [Retriable("the store is away")], slow
    runner = run(files, behind)
    runner.update(fold(1))
    assert slow.begun.wait(PATIENCE_S)
    runner.update(fold(2))
    slow.over.set()
    # No other record comes, and nobody wakes it.
    wait_for(lambda: (files.at, behind.at) == (2, 2))
    assert runner.published_through == 2
