"""Signals of a driver, in processes of their own."""

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sluiceway.driver.stop import StopSignal

# A call that comes back to the interpreter only after minutes, as a client library's may.
BUSY = """
import hashlib
from sluiceway.driver.stop import StopSignal
stop = StopSignal()
stop.listen()
print("ready", flush=True)
hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
"""
POLITE = """
from sluiceway.driver.stop import StopSignal
stop = StopSignal()
stop.listen()
print("ready", flush=True)
stop.sleep(60)
stop.unlisten()
print(stop.requested(), flush=True)
"""
OVERDUE = POLITE.replace('print("ready"', 'stop.stop_after(0); stop.requested(); print("ready"')
OVERDUE = OVERDUE.replace("stop.sleep(60)", "import time; time.sleep(1)")
TIMEOUT_S = 60


def _signalled(
    program: str, *numbers: signal.Signals, pause_s: float = 0.1
) -> tuple[int, str, list[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for number in numbers:
            process.send_signal(number)
            time.sleep(pause_s)
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
    return process.returncode, out, err.splitlines()


def test_stop_signal_once_ends_a_pause_and_logs_json() -> None:
    code, out, err = _signalled(POLITE, signal.SIGTERM)
    assert (code, out) == (0, "True\n")
    assert [json.loads(line)["event"] for line in err] == ["stopping"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stop_signal_twice_ends_a_process_that_is_inside_a_library(
    number: signal.Signals, code: int
) -> None:
    ended, _, err = _signalled(BUSY, number, number)
    assert ended == code
    assert [json.loads(line)["event"] for line in err] == ["stopping", "stopped_at_once"]


def test_stop_signal_gives_signals_descriptors_and_its_thread_back() -> None:
    def seen() -> list[object]:
        return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    before, descriptors = seen(), len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        stop = StopSignal()
        stop.listen()
        assert seen() != before
        stop.unlisten()
        stop.unlisten()
        assert seen() == before
    deadline = time.monotonic() + TIMEOUT_S
    while any(thread.name == "signals" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    assert not stop.requested()


def test_stop_signal_once_after_the_time_is_over_stays_graceful() -> None:
    code, out, _ = _signalled(OVERDUE, signal.SIGINT)
    assert (code, out) == (0, "True\n")
