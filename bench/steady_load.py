"""Starts, begins and ends the load of `freshness_load`, from another process."""

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.check_output import WrongOutputError

_ROOT = Path(__file__).parents[1]


def start_load(running: ExitStack, broker: str, topic: str, rate: int) -> subprocess.Popen[str]:
    """Send the first events, and wait for `begin_load`. Killed with `running`, if it is there."""
    options = ["--bootstrap-servers", broker, "--topic", topic, "--rate", str(rate)]
    load = subprocess.Popen(
        [sys.executable, "-m", "bench.freshness_load", *options],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    running.enter_context(load)
    running.callback(load.kill)
    return load


def begin_load(load: subprocess.Popen[str]) -> float:
    """Have the steady part begin; when it does, in seconds since 1970."""
    assert load.stdin is not None  # noqa: S101 - a pipe was asked for
    load.stdin.write("\n")
    load.stdin.flush()
    return time.time()


def end_load(load: subprocess.Popen[str], patience_s: float) -> dict[str, Any]:
    """End it; what it says of itself.

    Raises:
        WrongOutputError: It failed.
    """
    said, _ = load.communicate(timeout=patience_s)
    if load.returncode != 0:
        raise WrongOutputError(f"the load ended with {load.returncode}")
    told: dict[str, Any] = json.loads(said)
    return told
