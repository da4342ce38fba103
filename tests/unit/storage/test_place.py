"""Where a table's folder may be made."""

from pathlib import Path

import pytest

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.jobfile.compile.compile import compile_route
from sluiceway.jobfile.loader import load_job
from sluiceway.storage.local import LocalStorage
from sluiceway.storage.locations import refuse_missing_parent
from tools.table_on_disk import table_on_disk


def test_folder_below_one_that_is_missing_is_refused_and_comes_back_by_itself(
    tmp_path: Path,
) -> None:
    table = tmp_path / "disk" / "ods.db" / "orders"
    with pytest.raises(UnhealthyEnvironmentError, match=r"ods\.db does not exist") as refused:
        refuse_missing_parent(LocalStorage(), f"file:{table}", create=False)
    assert refused.value.mendable
    assert "create_location: true" in refused.value.hint
    assert list(tmp_path.iterdir()) == []
    # The disk is mounted.
    table.parent.mkdir(parents=True)
    refuse_missing_parent(LocalStorage(), f"file:{table}", create=False)


def test_folder_below_one_that_is_missing_is_taken_when_the_job_file_says_so(
    tmp_path: Path,
) -> None:
    table = tmp_path / "disk" / "orders"
    assert LocalStorage().missing_parent(str(table)) == str(table.parent)
    refuse_missing_parent(LocalStorage(), str(table), create=True)


def test_job_file_says_whether_missing_folders_are_made(tmp_path: Path) -> None:
    job = table_on_disk(tmp_path).job
    text = job.read_text()
    assert text.count("name: ods.orders,") == 1
    for said, created in (("", False), (" create_location: true,", True)):
        job.write_text(text.replace("name: ods.orders,", f"name: ods.orders,{said}"))
        (route,) = load_job(job).spec.routes
        assert compile_route(route).table.create_location is created
