"""START and RECOVER of a route on a local disk: what is owed is done, a refusal is said."""

from pathlib import Path

import pytest

from sluiceway.errors import StorageRefusedError, UnhealthyEnvironmentError
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
    assert "one that the driver and the tasks may write" in str(caught.value.hint)


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
        fold = route.owned.fold
        assert fold.unpublished == {}
        assert fold.published_through == fold.next_seq
        route.run_epoch(10)
    assert len(list(table.glob("orders-*"))) == 2
