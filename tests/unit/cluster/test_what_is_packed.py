import sys
from pathlib import Path

import pytest

from sluiceway.cluster import environment_pack


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
