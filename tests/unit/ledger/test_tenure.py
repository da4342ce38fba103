"""Whether a driver still holds its ledger: no thread changes anything outside after it does not."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from sluiceway.errors import FencedError, StorageUnavailableError
from sluiceway.ledger import driver_term as tenure_module
from sluiceway.ledger.driver_term import LOOK_EVERY_S, DriverTerm
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.lease import Lease, LeaseKeeper
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.storage.local import LocalStorage
from sluiceway.types.strict_json import encode
from tools.ledger_records import data, fence, sources, span


class CountingStorage(LocalStorage):
    """Counts what is read; fails when it is `away`."""

    def __init__(self) -> None:
        self.reads = 0
        self.away = False

    def read(self, path: str) -> bytes | None:
        self.reads += 1
        if self.away:
            raise StorageUnavailableError("EIO", where=path)
        return super().read(path)


class Held:
    """A ledger that a driver of term 1 holds."""

    def __init__(self, root: Path) -> None:
        self.storage = CountingStorage()
        self.layout = LedgerLayout(str(root), "orders")
        for folder in (self.layout.log, self.layout.stage):
            self.storage.make_folders(folder)
        self.writer = self.driver("d1")
        self.lease = LeaseKeeper(self.storage, self.layout.lease, lease_of("d1", 1))
        self.tenure = DriverTerm(self.writer, self.lease)

    def driver(self, name: str) -> LedgerWriter:
        log = LedgerLog(self.storage, self.layout)
        made = LedgerWriter(log, log.fold(), no_wait)
        made.fence(fence(driver=name), lambda: None)
        return made


def no_wait(attempts: int, error: StorageUnavailableError) -> None:
    raise AssertionError((attempts, error))


def lease_of(driver: str, term: int) -> Lease:
    return Lease(driver, term, 0, released=False, host="h", boot_id="b", pid=7, start_ticks=1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds = [1000.0]
    monkeypatch.setattr(tenure_module, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    return seconds


def test_driver_without_anything_to_commit_sees_a_fence_in_the_log(
    tmp_path: Path, clock: list[float]
) -> None:
    held = Held(tmp_path)
    held.tenure.check()
    held.driver("d2")
    clock[0] += LOOK_EVERY_S
    with pytest.raises(FencedError, match="term 2 was taken over"):
        held.tenure.check()
    # Once and for ever, also by those who do not look.
    for ask in (held.tenure.refuse_if_lost, held.tenure.check, held.tenure.check_now):
        reads = held.storage.reads
        with pytest.raises(FencedError):
            ask()
        assert held.storage.reads == reads


def test_fence_is_seen_behind_records_that_came_before_and_after_it(
    tmp_path: Path, clock: list[float]
) -> None:
    held = Held(tmp_path)
    held.tenure.check()
    held.writer.commit(sources(0))
    successor = held.driver("d2")
    successor.commit(data(2, 0, span(0, 0, 4)))
    clock[0] += LOOK_EVERY_S
    with pytest.raises(FencedError):
        held.tenure.check()


def test_fence_that_the_writer_has_met_is_known_though_the_log_goes_on(
    tmp_path: Path, clock: list[float]
) -> None:
    held = Held(tmp_path)
    held.tenure.check()
    held.driver("d2")
    with pytest.raises(FencedError):
        held.writer.read_new()
    clock[0] += LOOK_EVERY_S
    with pytest.raises(FencedError):
        held.tenure.check()


def test_own_records_are_no_fence(tmp_path: Path, clock: list[float]) -> None:
    held = Held(tmp_path)
    for epoch in range(3):
        held.writer.commit(sources(0) if epoch == 0 else data(1, epoch, span(0, epoch - 1, epoch)))
        clock[0] += LOOK_EVERY_S
        held.tenure.check()
    assert held.writer.fold.next_seq == 4


def test_log_is_read_once_in_ten_seconds_however_often_it_is_asked_for(
    tmp_path: Path, clock: list[float]
) -> None:
    held = Held(tmp_path)
    held.tenure.check()
    before = held.storage.reads
    for _ in range(100):
        clock[0] += LOOK_EVERY_S / 101
        held.tenure.check()
    assert held.storage.reads == before
    clock[0] += LOOK_EVERY_S / 50
    held.tenure.check()
    assert held.storage.reads == before + 1


def test_driver_that_cannot_read_the_log_changes_nothing_until_it_can(
    tmp_path: Path, clock: list[float]
) -> None:
    held = Held(tmp_path)
    held.tenure.check()
    held.storage.away = True
    clock[0] += LOOK_EVERY_S
    for _ in range(2):
        with pytest.raises(StorageUnavailableError):
            held.tenure.check()
    held.storage.away = False
    held.tenure.check()
    held.tenure.refuse_if_lost()
    assert held.storage.reads > 0


def test_lease_of_a_higher_term_ends_the_tenure_at_once(tmp_path: Path, clock: list[float]) -> None:
    held = Held(tmp_path)
    held.tenure.check()
    held.storage.overwrite(held.layout.lease, encode(lease_of("d2", 2)))
    held.lease.renew()
    reads = held.storage.reads
    for ask in (held.tenure.refuse_if_lost, held.tenure.check):
        with pytest.raises(FencedError, match="term 2 was taken over by h pid 7"):
            ask()
    assert held.storage.reads == reads


def test_lease_of_an_earlier_term_ends_nothing(tmp_path: Path, clock: list[float]) -> None:
    held = Held(tmp_path)
    held.storage.overwrite(held.layout.lease, encode(lease_of("d0", 0)))
    held.lease.renew()
    held.tenure.check()
    assert held.lease.successor is None
