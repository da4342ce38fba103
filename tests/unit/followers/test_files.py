"""Files of committed records get their names: by the driver that holds the ledger, in order."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from sluiceway.errors import FencedError, FileLostError, StorageUnavailableError
from sluiceway.followers import files
from sluiceway.followers.files import FilesFollower, Publisher
from sluiceway.ledger import driver_term as tenure_module
from sluiceway.ledger.driver_term import LOOK_EVERY_S, DriverTerm
from sluiceway.ledger.follower import PIECE_S, LogView
from sluiceway.ledger.layout import LedgerLayout
from sluiceway.ledger.lease import Lease, LeaseKeeper
from sluiceway.ledger.log import LedgerLog
from sluiceway.ledger.records import DataRecord
from sluiceway.ledger.writer import LedgerWriter
from sluiceway.observe.log import stderr_log
from sluiceway.storage.local import LocalStorage
from tools.ledger_records import data, fence, sources, span

LEASE = Lease("d1", 1, 0, released=False, host="h", boot_id="b", pid=7, start_ticks=1)


class Store(LocalStorage):
    """Each publish takes `publish_s` of the clock; what is in `stuck` cannot be removed.

    Attributes:
        removed: Paths, in order.
    """

    def __init__(self, clock: list[float]) -> None:
        self.publish_s = 0.0
        self.stuck: str | None = None
        self.removed: list[str] = []
        self._clock = clock

    def publish(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        super().publish(src, dst, size_bytes=size_bytes, crc32c=crc32c)
        self._clock[0] += self.publish_s

    def remove(self, path: str) -> None:
        if self.stuck is not None and self.stuck in path:
            raise StorageUnavailableError("EBUSY", where=path)
        super().remove(path)
        self.removed.append(path)


class Route:
    """A ledger that a driver of term 1 holds, with committed epochs that are not published."""

    def __init__(self, root: Path, clock: list[float]) -> None:
        self.store = Store(clock)
        self.layout = LedgerLayout(str(root), "orders")
        for folder in (self.layout.log, self.layout.stage):
            self.store.make_folders(folder)
        self.writer = self._driver("d1")
        self.writer.commit(sources(0))
        lease = LeaseKeeper(self.store, self.layout.lease, LEASE)
        tenure = DriverTerm(self.writer, lease)
        self.publisher = Publisher(self.store, self.layout, stderr_log(level="error"))
        self.follower = FilesFollower(self.publisher, self.layout, tenure, term=1)
        self.epochs: list[DataRecord] = []

    def commit_epoch(self) -> None:
        """With one staged file and the answer of its task."""
        number = len(self.epochs)
        body = data(1, number, span(0, number, number + 1))
        for path in (self.staged(body), self.results(number) / "0.json"):
            path.parent.mkdir(parents=True)
            path.write_bytes(b"ten bytes.")
        seq = self.writer.commit(body).seq
        self.epochs.append(body)
        self.follower.update(self.writer.fold, seq)

    def take_over(self) -> None:
        """Another driver fences."""
        self._driver("d2")

    def staged(self, body: DataRecord) -> Path:
        return Path(self.layout.attempt(body.files[0].staged))

    def results(self, epoch: int) -> Path:
        return Path(self.layout.results(1, epoch))

    def published(self) -> list[bool]:
        finals = [self.layout.final(body.files[0].final) for body in self.epochs]
        return [Path(final).exists() for final in finals]

    def follow(self, through: int = 100, over: Callable[[], bool] = lambda: False) -> int:
        return self.follower.follow(LogView(self.writer.log, through, over=over))

    def _driver(self, name: str) -> LedgerWriter:
        log = LedgerLog(self.store, self.layout)
        made = LedgerWriter(log, log.fold(), lambda *_: None)
        made.fence(fence(driver=name), lambda: None)
        return made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds = [1000.0]
    for module in (files, tenure_module):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    return seconds


@pytest.fixture
def route(tmp_path: Path, clock: list[float]) -> Route:
    """Its slots 2, 3 and 4 are epochs."""
    made = Route(tmp_path, clock)
    for _ in range(3):
        made.commit_epoch()
    return made


def test_all_that_is_committed_is_published_and_its_staged_files_and_results_go(
    route: Route,
) -> None:
    assert route.follower.place() == 2
    assert route.follow() == 5
    assert route.published() == [True, True, True]
    assert not any(route.staged(body).parent.exists() for body in route.epochs)
    assert not any(route.results(epoch).exists() for epoch in range(3))


def test_record_that_may_not_be_followed_yet_is_not_published(route: Route) -> None:
    assert route.follow(through=3) == 3
    assert route.published() == [True, False, False]
    assert route.results(1).exists()


def test_driver_that_was_taken_over_publishes_nothing(route: Route) -> None:
    route.take_over()
    with pytest.raises(FencedError):
        route.follow()
    assert route.published() == [False, False, False]
    assert all(route.staged(body).exists() for body in route.epochs)


def test_driver_that_is_taken_over_between_two_records_publishes_no_more(
    route: Route, clock: list[float]
) -> None:
    route.follow(through=3)
    route.take_over()
    clock[0] += LOOK_EVERY_S
    with pytest.raises(FencedError):
        route.follow()
    assert route.published() == [True, False, False]
    assert route.follower.place() == 3


def test_file_that_a_successor_has_published_and_moved_since_is_not_called_lost(
    route: Route,
) -> None:
    route.follow(through=3)
    # So short after its last look the driver does not know of it.
    route.take_over()
    route.staged(route.epochs[1]).unlink()
    with pytest.raises(FencedError):
        route.follow()


def test_file_that_is_nowhere_while_the_driver_holds_the_ledger_is_lost(route: Route) -> None:
    route.staged(route.epochs[1]).unlink()
    with pytest.raises(FileLostError):
        route.follow()
    # What came before it is done; it and all behind it is not, however often it is tried.
    assert route.follower.place() == 3
    with pytest.raises(FileLostError):
        route.follow()
    assert route.published() == [True, False, False]


def test_piece_of_work_ends_behind_the_record_at_which_its_time_is_over(route: Route) -> None:
    route.store.publish_s = PIECE_S / 2
    assert route.follow() == 4
    assert route.published() == [True, True, False]
    assert route.follow() == 5


def test_piece_of_work_that_should_end_does_one_record(route: Route) -> None:
    assert route.follow(over=lambda: True) == 3
    assert route.published() == [True, False, False]


def test_folder_that_cannot_be_removed_keeps_no_record_from_being_published(route: Route) -> None:
    route.store.stuck = route.epochs[0].files[0].staged.partition("/")[0]
    assert route.follow() == 5
    assert route.published() == [True, True, True]
    assert not route.results(0).exists()


def test_record_without_task_results_has_only_its_staged_folder_removed(route: Route) -> None:
    body = route.epochs[0]
    route.publisher.publish(body)
    route.store.removed.clear()
    route.publisher.drop_attempts(body)
    assert route.store.removed == [str(route.staged(body).parent)]
