import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from sluiceway.driver import status_board
from sluiceway.driver.status_board import StatusBoard, StatusFiles
from sluiceway.errors import (
    FencedError,
    SourceUnavailableError,
    StorageFullError,
    TableMismatchError,
)
from sluiceway.observe.log import stderr_log
from sluiceway.route.route_meter import RouteMeter
from sluiceway.route.status import (
    RouteNumbers,
    RouteState,
    RouteStatus,
    decode_status,
    encode_status,
)
from sluiceway.storage.local import LocalStorage
from tools.board_sessions import placed_session
from tools.ledger_records import data, fence, fold_of, sources, span
from tools.waiting import wait_for

DROPPED = TableMismatchError("the table was dropped", where="ods.orders")


def read(path: Path) -> RouteStatus | None:
    return decode_status(path.read_bytes()) if path.exists() else None


def test_snapshot_shows_state_reason_and_numbers() -> None:
    board, well, bad = StatusBoard(), placed_session("a"), placed_session("b")
    well.meter.advance(fold_of(fence(), sources(0), data(1, 0, span(0, 0, 9), dirty=2)))
    board.update(well, RouteState.RUNNING, SourceUnavailableError("was down"))
    board.update(bad, RouteState.HALTED, DROPPED)
    first, second = board.snapshot()
    assert (first.route, first.table, first.state) == ("a", "ods.orders", RouteState.RUNNING)
    assert (first.code, first.message) == (None, None)
    assert (first.term, first.last_seq, first.rows_read, first.rows_dirty) == (1, 2, 9, 2)
    assert (second.state, second.code) == (RouteState.HALTED, "SW404")
    assert second.message == "ods.orders: the table was dropped"
    assert second.term is None


def test_snapshot_taken_before_a_change_stays_as_it_was() -> None:
    board, session = StatusBoard(), placed_session("a")
    board.update(session, RouteState.RUNNING, None)
    (before,) = board.snapshot()
    board.update(session, RouteState.HALTED, DROPPED)
    session.meter.advance(fold_of(fence()))
    assert (before.state, before.term) == (RouteState.RUNNING, None)
    assert board.snapshot()[0].state is RouteState.HALTED


def test_since_is_when_the_state_began(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(100, 200))
    monkeypatch.setattr(status_board, "_now_ms", lambda: next(now))
    board, session = StatusBoard(), placed_session("a")
    board.update(session, RouteState.WAITING, SourceUnavailableError("one"))
    began = board.snapshot()[0].since_ms
    board.update(session, RouteState.WAITING, SourceUnavailableError("two"))
    (status,) = board.snapshot()
    assert (status.since_ms, status.message) == (began, "two")
    board.update(session, RouteState.RUNNING, None)
    assert (board.snapshot()[0].since_ms or 0) > (began or 0)


def test_board_is_ready_when_all_routes_have_started_and_none_has_halted() -> None:
    board, one, two = StatusBoard(), placed_session("a"), placed_session("b")
    assert not board.is_ready()
    one.meter.advance(fold_of(fence()))
    board.update(one, RouteState.RUNNING, None)
    board.beat(60.0)
    assert board.is_ready()
    board.update(two, RouteState.STARTING, None)
    assert not board.is_ready()
    two.meter.advance(fold_of(fence()))
    board.update(two, RouteState.WAITING, SourceUnavailableError("down"))
    assert board.is_ready()
    board.update(two, RouteState.HALTED, DROPPED)
    assert not board.is_ready()


def test_board_is_alive_until_a_beat_is_overdue(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(status_board, "time", SimpleNamespace(monotonic=lambda: now[0]))
    board = StatusBoard()
    assert board.is_alive()
    board.beat(5.0)
    now[0] += 4.9
    assert board.is_alive()
    now[0] += 0.1
    assert not board.is_alive()
    board.beat()
    assert board.is_alive()


def test_snapshot_of_a_thousand_routes_reads_each_of_them_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    board, read, right = StatusBoard(), list[RouteMeter](), RouteMeter.read
    for number in range(1000):
        board.update(placed_session(f"r{number}"), RouteState.RUNNING, None)

    def noted(meter: RouteMeter) -> RouteNumbers:
        read.append(meter)
        return right(meter)

    monkeypatch.setattr(RouteMeter, "read", noted)
    assert len(board.snapshot()) == 1000
    assert len(read) == len({id(meter) for meter in read}) == 1000


def test_summary_is_of_this_run() -> None:
    board, session = StatusBoard(), placed_session("a")
    fold = fold_of(fence(), sources(0), data(1, 0, span(0, 0, 9)))
    session.meter.advance(fold)
    board.update(session, RouteState.CAUGHT_UP, None)
    assert (board.summary().commits, board.summary().rows_read) == (0, 0)
    record = data(1, 1, span(0, 9, 20), dirty=1)
    session.meter.commit(fold, record.counts, record.dirty_reasons)
    summary = board.summary()
    assert (summary.commits, summary.rows_read, summary.rows_written) == (1, 11, 10)
    assert summary.routes[0].rows_dirty == 1
    assert summary.routes[0].state is RouteState.CAUGHT_UP


def test_status_comes_back_from_its_file_as_it_was() -> None:
    board, session = StatusBoard(), placed_session("ä")
    session.meter.advance(fold_of(fence()))
    board.update(session, RouteState.HALTED, DROPPED)
    (status,) = board.snapshot()
    assert decode_status(encode_status(status)) == status


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b'{"state": "running"}', b'{"state": {}}', b"\xff", b'{"state": "new"}'],
)
def test_status_file_that_is_not_ours_says_nothing(raw: bytes) -> None:
    assert decode_status(raw) is None


def test_status_file_of_a_newer_version_says_nothing() -> None:
    plain = json.loads(encode_status(RouteStatus(route="a")))
    assert decode_status(json.dumps(plain).encode()) is not None
    assert decode_status(json.dumps({**plain, "added": 1}).encode()) is None


def test_status_files_follow_changes_and_the_last_word_is_written(tmp_path: Path) -> None:
    board, path = StatusBoard(), tmp_path / "status.json"
    session = placed_session("a", path)
    board.spark_ui = "http://127.0.0.1:4040"
    files = StatusFiles(board, stderr_log())
    files.start()
    board.update(session, RouteState.RUNNING, None)
    wait_for(lambda: (found := read(path)) is not None and found.state is RouteState.RUNNING)
    running = read(path)
    assert running is not None
    assert running.spark_ui == "http://127.0.0.1:4040"
    board.update(session, RouteState.HALTED, DROPPED)
    wait_for(lambda: (found := read(path)) is not None and found.code == "SW404")
    session.meter.advance(fold_of(fence()))
    files.close()
    last = read(path)
    assert last is not None
    # A halted route is nobody's any more, and why it had halted is still to be read.
    assert (last.term, last.state, last.code) == (1, RouteState.STOPPED, "SW404")
    # Spark's pages end with the driver.
    assert last.spark_ui is None


def test_status_file_is_left_to_the_driver_that_took_over(tmp_path: Path) -> None:
    board, path = StatusBoard(), tmp_path / "status.json"
    board.update(placed_session("a", path), RouteState.HALTED, FencedError("term 2 is another's"))
    files = StatusFiles(board, stderr_log())
    files.start()
    files.close()
    assert not path.exists()


def test_status_that_cannot_be_written_harms_nothing(tmp_path: Path) -> None:
    board, path = StatusBoard(), tmp_path / "gone" / "status.json"
    board.update(placed_session("a", path), RouteState.RUNNING, None)
    other = tmp_path / "other.json"
    board.update(placed_session("b", other), RouteState.RUNNING, None)
    files = StatusFiles(board, stderr_log())
    files.start()
    files.close()
    assert not path.exists()
    assert read(other) is not None


class FullStore(LocalStorage):
    """Has room for one status and no other beside it."""

    def __init__(self) -> None:
        self.is_full = False

    def overwrite(self, path: str, content: bytes) -> None:
        if self.is_full and Path(path).exists():
            raise StorageFullError("no space left on device")
        super().overwrite(path, content)


def test_status_on_a_full_store_takes_the_room_of_the_one_before(tmp_path: Path) -> None:
    board, path, store = StatusBoard(), tmp_path / "status.json", FullStore()
    session = placed_session("a", path)
    session.store = store
    files = StatusFiles(board, stderr_log())
    files.start()
    board.update(session, RouteState.RUNNING, None)
    wait_for(lambda: (found := read(path)) is not None and found.state is RouteState.RUNNING)
    store.is_full = True
    board.update(session, RouteState.WAITING, StorageFullError("no space left on device"))
    wait_for(lambda: (found := read(path)) is not None and found.state is RouteState.WAITING)
    found = read(path)
    assert found is not None
    assert found.code == "SW203"
    files.close()


def test_status_that_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    board, path = StatusBoard(), tmp_path / "away" / "status.json"
    files = StatusFiles(board, stderr_log())
    board.update(placed_session("a", path), RouteState.RUNNING, None)
    files._write_due()
    assert not path.exists()
    path.parent.mkdir()
    files._write_due()
    assert read(path) is not None
