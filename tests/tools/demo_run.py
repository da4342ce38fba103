"""Runs `sluiceway demo` as a user does, and judges what it says."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROWS = 20_000


def assert_demo_is_right(folder: Path, *options: str) -> None:
    """Run it with few rows below a folder: each is there once, and nothing is left."""
    done = subprocess.run(
        [sys.executable, "-m", "sluiceway", "demo", "--rows", str(ROWS), *options],
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=850,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads(done.stdout.splitlines()[-1])
    found = {name: result[name] for name in ("demo", "lost", "doubled", "kills", "verified")}
    assert found == {"demo": "ok", "lost": 0, "doubled": 0, "kills": 1, "verified": True}
    assert result["read"] == result["written"] + result["dirty"] == ROWS
    assert result["dirty"] > 0
    assert list(folder.glob("sluiceway-demo-*")) == []
