import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from sluiceway.errors import LeaseHeldError
from sluiceway.host.process import own_identity
from sluiceway.ledger import lease as lease_module
from sluiceway.ledger.lease import Lease, LeaseKeeper, read_lease, wait_until_free
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import encode


def lease(**changes: object) -> Lease:
    me = own_identity()
    base = Lease("d1", 1, 0, released=False, **asdict(me))
    return replace(base, **changes)  # type: ignore[arg-type]


def test_lease_that_is_absent_unreadable_or_released_is_free(tmp_path: Path) -> None:
    path = str(tmp_path / "lease.json")
    storage = LocalStorage()
    assert wait_until_free(storage, path) is None
    storage.overwrite(path, b"{broken")
    assert wait_until_free(storage, path) is None
    storage.overwrite(path, encode(lease(released=True)))
    pauses: list[float] = []
    assert wait_until_free(storage, path, sleep=pauses.append) == lease(released=True)
    # Whoever has let it go may live on: nothing has to be waited for.
    assert pauses == []


def test_lease_of_a_process_that_is_gone_is_taken_over_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "lease.json")
    child = os.spawnlp(os.P_WAIT, "true", "true")
    assert child == 0
    storage = LocalStorage()
    storage.overwrite(path, encode(lease(start_ticks=1)))
    pauses: list[float] = []
    assert wait_until_free(storage, path, sleep=pauses.append) is not None
    assert pauses == []


def test_lease_whose_counter_moves_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "RENEW_INTERVAL_S", 0.05)
    path = str(tmp_path / "lease.json")
    storage = LocalStorage()
    keeper = LeaseKeeper(storage, path, lease())
    keeper.start()
    try:
        with pytest.raises(LeaseHeldError, match=f"pid {os.getpid()}") as held:
            wait_until_free(storage, path)
    finally:
        keeper.release()
    # A job of several routes takes a term with the route's name only.
    named = f"{Path(path).parent.name}={lease().term}"
    assert held.value.commands[1] == f"sluiceway run JOB --takeover {named}"
    left = wait_until_free(storage, path)
    assert left is not None
    assert left.released


@pytest.mark.parametrize("left", [lease(released=True, host="elsewhere"), None])
def test_lease_that_is_let_go_while_it_is_watched_is_free_at_once(
    tmp_path: Path, left: Lease | None
) -> None:
    path = str(tmp_path / "lease.json")
    storage = LocalStorage()
    storage.overwrite(path, encode(lease(host="elsewhere", boot_id="other")))
    pauses: list[float] = []

    def let_go(seconds: float) -> None:
        pauses.append(seconds)
        storage.overwrite(path, b"{}" if left is None else encode(left))

    assert wait_until_free(storage, path, sleep=let_go) == left
    assert len(pauses) == 1


def test_lease_that_another_driver_has_taken_meanwhile_is_held(tmp_path: Path) -> None:
    path = str(tmp_path / "lease.json")
    storage = LocalStorage()
    storage.overwrite(path, encode(lease(host="elsewhere", boot_id="other")))
    other = lease(driver="d2", host="elsewhere", boot_id="other")
    with pytest.raises(LeaseHeldError):
        wait_until_free(storage, path, sleep=lambda _: storage.overwrite(path, encode(other)))


def test_lease_of_another_host_is_free_when_it_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_module, "DEAD_AFTER_S", 0.3)
    monkeypatch.setattr(lease_module, "_WATCH_INTERVAL_S", 0.05)
    path = str(tmp_path / "lease.json")
    storage = LocalStorage()
    storage.overwrite(path, encode(lease(host="elsewhere", boot_id="other")))
    assert wait_until_free(storage, path) is not None


def test_fenced_keeper_leaves_its_successors_lease_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "lease.json")
    storage = LocalStorage()
    keeper = LeaseKeeper(storage, path, lease())
    keeper.start()
    successor = lease(driver="d2", term=2)
    storage.overwrite(path, encode(successor))
    assert keeper.successor is None
    assert keeper.renew() is None
    assert keeper.successor == successor
    keeper.release()
    assert read_lease(storage, path) == successor
