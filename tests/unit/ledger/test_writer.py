from pathlib import Path

import pytest

from sluiceway.errors import (
    FencedError,
    InvariantError,
    LedgerCorruptError,
    StorageFullError,
    StorageUnavailableError,
)
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.reserve import SIZE_BYTES
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.storage.contract import PutResult
from sluiceway.storage.local import LocalStorage
from tools.ledger_records import data, fence, sources, span


def no_wait(attempts: int, error: StorageUnavailableError) -> None:
    raise AssertionError((attempts, error))


def ledger(tmp_path: Path, storage: LocalStorage | None = None) -> LedgerLog:
    layout = LedgerLayout(str(tmp_path / "t"), "orders")
    log = LedgerLog(storage or LocalStorage(), layout)
    for folder in (layout.log, layout.stage):
        log.storage.make_folders(folder)
    return log


def writer(log: LedgerLog, driver: str = "d1") -> LedgerWriter:
    made = LedgerWriter(log, log.fold(), no_wait)
    made.fence(fence(driver=driver), lambda: None)
    return made


def test_writer_restarted_from_the_log_has_the_same_fold(tmp_path: Path) -> None:
    log = ledger(tmp_path)
    first = writer(log)
    first.commit(sources(0))
    first.commit(data(1, 0, span(0, 0, 4)))
    again = log.fold()
    assert (again.next_seq, again.head, again.term) == (3, first.fold.head, 1)
    assert again.sources == first.fold.sources


def test_writer_whose_term_was_taken_over_is_fenced_and_writes_nothing(tmp_path: Path) -> None:
    log = ledger(tmp_path)
    old = writer(log)
    old.commit(sources(0))
    new = writer(log, driver="d2")
    with pytest.raises(FencedError):
        old.commit(data(1, 0, span(0, 0, 4)))
    new.commit(data(2, 0, span(0, 0, 4)))
    assert log.fold().next_seq == 4
    # Fenced once, fenced for ever.
    with pytest.raises((FencedError, InvariantError)):
        old.commit(data(1, 1, span(0, 4, 5)))
    assert log.fold().next_seq == 4


def test_two_fences_at_once_leave_one_owner(tmp_path: Path) -> None:
    log = ledger(tmp_path)
    left = LedgerWriter(log, log.fold(), no_wait)
    right = LedgerWriter(log, log.fold(), no_wait)
    left.fence(fence(driver="l"), lambda: None)
    lost: list[bool] = []
    right.fence(fence(driver="r"), lambda: lost.append(True))
    assert lost == [True]
    assert right.term == 2
    with pytest.raises(FencedError):
        left.commit(sources(0))


class LostReplies(LocalStorage):
    """Every put lands, and its caller is told that nothing is known."""

    def __init__(self, failures: int, *, land: bool) -> None:
        self.failures = failures
        self.land = land

    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        if self.failures > 0:
            self.failures -= 1
            if self.land:
                super().put_if_absent(path, content, tmp_folder=tmp_folder)
            raise StorageUnavailableError("no reply")
        return super().put_if_absent(path, content, tmp_folder=tmp_folder)


@pytest.mark.parametrize("land", [True, False])
def test_put_with_an_unknown_outcome_is_settled_by_the_slot(tmp_path: Path, land: bool) -> None:  # noqa: FBT001
    storage = LostReplies(0, land=land)
    log = ledger(tmp_path, storage)
    waits: list[int] = []
    made = LedgerWriter(log, log.fold(), lambda attempts, _: waits.append(attempts))
    made.fence(fence(), lambda: None)
    made.commit(sources(0))
    storage.failures = 2
    committed = made.commit(data(1, 0, span(0, 0, 4)))
    assert waits == [1, 2]
    assert (committed.seq, committed.attempts) == (2, 3)
    assert log.fold().next_seq == 3


class UnreadableSlot(LocalStorage):
    """One path cannot be read."""

    path = ""

    def read(self, path: str) -> bytes | None:
        if path == self.path:
            raise StorageUnavailableError("no answer", where=path)
        return super().read(path)


def test_writer_that_reads_the_fence_of_another_and_then_nothing_more_is_fenced(
    tmp_path: Path,
) -> None:
    storage = UnreadableSlot()
    log = ledger(tmp_path, storage)
    old = writer(log)
    old.commit(sources(0))
    writer(log, driver="d2")
    storage.path = log.layout.record(3)
    with pytest.raises(FencedError):
        old.commit(data(1, 0, span(0, 0, 4)))


def test_missing_slot_below_the_tail_is_found(tmp_path: Path) -> None:
    log = ledger(tmp_path)
    made = writer(log)
    made.commit(sources(0))
    made.commit(data(1, 0, span(0, 0, 4)))
    Path(log.layout.record(1)).unlink()
    with pytest.raises(LedgerCorruptError, match="slot 1 is missing below slot 2"):
        log.fold()


def test_edited_record_is_found_by_the_chain(tmp_path: Path) -> None:
    log = ledger(tmp_path)
    made = writer(log)
    made.commit(sources(0))
    made.commit(data(1, 0, span(0, 0, 4)))
    path = Path(log.layout.record(1))
    path.write_bytes(path.read_bytes().replace(b'"start":"0"', b'"start":"1"'))
    with pytest.raises(InvariantError, match="not chained"):
        log.fold()


def test_record_in_the_wrong_slot_is_refused(tmp_path: Path) -> None:
    log = ledger(tmp_path)
    writer(log)
    Path(log.layout.record(1)).write_bytes(Path(log.layout.record(0)).read_bytes())
    with pytest.raises(LedgerCorruptError, match="slot 1 holds the record of slot 0"):
        log.fold()


class FullDisk(LocalStorage):
    """Room for nothing but what somebody gives up."""

    full = False

    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        if self.full:
            raise StorageFullError("no space left on device")
        return super().put_if_absent(path, content, tmp_folder=tmp_folder)

    def overwrite(self, path: str, content: bytes) -> None:
        if self.full:
            raise StorageFullError("no space left on device")
        super().overwrite(path, content)

    def remove(self, path: str) -> None:
        super().remove(path)
        self.full = False


def test_record_finds_room_on_a_full_disk(tmp_path: Path) -> None:
    storage = FullDisk()
    log = ledger(tmp_path, storage)
    made = writer(log)
    made.commit(sources(0))
    reserve = Path(log.layout.reserve)
    assert reserve.stat().st_size == SIZE_BYTES
    storage.full = True
    # `writer` fails the test when the put has to wait.
    made.commit(data(1, 0, span(0, 0, 4)))
    assert log.fold().next_seq == 3
    assert reserve.stat().st_size == SIZE_BYTES


def test_disk_that_stays_full_is_waited_for(tmp_path: Path) -> None:
    storage = FullDisk()
    log = ledger(tmp_path, storage)
    waits: list[int] = []

    def room(attempts: int, error: StorageUnavailableError) -> None:
        assert isinstance(error, StorageFullError)
        waits.append(attempts)
        storage.full = False

    made = LedgerWriter(log, log.fold(), room)
    made.fence(fence(), lambda: None)
    made.commit(sources(0))
    Path(log.layout.reserve).unlink()
    storage.full = True
    storage.remove = lambda path: None  # type: ignore[method-assign]
    made.commit(data(1, 0, span(0, 0, 4)))
    assert waits == [1]


def test_next_driver_uses_the_reserve_that_the_one_before_has_laid_aside(tmp_path: Path) -> None:
    storage = FullDisk()
    log = ledger(tmp_path, storage)
    writer(log).commit(sources(0))
    storage.full = True
    # `writer` fails the test when the fence has to wait.
    assert writer(log, driver="d2").term == 2
