"""An archive of Spark's classes is used when it is whole and of this Java, and is never needed."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sluiceway.driver.spark.class_archive import archive_file, archive_options, make_archive
from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.java import JavaHome


@pytest.fixture
def java(tmp_path: Path) -> JavaHome:
    home = tmp_path / "jdk 17"
    home.mkdir()
    (home / "release").write_text('JAVA_VERSION="17.0.15"\n')
    return JavaHome(home, 17, "Debian")


def test_without_an_archive_a_jvm_starts_as_ever(java: JavaHome, tmp_path: Path) -> None:
    assert archive_options(java, tmp_path) == ""


def test_archive_is_named_to_the_jvm_in_quotes(java: JavaHome, tmp_path: Path) -> None:
    file = archive_file(java, tmp_path / "a folder")
    file.parent.mkdir()
    file.touch()
    assert f'"-XX:SharedArchiveFile={file}"' in archive_options(java, file.parent)


def test_another_build_of_java_has_another_archive(java: JavaHome, tmp_path: Path) -> None:
    before = archive_file(java, tmp_path)
    (java.path / "release").write_text('JAVA_VERSION="17.0.16"\n')
    assert archive_file(java, tmp_path) != before


def _rehearsal(code: int, *, writes: bool) -> Any:
    def run(command: Sequence[str], **_: object) -> "subprocess.CompletedProcess[str]":
        made = command[-1].partition("-XX:ArchiveClassesAtExit=")[2].rstrip('"')
        if writes:
            Path(made).write_bytes(b"classes")
        return subprocess.CompletedProcess(command, code, "", "no room\n")

    return run


def test_archive_comes_under_its_name_when_it_is_whole(
    java: JavaHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", _rehearsal(0, writes=True))
    file = make_archive(java, "-X", tmp_path / "new")
    assert file.read_bytes() == b"classes"
    assert [*file.parent.iterdir()] == [file]


@pytest.mark.parametrize(("code", "writes"), [(1, True), (0, False)])
def test_half_an_archive_is_none(
    java: JavaHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, *, writes: bool
) -> None:
    monkeypatch.setattr(subprocess, "run", _rehearsal(code, writes=writes))
    with pytest.raises(UnhealthyEnvironmentError, match="no room"):
        make_archive(java, "-X", tmp_path)
    assert archive_options(java, tmp_path) == ""


def test_archive_that_is_there_is_not_made_anew(
    java: JavaHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive_file(java, tmp_path).touch()
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    assert make_archive(java, "-X", tmp_path) == archive_file(java, tmp_path)
