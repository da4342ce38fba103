"""START and RECOVER of a route on a local disk: what is owed is done, a refusal is said."""

from pathlib import Path

import pytest

from sluiceway.errors import (
    StorageRefusedError,
    StorageUnavailableError,
    UnhealthyEnvironmentError,
)
from sluiceway.eventtime.watermark import WatermarkRule
from sluiceway.host.http_receiver import HttpReceiver
from sluiceway.jobfile.compile.ready_rule import ReadyRule
from sluiceway.observe import metrics
from sluiceway.route import route_start
from sluiceway.route.owned_route import OwnedRoute
from sluiceway.storage.local import LocalStorage
from tools.session_on_disk import DiskTable, session_on_disk


class Refuses(LocalStorage):
    """A store that works, and takes nothing from this driver."""

    def make_folders(self, folder: str) -> None:
        raise StorageRefusedError(f"cannot create {folder}: permission denied", where=folder)


def test_store_that_refuses_a_ledger_ends_the_start_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        pytest.raises(UnhealthyEnvironmentError, match="the store refuses") as caught,
        session_on_disk(tmp_path / "t", monkeypatch, Refuses()),
    ):
        raise AssertionError("it has started")
    assert "the driver and the tasks must be allowed to write" in str(caught.value.hint)


class KnowsNobody(LocalStorage):
    """A store that says itself what has to be done."""

    def make_folders(self, folder: str) -> None:
        raise StorageRefusedError("the token is over", where=folder, hint="get a new token")


def test_store_that_says_what_to_do_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        pytest.raises(UnhealthyEnvironmentError, match="the token is over") as caught,
        session_on_disk(tmp_path / "t", monkeypatch, KnowsNobody()),
    ):
        raise AssertionError("it has started")
    assert caught.value.hint == "get a new token"


class DiesBeforePublishing(LocalStorage):
    """The process ends between the commit point and the first final name."""

    def publish(self, src: str, dst: str, *, size_bytes: int, crc32c: str) -> None:
        if "/orders-" in dst:
            raise KeyboardInterrupt
        super().publish(src, dst, size_bytes=size_bytes, crc32c=crc32c)


def test_start_publishes_what_was_committed_before_it_plans_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, held = tmp_path / "t", DiskTable(tmp_path / "t")
    with session_on_disk(table, monkeypatch, DiesBeforePublishing(), held) as route:
        planned = route.plan()
        answer = route.answer(planned, 4)
        with pytest.raises(KeyboardInterrupt):
            route.finish(planned, answer)
        assert list(table.glob("orders-*")) == []
        staged = Path(route.owned.layout.attempt(answer.files[0].staged))
        assert staged.exists()
    with session_on_disk(table, monkeypatch, table=held) as route:
        (final,) = table.glob("orders-*")
        assert final.name == staged.name
        assert not staged.parent.exists()
        told = route.session.figures.figures.read().numbers[metrics.RECOVERIES.name]
        assert told == {("publish",): 1.0, ("start",): 1.0}
        fold = route.owned.fold
        assert fold.unpublished == {}
        assert fold.published_through == fold.next_seq
        route.run_epoch(10)
    assert len(list(table.glob("orders-*"))) == 2


class KeepsNoPlace(LocalStorage):
    """Fails where it is noted from which slot on a receiver is told, as often as a test says."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def overwrite(self, path: str, data: bytes) -> None:
        if "/told-webhook" in path and self.failures:
            self.failures -= 1
            raise StorageUnavailableError("no answer", where=path)
        super().overwrite(path, data)


def test_start_puts_nothing_before_it_is_kept_from_where_on_a_receiver_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook = HttpReceiver("http://127.0.0.1:1/", "127.0.0.1", timeout_s=0.5)
    ready = ReadyRule(
        WatermarkRule(), (("dt", "yyyyMMdd"),), "UTC", whole_key=True, webhook=webhook
    )
    table, store = DiskTable(tmp_path / "t"), KeepsNoPlace(failures=1)
    with (
        pytest.raises(StorageUnavailableError),
        session_on_disk(tmp_path / "t", monkeypatch, store, table, ready),
    ):
        raise AssertionError("it has started")
    with session_on_disk(tmp_path / "t", monkeypatch, store, table, ready) as route:
        assert Path(route.owned.layout.announced("webhook")).exists()


def test_start_ends_what_fenced_drivers_had_begun_once_their_records_are_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owed: list[int] = []

    def abandon(held: OwnedRoute) -> None:
        owed.append(len(held.owned.fold.unpublished))

    monkeypatch.setattr(route_start, "abandon_left", abandon)
    table, held = tmp_path / "t", DiskTable(tmp_path / "t")
    with session_on_disk(table, monkeypatch, DiesBeforePublishing(), held) as route:
        planned = route.plan()
        with pytest.raises(KeyboardInterrupt):
            route.finish(planned, route.answer(planned, 4))
    with session_on_disk(table, monkeypatch, table=held):
        assert owed == [0, 0]
