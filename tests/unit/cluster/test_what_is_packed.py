import importlib
import json
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from sluiceway.cluster import environment_pack
from sluiceway.errors import UnhealthyEnvironmentError


def test_package_for_kerberos_is_packed_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, needs in (("gssapi", "Requires-Dist: decorator\n"), ("decorator", "")):
        info = tmp_path / f"{name}-5.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 5.0\n{needs}"
        )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    packed = environment_pack._needed()
    assert {"gssapi", "decorator", "pyspark"} <= packed.keys()


def _installed_to_be_edited(place: Path, name: str, more: dict[str, str]) -> None:
    info = place / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "direct_url.json").write_text(json.dumps({"dir_info": {"editable": True}}))
    (info / "RECORD").write_text(f"{info.name}/METADATA,,\n")
    for file, text in more.items():
        (info / file).write_text(text)


def test_code_that_is_edited_is_packed_whatever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    (source / "inner_words").mkdir(parents=True)
    (source / "inner_words" / "__init__.py").touch()
    (source / "plugin_of_one_file.py").touch()
    (source / "named_so.py").touch()
    point = "[sluiceway.formats]\nx = plugin_of_one_file:Format\n"
    _installed_to_be_edited(tmp_path, "plugin", {"entry_points.txt": point})
    _installed_to_be_edited(tmp_path, "words", {"top_level.txt": "inner_words\n"})
    _installed_to_be_edited(tmp_path, "named_so", {})
    _installed_to_be_edited(tmp_path, "elsewhere", {})
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(source), *sys.path])
    importlib.invalidate_caches()
    for name, file in (
        ("plugin", "plugin_of_one_file.py"),
        ("words", "inner_words/__init__.py"),
        ("named_so", "named_so.py"),
    ):
        packed = environment_pack._package(distribution(name))
        assert [place for place in packed if place.endswith(f"site-packages/{file}")], packed
    with pytest.raises(UnhealthyEnvironmentError, match="elsewhere is installed to be edited"):
        environment_pack._package(distribution("elsewhere"))


def test_other_build_of_one_version_is_another_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(environment_pack, "_needed", lambda: {"plugin": distribution("plugin")})
    labels = []
    for digest in ("sha256=one", "sha256=two"):
        (info / "RECORD").write_text(f"plugin.py,{digest},1\n")
        labels.append(environment_pack.environment_label())
    assert labels[0] != labels[1]
