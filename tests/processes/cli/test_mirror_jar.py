"""`sluiceway mirror-jar`: the transform is compiled, and what is missing is said."""

import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.cli.app import run_command
from sluiceway.errors import UnhealthyEnvironmentError, WrongUsageError
from sluiceway.host.java import find_java
from sluiceway.lab.jars import default_cache_folder
from sluiceway.lab.mirror_jar import TRANSFORM, build_mirror_jar
from sluiceway.lab.support import ignore_progress

# Class files of Java 11, on which Connect of Kafka 3 runs.
_JAVA_11 = 55


@pytest.mark.slow
def test_the_jar_has_the_transform_for_java_11_and_is_the_same_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "m.jar"
    assert run_command(["mirror-jar", "--to", str(made)]) == 0
    assert TRANSFORM in capsys.readouterr().out
    with zipfile.ZipFile(made) as jar:
        code = jar.read(f"{TRANSFORM.replace('.', '/')}.class")
        (service,) = [name for name in jar.namelist() if name.startswith("META-INF/services")]
        assert jar.read(service).decode().split() == [TRANSFORM]
    assert int.from_bytes(code[6:8], "big") == _JAVA_11
    first = made.read_bytes()
    build_mirror_jar(made, default_cache_folder(os.environ), find_java(), ignore_progress)
    assert made.read_bytes() == first
    with pytest.raises(WrongUsageError, match="cannot be written"):
        build_mirror_jar(tmp_path, default_cache_folder(os.environ), find_java(), ignore_progress)


def test_a_java_without_a_compiler_is_named(tmp_path: Path) -> None:
    java = replace(find_java(), path=tmp_path)
    with pytest.raises(UnhealthyEnvironmentError, match="javac") as refused:
        build_mirror_jar(tmp_path / "m.jar", tmp_path, java, ignore_progress)
    assert refused.value.where == str(tmp_path)
    assert "JDK" in refused.value.hint
