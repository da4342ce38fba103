import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sluiceway.cluster import supervisor as module
from sluiceway.cluster.applications import ApplicationFolder
from sluiceway.cluster.supervisor import Supervisor

# Ends with the codes of a file, one a start.
DRIVER = """
import pathlib, sys, time
codes = pathlib.Path(sys.argv[1])
first, _, rest = codes.read_text().partition(" ")
codes.write_text(rest)
if first == "sleep":
    time.sleep(60)
sys.exit(int(first))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ApplicationFolder:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)
    found = ApplicationFolder("orders", tmp_path)
    found.make()
    return found


def _supervisor(folder: ApplicationFolder, codes: str) -> Supervisor:
    path = folder.path / "codes"
    path.write_text(codes)
    return Supervisor(folder, [sys.executable, "-c", DRIVER, str(path)])


@pytest.mark.parametrize(
    ("codes", "code", "starts"), [("1 7 5 0", 0, 4), ("0 1", 0, 1), ("1 3 0", 3, 2), ("2 0", 2, 1)]
)
def test_driver_is_started_again_until_it_ends_well_or_cannot(
    folder: ApplicationFolder, codes: str, code: int, starts: int
) -> None:
    assert _supervisor(folder, codes).run() == code
    state = folder.read_driver()
    assert state is not None
    assert (state.state, state.starts, state.exit_code) == ("ended", starts, code)
    assert state.driver is None


def test_driver_that_is_told_to_end_is_not_started_again(folder: ApplicationFolder) -> None:
    supervisor = _supervisor(folder, "sleep 0")
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(supervisor.run()))
    thread.start()
    until = time.monotonic() + 20
    while (state := folder.read_driver()) is None or state.driver is None:
        assert time.monotonic() < until, "the driver was not started"
        time.sleep(0.01)
    supervisor.end(15, None)
    thread.join(20)
    state = folder.read_driver()
    assert codes == [-15]
    assert state is not None
    assert (state.state, state.starts) == ("ended", 1)


def test_disk_that_is_full_does_not_end_the_supervisor(
    folder: ApplicationFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder, "write_driver", full)
    assert _supervisor(folder, "1 7 0").run() == 0


def test_driver_that_cannot_be_started_now_is_started_later(
    folder: ApplicationFolder, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    supervisor = Supervisor(folder, [str(program)])
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(supervisor.run()))
    thread.start()
    until = time.monotonic() + 20
    while (state := folder.read_driver()) is None or state.exit_code != module._NOT_STARTED:
        assert time.monotonic() < until, "it did not say that the driver was not started"
        time.sleep(0.01)
    made = tmp_path / "made"
    made.write_text("#!/bin/sh\nexit 0\n")
    made.chmod(0o755)
    made.rename(program)
    thread.join(20)
    assert codes == [0]


def test_files_of_a_table_get_the_modes_that_the_submitter_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = ApplicationFolder("orders")
    folder.make()
    written = tmp_path / "of-the-table"
    driver = f"import os; os.close(os.open({str(written)!r}, os.O_CREAT))"
    command = [sys.executable, "-m", "sluiceway.cluster.supervisor", "orders"]
    done = subprocess.run(
        [*command, sys.executable, "-c", driver],
        check=False,
        capture_output=True,
        umask=0o002,
    )
    assert done.returncode == 0, done.stderr
    assert written.stat().st_mode & 0o777 == 0o775
    assert folder.path.stat().st_mode & 0o777 == 0o700
