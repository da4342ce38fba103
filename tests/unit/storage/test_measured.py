import inspect
from pathlib import Path

import pytest

from sluiceway.errors import StorageUnavailableError
from sluiceway.storage.contract import RequestCount, Storage
from sluiceway.storage.local import LocalStorage
from sluiceway.storage.measured import MeasuredStorage


class _Paid(LocalStorage):
    has_folders = False
    looks_are_cheap = False

    def pop_request_count(self) -> RequestCount:
        return RequestCount(3, 4)

    def read(self, path: str) -> bytes | None:
        raise StorageUnavailableError("down", where=path)


def test_every_method_of_the_contract_is_passed_on() -> None:
    methods = [name for name, _ in inspect.getmembers(Storage, inspect.isfunction)]
    assert len(methods) > 15
    assert [name for name in methods if name not in vars(MeasuredStorage)] == []


def test_calls_are_told_with_their_time_also_when_they_fail(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    store = MeasuredStorage(_Paid(), lambda operation, seconds: told.append((operation, seconds)))
    store.overwrite(f"{tmp_path}/a", b"x")
    assert store.has_file(f"{tmp_path}/a")
    with pytest.raises(StorageUnavailableError):
        store.read(f"{tmp_path}/a")
    assert [operation for operation, _ in told] == ["overwrite", "look", "read"]
    assert all(seconds >= 0 for _, seconds in told)


def test_kind_of_the_store_behind_is_told(tmp_path: Path) -> None:
    paid, plain = (MeasuredStorage(s, lambda *_: None) for s in (_Paid(), LocalStorage()))
    assert (paid.has_folders, paid.looks_are_cheap) == (False, False)
    assert (plain.has_folders, plain.looks_are_cheap) == (True, True)
    assert paid.pop_request_count() == RequestCount(3, 4)
    # Else a probe of one kind would count for another kind at the same place.
    assert paid.volume(str(tmp_path)) != plain.volume(str(tmp_path))
