import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.java import JavaHome
from sluiceway.lab.jars import (
    PinnedJar,
    check_jars,
    default_cache_folder,
    ensure_jars,
    jars_folder,
    pinned_jars,
    spark_jars_folder,
)
from sluiceway.lab.support import ignore_progress

_CONTENT = b"a jar"
_PIN = PinnedJar(
    organisation="org.example",
    name="thing",
    revision="1.0",
    size_bytes=len(_CONTENT),
    sha256=hashlib.sha256(_CONTENT).hexdigest(),
)


def _folder_with(content: bytes, tmp_path: Path) -> Path:
    folder = jars_folder(tmp_path, "things", [_PIN])
    folder.mkdir()
    (folder / "thing-1.0.jar").write_bytes(content)
    return folder


def test_check_jars_right_hash_passes(tmp_path: Path) -> None:
    folder = _folder_with(_CONTENT, tmp_path)
    check_jars(folder, [_PIN])
    assert (folder / _PIN.file_name).read_bytes() == _CONTENT


def test_check_jars_wrong_hash_is_refused_with_both(tmp_path: Path) -> None:
    folder = _folder_with(b"forged", tmp_path)
    with pytest.raises(UnhealthyEnvironmentError) as refused:
        check_jars(folder, [_PIN])
    assert refused.value.where == str(folder / "thing-1.0.jar")
    assert _PIN.sha256 in refused.value.message
    assert hashlib.sha256(b"forged").hexdigest() in refused.value.message
    assert str(folder) in refused.value.hint


def test_check_jars_missing_jar_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnhealthyEnvironmentError, match="missing"):
        check_jars(tmp_path, [_PIN])


def test_ensure_jars_cached_and_right_downloads_nothing(tmp_path: Path) -> None:
    folder = _folder_with(_CONTENT, tmp_path)
    no_java = JavaHome(tmp_path / "no-java", 17, "none")
    ensure_jars(folder, [_PIN], java=no_java, on_progress=ignore_progress)
    assert sorted(path.name for path in folder.iterdir()) == ["thing-1.0.jar"]


def test_ensure_jars_cached_and_wrong_is_refused(tmp_path: Path) -> None:
    folder = _folder_with(b"forged", tmp_path)
    no_java = JavaHome(tmp_path / "no-java", 17, "none")
    with pytest.raises(UnhealthyEnvironmentError, match="not the pinned one"):
        ensure_jars(folder, [_PIN], java=no_java, on_progress=ignore_progress)


def _java_that_runs(script: str, home: Path) -> JavaHome:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\n{script}\n")
    executable.chmod(0o755)
    return JavaHome(home, 17, "Test Vendor")


def test_ensure_jars_forged_download_leaves_nothing_in_the_cache(tmp_path: Path) -> None:
    # Writes where Ivy would: the last argument is the pattern of the retrieved files.
    forger = (
        'for last; do :; done; mkdir -p "${last%/*}"; printf forged > "${last%/*}/thing-1.0.jar"'
    )
    java = _java_that_runs(forger, tmp_path / "jdk")
    folder = jars_folder(tmp_path / "cache", "things", [_PIN])
    with pytest.raises(UnhealthyEnvironmentError, match="not the pinned one"):
        ensure_jars(folder, [_PIN], java=java, on_progress=ignore_progress)
    assert [path.name for path in folder.parent.iterdir()] == [f"{folder.name}.lock"]


def test_ensure_jars_failed_download_shows_the_end_of_its_output(tmp_path: Path) -> None:
    java = _java_that_runs("echo 'UNRESOLVED thing'; exit 1", tmp_path / "jdk")
    folder = jars_folder(tmp_path / "cache", "things", [_PIN])
    with pytest.raises(UnhealthyEnvironmentError, match="UNRESOLVED thing"):
        ensure_jars(folder, [_PIN], java=java, on_progress=ignore_progress)
    assert not folder.exists()


def test_jars_folder_of_other_pins_is_another(tmp_path: Path) -> None:
    other = PinnedJar("org.example", "thing", "1.0", 1, "0" * 64)
    assert jars_folder(tmp_path, "things", [_PIN]) != jars_folder(tmp_path, "things", [other])


def test_pinned_kafka_jars_are_whole() -> None:
    pins = pinned_jars("kafka_jars.json")
    assert {"kafka_2.13", "kafka-clients", "slf4j-simple"} <= {pin.name for pin in pins}
    assert len({pin.file_name for pin in pins}) == len(pins)
    assert all(len(bytes.fromhex(pin.sha256)) == 32 and pin.size_bytes > 0 for pin in pins)


def test_default_cache_folder_follows_the_environment(tmp_path: Path) -> None:
    assert default_cache_folder({"SLUICEWAY_CACHE": str(tmp_path)}) == tmp_path
    assert default_cache_folder({}) == Path("~/.cache/sluiceway").expanduser()


def test_spark_jars_folder_has_what_the_lab_runs() -> None:
    names = {path.name for path in spark_jars_folder().glob("*.jar")}
    assert any(name.startswith("ivy-") for name in names)
    assert any(name.startswith("hive-metastore-2.3") for name in names)


def test_ensure_jars_asked_twice_at_once_downloads_once(tmp_path: Path) -> None:
    ivy = (
        f'echo run >> "{tmp_path}/runs"; sleep 0.3; for last; do :; done\n'
        'mkdir -p "${last%/*}"; printf "a jar" > "${last%/*}/thing-1.0.jar"'
    )
    java = _java_that_runs(ivy, tmp_path / "jdk")
    folder = jars_folder(tmp_path / "cache", "things", [_PIN])
    # What a process left that was killed in the middle of its download.
    (folder.with_name(f"{folder.name}.part") / "jars").mkdir(parents=True)
    (folder.with_name(f"{folder.name}.part") / "jars" / "half.jar").write_bytes(b"")
    steps: list[str] = []

    def ensure() -> None:
        ensure_jars(folder, [_PIN], java=java, on_progress=lambda step: steps.append(step.text))

    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(ensure) for _ in range(3)]:
            done.result()
    assert (tmp_path / "runs").read_text() == "run\n"
    assert any("waiting for another process" in step for step in steps)
    assert sorted(path.name for path in folder.parent.rglob("*.jar")) == ["thing-1.0.jar"]


def test_a_server_that_comes_as_an_archive_keeps_its_ending(tmp_path: Path) -> None:
    pin = replace(_PIN, packaging="tar.gz")
    folder = jars_folder(tmp_path, "things", [pin])
    folder.mkdir()
    (folder / "thing-1.0.tar.gz").write_bytes(_CONTENT)
    assert pin.file_name == "thing-1.0.tar.gz"
    check_jars(folder, [pin])
