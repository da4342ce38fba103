from pathlib import Path

import pytest

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host import java
from sluiceway.host.java import JavaHome, find_java


def _fake_java(home: Path, version: str, vendor: str = "Test Vendor") -> Path:
    """A `java` that describes itself as the real one does, on stderr."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        "#!/bin/sh\n"
        "cat >&2 <<END\n"
        "Property settings:\n"
        f"    java.home = {home}\n"
        f"    java.specification.version = {version}\n"
        f"    java.vendor = {vendor}\n"
        f'\nopenjdk version "{version}"\n'
        "END\n"
    )
    executable.chmod(0o755)
    return home


@pytest.mark.parametrize("version", ["17", "21"])
def test_find_java_accepted_release_is_returned(tmp_path: Path, version: str) -> None:
    home = _fake_java(tmp_path / "jdk", version)
    found = find_java({"JAVA_HOME": str(home), "PATH": "/nowhere"}, folders=())
    assert found == JavaHome(home, int(version), "Test Vendor")
    assert found.executable == home / "bin" / "java"


def test_find_java_prefers_java_home_then_path_then_folders(tmp_path: Path) -> None:
    first, second, third = (_fake_java(tmp_path / name, "17") for name in ("a", "b", "c"))
    path, folders = str(second / "bin"), (str(tmp_path / "c*"),)
    with_all = find_java({"JAVA_HOME": str(first), "PATH": path}, folders=folders)
    without_home = find_java({"PATH": path}, folders=folders)
    without_path = find_java({"PATH": "/nowhere"}, folders=folders)
    assert [with_all.path, without_home.path, without_path.path] == [first, second, third]


def test_find_java_wrong_java_home_falls_back_to_path(tmp_path: Path) -> None:
    wrong, right = _fake_java(tmp_path / "wrong", "11"), _fake_java(tmp_path / "right", "21")
    found = find_java({"JAVA_HOME": str(wrong), "PATH": str(right / "bin")}, folders=())
    assert found.path == right
    assert found.passed_over == f"JAVA_HOME is not used: {wrong}/bin/java is Java 11"
    assert find_java({"PATH": str(right / "bin")}, folders=()).passed_over == ""


def test_java_home_that_is_not_there_is_told(tmp_path: Path) -> None:
    right = _fake_java(tmp_path / "right", "17")
    environment = {"JAVA_HOME": "/bogus", "PATH": str(right / "bin")}
    found = find_java(environment, folders=())
    assert found.passed_over == "JAVA_HOME is not used: /bogus/bin/java is not there"
    assert str(found) == f"17 (Test Vendor) in {right}"


@pytest.mark.parametrize(("version", "said"), [("1.8", "Java 8"), ("11", "11"), ("25", "Java 25")])
def test_find_java_wrong_release_is_refused_with_what_was_found(
    tmp_path: Path, version: str, said: str
) -> None:
    home = _fake_java(tmp_path / "jdk", version)
    with pytest.raises(UnhealthyEnvironmentError) as refused:
        find_java({"JAVA_HOME": str(home), "PATH": "/nowhere"}, folders=())
    assert said in refused.value.message
    assert "JAVA_HOME" in refused.value.message
    assert "Java 17 or 21 is needed" in refused.value.message


def test_find_java_without_any_java_says_how_to_install(tmp_path: Path) -> None:
    with pytest.raises(UnhealthyEnvironmentError) as refused:
        find_java({"PATH": str(tmp_path)}, folders=(str(tmp_path / "*"),))
    assert "no Java" in refused.value.message
    for command in ("apt-get install", "dnf install", "brew install"):
        assert command in refused.value.hint


def test_find_java_home_without_java_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnhealthyEnvironmentError, match="not there"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "/nowhere"}, folders=())


def test_find_java_that_fails_is_refused_with_its_words(tmp_path: Path) -> None:
    executable = tmp_path / "bin" / "java"
    executable.parent.mkdir()
    executable.write_text("#!/bin/sh\necho 'no runtime present' >&2\nexit 1\n")
    executable.chmod(0o755)
    with pytest.raises(UnhealthyEnvironmentError, match="no runtime present"):
        find_java({"PATH": str(executable.parent)}, folders=())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("#!/bin/sh\nsleep 60\n", "not usable: it says nothing within 0.2 s"),
        ("\0\1", "not usable: Exec format error"),
    ],
)
def test_find_java_that_does_not_answer_is_told_in_words(
    tmp_path: Path, content: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_ASK_TIMEOUT_S", 0.2)
    good, bad = _fake_java(tmp_path / "good", "17"), _fake_java(tmp_path / "bad", "17")
    (bad / "bin" / "java").write_text(content)
    environment = {"JAVA_HOME": str(bad), "PATH": str(good / "bin")}
    found = find_java(environment, folders=())
    assert found.path == good
    assert found.passed_over.endswith(words)
