"""What a driver leaves outside of tables, and what it shows of its secrets, for others to see."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sluiceway.errors import UnhealthyEnvironmentError
from sluiceway.host.ticket_cache import private_folder

SECRET = "hunter2-never-to-be-seen"  # noqa: S105 - what the test looks for
# Prints its JVM's command line while the session runs.
PROGRAM = """
import os, subprocess, sys
os.umask(0o022)
from sluiceway.host.java import find_java
from sluiceway.driver.spark.session import start_session
conf = {"spark.hadoop.store.secret.key": sys.stdin.read(), "spark.hadoop.store.user": "known-user"}
session, log = start_session("private", "local[1]", conf, find_java())
assert session.sparkContext.getConf().get("spark.hadoop.store.secret.key") == conf[
    "spark.hadoop.store.secret.key"]
assert session.range(3).repartition(2).count() == 3
for entry in os.scandir("/proc"):
    if entry.name.isdigit():
        try:
            with open(f"/proc/{entry.name}/cmdline", "rb") as stream:
                line = stream.read()
        except OSError:
            continue
        if b"known-user" in line:
            print(line.replace(bytes(1), b" ").decode(errors="replace"))
print("LOG", log.read_text(errors="replace"))
sys.stdout.flush()
os._exit(0)  # as a kill would: what Spark made stays
"""


def test_secret_setting_reaches_spark_and_no_command_line_and_all_files_are_private(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=SECRET,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "known-user" in done.stdout, "the JVM's command line was looked at"
    assert SECRET not in done.stdout + done.stderr
    made = [path for path in tmp_path.iterdir() if "hsperfdata" not in path.name]
    assert made
    open_to_others = [path for path in made if stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert open_to_others == []


def test_private_folder_is_for_its_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = os.umask(0)
    try:
        folder = private_folder()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert private_folder() == folder
    folder.chmod(0o755)
    with pytest.raises(UnhealthyEnvironmentError, match="not this user's alone"):
        private_folder()


def test_private_folder_that_is_a_link_of_somebody_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / f"sluiceway-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnhealthyEnvironmentError):
        private_folder()
