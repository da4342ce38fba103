"""`make clean` ends the labs of its folder before it removes them."""

import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[2] / "Makefile"
# Stands for the installed command: notes how it was called, and fails when it is told to.
COMMAND = """#!/bin/sh
echo "$@" >> called
exit $(cat fails 2>/dev/null || echo 0)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copy(MAKEFILE, tmp_path)
    for lab in ("lab", "demo"):
        folder = tmp_path / ".sluiceway" / lab
        folder.mkdir(parents=True)
        (folder / "state.json").write_text("{}")
    return tmp_path


def make_clean(folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["make", "clean"], cwd=folder, capture_output=True, text=True, check=False
    )


def install(folder: Path) -> None:
    command = folder / ".venv/bin/sluiceway"
    command.parent.mkdir(parents=True)
    command.write_text(COMMAND)
    command.chmod(0o755)


def test_make_clean_ends_each_lab_and_removes_its_state(checkout: Path) -> None:
    install(checkout)
    done = make_clean(checkout)
    assert done.returncode == 0, done.stderr
    assert (checkout / "called").read_text().splitlines() == [
        "lab down --dir .sluiceway/demo/ --remove-data --yes",
        "lab down --dir .sluiceway/lab/ --remove-data --yes",
    ]
    assert sorted(path.name for path in checkout.iterdir()) == ["Makefile", "called"]


def test_make_clean_keeps_the_state_of_servers_that_do_not_end(checkout: Path) -> None:
    install(checkout)
    (checkout / "fails").write_text("5")
    assert make_clean(checkout).returncode != 0
    assert (checkout / ".sluiceway/lab/state.json").exists()
    assert (checkout / ".venv").exists()


def test_make_clean_without_the_command_names_the_way_out(checkout: Path) -> None:
    done = make_clean(checkout)
    assert done.returncode != 0
    assert "make install, then make clean" in done.stderr
    assert (checkout / ".sluiceway/lab/state.json").exists()


def test_make_clean_of_a_clean_folder_does_nothing(tmp_path: Path) -> None:
    shutil.copy(MAKEFILE, tmp_path)
    assert make_clean(tmp_path).returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["Makefile"]
