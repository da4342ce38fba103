"""Entries of a catalog in a folder: of several writers each change holds, or is made again."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sluiceway.catalog.hive_table import HiveColumn, HiveLayout, MetastoreTable
from sluiceway.errors import LedgerMismatchError, StorageUnavailableError, TableMismatchError
from sluiceway.sinks.hive.folder_catalog import FolderCatalog
from sluiceway.sinks.hive.table import open_hive_table
from sluiceway.sinks.table_options import FOLDER, TableOptions
from sluiceway.storage.access import NO_STORES
from sluiceway.storage.contract import PutResult
from sluiceway.storage.local import LocalStorage
from sluiceway.types.schema import Field, IntegerType, Schema

COLUMN = HiveColumn("id", "bigint")
LAYOUT = HiveLayout("", "s", "i", "o", (COLUMN,))
WANTED = MetastoreTable("ods", "orders", "EXTERNAL_TABLE", LAYOUT, (), {})


@pytest.fixture
def catalog(tmp_path: Path) -> FolderCatalog:
    made = FolderCatalog(str(tmp_path), NO_STORES)
    made.create_table(WANTED)
    return made


def parameters(catalog: FolderCatalog) -> dict[str, str]:
    found = catalog.get_table("ods", "orders")
    assert found is not None
    return dict(found.parameters)


def put(catalog: FolderCatalog, key: str, value: str = "x") -> None:
    catalog.alter_table_parameters("ods", "orders", put={key: value})


def entries(tmp_path: Path) -> list[str]:
    return sorted(each.name for each in (tmp_path / "_catalog/ods/orders/table").iterdir())


def test_table_lies_below_its_database_in_the_folder(
    catalog: FolderCatalog, tmp_path: Path
) -> None:
    found = catalog.get_table("ods", "orders")
    assert found is not None
    assert found.layout.location == f"{tmp_path}/ods.db/orders"
    assert Path(found.layout.location).is_dir()
    assert catalog.get_table("ods", "other") is None
    assert catalog.create_table(WANTED) == found


def test_another_table_of_the_name_is_refused(catalog: FolderCatalog) -> None:
    other = MetastoreTable("ods", "orders", "EXTERNAL_TABLE", LAYOUT, (COLUMN,), {})
    with pytest.raises(TableMismatchError, match="partition columns"):
        catalog.create_table(other)


def test_only_the_newest_entries_stay(catalog: FolderCatalog, tmp_path: Path) -> None:
    for number in range(20):
        put(catalog, "n", str(number))
    assert parameters(catalog) == {"n": "19"}
    assert entries(tmp_path) == [f"{number:012d}.json" for number in range(14, 22)]


def test_a_stray_name_that_only_looks_like_a_number_is_passed_over(
    catalog: FolderCatalog, tmp_path: Path
) -> None:
    (tmp_path / "_catalog/ods/orders/table/².json").touch()
    put(catalog, "n")
    assert parameters(catalog) == {"n": "x"}


def test_changes_by_several_at_once_all_hold(catalog: FolderCatalog, tmp_path: Path) -> None:
    def work(name: str) -> None:
        own = FolderCatalog(str(tmp_path), NO_STORES)
        for number in range(10):
            put(own, f"{name}-{number}")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert parameters(catalog).keys() == {f"{name}-{n}" for name in "abc" for n in range(10)}


@pytest.mark.parametrize("others", [1, 2, 12])
def test_change_that_others_overtake_while_it_is_put_is_made_again(
    catalog: FolderCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """With many others, the number that is put is free again: the first of them was replaced."""
    real, waiting = LocalStorage.put_if_absent, [others]

    def overtaken(self: LocalStorage, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        for number in range(waiting.pop() if waiting else 0):
            put(FolderCatalog(str(tmp_path), NO_STORES), f"other-{number}")
        return real(self, path, content, tmp_folder=tmp_folder)

    monkeypatch.setattr(LocalStorage, "put_if_absent", overtaken)
    put(catalog, "own")
    assert parameters(catalog).keys() == {"own", *(f"other-{n}" for n in range(others))}


@pytest.mark.parametrize("others", [8, 12])
def test_change_that_is_removed_before_it_is_read_back_is_made_again(
    catalog: FolderCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    real, waiting = os.link, [others]

    def overtaken(src: Path, dst: Path) -> None:
        real(src, dst)
        for number in range(waiting.pop() if waiting else 0):
            put(FolderCatalog(str(tmp_path), NO_STORES), "other", str(number))

    monkeypatch.setattr(os, "link", overtaken)
    put(catalog, "own")
    assert parameters(catalog) == {"own": "x", "other": str(others - 1)}


def test_table_that_is_dropped_while_it_is_changed_is_gone(
    catalog: FolderCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = LocalStorage.put_if_absent

    def dropped(self: LocalStorage, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        done = real(self, path, content, tmp_folder=tmp_folder)
        FolderCatalog(str(tmp_path), NO_STORES).drop_table("ods", "orders")
        return done

    monkeypatch.setattr(LocalStorage, "put_if_absent", dropped)
    with pytest.raises(TableMismatchError, match="the table is gone"):
        put(catalog, "own")


def test_change_that_is_not_durable_is_told(
    catalog: FolderCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: LocalStorage, path: str, content: bytes, *, tmp_folder: str) -> PutResult:
        raise StorageUnavailableError("no space")

    monkeypatch.setattr(LocalStorage, "put_if_absent", full)
    with pytest.raises(StorageUnavailableError, match="no space"):
        put(catalog, "own")


def _gone_at_once(read: Callable[..., bytes | None]) -> Callable[..., bytes | None]:
    first = [True]

    def seen(self: LocalStorage, path: str) -> bytes | None:
        if first.pop() if first else False:
            for number in range(10):
                put(FolderCatalog(str(Path(path).parents[4]), NO_STORES), "meanwhile", str(number))
        return read(self, path)

    return seen


def test_entry_that_is_replaced_while_it_is_read_is_read_anew(
    catalog: FolderCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalStorage, "read", _gone_at_once(LocalStorage.read))
    assert parameters(catalog) == {"meanwhile": "9"}


def test_damaged_entry_is_told_with_its_place(catalog: FolderCatalog, tmp_path: Path) -> None:
    entry = max((tmp_path / "_catalog/ods/orders/table").iterdir())
    entry.write_bytes(entry.read_bytes()[:-2])
    with pytest.raises(TableMismatchError, match="damaged") as caught:
        catalog.get_table("ods", "orders")
    assert caught.value.where == str(entry.parent)


def test_table_that_is_gone_is_told_by_every_change(catalog: FolderCatalog) -> None:
    catalog.drop_table("ods", "orders")
    catalog.drop_table("ods", "orders")
    assert catalog.get_table("ods", "orders") is None
    with pytest.raises(TableMismatchError, match="the table is gone"):
        put(catalog, "k")
    with pytest.raises(TableMismatchError, match="the table is gone"):
        catalog.list_partition_names("ods", "orders")


def test_property_of_a_copied_table_is_replaced_by_one_of_the_same_ledger(tmp_path: Path) -> None:
    schema = Schema((Field("id", IntegerType(64)),))
    sink = open_hive_table(TableOptions(f"{FOLDER}{tmp_path}", "ods", "new", schema, ()), {})
    state = sink.open()
    sink.mark_ledger(state, "one@/a/orders")
    with pytest.raises(LedgerMismatchError):
        sink.mark_ledger(state, "one@/b/orders")
    sink.move_ledger(state, "one@/a/orders", "one@/b/orders")
    with pytest.raises(LedgerMismatchError):
        sink.move_ledger(state, "one@/c/orders", "one@/d/orders")
    assert sink.open().ledger == "one@/b/orders"
