"""A supervised driver's output: bounded, whole, and no fault of the listeners ends the driver."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sluiceway.cluster import log_pipe
from sluiceway.cluster.applications import ApplicationFolder, DriverState, is_running
from sluiceway.cluster.log_pipe import LogKeeper
from sluiceway.host.bounded_log import BoundedLog, part_names
from sluiceway.host.machine import PROC
from tools.waiting import wait_for

PART_BYTES = 4000
SUPERVISED = f"""
import signal, sys
from sluiceway.cluster.applications import ApplicationFolder
from sluiceway.cluster import log_pipe, supervisor
log_pipe._PAUSE_S, log_pipe._END_S = 0.5, 600
kept = log_pipe.LogPipe
supervisor.LogPipe = lambda path: kept(path, part_bytes={PART_BYTES})
sys.exit(supervisor.main())
"""
# Writes as a driver does: lines of its log, and what its JVM and libraries write past it.
DRIVER = """
import os, pathlib, sys, time
from sluiceway.observe.log import LogFormat, stderr_log
log = stderr_log(log_format=LogFormat.JSON)
beats = pathlib.Path(sys.argv[1])
end = int(sys.argv[2])
for number in range(end):
    log.info("epoch", number=number)
    try:
        os.write(1, b"of the JVM %d\\n" % number)
    except OSError:
        pass
    beats.write_text(str(number))
    if end > 1000:
        time.sleep(0.01)
if len(sys.argv) > 3:
    os.write(2, b"the last words\\n")
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ApplicationFolder:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = ApplicationFolder("orders")
    found.make()
    return found


@pytest.fixture
def running(folder: ApplicationFolder) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor whose driver writes for hours; both are ended."""
    driver = [sys.executable, "-c", DRIVER, str(folder.path / "beats"), "1000000"]
    with subprocess.Popen([sys.executable, "-c", SUPERVISED, "orders", *driver]) as process:
        try:
            wait_for(lambda: len(_told(folder)) > 100)
            yield process
        finally:
            process.kill()
            state = folder.read_driver()
            if state is not None and is_running(state.driver):
                os.kill(_driver(folder), signal.SIGKILL)
            for keeper in _keepers(folder):
                # A test that failed may have stopped it; else it ends by itself.
                with suppress(ProcessLookupError):
                    os.kill(keeper, signal.SIGCONT)


def _told(folder: ApplicationFolder) -> list[str]:
    parts = [part for part in reversed(part_names(folder.log)) if part.exists()]
    return "".join(part.read_text() for part in parts).splitlines()


def _driver(folder: ApplicationFolder) -> int:
    state = folder.read_driver()
    assert isinstance(state, DriverState)
    assert state.driver is not None
    return state.driver.pid


def _keepers(folder: ApplicationFolder) -> list[int]:
    found = []
    for process in PROC.glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"sluiceway.cluster.log_pipe" in command and os.fsencode(folder.log) in command:
            found.append(int(process.name))
    return found


def _beat(folder: ApplicationFolder) -> int:
    return int((folder.path / "beats").read_text() or -1)


def _goes_on(folder: ApplicationFolder) -> None:
    """Far enough for the pipe to be full, were there nobody who listens."""
    before = _beat(folder)
    wait_for(lambda: _beat(folder) > before + 50)


def _numbers(told: list[str]) -> list[int]:
    return [int(line.split()[-1]) for line in told if line.startswith("of the JVM")]


def test_all_output_is_bounded_and_its_end_is_whole(folder: ApplicationFolder) -> None:
    driver = [sys.executable, "-c", DRIVER, str(folder.path / "beats"), "900"]
    command = [sys.executable, "-c", SUPERVISED, "orders", *driver]
    assert subprocess.run(command, check=False).returncode == 0
    parts = [part for part in part_names(folder.log) if part.exists()]
    assert len(parts) == 5
    assert sum(part.stat().st_size for part in parts) < 5 * PART_BYTES + 1000
    told = _told(folder)
    # No keeper is waited for: once the supervisor has ended, all is there.
    assert '"driver_ended"' in told[-1]
    assert '"number": 899' in told[-3]
    numbers = _numbers(told)
    assert numbers == list(range(900 - len(numbers), 900))


def test_last_words_of_a_driver_that_is_killed_are_kept(folder: ApplicationFolder) -> None:
    driver = [sys.executable, "-c", DRIVER, str(folder.path / "beats"), "20", "and die"]
    command = [sys.executable, "-c", SUPERVISED, "orders", *driver]
    with subprocess.Popen(command) as process:
        wait_for(lambda: any("driver_died" in line for line in _told(folder)))
        process.terminate()
    told = _told(folder)
    assert "driver_died" in told[told.index("the last words") + 1]


def test_driver_without_its_supervisor_is_listened_to(
    folder: ApplicationFolder, running: subprocess.Popen[bytes]
) -> None:
    running.kill()
    running.wait()
    _goes_on(folder)
    last = _beat(folder)
    wait_for(lambda: _numbers(_told(folder))[-1] >= last)
    os.kill(_driver(folder), signal.SIGKILL)
    # The keeper ends with the one it listened to.
    wait_for(lambda: not _keepers(folder))
    numbers = _numbers(_told(folder))
    assert numbers == list(range(numbers[0], numbers[-1] + 1))


def test_keeper_that_is_killed_is_replaced_and_only_its_last_block_is_lost(
    folder: ApplicationFolder, running: subprocess.Popen[bytes]
) -> None:
    (first,) = _keepers(folder)
    os.kill(first, signal.SIGKILL)
    _goes_on(folder)
    wait_for(lambda: bool(set(_keepers(folder)) - {first}))
    last = _beat(folder)
    wait_for(lambda: _numbers(_told(folder))[-1] >= last)
    assert running.poll() is None


def test_driver_that_nobody_listens_to_goes_on(
    folder: ApplicationFolder, running: subprocess.Popen[bytes]
) -> None:
    running.send_signal(signal.SIGSTOP)
    for keeper in _keepers(folder):
        os.kill(keeper, signal.SIGKILL)
    running.kill()
    running.wait()
    _goes_on(folder)
    assert not _keepers(folder)


def test_keeper_is_deaf_to_what_ends_a_session(
    folder: ApplicationFolder, running: subprocess.Popen[bytes]
) -> None:
    (keeper,) = _keepers(folder)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        os.kill(keeper, number)
    _goes_on(folder)
    assert _keepers(folder) == [keeper]


def test_supervisor_ends_when_all_is_written(
    folder: ApplicationFolder, running: subprocess.Popen[bytes]
) -> None:
    (keeper,) = _keepers(folder)
    os.kill(keeper, signal.SIGSTOP)
    running.terminate()
    wait_for(lambda: (state := folder.read_driver()) is not None and state.state == "ended")
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(1)
    os.kill(keeper, signal.SIGCONT)
    running.wait()
    assert '"driver_ended"' in _told(folder)[-1]


def test_without_another_process_the_supervisor_writes_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = log_pipe.LogPipe(tmp_path / "log")
    source, sink = os.pipe()
    pipe._source = source
    pipe._began = float("-inf")

    def none(*_: object, **__: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", none)
    told: list[None] = []

    def writes() -> None:
        for number in range(20_000):
            os.write(sink, b"line %06d of the driver\n" % number)
        told.append(None)

    writer = threading.Thread(target=writes, daemon=True)
    writer.start()

    def looked() -> bool:
        pipe.check()
        return bool(told)

    wait_for(looked)
    pipe.check()
    os.close(sink)
    os.close(source)
    lines = (tmp_path / "log").read_bytes().splitlines()
    assert len(lines) == 20_000
    assert lines[-1] == b"line 019999 of the driver"


def test_full_disk_costs_lines_and_says_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = BoundedLog(tmp_path / "log")
    keeper = LogKeeper(log)
    keeper.keep(b"one\n")
    with monkeypatch.context() as full:

        def no_space(_: bytes) -> None:
            raise OSError(28, "No space left on device")

        full.setattr(log, "write", no_space)
        keeper.keep(b"two\n")
        keeper.keep(b"three\n")
    keeper.keep(b"four\n")
    assert (tmp_path / "log").read_text().splitlines() == [
        *("one", "", '{"event": "log_lost", "level": "warning", "bytes": 10}', "four")
    ]
