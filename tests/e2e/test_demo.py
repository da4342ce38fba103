"""What the README promises first: `sluiceway demo`, whole, as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path


def test_demo_fills_the_table_through_a_kill_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sluiceway", "demo"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
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
    assert result["read"] == result["written"] + result["dirty"] == 200_000
    assert result["dirty"] > 0
    assert list(tmp_path.glob("sluiceway-demo-*")) == []
