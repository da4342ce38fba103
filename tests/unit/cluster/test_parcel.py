import base64
import json
import os
import re
import stat
from pathlib import Path

import pytest

from sluiceway.cluster.job_archive import collect, driver_program, unpack
from sluiceway.errors import SubmissionError
from sluiceway.host.copied_files import VARIABLE, path_here
from sluiceway.host.kerberos import KerberosLogin

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


def test_keytab_travels_and_is_used_by_logins_of_that_process_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keytab = tmp_path / "etl.keytab"
    keytab.write_bytes(b"\x05\x02\x00\xff of the job")
    job = tmp_path / "orders.yaml"
    job.write_text("version: 1\n")
    login = KerberosLogin("etl@EXAMPLE.ORG", str(keytab))
    program = driver_program("orders", collect(job, {}, login))
    keytab.unlink()
    there = tmp_path / "container"
    there.mkdir()
    monkeypatch.delenv(VARIABLE, raising=False)
    assert path_here(str(keytab)) == str(keytab)
    unpack(_packed(program), there)
    copy = Path(path_here(str(keytab)))
    monkeypatch.setenv(VARIABLE, "{}")
    assert copy.is_relative_to(there)
    assert copy.read_bytes() == b"\x05\x02\x00\xff of the job"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


def test_keytab_that_is_not_there_is_told_before_anything_is_submitted(tmp_path: Path) -> None:
    job = tmp_path / "orders.yaml"
    job.write_text("version: 1\n")
    login = KerberosLogin("etl@EXAMPLE.ORG", str(tmp_path / "none.keytab"))
    with pytest.raises(SubmissionError, match=r"none\.keytab"):
        collect(job, {}, login)
