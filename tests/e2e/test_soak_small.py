"""The soak at its smallest: a kill, a zombie, an outage of each server, more partitions."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_TIMEOUT_S = 900


@pytest.mark.slow
def test_soak_of_one_kill_finds_every_row_once_and_nothing_too_early(tmp_path: Path) -> None:
    results = tmp_path / "soak.jsonl"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "bench.soak", "--kills", "1", "--rate", "300"),
            *("--results", str(results)),
        ],
        cwd=_ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    found = json.loads(done.stdout.splitlines()[-1])
    work = ("kills", "zombies", "wipes", "broker_bounces", "metastore_outages")
    assert [found[name] for name in work] == [1] * len(work)
    assert found["rows"] > 0
    faults = ("lost", "doubled", "altered", "uncommitted_seen")
    assert [found[name] for name in faults] == [0] * len(faults)
    (kept,) = results.read_text().splitlines()
    assert json.loads(kept)["rows"] == found["rows"]
