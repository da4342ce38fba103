"""CPU of a whole process tree, against programs that burn a known amount."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BURN = """
import os, signal, sys, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
"""
SHORT_CHILDREN = """
for _ in range(10):
    if (pid := os.fork()) == 0:
        burn(0.03)
        os._exit(0)
    os.waitpid(pid, 0)
burn(0.2)
"""
ORPHAN = """
if os.fork() == 0:
    if os.fork() == 0:
        burn(0.3)
        time.sleep(0.3)
        burn(0.1)
        os._exit(0)
    os._exit(0)
os.wait()
burn(0.1)
"""
NOT_WAITED_FOR = """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    burn(0.5)
    os._exit(0)
time.sleep(1.0)
"""
STAYS = """
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(os.getpid(), flush=True)
    time.sleep(60)
time.sleep(0.3)
sys.exit(3)
"""
NAMED_IN_BYTES = r"""
open("/proc/self/comm", "wb").write(b"\xff) 1 (")
burn(0.5)
"""


def _measure(program: str) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    command = [sys.executable, "-m", "bench.process_tree", "--grace-s", "1", "--"]
    result = subprocess.run(
        [*command, sys.executable, "-I", "-c", BURN + program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    usage: dict[str, Any] = json.loads(result.stderr.splitlines()[-1])
    return usage, result


@pytest.mark.parametrize(
    ("program", "burnt_s"), [(SHORT_CHILDREN, 0.5), (ORPHAN, 0.5)], ids=["short", "orphan"]
)
def test_process_tree_waited_for_children_count_in_full(program: str, burnt_s: float) -> None:
    usage, result = _measure(program)
    assert result.returncode == 0
    # A process that is sampled, not reaped, may hide the last 0.1 s; a busy machine samples late.
    assert burnt_s - 0.25 <= usage["cpu_s"] <= burnt_s + 0.3
    assert usage["cpu_s"] >= usage["reaped_cpu_s"]
    assert usage["peak_rss_bytes"] > 5_000_000


def test_process_tree_child_that_nobody_waits_for_is_sampled() -> None:
    usage, _ = _measure(NOT_WAITED_FOR)
    assert 0.35 <= usage["sampled_cpu_s"] <= 2.0
    assert usage["cpu_s"] == max(usage["reaped_cpu_s"], usage["sampled_cpu_s"])


def test_process_tree_survivor_is_ended_and_exit_code_kept() -> None:
    usage, result = _measure(STAYS)
    assert (result.returncode, usage["exit_code"], usage["ended"]) == (3, 3, 1)
    with pytest.raises(ProcessLookupError):
        os.kill(int(result.stdout), 0)


def test_process_tree_reads_a_process_with_any_name() -> None:
    usage, result = _measure(NAMED_IN_BYTES)
    assert result.returncode == 0
    assert usage["sampled_cpu_s"] >= 0.3
