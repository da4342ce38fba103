"""Archives on Python's path are not read again before each task."""

import importlib
import sys
import zipfile
import zipimport
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluiceway.driver.spark.spark_task import run_spark_task, warm_task
from sluiceway.worker.preload import forget_archives


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    place = str(tmp_path / "some.zip")
    with zipfile.ZipFile(place, "w") as file:
        file.writestr("zipped_one.py", "VALUE = 1\n")
        file.writestr("zipped_two.py", "VALUE = 2\n")
    monkeypatch.syspath_prepend(place)
    for name in ("zipped_one", "zipped_two"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return place


def held() -> list[str]:
    cached = sys.path_importer_cache.items()
    return [path for path, each in cached if isinstance(each, zipimport.zipimporter)]


def test_what_was_imported_from_an_archive_stays_and_more_can_be(archive: str) -> None:
    assert importlib.import_module("zipped_one").VALUE == 1
    assert archive in held()
    forget_archives()
    assert held() == []
    assert importlib.import_module("zipped_one").VALUE == 1
    assert importlib.import_module("zipped_two").VALUE == 2


@pytest.mark.parametrize(
    "run", [lambda: run_spark_task(iter(())), lambda: warm_task(iter(()))], ids=["task", "warm"]
)
def test_no_archive_is_read_before_the_next_task(
    run: Callable[[], Iterator[bytes]], archive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    importlib.import_module("zipped_one")
    assert archive in held()
    assert list(run()) == []
    read: list[str] = []
    monkeypatch.setattr(zipimport, "_read_directory", read.append)
    importlib.invalidate_caches()
    assert read == []
