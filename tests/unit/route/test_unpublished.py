"""Commits go on while records are not published, up to a bound; then the route says for what."""

from pathlib import Path

import pytest

from sluiceway.errors import StorageUnavailableError, UnpublishedError
from sluiceway.followers import runner
from sluiceway.followers.runner import FollowerState
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.upkeep import LogUpkeep
from sluiceway.observe.steps import Step
from sluiceway.route import committer, owned_route, route_session
from sluiceway.sources.contract import LogBounds
from sluiceway.storage.local import LocalStorage
from tools.route_faults import wait_until
from tools.session_on_disk import DiskTable, SessionOnDisk, session_on_disk


class SlowStore(LocalStorage):
    """Publishes nothing while it is `away`; notes what it has published, in order."""

    def __init__(self) -> None:
        self.away = False
        self.published: list[str] = []

    def publish(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        if self.away:
            raise StorageUnavailableError("the store is away", where=dst)
        super().publish(src, dst, size_bytes=size_bytes, crc32c=crc32c)
        self.published.append(dst)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(runner, "LONGEST_PAUSE_S", 0.05)
    monkeypatch.setattr(committer, "PUBLISH_MOMENT_S", 0.05)
    monkeypatch.setattr(route_session, "_SETTLE_S", 0.2)


def _epochs_without_publishing(route: SessionOnDisk, store: SlowStore, most: int) -> None:
    route.source.place = LogBounds(0, 100, 100)
    route.session.state.max_unpublished = most
    route.run_epoch(4)
    store.away = True
    for end in range(5, 5 + most):
        route.run_epoch(end)


def test_route_commits_up_to_its_bound_and_then_says_who_is_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SlowStore()
    with session_on_disk(tmp_path / "t", monkeypatch, store) as route:
        _epochs_without_publishing(route, store, 3)
        fold = route.owned.fold
        assert len(fold.unpublished) == 3
        with pytest.raises(UnpublishedError, match=r"3 committed .*; files: .*store is away"):
            route.plan()
        assert fold.published_through < fold.next_seq - 2
        store.away = False
        wait_until(route.session.state.read_published)
        route.run_epoch(20)
        last = LedgerLog(LocalStorage(), route.owned.layout).fold()
        assert last.published_through == fold.next_seq - 1
    names = [path.rpartition("/")[2].split("-")[2] for path in store.published if "orders-" in path]
    assert names == sorted(names, key=int)


def test_epoch_that_is_planned_ahead_counts_the_one_whose_commit_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SlowStore()
    with session_on_disk(tmp_path / "t", monkeypatch, store) as route:
        _epochs_without_publishing(route, store, 2)
        route.session.state.max_unpublished = 3
        held = route.session.state
        held.refuse_unpublished(in_flight=0)
        with pytest.raises(UnpublishedError):
            held.refuse_unpublished(in_flight=1)


def test_epoch_that_is_planned_ahead_leaves_the_fold_to_the_one_whose_commit_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SlowStore()
    with session_on_disk(tmp_path / "t", monkeypatch, store) as route:
        _epochs_without_publishing(route, store, 2)
        held, fold = route.session.state, route.owned.fold
        held.max_unpublished = 9
        store.away = False
        wait_until(lambda: held.followers.published_through == fold.next_seq)
        held.refuse_unpublished(in_flight=1)
        assert len(fold.unpublished) == 2
        held.refuse_unpublished(in_flight=0)
        assert fold.unpublished == {}


def test_epoch_under_way_alone_fills_a_bound_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session_on_disk(tmp_path / "t", monkeypatch, SlowStore()) as route:
        held = route.session.state
        held.max_unpublished = 1
        assert held.owned.fold.unpublished == {}
        held.refuse_unpublished(in_flight=0)
        with pytest.raises(UnpublishedError):
            held.refuse_unpublished(in_flight=1)


def test_record_that_is_unpublished_for_long_holds_the_next_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SlowStore()
    with session_on_disk(tmp_path / "t", monkeypatch, store) as route:
        _epochs_without_publishing(route, store, 1)
        route.session.state.max_unpublished = 100
        route.plan()
        monkeypatch.setattr(owned_route, "LONGEST_UNPUBLISHED_S", 0.0)
        with pytest.raises(UnpublishedError):
            route.plan()


def test_next_start_publishes_in_the_order_of_the_log_before_it_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, table = SlowStore(), DiskTable(tmp_path / "t")
    with session_on_disk(tmp_path / "t", monkeypatch, store, table) as route:
        _epochs_without_publishing(route, store, 3)
    store.away, store.published = False, []
    with session_on_disk(tmp_path / "t", monkeypatch, store, table) as route:
        assert route.owned.fold.unpublished == {}
        names = [path.rpartition("/")[2] for path in store.published if "orders-" in path]
        assert [name.split("-")[2] for name in names] == ["1", "2", "3"]


def test_follower_that_is_too_far_behind_holds_up_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session_on_disk(tmp_path / "t", monkeypatch) as route:
        held = route.session.state
        held.refuse_unpublished(0)
        monkeypatch.setattr(held.followers, "holds_up", lambda: "late: 90 files wait")
        with pytest.raises(UnpublishedError, match="nothing more is committed: late: 90 files"):
            held.refuse_unpublished(0)
        assert held.is_full()


def test_what_followers_have_published_meanwhile_counts_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SlowStore()
    with session_on_disk(tmp_path / "t", monkeypatch, store) as route:
        _epochs_without_publishing(route, store, 3)
        held, fold = route.session.state, route.owned.fold
        store.away = False
        wait_until(lambda: held.followers.published_through >= fold.next_seq)
        assert len(fold.unpublished) == 3
        held.refuse_unpublished(0)
        assert fold.unpublished == {}


def test_first_follower_that_is_behind_and_says_why_is_named_and_hastened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, hastened = SlowStore(), list[bool]()
    states = (
        FollowerState("idle", 9, 0, 0.0, "is through"),
        FollowerState("mute", 1, 8, 2.0, ""),
        FollowerState("slow", 2, 7, 2.0, "the store is away"),
        FollowerState("next", 2, 7, 2.0, "slow"),
    )
    with session_on_disk(tmp_path / "t", monkeypatch, store) as route:
        _epochs_without_publishing(route, store, 1)
        held = route.session.state
        monkeypatch.setattr(held.followers, "states", lambda: states)
        monkeypatch.setattr(held.followers, "hasten", lambda: hastened.append(True))
        with pytest.raises(UnpublishedError, match=r" s; slow: the store is away \("):
            held.refuse_unpublished(0)
    assert hastened == [True]


def test_snapshot_that_starves_holds_commits_only_while_something_is_unpublished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LogUpkeep, "starved", True)
    store = SlowStore()
    with session_on_disk(tmp_path / "t", monkeypatch, store) as route:
        held = route.session.state
        held.refuse_unpublished(0)
        _epochs_without_publishing(route, store, 1)
        held.max_unpublished = 100
        with pytest.raises(UnpublishedError):
            held.refuse_unpublished(0)


def test_record_may_be_unpublished_up_to_its_time_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SlowStore()
    with session_on_disk(tmp_path / "t", monkeypatch, store) as route:
        _epochs_without_publishing(route, store, 1)
        held, longest_s = route.session.state, owned_route.LONGEST_UNPUBLISHED_S
        held.max_unpublished = 100
        monkeypatch.setattr(held.followers, "publishing_for_s", lambda: longest_s - 0.1)
        held.refuse_unpublished(0)
        monkeypatch.setattr(held.followers, "publishing_for_s", lambda: longest_s)
        with pytest.raises(UnpublishedError, match="the first for 600 s"):
            held.refuse_unpublished(0)


def test_published_is_observed_only_of_an_epoch_whose_files_have_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, steps = SlowStore(), list[Step]()
    with session_on_disk(tmp_path / "t", monkeypatch, store, observe=steps.append) as route:
        _epochs_without_publishing(route, store, 1)
        figures = route.session.figures.figures
        after = steps[steps.index(Step.PLANNED) :]
        assert after == [
            *(Step.PLANNED, Step.WRITTEN, Step.PREPARED, Step.COMMITTED),
            *(Step.PUBLISHED, Step.APPLIED, Step.REPORTED),
            *(Step.PLANNED, Step.WRITTEN, Step.PREPARED, Step.COMMITTED),
            *(Step.APPLIED, Step.REPORTED),
        ]
        spreads = figures.read().spreads
        # The commit has waited for it all the same, and readers do not see its rows yet.
        assert sum(spreads["epoch_duration_seconds"]["publish",].counts) == 2
        assert sum(spreads["readable_delay_seconds"][()].counts) == 1
        store.away = False
        wait_until(lambda: sum(figures.read().spreads["readable_delay_seconds"][()].counts) == 2)
