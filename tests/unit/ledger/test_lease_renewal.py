"""Many leases, few threads: none waits for long for another one's store."""

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from sluiceway.errors import LeaseHeldError, StorageUnavailableError
from sluiceway.host.process import own_identity
from sluiceway.ledger import lease as lease_module
from sluiceway.ledger.lease import Lease, LeaseKeeper, read_lease, wait_until_free
from sluiceway.ledger.lease_renewal import MAX_LANE_THREADS, LeaseRenewals, share_of_interval
from sluiceway.storage.local import LocalStorage
from tools.waiting import wait_for

PATIENCE_S = 60.0


def lane_threads(volume: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == f"lease-{volume}"]


def lease(driver: str = "d1", term: int = 1) -> Lease:
    me = own_identity()
    return Lease(
        driver,
        term,
        counter=0,
        released=False,
        host=me.host,
        boot_id=me.boot_id,
        pid=me.pid,
        start_ticks=me.start_ticks,
    )


def test_hundreds_of_leases_are_all_renewed_by_a_few_threads() -> None:
    renewals, counts = LeaseRenewals(), [0] * 300

    def renewer(number: int) -> Callable[[], float]:
        def renew() -> float:
            counts[number] += 1
            return 0.05

        return renew

    kept = [renewals.add("many", renewer(number), 0.05) for number in range(300)]
    most = 0
    try:
        end = time.monotonic() + PATIENCE_S
        while min(counts) < 3:
            most = max(most, len(lane_threads("many")))
            assert time.monotonic() < end
            time.sleep(0.01)
    finally:
        assert all(each.end(PATIENCE_S) for each in kept)
    assert 1 <= most <= MAX_LANE_THREADS
    wait_for(lambda: not lane_threads("many"))


@pytest.mark.parametrize("leases", [2, 10, 1000])
def test_leases_that_begin_at_once_are_spread_over_the_interval(leases: int) -> None:
    firsts = sorted(share_of_interval(number) for number in range(1, leases + 1))
    gaps = [after - before for before, after in pairwise([0.0, *firsts, 1.0])]
    assert max(gaps) < 2 / leases


def test_call_that_hangs_stops_neither_its_volume_nor_others() -> None:
    renewals, gate = LeaseRenewals(), threading.Event()
    counts = {"same": 0, "other": 0}

    def hang() -> float:
        gate.wait(PATIENCE_S)
        return 0.01

    def counted(name: str) -> Callable[[], float]:
        def renew() -> float:
            counts[name] += 1
            return 0.01

        return renew

    hung = renewals.add("sick", hang, 0.0)
    healthy = [renewals.add("sick", counted("same"), 0.01)]
    healthy.append(renewals.add("well", counted("other"), 0.01))
    try:
        wait_for(lambda: hung.running and min(counts.values()) > 5)
        assert not hung.end(0.05)
    finally:
        gate.set()
        assert hung.end(PATIENCE_S)
        assert all(each.end(PATIENCE_S) for each in healthy)


def test_volume_that_hangs_as_a_whole_takes_a_few_threads_and_not_the_others() -> None:
    renewals, gate, done = LeaseRenewals(), threading.Event(), threading.Event()

    def hang() -> None:
        gate.wait(PATIENCE_S)

    hung = [renewals.add("dead", hang, 0.0) for _ in range(50)]
    try:
        wait_for(lambda: sum(each.running for each in hung) == MAX_LANE_THREADS)
        renewals.add("alive", done.set, 0.0)
        assert done.wait(PATIENCE_S)
        assert len(lane_threads("dead")) == MAX_LANE_THREADS
    finally:
        gate.set()
        assert all(each.end(PATIENCE_S) for each in hung)


def test_bug_in_one_renewal_is_told_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(str(args.exc_value)))
    renewals, done = LeaseRenewals(), threading.Event()

    def broken() -> float:
        raise ValueError("a bug")

    first = renewals.add("bugs", broken, 0.0)
    wait_for(lambda: told == ["a bug"])
    second = renewals.add("bugs", done.set, 0.0)
    assert done.wait(PATIENCE_S)
    assert first.end(PATIENCE_S)
    assert second.end(PATIENCE_S)


class FailingStorage(LocalStorage):
    """Fails while `fails` is set, and counts how often it was asked."""

    def __init__(self) -> None:
        self.fails = False
        self.asked = 0

    def read(self, path: str) -> bytes | None:
        self.asked += 1
        if self.fails:
            raise StorageUnavailableError("away")
        return super().read(path)


def test_lease_of_a_store_that_failed_moves_again_when_the_store_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_module, "RENEW_INTERVAL_S", 0.02)
    path, storage = str(tmp_path / "lease.json"), FailingStorage()
    keeper = LeaseKeeper(storage, path, lease())
    keeper.start()
    try:
        storage.fails = True
        asked = storage.asked
        wait_for(lambda: storage.asked >= asked + 3)
        storage.fails = False
        before = read_lease(LocalStorage(), path)
        wait_for(lambda: read_lease(LocalStorage(), path) != before)
        with pytest.raises(LeaseHeldError):
            wait_until_free(LocalStorage(), path)
    finally:
        storage.fails = False
        keeper.release()
    left = wait_until_free(storage, path)
    assert left is not None
    assert left.released


def test_failing_store_is_asked_less_often_but_well_within_a_peers_patience(
    tmp_path: Path,
) -> None:
    storage = FailingStorage()
    keeper = LeaseKeeper(storage, str(tmp_path / "lease.json"), lease())
    storage.fails = True
    pauses = [keeper.renew() for _ in range(5)]
    assert pauses == [2 * lease_module.RENEW_INTERVAL_S] * 5
    storage.fails = False
    assert keeper.renew() == lease_module.RENEW_INTERVAL_S
    assert lease_module.DEAD_AFTER_S > 4 * lease_module.RENEW_INTERVAL_S


def test_lease_of_a_fenced_driver_is_not_renewed_any_more(tmp_path: Path) -> None:
    path, storage = str(tmp_path / "lease.json"), LocalStorage()
    keeper = LeaseKeeper(storage, path, lease())
    assert keeper.renew() == lease_module.RENEW_INTERVAL_S
    successor = LeaseKeeper(storage, path, lease("d2", 2))
    successor.renew()
    assert keeper.renew() is None
    found = read_lease(storage, path)
    assert found is not None
    assert found.driver == "d2"


def test_release_does_not_wait_for_ever_for_a_store_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_module, "RENEW_INTERVAL_S", 0.02)
    monkeypatch.setattr(lease_module, "DEAD_AFTER_S", 0.1)
    path, hangs, gate = str(tmp_path / "lease.json"), threading.Event(), threading.Event()

    class HangingStorage(LocalStorage):
        def read(self, path: str) -> bytes | None:
            hangs.set()
            gate.wait(PATIENCE_S)
            return super().read(path)

    keeper = LeaseKeeper(HangingStorage(), path, lease())
    keeper.start()
    try:
        assert hangs.wait(PATIENCE_S)
        keeper.release()
        held = read_lease(LocalStorage(), path)
        # The successor has to watch it: nothing was promised.
        assert held is not None
        assert not held.released
    finally:
        gate.set()
