"""A benchmark that is ended leaves no process, also not one in a session of its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PROGRAM = """
import subprocess, sys, time
from bench.tidy_end import end_tidily
end_tidily()
servers = [subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(2)]
try:
    print(*(each.pid for each in servers), flush=True)
    time.sleep(600)
finally:
    print("unwound", flush=True)
    if {hangs}:
        time.sleep(600)
    servers[0].kill()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("numbers", "hangs", "unwinds"),
    [
        ((signal.SIGTERM,), False, True),
        ((signal.SIGHUP,), False, True),
        ((signal.SIGKILL,), False, False),
        ((signal.SIGTERM, signal.SIGTERM), True, True),
    ],
    ids=["told", "hung up", "killed", "told twice"],
)
def test_nothing_stays(numbers: tuple[signal.Signals, ...], *, hangs: bool, unwinds: bool) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.format(hangs=hangs)],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert program.stdout is not None
    servers = [int(pid) for pid in program.stdout.readline().split()]
    assert len(servers) == 2
    for place, number in enumerate(numbers):
        program.send_signal(number)
        if hangs and not place:
            assert program.stdout.readline() == "unwound\n"
    told = program.stdout.read()
    program.stdout.close()
    program.wait(30)
    assert ("unwound" in told) == (unwinds and not hangs)
    until = time.monotonic() + 30
    while any(_is_there(pid) for pid in servers):
        assert time.monotonic() < until, "a server stayed"
        time.sleep(0.1)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
