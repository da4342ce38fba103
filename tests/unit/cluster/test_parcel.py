import base64
import json
import os
import re
import stat
from pathlib import Path

import pytest

from sluiceway.cluster.parcel import collect, driver_program, unpack

JOB = """\
connections:
  main: {kafka: {properties: {a: "${env:BROKER_WORD}", b: "${file:%s}"}}}
"""


def _packed(program: str) -> str:
    lines = re.findall(r'^    "([^"]*)"$', program, re.MULTILINE)
    return "".join(lines)


def test_parcel_opens_with_its_secrets_for_this_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from a file")
    job = tmp_path / "orders.yaml"
    job.write_text(JOB % secret)
    parcel = collect(job, {"BROKER_WORD": "from a variable", "OTHER": "stays"})
    program = driver_program("orders", parcel)
    compile(program, "driver.py", "exec")
    assert "from a" not in program
    secret.unlink()
    there = tmp_path / "container"
    there.mkdir()
    # So that what it sets is taken away again.
    monkeypatch.setenv("BROKER_WORD", "none")
    opened = unpack(_packed(program), there)
    assert os.environ["BROKER_WORD"] == "from a variable"
    text = opened.read_text()
    named = re.search(r"\$\{file:([^}]+)\}", text)
    assert named is not None
    assert Path(named[1]).read_text() == "from a file"
    for path in (opened, Path(named[1])):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "OTHER" not in json.loads(base64.b64decode(_packed(program)))["variables"]
