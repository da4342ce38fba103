"""CPU of a whole process tree, against programs that say themselves how much they have used.

How fast a machine is, and what else it does, changes nothing: only what was used is compared.
"""

import importlib
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
def tell():
    os.write(1, b"%f\\n" % time.process_time())
"""
SHORT_CHILDREN = """
for _ in range(10):
    if (pid := os.fork()) == 0:
        burn(0.03)
        tell()
        os._exit(0)
    os.waitpid(pid, 0)
burn(0.2)
tell()
"""
ORPHAN = """
if os.fork() == 0:
    if os.fork() == 0:
        burn(0.3)
        time.sleep(0.3)
        tell()
        os._exit(0)
    tell()
    os._exit(0)
os.wait()
burn(0.1)
tell()
"""
NOT_WAITED_FOR = """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    burn(0.5)
    tell()
    os._exit(0)
try:
    # It returns once the child is gone, and nothing is left of it.
    os.wait()
except ChildProcessError:
    pass
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
burn(0.1)
tell()
sys.stdin.read()
"""


def _measure(
    program: str, grace_s: float = 60.0
) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    command = [sys.executable, "-m", "bench.process_tree", "--grace-s", str(grace_s), "--"]
    result = subprocess.run(
        [*command, sys.executable, "-I", "-c", BURN + program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    usage: dict[str, Any] = json.loads(result.stderr.splitlines()[-1])
    return usage, result


def _reported_s(result: subprocess.CompletedProcess[str]) -> list[float]:
    return [float(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("program", [SHORT_CHILDREN, ORPHAN], ids=["short", "orphan"])
def test_process_tree_waited_for_children_count_in_full_and_once(program: str) -> None:
    usage, result = _measure(program)
    assert result.returncode == 0
    used_s = sum(_reported_s(result))
    # It is told in milliseconds.
    assert used_s - 0.001 <= usage["reaped_cpu_s"] < 2 * used_s
    assert usage["cpu_s"] == max(usage["reaped_cpu_s"], usage["sampled_cpu_s"])
    assert usage["peak_rss_bytes"] > 5_000_000


def test_process_tree_child_that_nobody_waits_for_is_not_reaped() -> None:
    usage, result = _measure(NOT_WAITED_FOR)
    (used_s,) = _reported_s(result)
    assert usage["reaped_cpu_s"] < used_s
    assert usage["cpu_s"] == max(usage["reaped_cpu_s"], usage["sampled_cpu_s"])


def test_process_tree_survivor_is_ended_and_exit_code_kept() -> None:
    usage, result = _measure(STAYS, grace_s=1.0)
    assert (result.returncode, usage["exit_code"], usage["ended"]) == (3, 3, 1)
    with pytest.raises(ProcessLookupError):
        os.kill(int(result.stdout), 0)


def test_process_tree_samples_a_process_with_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    tree = importlib.import_module("bench.process_tree")
    samples = tree._Samples()
    with subprocess.Popen(
        [sys.executable, "-I", "-c", BURN + NAMED_IN_BYTES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        used_s = float(child.stdout.readline())
        assert child.pid in samples.take()
        child.communicate()
    ticks = {pid: ticks for (pid, _), ticks in samples.used_ticks.items()}[child.pid]
    # User's and system's time are each cut to whole ticks.
    assert ticks + 2 >= used_s * tree.TICKS_PER_S
