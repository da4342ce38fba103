from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from sluiceway.errors import (
    FencedError,
    InvariantError,
    LedgerCorruptError,
    StorageFullError,
    StorageUnavailableError,
)
from sluiceway.ledger import writer as ledger_writer
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.writer import SIZE_BYTES, LedgerWriter
from sluiceway.storage.contract import FileStatus, PutResult
from sluiceway.storage.local import LocalStorage
from tools.ledger_records import data, fence, sources, span

if TYPE_CHECKING:
    from collections.abc import Callable


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
    # Whoever looks for a live driver then knows the record that was first.
    right.fence(fence(driver="r"), lambda: lost.append(right.fold.term == 1))
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


def test_writer_that_lost_a_slot_and_cannot_read_on_says_so_and_tries_nothing_more(
    tmp_path: Path,
) -> None:
    storage = UnreadableSlot()
    log = ledger(tmp_path, storage)
    made = writer(log)
    # A record of the same term, as none of a right driver ever is: no fence is behind it.
    other = LedgerWriter(log, log.fold(), no_wait)
    other.commit(sources(0))
    storage.path = log.layout.record(2)
    with pytest.raises(StorageUnavailableError):
        made.commit(sources(1))


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


def _made_anew(tmp_path: Path) -> LedgerLog:
    """Another log of the same length, as if the table had been dropped and loaded again."""
    log = ledger(tmp_path / "another")
    other = writer(log, driver="d9")
    other.commit(sources(0))
    other.commit(data(1, 0, span(0, 0, 7)))
    return log


def _swap(log: LedgerLog, other: LedgerLog) -> None:
    """The folder of one log gets the records of another."""
    for path in Path(log.layout.log).rglob("*.json"):
        path.unlink()
    for path in Path(other.layout.log).rglob("*.json"):
        target = Path(log.layout.log) / path.relative_to(other.layout.log)
        target.write_bytes(path.read_bytes())


def test_writer_puts_nothing_into_a_log_of_equal_length_that_was_made_anew(tmp_path: Path) -> None:
    log = ledger(tmp_path)
    made = writer(log)
    made.commit(sources(0))
    made.commit(data(1, 0, span(0, 0, 4)))
    _swap(log, _made_anew(tmp_path))
    with pytest.raises(LedgerCorruptError, match=r"slot 2 holds another record.*again") as caught:
        made.commit(data(1, 1, span(0, 4, 9)))
    assert caught.value.where == log.layout.record(2)
    assert not Path(log.layout.record(3)).exists()
    assert log.fold().sources["orders", 0].end == 7


def test_writer_puts_nothing_behind_a_record_that_is_gone(tmp_path: Path) -> None:
    log = ledger(tmp_path)
    made = writer(log)
    made.commit(sources(0))
    Path(log.layout.record(1)).unlink()
    with pytest.raises(LedgerCorruptError, match="slot 1 was there and is gone"):
        made.commit(data(1, 0, span(0, 0, 4)))
    assert not Path(log.layout.record(2)).exists()


class FailsOnce(LocalStorage):
    """The next put fails without an effect, and something happens meanwhile."""

    def __init__(self) -> None:
        self.meanwhile: list[Callable[[], None]] = []

    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        if self.meanwhile:
            self.meanwhile.pop()()
            raise StorageUnavailableError("no reply")
        return super().put_if_absent(path, content, tmp_folder=tmp_folder)


@pytest.mark.parametrize("change", ["created again", "gone"])
def test_put_that_is_repeated_reads_what_it_follows_again(tmp_path: Path, change: str) -> None:
    storage = FailsOnce()
    log = ledger(tmp_path, storage)
    waits: list[int] = []
    made = LedgerWriter(log, log.fold(), lambda attempts, _: waits.append(attempts))
    made.fence(fence(), lambda: None)
    made.commit(sources(0))
    made.commit(data(1, 0, span(0, 0, 4)))
    other = _made_anew(tmp_path)
    before = Path(log.layout.record(2))
    storage.meanwhile.append(before.unlink if change == "gone" else lambda: _swap(log, other))
    with pytest.raises(LedgerCorruptError, match=change):
        made.commit(data(1, 1, span(0, 4, 9)))
    assert waits == [1]
    assert not Path(log.layout.record(3)).exists()


class NotesCalls(LocalStorage):
    """Notes which folders are synced and which slots are put, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def sync_folder(self, folder: str) -> None:
        self.calls.append("sync")
        super().sync_folder(folder)

    def put_if_absent(self, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        self.calls.append(Path(path).stem.lstrip("0") or "0")
        return super().put_if_absent(path, content, tmp_folder=tmp_folder)


def test_record_of_another_is_made_durable_before_one_is_put_behind_it(tmp_path: Path) -> None:
    first = writer(ledger(tmp_path))
    first.commit(sources(0))
    storage = NotesCalls()
    second = writer(ledger(tmp_path, storage), driver="d2")
    second.commit(data(2, 0, span(0, 0, 4)))
    slots = [call for call in storage.calls if call in {"sync", "2", "3"}]
    # Slot 1 is the other's; slot 2 is the writer's own, and was made durable by its put.
    assert slots == ["sync", "2", "3"]


def test_put_that_fails_again_and_again_is_repeated_with_pauses_that_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LostReplies(0, land=False)
    log = ledger(tmp_path, storage)
    events: list[float | str] = []
    made = LedgerWriter(log, log.fold(), lambda attempts, _: events.append(f"told {attempts}"))
    made.fence(fence(), lambda: None)
    clock = SimpleNamespace(sleep=events.append)
    monkeypatch.setattr(ledger_writer, "time", clock)
    storage.failures = 7
    assert made.commit(sources(0)).attempts == 8
    pauses = [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    told = [each for n, pause in enumerate(pauses, 1) for each in (f"told {n}", pause)]
    assert [round(each, 3) if isinstance(each, float) else each for each in events] == told


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


def test_record_that_is_not_made_any_more_is_no_commit(tmp_path: Path) -> None:
    made = writer(ledger(tmp_path))
    assert made.commit_made(lambda _: None) is None
    with pytest.raises(InvariantError, match="is gone"):
        made.commit(lambda _: None)  # type: ignore[arg-type,return-value]


def test_record_is_made_from_the_fold_at_its_own_slot(tmp_path: Path) -> None:
    made = writer(ledger(tmp_path))
    assert made.commit(lambda fold: sources(fold.next_seq)).seq == 1
    assert list(made.fold.sources) == [("orders", 1)]


def test_what_the_catalog_has_never_falls_and_is_told_to_whoever_asks(tmp_path: Path) -> None:
    made = writer(ledger(tmp_path))
    told: list[int] = []
    made.set_effects(1)
    made.on_effects = told.append
    made.set_effects(1)
    made.set_effects(0)
    made.commit(sources(0))
    assert told == [1, 0]
    assert made.fold.effects_through == 1


def test_names_that_are_no_slots_say_nothing_of_a_hole(tmp_path: Path) -> None:
    log = ledger(tmp_path)
    writer(log).commit(sources(0))
    folder = Path(log.layout.record(1)).parent
    (folder / "copy of 5.json").write_bytes(b"")
    (Path(log.layout.log) / "lost+found").mkdir()
    assert log.fold().next_seq == 2


def test_reserve_of_another_size_is_made_anew_and_one_that_is_right_stays(tmp_path: Path) -> None:
    log = ledger(tmp_path)
    reserve = Path(log.layout.reserve)
    reserve.write_bytes(b"x")
    writer(log)
    held = reserve.read_bytes()
    assert len(held) == SIZE_BYTES
    writer(log, driver="d2").commit(sources(0))
    assert reserve.read_bytes() == held


class NoStatus(LocalStorage):
    """Says nothing of the reserve while it is `away`."""

    def __init__(self, *, away: bool) -> None:
        self.away = away
        self.asked = 0

    def status(self, path: str) -> FileStatus | None:
        if path.endswith("/reserve"):
            self.asked += 1
            if self.away:
                raise StorageUnavailableError("no answer", where=path)
        return super().status(path)


def test_reserve_that_cannot_be_looked_at_stops_no_commit(tmp_path: Path) -> None:
    log = ledger(tmp_path, NoStatus(away=True))
    writer(log).commit(sources(0))
    assert log.fold().next_seq == 2
    assert not Path(log.layout.reserve).exists()


def test_reserve_that_is_held_is_not_looked_at_by_each_commit(tmp_path: Path) -> None:
    storage = NoStatus(away=False)
    made = writer(ledger(tmp_path, storage))
    asked = storage.asked
    made.commit(sources(0))
    assert storage.asked == asked > 0
